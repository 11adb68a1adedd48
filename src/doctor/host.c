/* What the kernel and the machine's settings allow. Where the way to know is to try, it is tried: each question has a
 * process to itself (question.h). */
#include "question.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <driver/driver.h>
#include <driver/limits.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SMALL = 64 * 1024, SUBUID_LIMIT = 4 * 1024 * 1024 };

/* A small file's text without the newline at its end; NULL when it cannot be read. The caller frees. */
static char *text_of(const char *path)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	auto_buf b = BUF_INIT(SMALL);

	/* Not file_read: files of /proc and /sys tell no size and are of many types. */
	if (fd < 0 || fd_read_all(fd, &b) < 0)
		return NULL;
	char *text = buf_steal(&b);
	size_t len = strlen(text);
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	return text;
}

static bool file_says(const char *path, const char *value)
{
	auto_free char *text = text_of(path);

	return text && str_eq(text, value);
}

static void kernel(const struct question *q, struct finding *f)
{
	struct utsname u;
	int major = 0, minor = 0;

	(void)q;
	if (uname(&u) < 0)
		return;
	bool parsed = sscanf(u.release, "%d.%d", &major, &minor) == 2;
	bool enough = major > 5 || (major == 5 && minor >= 12);
	finding_set(f,
		    !parsed  ? FINDING_UNKNOWN
		    : enough ? FINDING_YES
			     : FINDING_NO,
		    "%s %s, %s", u.sysname, u.release, u.machine);
	if (f->status == FINDING_NO)
		finding_hint(f, "The native driver needs Linux 5.12 or later; docker and podman do not.");
}

/* Which setting it is that forbids user namespaces. */
static void explain_namespaces(struct finding *f, int errnum)
{
	static const struct {
		const char *path, *value, *name, *hint;
	} rows[] = {
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		 "kernel.apparmor_restrict_unprivileged_userns is 1",
		 "Allow them for iterion by an AppArmor profile with `userns,`, or for everybody with `sysctl -w "
		 "kernel.apparmor_restrict_unprivileged_userns=0`."},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0",
		 "Allow them with `sysctl -w kernel.unprivileged_userns_clone=1`."},
		{"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0",
		 "Allow them with `sysctl -w user.max_user_namespaces=15000`."},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!file_says(rows[i].path, rows[i].value))
			continue;
		finding_set(f, FINDING_NO, "an ordinary user may make none: %s", rows[i].name);
		finding_hint(f, "%s", rows[i].hint);
		return;
	}
	finding_set(f, FINDING_NO, "an ordinary user may make none: %s", strerror(errnum));
	finding_hint(f, "A container or a chroot around this shell forbids them; run outside of it, or as root.");
}

static int write_text(const char *path, const char *text)
{
	auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

/* A user namespace with this user in it; 0 or -errno. */
static int enter_namespaces(int more)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(CLONE_NEWUSER | more) < 0)
		return -errno;
	(void)write_text("/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof map, "0 %u 1", uid);
	int r = write_text("/proc/self/uid_map", map);
	(void)snprintf(map, sizeof map, "0 %u 1", gid);
	return r < 0 ? r : write_text("/proc/self/gid_map", map);
}

static void user_namespaces(const struct question *q, struct finding *f)
{
	int r = enter_namespaces(CLONE_NEWNS | CLONE_NEWNET);

	(void)q;
	if (r < 0)
		explain_namespaces(f, -r);
	else
		finding_set(f, FINDING_YES, "this user may make them");
}

static void overlay(const struct question *q, struct finding *f)
{
	static const char *const folders[] = {"/tmp/l", "/tmp/u", "/tmp/w", "/tmp/m"};
	int r = enter_namespaces(CLONE_NEWNS);

	(void)q;
	/* All of it in a mount namespace of this process's own. */
	if (r == 0 &&
	    (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0))
		r = -errno;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(folders); i++)
		if (mkdir(folders[i], 0700) < 0)
			r = -errno;
	if (r == 0 &&
	    mount("overlay", "/tmp/m", "overlay", 0, "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr") < 0)
		r = -errno;
	if (r == 0)
		finding_set(f, FINDING_YES, "an ordinary user may mount it");
	else
		finding_set(f, FINDING_NO, "an ordinary user cannot mount it: %s", strerror(-r));
}

/* Where this process is in the tree of version 2, and what of it may be used. */
static void delegation(struct finding *f)
{
	auto_free char *own = text_of("/proc/self/cgroup");
	const char *path = own ? strstr(own, "0::/") : NULL;

	if (!path) {
		finding_set(f, FINDING_UNKNOWN, "version 2, and this process is nowhere in it");
		return;
	}
	auto_free char *rest = xstrndup(path + strlen("0::"), strcspn(path + strlen("0::"), "\n"));
	auto_free char *folder = xasprintf("/sys/fs/cgroup%s", rest);
	auto_free char *procs = path_join(folder, "cgroup.procs");
	auto_free char *file = path_join(folder, "cgroup.controllers");
	auto_free char *controllers = text_of(file);
	bool mine = access(procs, W_OK) == 0;
	finding_set(f, mine ? FINDING_YES : FINDING_NO, "version 2, %s; controllers: %s",
		    mine ? "delegated to this user" : "not delegated to this user",
		    controllers && *controllers ? controllers : "none");
}

static void cgroups(const struct question *q, struct finding *f)
{
	struct statfs st;

	(void)q;
	if (statfs("/sys/fs/cgroup", &st) < 0)
		finding_set(f, FINDING_NO, "not mounted at /sys/fs/cgroup");
	else if (st.f_type == CGROUP2_SUPER_MAGIC)
		delegation(f);
	else
		finding_set(f, FINDING_NO, "version 1%s, which is not delegated to users",
			    access("/sys/fs/cgroup/unified", F_OK) == 0 ? " with an unused version 2" : "");
}

/* "limits.cpus by ..., limits.memory by ...", with the first way in which it is weaker as the hint. */
bool describe_limits(const struct sandbox_limits *l, struct buf *to, struct buf *weaker)
{
	const struct driver *native;
	const char *reason;
	size_t i;
	json_t *one;

	if (driver_choose("native", true, &native, &reason, NULL) < 0)
		return false;
	auto_json list = driver_limits(native, l);
	json_array_foreach(list, i, one)
	{
		const char *note = json_get_str(one, "note");
		(void)!buf_printf(to, "%s%s by %s", i ? ", " : "", json_get_str(one, "limit"), json_get_str(one, "by"));
		if (note && weaker->len == 0)
			(void)!buf_puts(weaker, note);
	}
	return true;
}

static void limits(const struct question *q, struct finding *f)
{
	/* Any values: the way is the same for all that are below what the machine has. */
	const struct sandbox_limits some = {.cpus = 0.5, .memory = UINT64_C(64) << 20, .pids = 64};
	auto_buf text = BUF_INIT(SMALL);
	auto_buf weaker = BUF_INIT(SMALL);

	(void)q;
	if (!describe_limits(&some, &text, &weaker))
		return;
	finding_set(f, weaker.len ? FINDING_NO : FINDING_YES, "a native sandbox's are held by: %s", buf_str(&text));
	if (weaker.len)
		finding_hint(f, "Let this user make cgroups of version 2: a session of systemd with a user bus, or a "
				"subtree that is delegated to it (docs/drivers.md).");
}

static void seccomp(const struct question *q, struct finding *f)
{
	auto_free char *actions = text_of("/proc/sys/kernel/seccomp/actions_avail");

	(void)q;
	if (actions)
		finding_set(f, FINDING_YES, "filters; actions: %s", actions);
	else
		finding_set(f, FINDING_NO, "this kernel has no filters of system calls");
}

static void landlock(const struct question *q, struct finding *f)
{
	/* LANDLOCK_CREATE_RULESET_VERSION, landlock_create_ruleset(2). */
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1u);

	(void)q;
	if (abi > 0)
		finding_set(f, FINDING_YES, "ABI %ld", abi);
	else
		finding_set(f, FINDING_NO, "not available: %s", strerror(errno));
}

static void subuid(const struct question *q, struct finding *f)
{
	const struct passwd *pw = getpwuid(getuid());
	auto_free char *text = NULL;
	auto_free char *by_name = xasprintf("%s:", pw ? pw->pw_name : "");
	auto_free char *by_number = xasprintf("%u:", getuid());

	(void)q;
	if (file_read(AT_FDCWD, "/etc/subuid", SUBUID_LIMIT, &text, NULL, NULL) < 0)
		text = xstrdup("");
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if ((pw && str_starts(line, by_name)) || str_starts(line, by_number)) {
			finding_set(f, FINDING_YES, "/etc/subuid: %.200s", line);
			return;
		}
	}
	finding_set(f, FINDING_NO, "no range in /etc/subuid for this user");
	finding_hint(f, "Only podman without root needs one: `usermod --add-subuids 100000-165535 --add-subgids "
			"100000-165535 USER`.");
}

const struct question host_questions[] = {
	{"kernel", kernel, NULL},
	{"user_namespaces", user_namespaces, NULL},
	{"overlay_in_user_namespaces", overlay, NULL},
	{"cgroups", cgroups, NULL},
	{"limits", limits, NULL},
	{"seccomp", seccomp, NULL},
	{"landlock", landlock, NULL},
	{"subuid", subuid, NULL},
};
const size_t n_host_questions = ARRAY_LEN(host_questions);
