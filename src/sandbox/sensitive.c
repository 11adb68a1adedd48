/* Which folders of the host no sandbox may have.
 *
 * A bind mount gives everything below its source away, so a source is refused when it is a sensitive place, lies below
 * one, or contains one: "/", "/var/run" and $HOME fall under the last. The places are whatever hands out the host
 * (engines' sockets, the service managers', /proc, /sys, /dev), what the system's accounts hang on, and the credentials
 * that tools keep under a home folder. They are compared as text with a source whose symlinks were resolved; since a
 * place itself may be reached through one (/var/run is /run), each is listed as it is named and as it resolves now.
 *
 * A place need not exist to be refused: what is not there today may be there when the sandbox runs. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/mount.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct place {
	char *path; /* clean; owned */
	const char *why;
};

struct sandbox_sensitive {
	struct place *v;
	size_t n;
	size_t cap;
	char *own_run; /* allowed although it lies in a place; NULL: none */
	char *own_run_resolved;
};

static const char engine[] = "whoever reaches a container engine's socket owns this machine";
static const char kernel[] = "it shows or changes the kernel's own state";
static const char accounts[] = "it holds the machine's accounts";
static const char credentials[] = "it holds credentials";
static const char services[] = "whoever reaches the service manager owns this machine or session";
static const char runs[] = "it holds other runs";

static const struct {
	const char *path;
	const char *why;
} fixed[] = {
	{"/proc", kernel},
	{"/sys", kernel},
	{"/dev", kernel},
	{"/boot", "it holds what this machine starts from"},
	{"/etc/shadow", accounts},
	{"/etc/shadow-", accounts},
	{"/etc/gshadow", accounts},
	{"/etc/gshadow-", accounts},
	{"/etc/sudoers", accounts},
	{"/etc/sudoers.d", accounts},
	{"/run/docker.sock", engine},
	{"/run/docker", engine},
	{"/run/podman", engine},
	{"/run/containerd", engine},
	{"/run/crio", engine},
	{"/run/k3s", engine},
	{"/run/user", services},
	{"/run/systemd", services},
	{"/run/dbus", services},
	{"/var/run/docker.sock", engine},
	{"/var/run/docker", engine},
	{"/var/run/podman", engine},
	{"/var/run/containerd", engine},
	{"/var/run/crio", engine},
	{"/var/run/user", services},
	{"/var/run/systemd", services},
	{"/var/run/dbus", services},
	{"/var/run/secrets", credentials},
	{"/run/secrets", credentials},
};

static const char *const below_home[] = {
	".ssh",	  ".aws",   ".gnupg",  ".docker",	   ".kube",	".azure", ".gcloud", ".config/gcloud",
	".netrc", ".npmrc", ".pypirc", ".git-credentials", ".config/gh"};

/* Device files that give nothing away. */
static const char *const safe_devices[] = {"/dev/null",	  "/dev/zero",	  "/dev/full",
					   "/dev/random", "/dev/urandom", "/dev/tty"};

static void add_one(struct sandbox_sensitive *s, char *path, const char *why)
{
	s->v = grow_array(s->v, s->n, &s->cap, sizeof *s->v);
	s->v[s->n++] = (struct place){path, why};
}

/* Where the longest existing part of the path resolves to, with the rest behind it; NULL when that changes nothing. */
static char *resolved(const char *path)
{
	auto_free char *head = xstrdup(path);

	for (;;) {
		auto_free char *real = realpath(head, NULL);
		if (real) {
			const char *tail = path + strlen(head);
			char *whole = *tail ? path_join(real, tail + (*tail == '/')) : xstrdup(real);
			if (!str_eq(whole, path))
				return whole;
			free(whole);
			return NULL;
		}
		char *slash = strrchr(head, '/');
		if (!slash || slash == head)
			return NULL;
		*slash = '\0';
	}
}

static void add(struct sandbox_sensitive *s, const char *path, const char *why)
{
	char *clean = path ? path_clean(path) : NULL;

	if (!clean || str_eq(clean, "/")) {
		free(clean);
		return;
	}
	char *real = resolved(clean);
	add_one(s, clean, why);
	if (real)
		add_one(s, real, why);
}

/* One entry of a home that exists: a second place only where a symlink leads elsewhere. */
static void add_below(struct sandbox_sensitive *s, const char *home, int dirfd, const char *entry)
{
	auto_free char *path = path_join(home, entry);
	auto_fd fd = dirfd < 0 ? -ENOENT : file_open_resolve(dirfd, entry, O_PATH, RESOLVE_NO_SYMLINKS);

	if (fd == -ELOOP)
		add(s, path, credentials);
	else
		add_one(s, TAKE_PTR(path), credentials);
}

/* A home is resolved once, not once for each of its entries: there may be many homes. */
static void add_home(struct sandbox_sensitive *s, const char *home)
{
	auto_free char *clean = home ? path_clean(home) : NULL;

	if (!clean || str_eq(clean, "/"))
		return;
	auto_free char *real = resolved(clean);
	auto_fd dirfd = open(clean, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(below_home); i++) {
		add_below(s, clean, dirfd, below_home[i]);
		if (real)
			add_below(s, real, -1, below_home[i]);
	}
}

/* unix:///run/x.sock, and what some write without slashes; anything else is on another machine. */
static void add_engine(struct sandbox_sensitive *s, const char *url)
{
	if (url && str_starts(url, "unix://"))
		add(s, url + strlen("unix://"), engine);
	else if (url && str_starts(url, "unix:"))
		add(s, url + strlen("unix:"), engine);
}

struct sandbox_sensitive *sandbox_sensitive_new(const struct sandbox_host_facts *f)
{
	struct sandbox_sensitive *s = xcalloc(1, sizeof *s);

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		add(s, fixed[i].path, fixed[i].why);
	if (!f->home || !path_within(f->home, "/root"))
		add(s, "/root", "it is another user's home");
	add_home(s, "/root");
	add_home(s, f->home);
	for (const char *const *h = f->homes; h && *h; h++)
		add_home(s, *h);
	add_engine(s, f->docker_host);
	add_engine(s, f->container_host);
	add(s, f->ssh_auth_sock, "whoever reaches the agent can sign with your keys");
	add(s, f->xdg_runtime_dir, services);
	add(s, f->runs_dir, runs);
	s->own_run = f->own_run ? path_clean(f->own_run) : NULL;
	s->own_run_resolved = s->own_run ? resolved(s->own_run) : NULL;
	return s;
}

void sandbox_sensitive_free(struct sandbox_sensitive *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].path);
	free(s->v);
	free(s->own_run);
	free(s->own_run_resolved);
	free(s);
}

/* Homes that nobody named: /home/ANY/.ssh and friends, wherever users' folders stand. */
static const char *any_home(const char *path)
{
	static const char *const roots[] = {"/home", "/var/home", "/Users", "/export/home"};

	for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
		if (!path_within(path, roots[i]))
			continue;
		size_t len = strlen(roots[i]);
		const char *rest = path[len] ? strchr(path + len + 1, '/') : NULL;
		for (size_t k = 0; rest && k < ARRAY_LEN(below_home); k++)
			if (path_within(rest + 1, below_home[k]) || path_within(below_home[k], rest + 1))
				return below_home[k];
		/* The folder of all homes, or one whole home. */
		if (!rest)
			return below_home[0];
	}
	return NULL;
}

static int refuse(struct err *e, const char *path, const char *how, const char *place, const char *why)
{
	int r = err_set(e, ERR_SANDBOX, EPERM, "mount source %.300s %s %.300s: %s", path, how, place, why);

	err_hint(e,
		 "mount the one file or folder that is needed, outside of it; secrets belong in the sandbox's secrets: "
		 "block");
	return r;
}

static bool is_own_run(const struct sandbox_sensitive *s, const char *path)
{
	return (s->own_run && path_within(path, s->own_run)) ||
	       (s->own_run_resolved && path_within(path, s->own_run_resolved));
}

static bool is_safe_device(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(safe_devices); i++)
		if (str_eq(path, safe_devices[i]))
			return true;
	return false;
}

int sandbox_mount_check_source(const struct sandbox_sensitive *s, const char *path, struct err *e)
{
	auto_free char *clean = path_clean(path);

	if (!clean)
		return err_set(e, ERR_INPUT, EINVAL, "mount source %.300s is not absolute", path);
	if (is_safe_device(clean))
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		const struct place *p = &s->v[i];
		if (p->why == runs && is_own_run(s, clean))
			continue;
		if (str_eq(clean, p->path))
			return refuse(e, clean, "is", p->path, p->why);
		if (path_within(clean, p->path))
			return refuse(e, clean, "lies in", p->path, p->why);
		if (path_within(p->path, clean))
			return refuse(e, clean, "contains", p->path, p->why);
	}
	/* sudoers.bak, sudoers~ and what else editors leave. */
	if (str_starts(clean, "/etc/sudoers"))
		return refuse(e, clean, "belongs to", "/etc/sudoers", accounts);
	const char *name = any_home(clean);
	if (name)
		return refuse(e, clean, "holds or lies in a home's", name, credentials);
	return 0;
}

/* A socket or a FIFO is a way to whoever serves it on the host, and a device to the kernel: that is not what a mount of
 * files is for, and somebody can have put it there in the place of one. */
static int check_type(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_sys(e, errno, "mount source %.300s", path);
	if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode) || is_safe_device(path))
		return 0;
	int r = err_set(e, ERR_SANDBOX, EPERM, "mount source %.300s is %s", path,
			S_ISSOCK(st.st_mode)   ? "a socket"
			: S_ISFIFO(st.st_mode) ? "a FIFO"
			: S_ISLNK(st.st_mode)  ? "a symbolic link by now"
					       : "a device");
	err_hint(e, "only folders and regular files are mounted: name the folder that is needed");
	return r;
}

int sandbox_mount_resolve_source(const struct sandbox_sensitive *s, const char *source, char **ret_resolved,
				 struct err *e)
{
	auto_free char *real = realpath(source, NULL);

	if (!real) {
		int r = err_sys(e, errno, "mount source %.300s", source);
		err_hint(e, "create it, or take the mount out of the sandbox block");
		return r;
	}
	int r = sandbox_mount_check_source(s, real, e);
	if (r == 0)
		r = check_type(real, e);
	if (r < 0)
		return str_eq(real, source) ? r : err_wrap(e, r, "%.300s", source);
	if (ret_resolved)
		*ret_resolved = TAKE_PTR(real);
	return 0;
}
