/* From a layer's archive to files.
 *
 * Every path is looked up with openat2 and RESOLVE_IN_ROOT: to the layer its folder is "/", so neither "..", nor an
 * absolute name, nor a link that an earlier entry made leads out of it. ".." in a name is refused all the same, since
 * nobody means it well. The last part of a name is never followed. What can act by being there is left out: devices are
 * not made, set-user-ID and set-group-ID bits are dropped (they count for nothing in a sandbox), and of extended
 * attributes the user's own are kept, without those that overlayfs itself reads.
 *
 * A whiteout (".wh.NAME") becomes what overlayfs takes for one, a character device 0:0, which anybody may make; an
 * opaque folder (".wh..wh..opq") gets overlayfs's attribute, in the form for user namespaces.
 *
 * This runs in a process that can do nothing else (unpack_child.c). The calls it needs:
 * #syscalls: openat2 openat close fstat newfstatat unlinkat mkdirat mknodat symlinkat linkat renameat ?renameat2
 * #syscalls: fchown fchownat fchmod fchmodat utimensat fsetxattr write pwrite64 ftruncate lseek getdents64 fcntl
 * #syscalls: fdatasync ?statx ?fchmodat2 getrandom */
#include "unpack.h"
#include "input.h"
#include "tar.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
	MAX_ENTRIES = 4 * 1000 * 1000,
	BUFFER = 256 * 1024,
	MAX_XATTR = 64 * 1024,
	MAX_PARTS = 512, /* folders below each other */
	SLACK = 16 * 1024 * 1024,
	SLACK_ENTRY = 16 * 1024, /* its headers, and what fills up its last block */
};

static const char whiteout[] = ".wh.", opaque[] = ".wh..wh..opq", meta[] = ".wh..wh.";
static const char opaque_xattr[] = "user.overlay.opaque";

/* What was decompressed, digested on its way. */
struct digested {
	struct input from;
	struct digester d;
	unsigned char *buf;
	size_t pos, len;
	uint64_t total, max; /* bytes so far, and that its files may have */
	const struct unpack_result *result;
};

struct unpack {
	int root;
	const struct unpack_opts *o;
	struct unpack_result *result;
	struct tar tar;
	char *name;	   /* of the entry: clean, relative, "" for the root itself */
	char *parent_name; /* of the folder that is open */
	int parent;
};

static int too_large(uint64_t max, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EFBIG, "its files are larger than %llu bytes together", (unsigned long long)max);

	err_hint(e, "Choose a smaller image, or raise the limit with ITERION_IMAGE_MAX_BYTES if you trust this one.");
	return r;
}

/* Headers and what stands behind the archive's end are no files, and count too: a few bytes decompress to any number of
 * them. */
static bool is_endless(const struct digested *g)
{
	return g->total > SLACK && g->total - SLACK > g->max + g->result->entries * SLACK_ENTRY;
}

static ssize_t read_digested(void *arg, void *to, size_t n, struct err *e)
{
	struct digested *g = arg;

	if (g->pos == g->len) {
		ssize_t got = g->from.read(g->from.arg, g->buf, BUFFER, e);
		if (got <= 0)
			return got;
		digester_add(&g->d, g->buf, (size_t)got);
		g->total += (uint64_t)got;
		if (is_endless(g))
			return too_large(g->max, e);
		g->pos = 0;
		g->len = (size_t)got;
	}
	n = MIN(n, g->len - g->pos);
	memcpy(to, g->buf + g->pos, n);
	g->pos += n;
	return (ssize_t)n;
}

static int refuse(const struct unpack *u, const char *why, struct err *e)
{
	auto_buf name = BUF_INIT(800);

	(void)!text_neutralise(&name, u->tar.entry.name, strnlen(u->tar.entry.name, 150));
	return err_set(e, ERR_INPUT, EPROTO, "its entry %s %s", buf_str(&name), why);
}

static int failed(const struct unpack *u, int errnum, const char *what, struct err *e)
{
	auto_buf name = BUF_INIT(800);

	(void)!text_neutralise(&name, u->tar.entry.name, strnlen(u->tar.entry.name, 150));
	return err_sys(e, errnum, "%s %s", what, buf_str(&name));
}

/* A name without what changes nothing ("/", "./", "//"); NULL when it has ".." or too many parts. */
static char *clean(const char *name)
{
	auto_buf out = BUF_INIT(TAR_MAX_PATH + 2);
	size_t parts = 0;

	while (*name) {
		size_t len = strcspn(name, "/");
		bool empty = len == 0 || (len == 1 && name[0] == '.');
		if ((len == 2 && name[0] == '.' && name[1] == '.') || len > NAME_MAX || ++parts > MAX_PARTS)
			return NULL;
		if (!empty && ((out.len && buf_putc(&out, '/') < 0) || buf_add(&out, name, len) < 0))
			return NULL;
		name += len;
		name += *name == '/';
	}
	return buf_steal(&out);
}

static void forget_parent(struct unpack *u)
{
	close_quietly(u->parent);
	u->parent = -1;
	free(TAKE_PTR(u->parent_name));
}

static int open_folder(const struct unpack *u, const char *path)
{
	return file_open_resolve(u->root, *path ? path : ".", O_PATH | O_DIRECTORY,
				 RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* Makes what is missing of a path, part by part, as a layer that leaves its folders out expects. */
static int make_folders(struct unpack *u, const char *path)
{
	auto_free char *walk = xstrdup(path);
	auto_fd at = open_folder(u, "");

	for (char *end = walk; at >= 0 && end; end = *end ? end + 1 : NULL) {
		char *start = end;
		end = strchrnul(start, '/');
		char was = *end;
		*end = '\0';
		int fd = open_folder(u, walk);
		if (fd == -ENOENT && mkdirat(at, start, 0755) == 0) {
			u->result->entries++;
			fd = open_folder(u, walk);
		}
		*end = was;
		close_quietly(at);
		at = fd;
	}
	return TAKE_FD(at);
}

/* The folder that a clean name is in, kept for the next entry; *ret_base: the name's last part. */
static int open_parent(struct unpack *u, const char *name, const char **ret_base)
{
	const char *slash = strrchr(name, '/');
	auto_free char *path = slash ? xstrndup(name, (size_t)(slash - name)) : xstrdup("");

	*ret_base = slash ? slash + 1 : name;
	if (u->parent >= 0 && str_eq(path, u->parent_name))
		return u->parent;
	int fd = open_folder(u, path);
	if (fd == -ENOENT)
		fd = make_folders(u, path);
	forget_parent(u);
	if (fd >= 0) {
		u->parent = fd;
		u->parent_name = TAKE_PTR(path);
	}
	return fd;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(int at, const char *name)
{
	auto_fd fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fsetxattr(fd, opaque_xattr, "y", 1, 0) < 0 ? -errno : 0;
}

/* Makes way for an entry. *ret_hid: a whiteout stood there, so a folder must go on hiding what is below. */
static int clear_way(struct unpack *u, int at, const char *base, bool *ret_hid, struct err *e)
{
	struct stat st;

	*ret_hid = false;
	if (fstatat(at, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : failed(u, errno, "look at", e);
	if (S_ISDIR(st.st_mode))
		return tree_remove(at, base, e);
	*ret_hid = is_whiteout(&st);
	return unlinkat(at, base, 0) < 0 ? failed(u, errno, "replace", e) : 0;
}

static void note_owner(struct unpack *u)
{
	u->result->foreign |= u->tar.entry.uid != 0 || u->tar.entry.gid != 0;
}

static int set_owner(const struct unpack *u, int at, const char *base, struct err *e)
{
	const struct tar_entry *n = &u->tar.entry;

	if (!u->o->owners)
		return 0;
	if (n->uid >= UINT32_MAX || n->gid >= UINT32_MAX)
		return refuse(u, "has an owner that is no number of a user", e);
	if (fchownat(at, base, (uid_t)n->uid, (gid_t)n->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(u, errno, "give an owner to", e);
	return 0;
}

static void set_time(const struct unpack *u, int at, const char *base)
{
	const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = u->tar.entry.mtime}};

	/* A time that the file system does not know is no reason to stop. */
	(void)utimensat(at, base, t, AT_SYMLINK_NOFOLLOW);
}

static bool keeps_xattr(const struct tar_xattr *x)
{
	return str_starts(x->name, "user.") && !str_starts(x->name, "user.overlay.") && x->len <= MAX_XATTR;
}

static int set_xattrs(const struct unpack *u, int fd, struct err *e)
{
	const struct tar_entry *n = &u->tar.entry;

	for (size_t i = 0; i < n->n_xattrs; i++)
		if (keeps_xattr(&n->xattrs[i]) &&
		    fsetxattr(fd, n->xattrs[i].name, n->xattrs[i].value, n->xattrs[i].len, 0) < 0 && errno != ENOTSUP)
			return failed(u, errno, "set an extended attribute of", e);
	return 0;
}

/* The data of one piece, at its place. */
static int write_piece(struct unpack *u, int fd, uint64_t offset, uint64_t len, struct err *e)
{
	char data[64 * 1024];

	if (lseek(fd, (off_t)offset, SEEK_SET) < 0)
		return failed(u, errno, "write", e);
	while (len) {
		ssize_t got = tar_read(&u->tar, data, (size_t)MIN(len, (uint64_t)sizeof data), e);
		if (got <= 0)
			return got < 0 ? (int)got : refuse(u, "has less data than its map says", e);
		int r = fd_write_all(fd, data, (size_t)got);
		if (r < 0)
			return failed(u, -r, "write", e);
		len -= (uint64_t)got;
	}
	return 0;
}

static int write_data(struct unpack *u, int fd, struct err *e)
{
	const struct tar_entry *n = &u->tar.entry;
	int r = 0;

	/* What is asked for counts, also holes: another program may read them. */
	if (n->size > u->o->max_bytes - u->result->bytes)
		return too_large(u->o->max_bytes, e);
	u->result->bytes += n->size;
	if (!n->pieces)
		return write_piece(u, fd, 0, n->size, e);
	for (size_t i = 0; r == 0 && i < n->n_pieces; i++)
		r = write_piece(u, fd, n->pieces[i].offset, n->pieces[i].len, e);
	return r == 0 && ftruncate(fd, (off_t)n->size) < 0 ? failed(u, errno, "write", e) : r;
}

static int do_file(struct unpack *u, int at, const char *base, struct err *e)
{
	bool hid;
	int r = clear_way(u, at, base, &hid, e);
	auto_fd fd = r < 0 ? r : openat(at, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return r < 0 ? r : failed(u, errno, "make", e);
	r = write_data(u, fd, e);
	if (r == 0)
		r = set_owner(u, at, base, e);
	if (r == 0)
		r = set_xattrs(u, fd, e);
	if (r == 0 && fchmod(fd, u->tar.entry.mode & 01777) < 0)
		r = failed(u, errno, "set the mode of", e);
	if (r == 0)
		set_time(u, at, base);
	return r;
}

/* Its owner can always work in it: the store must be able to remove it, and look-ups in the layer go on. */
static int do_folder(struct unpack *u, int at, const char *base, struct err *e)
{
	mode_t mode = (u->tar.entry.mode & 01777) | S_IRWXU;
	struct stat st;
	bool hid = false;
	int r = 0;

	if (fstatat(at, base, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)) {
		r = clear_way(u, at, base, &hid, e);
		if (r == 0 && mkdirat(at, base, 0700) < 0)
			r = failed(u, errno, "make the folder", e);
	}
	auto_fd fd = r < 0 ? r : openat(at, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return r < 0 ? r : failed(u, errno, "open the folder", e);
	if (hid && fsetxattr(fd, opaque_xattr, "y", 1, 0) < 0)
		return failed(u, errno, "mark the folder", e);
	r = set_owner(u, at, base, e);
	if (r == 0)
		r = set_xattrs(u, fd, e);
	if (r == 0 && fchmod(fd, mode) < 0)
		r = failed(u, errno, "set the mode of", e);
	return r;
}

static int do_symlink(struct unpack *u, int at, const char *base, struct err *e)
{
	bool hid;
	int r = clear_way(u, at, base, &hid, e);

	if (r < 0)
		return r;
	if (!*u->tar.entry.link || symlinkat(u->tar.entry.link, at, base) < 0)
		return failed(u, *u->tar.entry.link ? errno : EINVAL, "make the link", e);
	r = set_owner(u, at, base, e);
	if (r == 0)
		set_time(u, at, base);
	return r;
}

/* To a file or symbolic link of the same layer. */
static int do_hardlink(struct unpack *u, int at, const char *base, struct err *e)
{
	auto_free char *target = clean(u->tar.entry.link);
	struct stat st;
	bool hid;

	if (!target || !*target)
		return refuse(u, "is a hard link to a name that leads nowhere", e);
	if (str_eq(target, u->name))
		return refuse(u, "is a hard link to itself", e);
	char *slash = strrchr(target, '/');
	const char *last = slash ? slash + 1 : target;
	if (slash)
		*slash = '\0';
	auto_fd from = open_folder(u, slash ? target : "");
	if (from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return refuse(u, "is a hard link to a file that its layer does not have", e);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return refuse(u, "is a hard link to something that is no file", e);
	int r = clear_way(u, at, base, &hid, e);
	if (r == 0 && linkat(from, last, at, base, 0) < 0)
		r = failed(u, errno, "make the hard link", e);
	return r;
}

static int do_fifo(struct unpack *u, int at, const char *base, struct err *e)
{
	bool hid;
	int r = clear_way(u, at, base, &hid, e);

	if (r == 0 && mknodat(at, base, S_IFIFO | (u->tar.entry.mode & 0777), 0) < 0)
		r = failed(u, errno, "make the pipe", e);
	return r < 0 ? r : set_owner(u, at, base, e);
}

/* What hides something of the layers below. What the same layer has put there stays. */
static int do_whiteout(struct unpack *u, int at, const char *base, struct err *e)
{
	const char *hidden = base + strlen(whiteout);
	struct stat st;
	int r = 0;

	if (str_eq(base, opaque))
		r = set_opaque(at, ".");
	else if (str_starts(base, meta))
		return 0;
	else if (!*hidden || str_eq(hidden, ".") || str_eq(hidden, ".."))
		return refuse(u, "hides nothing that can be named", e);
	else if (fstatat(at, hidden, &st, AT_SYMLINK_NOFOLLOW) == 0)
		r = S_ISDIR(st.st_mode) ? set_opaque(at, hidden) : 0;
	else if (mknodat(at, hidden, S_IFCHR, makedev(0, 0)) < 0)
		r = -errno;
	if (r < 0) {
		r = failed(u, -r, "hide what lies below", e);
		err_hint(e, "The store's file system must have extended attributes and device files 0:0, as ext4, xfs "
			    "and btrfs do: point ITERION_HOME at one.");
	}
	return r;
}

static int do_entry(struct unpack *u, struct err *e)
{
	static int (*const actions[])(struct unpack * u, int at, const char *base, struct err *e) = {
		[TAR_FILE] = do_file,	  [TAR_HARDLINK] = do_hardlink, [TAR_SYMLINK] = do_symlink,
		[TAR_FOLDER] = do_folder, [TAR_FIFO] = do_fifo,		[TAR_CHAR] = NULL,
		[TAR_BLOCK] = NULL,
	};
	enum tar_type type = u->tar.entry.type;
	const char *base;

	if (++u->result->entries > MAX_ENTRIES)
		return err_set(e, ERR_INPUT, EFBIG, "it has more than %d entries", MAX_ENTRIES);
	free(u->name);
	u->name = clean(u->tar.entry.name);
	if (!u->name)
		return refuse(u, "has \"..\" or too long a part in its name", e);
	if (!*u->name)
		return type == TAR_FOLDER ? 0 : refuse(u, "has no name", e);
	int at = open_parent(u, u->name, &base);
	if (at < 0)
		return failed(u, -at, "open the folder of", e);
	if (str_starts(base, whiteout))
		return do_whiteout(u, at, base, e);
	if (!actions[type])
		return 0;
	note_owner(u);
	int r = actions[type](u, at, base, e);
	/* What stands at a path that was looked up before may be something else now. */
	if (type != TAR_FILE)
		forget_parent(u);
	return r;
}

/* What stands behind the archive's end belongs to the digest. */
static int drain(struct digested *g, struct err *e)
{
	ssize_t got;

	do {
		g->pos = g->len;
		char one;
		got = read_digested(g, &one, 1, e);
	} while (got > 0);
	return (int)got;
}

int unpack_layer(int in, int folder, const char *like, const struct unpack_opts *o, struct unpack_result *ret,
		 struct err *e)
{
	const struct input raw = {.read = input_read_fd, .arg = &in};
	struct expand *x = expand_new(&raw);
	struct digested g = {
		.from = {.read = expand_read, .arg = x}, .buf = xmalloc(BUFFER), .max = o->max_bytes, .result = ret};
	const struct input digested = {.read = read_digested, .arg = &g};
	struct unpack u = {.root = folder, .o = o, .result = ret, .parent = -1};
	int r;

	*ret = (struct unpack_result){0};
	digester_init(&g.d, like);
	tar_begin(&u.tar, &digested);
	while ((r = tar_next(&u.tar, e)) == 1) {
		r = do_entry(&u, e);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = drain(&g, e);
	digester_end(&g.d, ret->diff_id);
	forget_parent(&u);
	free(u.name);
	tar_done(&u.tar);
	free(g.buf);
	expand_free(x);
	return r;
}
