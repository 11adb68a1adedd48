/* The host toolchain view as a list of steps.
 *
 * Everything starts from an empty tmpfs, so that what is not listed does not exist. The order is the order of mounting:
 * the system first, then the writable folders, then HOME, then the user's own mounts from the shallowest to the
 * deepest, and last what has to be hidden again. Only lstat and readlink look at the host here; nothing is created
 * outside of the list. */
#include "plan.h"
#include "../ops.h"

#include <base/arena.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <guest/protocol.h>
#include <sandbox/host_state.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct plan *plan_new(void)
{
	struct plan *p = xcalloc(1, sizeof *p);

	p->arena = arena_new();
	return p;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	arena_free(p->arena);
	free(p->v);
	free(p->layers);
	free(p);
}

static const char *keep(struct plan *p, const char *s)
{
	return s ? arena_strndup(p->arena, s, strlen(s)) : NULL;
}

void plan_add(struct plan *p, struct step s)
{
	s.target = keep(p, s.target);
	s.source = keep(p, s.source);
	s.content = keep(p, s.content);
	p->v = grow_array(p->v, p->n, &p->cap, sizeof *p->v);
	p->v[p->n++] = s;
}

/* A top-level name of the host as it stands there: a link stays a link, a folder is bound read-only. */
static void add_as_on_host(struct plan *p, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		char text[PATH_MAX];
		ssize_t n = readlink(path, text, sizeof text - 1);
		if (n <= 0)
			return;
		text[n] = '\0';
		plan_add(p, (struct step){.kind = STEP_SYMLINK, .target = path, .source = text});
	} else if (S_ISDIR(st.st_mode)) {
		plan_add(p, (struct step){.kind = STEP_BIND,
					  .flags = STEP_RO | STEP_SOURCE_DIR,
					  .target = path,
					  .source = path});
	}
}

static void add_programs(struct plan *p)
{
	static const char *const names[] = {"/usr",   "/bin",	 "/sbin", "/lib", "/lib32",
					    "/lib64", "/libx32", "/opt",  "/nix"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		add_as_on_host(p, names[i]);
}

void plan_proc(struct plan *p)
{
	/* What shows or changes the host rather than the sandbox's processes. */
	static const char *const masked[] = {
		"/proc/acpi",	       "/proc/asound",	      "/proc/kcore",	  "/proc/keys",
		"/proc/latency_stats", "/proc/sched_debug",   "/proc/scsi",	  "/proc/timer_list",
		"/proc/timer_stats",   "/proc/kpagecount",    "/proc/kpageflags", "/proc/kpagecgroup",
		"/proc/kmsg",	       "/proc/sysrq-trigger",
	};
	static const char *const locked[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"};

	plan_add(p, (struct step){.kind = STEP_PROC, .target = "/proc"});
	for (size_t i = 0; i < ARRAY_LEN(masked); i++)
		plan_add(p, (struct step){.kind = STEP_MASK, .target = masked[i]});
	for (size_t i = 0; i < ARRAY_LEN(locked); i++)
		plan_add(p, (struct step){.kind = STEP_LOCK, .target = locked[i]});
}

void plan_dev(struct plan *p)
{
	static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
					      "/dev/random", "/dev/urandom", "/dev/tty"};
	static const char *const links[][2] = {
		{"/dev/fd", "/proc/self/fd"},	    {"/dev/stdin", "/proc/self/fd/0"},
		{"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
		{"/dev/ptmx", "pts/ptmx"},
	};

	/* Read-only: a device can still be written to, but root inside, who owns the host's own node, cannot change its
	 * mode, owner or times for everybody. */
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		plan_add(p, (struct step){.kind = STEP_BIND,
					  .flags = STEP_DEVICE | STEP_RO,
					  .target = devices[i],
					  .source = devices[i]});
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		plan_add(p, (struct step){.kind = STEP_SYMLINK, .target = links[i][0], .source = links[i][1]});
	plan_add(p, (struct step){.kind = STEP_DEVPTS, .target = "/dev/pts"});
	plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 01777, .target = "/dev/shm"});
}

static const char *text_of(const char *s)
{
	return s ? s : "";
}

/* The system's own file of certificates reads as the one with the proxy's: only where it is a file of its own, since a
 * link leads to one that is replaced too, or to none that is seen inside. */
static void add_certificates(struct plan *p, const struct plan_facts *f)
{
	struct stat st;

	for (const char *const *v = certificate_places; f->certificates && *v; v++)
		if (lstat(*v, &st) == 0 && S_ISREG(st.st_mode))
			plan_add(p, (struct step){.kind = STEP_BIND,
						  .flags = STEP_RO | STEP_INSIDE,
						  .target = *v,
						  .source = GUEST_CA_BUNDLE});
}

void plan_run_places(struct plan *p, const struct plan_facts *f)
{
	plan_add(p, (struct step){.kind = STEP_DIR, .mode = 0755, .target = GUEST_DIR});
	plan_add(p, (struct step){.kind = STEP_FILE, .target = GUEST_PATH, .content = ""});
	if (f->artifact_files)
		plan_add(p, (struct step){.kind = STEP_DIR, .mode = 0755, .target = GUEST_ARTIFACT_FILES});
	if (f->attachments)
		plan_add(p, (struct step){.kind = STEP_DIR, .mode = 0755, .target = GUEST_ATTACHMENTS});
	if (f->certificates) {
		plan_add(p, (struct step){.kind = STEP_FILE,
					  .target = GUEST_CA_AUTHORITY,
					  .content = text_of(f->certificates->authority)});
		plan_add(p, (struct step){.kind = STEP_FILE,
					  .target = GUEST_CA_BUNDLE,
					  .content = text_of(f->certificates->bundle)});
	}
}

void plan_run_binds(struct plan *p, const struct plan_facts *f)
{
	/* A mount of its own: a mount point cannot be renamed, so nobody inside can put another file at the path. */
	plan_add(p, (struct step){.kind = STEP_READONLY, .target = "/run/iterion"});
	plan_add(p, (struct step){.kind = STEP_BIND, .flags = STEP_RO, .target = GUEST_PATH, .source = f->guest});
	if (f->artifact_files)
		plan_add(p, (struct step){.kind = STEP_BIND,
					  .flags = STEP_SOURCE_DIR,
					  .target = GUEST_ARTIFACT_FILES,
					  .source = f->artifact_files});
	if (f->attachments)
		plan_add(p, (struct step){.kind = STEP_BIND,
					  .flags = STEP_RO | STEP_SOURCE_DIR,
					  .target = GUEST_ATTACHMENTS,
					  .source = f->attachments});
}

static void add_writable(struct plan *p, const struct plan_facts *f)
{
	plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 01777, .target = "/tmp"});
	plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 01777, .target = "/var/tmp"});
	plan_run_places(p, f);
	plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 0755, .target = "/run"});
	plan_run_binds(p, f);
	if (f->home)
		plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 0700, .target = f->home});
}

static size_t depth(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

static int by_depth(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	size_t dx = depth(x->target), dy = depth(y->target);

	return dx != dy ? (dx < dy ? -1 : 1) : strcmp(x->target, y->target);
}

static int add_mount(struct plan *p, const struct sandbox_mount *m, struct err *e)
{
	struct stat st;

	if (m->type == MOUNT_TMPFS) {
		plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 01777, .target = m->target});
		return 0;
	}
	if (m->type != MOUNT_BIND) {
		int r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
				"mount at %s: the native driver has bind and tmpfs mounts only", m->target);
		err_hint(e, "Use type=bind with a folder of this machine, or a container driver.");
		return r;
	}
	if (stat(m->source, &st) < 0) {
		int r = err_sys(e, errno, "mount %s at %s", m->source, m->target);
		err_hint(e, "Create it, or take the mount out of the sandbox block.");
		return r;
	}
	plan_add(p, (struct step){
			    .kind = STEP_BIND,
			    .flags = (m->readonly ? STEP_RO : 0u) | (S_ISDIR(st.st_mode) ? STEP_SOURCE_DIR : 0u) |
				     (S_ISCHR(st.st_mode) ? STEP_DEVICE : 0u),
			    .target = m->target,
			    .source = m->source,
		    });
	return 0;
}

/* A mount point must exist before what lies below it. */
int plan_user_mounts(struct plan *p, const struct sandbox_spec *spec, const struct plan_facts *f,
		     const struct strv *extra, struct err *e)
{
	size_t first = p->n;

	for (size_t i = 0; extra && i < extra->n; i++)
		plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 0700, .target = extra->v[i]});

	plan_add(p, (struct step){.kind = STEP_BIND,
				  .flags = STEP_SOURCE_DIR,
				  .target = f->workspace_target,
				  .source = f->workspace});
	for (size_t i = 0; f->host_state && i < f->host_state->mounts.n; i++)
		plan_add(p, (struct step){.kind = STEP_BIND,
					  .flags = STEP_SOURCE_DIR,
					  .target = f->host_state->mounts.v[i],
					  .source = f->host_state->sources.v[i]});
	for (size_t i = 0; f->host_state && i < f->host_state->covers.n; i++)
		plan_add(p, (struct step){.kind = STEP_COVER, .target = f->host_state->covers.v[i]});
	for (size_t i = 0; i < spec->n_mounts; i++) {
		int r = add_mount(p, &spec->mounts[i], e);
		if (r < 0)
			return r;
	}
	qsort(p->v + first, p->n - first, sizeof *p->v, by_depth);
	if (f->hidden) {
		auto_free char *inside = path_join(f->workspace_target, f->hidden + strlen(f->workspace) + 1);
		plan_add(p, (struct step){.kind = STEP_COVER, .target = inside});
	}
	return 0;
}

int plan_host_view(struct plan *p, const struct sandbox_spec *spec, const struct plan_facts *f, struct err *e)
{
	add_programs(p);
	plan_etc(p, f);
	plan_proc(p);
	plan_dev(p);
	plan_add(p, (struct step){.kind = STEP_DIR, .mode = 0555, .target = "/sys"});
	add_writable(p, f);
	add_certificates(p, f);
	return plan_user_mounts(p, spec, f, NULL, e);
}
