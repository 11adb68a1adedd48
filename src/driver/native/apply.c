/* Carrying out a plan with the mount API of descriptors (open_tree(2), move_mount(2), mount_setattr(2)).
 *
 * The new root is a tmpfs, mounted over the old root's top (where it hides nothing, since look-ups that begin at the
 * old root do not cross onto it). Each bind is first a detached copy; it gets its attributes while nobody can reach it,
 * and only then its place, so there is no moment at which a read-only mount can be written. Targets are looked up
 * beneath the new root without following any link: what a bound folder contains cannot lead a later mount elsewhere.
 * Nothing is ever created in a bound folder: a mount point is made only where our own tmpfs is. At the end the root
 * is made read-only, takes the old root's place, and the old one is detached. */
#include "apply.h"
#include "overlay.h"
#include "plan.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BENEATH = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

struct builder {
	const struct plan *plan;
	int scratch;	   /* the tmpfs that all of our own is on */
	dev_t scratch_dev; /* its device, and the root's: mount points are made there only */
	int root;	   /* the new root's mount: that tmpfs, or an image's overlay */
	dev_t root_dev;
	int old;    /* the old root */
	int parent; /* the folder of the last step's target, -1: none */
	bool parent_ours;
	char parent_path[PATH_MAX];
	int backing; /* a folder of the tmpfs that nobody inside can reach */
	size_t n_fresh;
	int *covers; /* mounts that become read-only at the end */
	size_t n_covers;
	size_t cap_covers;
};

static void forget_parent(struct builder *b)
{
	close_quietly(b->parent);
	b->parent = -1;
}

/* A path below the root for openat2: without the leading slash. */
static const char *relative(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int new_fs(const char *type, const char *const *options, unsigned attr)
{
	auto_fd fs = fsopen(type, FSOPEN_CLOEXEC);

	if (fs < 0)
		return -errno;
	for (; *options; options += 2)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
			return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int fd = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	return fd < 0 ? -errno : fd;
}

static int set_attr(int mount, uint64_t set, uint64_t clear, bool recursive)
{
	struct mount_attr attr = {.attr_set = set, .attr_clr = clear, .propagation = MS_PRIVATE};
	unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0u);

	return mount_setattr(mount, "", flags, &attr, sizeof attr) < 0 ? -errno : 0;
}

static bool is_ours(const struct builder *b, const struct stat *st)
{
	return st->st_dev == b->root_dev || st->st_dev == b->scratch_dev;
}

static int place(int mount, int target)
{
	return move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ? -errno : 0;
}

/* As place, for what later steps may go below. */
static int place_folder(struct builder *b, int mount, int target)
{
	forget_parent(b);
	return place(mount, target);
}

/* Walks to a folder from the root, making what is missing on our own tmpfs. */
static int make_folders(const struct builder *b, char *walk)
{
	auto_fd at = fcntl(b->root, F_DUPFD_CLOEXEC, 0);

	for (char *part = walk, *end; part; part = end) {
		struct stat st;
		end = strchr(part, '/');
		if (end)
			*end++ = '\0';
		int fd = file_open_resolve(at, part, O_PATH | O_DIRECTORY, BENEATH);
		if (fd == -ENOENT) {
			if (fstat(at, &st) < 0)
				return -errno;
			if (!is_ours(b, &st))
				return -EXDEV;
			if (mkdirat(at, part, 0755) < 0)
				return -errno;
			fd = file_open_resolve(at, part, O_PATH | O_DIRECTORY, BENEATH);
		}
		if (fd < 0)
			return fd;
		close_quietly(at);
		at = fd;
	}
	return TAKE_FD(at);
}

/* Opens the folder that holds the target; the descriptor is the builder's. Many steps in a row have the same one, so
 * the last is kept; a mount placed over it since would be missed, and so every step that places a folder forgets it. */
static int open_parent(struct builder *b, const char *path, const char **ret_name)
{
	char walk[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t len = (size_t)(slash - path);
	struct stat st;

	*ret_name = slash + 1;
	if (len == 0)
		return b->root;
	if (b->parent >= 0 && strlen(b->parent_path) == len && strncmp(b->parent_path, path, len) == 0)
		return b->parent;
	if (len >= sizeof walk)
		return -ENAMETOOLONG;
	memcpy(walk, path + 1, len - 1);
	walk[len - 1] = '\0';
	int fd = file_open_resolve(b->root, walk, O_PATH | O_DIRECTORY, BENEATH);
	if (fd == -ENOENT)
		fd = make_folders(b, walk);
	if (fd < 0)
		return fd;
	forget_parent(b);
	if (fstat(fd, &st) < 0) {
		close_quietly(fd);
		return -errno;
	}
	memcpy(b->parent_path, path, len);
	b->parent_path[len] = '\0';
	b->parent_ours = is_ours(b, &st);
	return b->parent = fd;
}

/* Opens the target itself as a folder or file, made when it is missing on our own tmpfs. */
static int open_target(struct builder *b, const char *path, bool dir, mode_t mode)
{
	const char *name;
	int parent = path[1] ? open_parent(b, path, &name) : -EBUSY;

	if (parent < 0)
		return parent;
	bool ours = parent == b->root || b->parent_ours;
	if (ours && !dir) {
		int fd = openat(parent, name, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	} else if (ours && mkdirat(parent, name, 0700) == 0) {
		/* The mode by name: umask must not narrow a folder that is shared with other users inside. */
		if (fchmodat(parent, name, mode, 0) < 0)
			return -errno;
	}
	int fd = file_open_resolve(parent, name, O_PATH | O_NOFOLLOW | (dir ? O_DIRECTORY : 0), BENEATH);
	return fd == -ENOENT && !ours ? -EXDEV : fd;
}

static int do_dir(struct builder *b, const struct step *s)
{
	int fd = open_target(b, s->target, true, s->mode);

	close_quietly(fd);
	return fd < 0 ? fd : 0;
}

static int do_symlink(struct builder *b, const struct step *s)
{
	const char *name;
	int parent = open_parent(b, s->target, &name);

	if (parent < 0)
		return parent;
	return symlinkat(s->source, parent, name) < 0 ? -errno : 0;
}

static int do_file(struct builder *b, const struct step *s)
{
	const char *name;
	int parent = open_parent(b, s->target, &name);
	/* An image's own file makes way, and so does a link of it, which would lead elsewhere. */
	if (parent >= 0 && b->plan->layered)
		(void)unlinkat(parent, name, 0);
	auto_fd fd = parent < 0 ? parent : openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	if (fd < 0)
		return parent < 0 ? parent : -errno;
	return fd_write_all(fd, s->content, strlen(s->content));
}

/* Whether the source still is what the plan was made for: somebody may have put another file at its path. */
static int check_source(int fd, const struct step *s)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	mode_t type = s->flags & STEP_SOURCE_DIR ? S_IFDIR : s->flags & STEP_DEVICE ? S_IFCHR : S_IFREG;
	return (st.st_mode & S_IFMT) == type ? 0 : -ESTALE;
}

static int do_bind(struct builder *b, const struct step *s)
{
	/* No link is followed: the plan holds resolved paths, and one that became a link since is an attack. */
	auto_fd source = s->flags & STEP_INSIDE
				 ? file_open_resolve(b->root, relative(s->source), O_PATH | O_NOFOLLOW, BENEATH)
				 : file_open_resolve(AT_FDCWD, s->source, O_PATH, RESOLVE_NO_SYMLINKS);
	int checked = source < 0 ? source : check_source(source, s);
	if (checked < 0)
		return checked;
	auto_fd tree =
		open_tree(source, "", (unsigned)(AT_EMPTY_PATH | AT_RECURSIVE) | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return -errno;
	uint64_t set = MOUNT_ATTR_NOSUID | (s->flags & STEP_DEVICE ? 0u : MOUNT_ATTR_NODEV) |
		       (s->flags & STEP_RO ? MOUNT_ATTR_RDONLY : 0u);
	int r = set_attr(tree, set, 0, true);
	if (r < 0)
		return r;
	auto_fd target = open_target(b, s->target, s->flags & STEP_SOURCE_DIR, 0755);
	if (target < 0)
		return target;
	return s->flags & STEP_SOURCE_DIR ? place_folder(b, tree, target) : place(tree, target);
}

/* Makes what stands at the target a mount of its own. */
static int remount_self(struct builder *b, const struct step *s, uint64_t set, uint64_t clear)
{
	auto_fd target = open_target(b, s->target, true, s->mode ? s->mode : 0755);
	if (target < 0)
		return target;
	auto_fd tree = open_tree(target, "", (unsigned)AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return -errno;
	int r = set_attr(tree, set, clear, false);
	return r < 0 ? r : place_folder(b, tree, target);
}

/* An empty folder of the tmpfs over the target, whatever an image has there. */
static int do_fresh(struct builder *b, const struct step *s)
{
	const struct plan *p = b->plan;
	char name[24];

	snprintf(name, sizeof name, "fresh-%zu", b->n_fresh++);
	if (mkdirat(b->backing, name, 0700) < 0 || fchmodat(b->backing, name, s->mode, 0) < 0)
		return -errno;
	if (p->uid && geteuid() == 0 && fchownat(b->backing, name, p->uid, p->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	auto_fd tree = open_tree(b->backing, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return -errno;
	int r = set_attr(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, false);
	auto_fd target = r < 0 ? r : open_target(b, s->target, true, 0755);
	return target < 0 ? target : place_folder(b, tree, target);
}

static int do_writable(struct builder *b, const struct step *s)
{
	if (b->plan->layered)
		return do_fresh(b, s);
	return remount_self(b, s, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, MOUNT_ATTR_RDONLY);
}

static int do_readonly(struct builder *b, const struct step *s)
{
	return remount_self(b, s, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY, 0);
}

static int mount_new(struct builder *b, const struct step *s, const char *type, const char *const *options,
		     unsigned attr)
{
	auto_fd fs = new_fs(type, options, attr);
	if (fs < 0)
		return fs;
	auto_fd target = open_target(b, s->target, true, 0555);
	return target < 0 ? target : place_folder(b, fs, target);
}

static int do_proc(struct builder *b, const struct step *s)
{
	static const char *const none[] = {NULL};

	return mount_new(b, s, "proc", none, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int do_devpts(struct builder *b, const struct step *s)
{
	static const char *const options[] = {"ptmxmode", "0666", "mode", "0620", NULL};

	return mount_new(b, s, "devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/* An empty folder of our own tmpfs, so that mount points can be made in it while the plan goes on; it becomes read-only
 * at the end. It stands below /proc's own folder, where nobody inside can look. */
static int do_cover(struct builder *b, const struct step *s)
{
	char name[24];

	snprintf(name, sizeof name, "cover-%zu", b->n_covers);
	if (mkdirat(b->backing, name, 0755) < 0)
		return -errno;
	auto_fd tree = open_tree(b->backing, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return -errno;
	int r = set_attr(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 0, false);
	auto_fd target = r < 0 ? r : open_target(b, s->target, true, 0555);
	if (target < 0)
		return target;
	r = place_folder(b, tree, target);
	if (r == 0) {
		b->covers = grow_array(b->covers, b->n_covers, &b->cap_covers, sizeof *b->covers);
		b->covers[b->n_covers++] = TAKE_FD(tree);
	}
	return r;
}

static int lock_covers(const struct builder *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_covers; i++)
		r = set_attr(b->covers[i], MOUNT_ATTR_RDONLY, 0, false);
	return r;
}

/* A file is hidden behind /dev/null, a folder behind an empty one. */
static int do_mask(struct builder *b, const struct step *s)
{
	struct stat st;
	auto_fd target = file_open_resolve(b->root, relative(s->target), O_PATH | O_NOFOLLOW, BENEATH);

	if (target < 0)
		return target == -ENOENT ? 0 : target;
	if (fstat(target, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return do_cover(b, s);
	auto_fd tree = open_tree(AT_FDCWD, "/dev/null", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return -errno;
	int r = set_attr(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, 0, false);
	return r < 0 ? r : place(tree, target);
}

static int do_lock(struct builder *b, const struct step *s)
{
	auto_fd target = file_open_resolve(b->root, relative(s->target), O_PATH | O_NOFOLLOW, BENEATH);

	if (target < 0)
		return target == -ENOENT ? 0 : target;
	auto_fd tree = open_tree(target, "", (unsigned)AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return -errno;
	int r = set_attr(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, 0, false);
	return r < 0 ? r : place(tree, target);
}

static const struct {
	const char *verb;
	int (*run)(struct builder *b, const struct step *s);
} actions[] = {
	[STEP_DIR] = {"make the folder", do_dir},
	[STEP_SYMLINK] = {"make the link", do_symlink},
	[STEP_FILE] = {"write the file", do_file},
	[STEP_BIND] = {"mount", do_bind},
	[STEP_WRITABLE] = {"make a writable folder at", do_writable},
	[STEP_READONLY] = {"make a read-only folder at", do_readonly},
	[STEP_PROC] = {"mount a new proc at", do_proc},
	[STEP_DEVPTS] = {"mount a new devpts at", do_devpts},
	[STEP_COVER] = {"cover", do_cover},
	[STEP_MASK] = {"mask", do_mask},
	[STEP_LOCK] = {"make read-only", do_lock},
};

static int step_failed(const struct step *s, int r, struct err *e)
{
	if (r == -ESTALE)
		(void)err_set(e, ERR_SANDBOX, ESTALE,
			      "mount %s at %s in the sandbox: another kind of file stands there by now", s->source,
			      s->target);
	else if (s->kind == STEP_BIND)
		(void)err_sys(e, -r, "mount %s at %s in the sandbox", s->source, s->target);
	else
		(void)err_sys(e, -r, "%s %s in the sandbox", actions[s->kind].verb, s->target);
	if (r == -EXDEV)
		err_hint(e,
			 "The target does not exist in the folder that is mounted above it, and nothing is created in "
			 "your own folders: create it there, or choose another target.");
	else if (r == -ELOOP)
		err_hint(e, "A part of the path is a symbolic link: name the path that it leads to.");
	else if (r == -ENOTDIR)
		err_hint(e,
			 "A file or a symbolic link stands at the target, or on the way to it, in the folder that is "
			 "mounted above it: choose another target.");
	else if (r == -ESTALE || r == -ENOENT)
		err_hint(e, "Somebody changed the path while the sandbox started: mount a folder that stays as it is.");
	else if (r == -EPERM && s->kind == STEP_PROC)
		err_hint(e,
			 "The kernel refuses a new proc where the old one is partly hidden, as in a container: run the "
			 "outer container with an unmasked /proc, or choose another driver with --sandbox-driver.");
	return r;
}

/* The tmpfs, mounted on the old root's top: it becomes the root, or has what an image's root lacks. */
static int make_root(struct builder *b, struct err *e)
{
	static const char *const options[] = {"mode", "0755", NULL};
	struct stat st, root;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, errno, "separate the sandbox's mounts from the host's");
	b->old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	b->scratch = new_fs("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (b->old < 0 || b->scratch < 0)
		return err_sys(e, b->scratch < 0 ? -b->scratch : errno, "make the sandbox's root file system");
	int r = place(b->scratch, b->old);
	if (r < 0)
		return err_sys(e, -r, "place the sandbox's root file system");
	b->root = b->plan->layered ? overlay_mount(b->scratch, b->plan, e) : fcntl(b->scratch, F_DUPFD_CLOEXEC, 0);
	if (b->root < 0)
		return b->plan->layered ? b->root : err_sys(e, errno, "make the sandbox's root file system");
	if (fstat(b->scratch, &st) < 0 || fstat(b->root, &root) < 0)
		return err_sys(e, errno, "look at the sandbox's root file system");
	b->scratch_dev = st.st_dev;
	b->root_dev = root.st_dev;
	/* Of an image's sandbox nothing of the tmpfs can be reached but what is mounted; else /proc hides this folder.
	 */
	if (mkdirat(b->scratch, "proc", 0555) < 0)
		return err_sys(e, errno, "make the sandbox's /proc");
	b->backing = openat(b->scratch, "proc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return b->backing < 0 ? err_sys(e, errno, "make the sandbox's /proc") : 0;
}

/* The old root goes to where the new one is put on top of it, and is then detached (pivot_root(2), NOTES). With an
 * image the tmpfs still stands on the old root, where umount2 finds it first: then it takes two. That nothing stands
 * above the new root any more is looked at, since ".." at the top would lead into it. */
static int leave_old_root(const struct builder *b, struct err *e)
{
	struct stat top, above;

	if (fchdir(b->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || fchdir(b->old) < 0)
		return err_sys(e, errno, "leave the host's file system");
	if (b->plan->layered && umount2(".", MNT_DETACH) < 0)
		return err_sys(e, errno, "leave the sandbox's own file system");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, errno, "leave the host's file system");
	if (stat("/", &top) < 0 || stat("/..", &above) < 0)
		return err_sys(e, errno, "look at the sandbox's root");
	if (top.st_dev != above.st_dev || top.st_ino != above.st_ino)
		return err_set(e, ERR_SANDBOX, EPERM, "leave the host's file system: something stands above the root");
	return 0;
}

static int enter_root(const struct builder *b, struct err *e)
{
	int r = leave_old_root(b, e);

	if (r < 0)
		return r;
	r = lock_covers(b);
	if (r == 0 && !b->plan->layered)
		r = set_attr(b->root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, false);
	return r < 0 ? err_sys(e, -r, "make the sandbox's root read-only") : 0;
}

int plan_apply(const struct plan *p, struct err *e)
{
	struct builder b = {.plan = p, .scratch = -1, .root = -1, .old = -1, .parent = -1, .backing = -1};

	umask(022);
	int r = make_root(&b, e);
	for (size_t i = 0; r == 0 && i < p->n; i++) {
		r = actions[p->v[i].kind].run(&b, &p->v[i]);
		if (r < 0 && p->v[i].flags & STEP_OPTIONAL)
			r = 0;
		if (r < 0)
			r = step_failed(&p->v[i], r, e);
	}
	if (r == 0)
		r = enter_root(&b, e);
	forget_parent(&b);
	for (size_t i = 0; i < b.n_covers; i++)
		close_quietly(b.covers[i]);
	free(b.covers);
	close_quietly(b.backing);
	close_quietly(b.root);
	close_quietly(b.scratch);
	close_quietly(b.old);
	return r;
}
