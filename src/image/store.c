/* The store of images.
 *
 *   layers/ALGORITHM-HEX/fs      a layer's files, named by the digest of its uncompressed archive
 *   layers/ALGORITHM-HEX/layer.json   what is known of it
 *   images/ALGORITHM-HEX.json    an image: its configuration and its layers; locked (shared) by who uses it
 *   refs/ALGORITHM-HEX.json      a name, by its digest, and the image that it leads to
 *   tmp/ALGORITHM-HEX            a layer that is being unpacked; whoever holds its lock may throw it away
 *   locks/NAME                   one a layer, and "fetch", held (shared) by who fetches an image
 *
 * Nothing is changed in place: a layer is unpacked elsewhere and renamed, a record is replaced. So a process may end at
 * any moment, and what it leaves is either whole or in tmp/. Locks are flock's, which end with their process.
 *
 * Who can write to the store chooses what runs, and a link in the place of a layer would show in a sandbox whatever it
 * leads to. So a store of somebody else is refused (root has it easily: sudo keeps HOME), and no link below the store
 * is followed. */
#include "store.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <image/reference.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 1024 * 1024 };

static const char *const folders[] = {"layers", "images", "refs", "tmp", "locks"};

char *image_store_dir(const char *iterion_home, const char *home)
{
	auto_free char *below = home && *home ? path_join(home, ".iterion") : NULL;
	const char *base = iterion_home && *iterion_home == '/' ? iterion_home : below;

	return base && *base == '/' ? path_join(base, "images") : NULL;
}

/* The folder itself and those in it that are there already: nobody else's, and no links. */
static int check_owner(int store, const char *dir, struct err *e)
{
	struct stat st;
	const char *bad = NULL;

	if (fstat(store, &st) < 0)
		return err_sys(e, errno, "look at %s", dir);
	if (st.st_uid != geteuid())
		bad = "it belongs to another user";
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		bad = "other users can write to it";
	for (size_t i = 0; !bad && i < ARRAY_LEN(folders); i++)
		if (fstatat(store, folders[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()))
			bad = "a part of it is a link, or another user's";
	if (!bad)
		return 0;
	int r = err_set(e, ERR_INPUT, EPERM, "use the image store %s: %s", dir, bad);
	err_hint(e,
		 "Whoever can write there decides what runs in your sandboxes. Point ITERION_HOME at a folder of your "
		 "own, or mend owner and mode (with sudo: `sudo -H`).");
	return r;
}

int store_open_existing(const char *dir, struct err *e)
{
	auto_fd fd = dir_open(AT_FDCWD, dir, e);
	int r = fd < 0 ? fd : check_owner(fd, dir, e);

	return r < 0 ? r : TAKE_FD(fd);
}

int store_open(const char *dir, struct err *e)
{
	int r = dir_make(AT_FDCWD, dir, 0700, e);
	auto_fd fd = r < 0 ? r : store_open_existing(dir, e);

	for (size_t i = 0; fd >= 0 && i < ARRAY_LEN(folders); i++)
		if (mkdirat(fd, folders[i], 0700) < 0 && errno != EEXIST)
			r = err_sys(e, errno, "make %s/%s", dir, folders[i]);
	if (r < 0 || fd < 0) {
		err_hint(e, "Images are kept below ITERION_HOME: point it at a folder that can be written.");
		return r < 0 ? r : fd;
	}
	return TAKE_FD(fd);
}

void store_name(const char *digest, char ret[STORE_NAME_SIZE])
{
	(void)snprintf(ret, STORE_NAME_SIZE, "%s", digest);
	char *colon = strchr(ret, ':');
	if (colon)
		*colon = '-';
}

void store_ref_name(const char *text, char ret[STORE_NAME_SIZE])
{
	char digest[DIGEST_SIZE];

	digest_of(text, strlen(text), digest);
	store_name(digest, ret);
}

int store_lock(int store, const char *name, int operation)
{
	auto_free char *path = xasprintf("locks/%s", name);
	auto_fd fd = openat(store, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	do {
		r = flock(fd, operation);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : TAKE_FD(fd);
}

bool store_has_layer(int store, const char *diff_id)
{
	char name[STORE_NAME_SIZE];

	store_name(diff_id, name);
	auto_free char *path = xasprintf("layers/%s/fs", name);
	auto_fd fd = file_open_resolve(store, path, O_PATH | O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	return fd >= 0;
}

void store_layer_abort(int store, const char *diff_id)
{
	char name[STORE_NAME_SIZE];

	store_name(diff_id, name);
	auto_free char *path = xasprintf("tmp/%s", name);
	(void)!tree_remove(store, path, NULL);
}

int store_layer_begin(int store, const char *diff_id, struct err *e)
{
	char name[STORE_NAME_SIZE];

	store_name(diff_id, name);
	auto_free char *path = xasprintf("tmp/%s", name);
	auto_free char *files = xasprintf("tmp/%s/fs", name);
	int r = tree_remove(store, path, e);
	if (r < 0)
		return r;
	if (mkdirat(store, path, 0700) < 0 || mkdirat(store, files, 0755) < 0)
		return err_sys(e, errno, "make a folder for the layer");
	return dir_open(store, files, e);
}

int store_layer_commit(int store, const char *diff_id, const struct unpack_result *u, struct err *e)
{
	char name[STORE_NAME_SIZE];

	store_name(diff_id, name);
	auto_free char *from = xasprintf("tmp/%s", name);
	auto_free char *to = xasprintf("layers/%s", name);
	auto_json facts = json_object();
	auto_fd fd = dir_open(store, from, e);
	if (fd < 0)
		return fd;
	json_put_int(facts, "bytes", (long long)u->bytes);
	json_put_int(facts, "entries", (long long)u->entries);
	json_put_bool(facts, "foreign", u->foreign);
	auto_free char *text = json_compact(facts);
	int r = file_replace(fd, "layer.json", text, strlen(text), 0600, FILE_NO_SYNC, e);
	if (r < 0)
		return r;
	/* One for all files: a name must not survive a power loss that its content does not. */
	if (syncfs(fd) < 0)
		return err_sys(e, errno, "write the layer to disk");
	return renameat(store, from, store, to) < 0 ? err_sys(e, errno, "put the layer into the store") : 0;
}

int store_put(int store, const char *folder, const char *name, const json_t *record, struct err *e)
{
	auto_fd fd = dir_open(store, folder, e);
	auto_free char *file = xasprintf("%s.json", name);
	auto_free char *text = json_compact(record);

	return fd < 0 ? fd : file_replace(fd, file, text, strlen(text), 0600, FILE_SYNC, e);
}

json_t *store_get(int store, const char *folder, const char *name)
{
	auto_free char *path = xasprintf("%s/%s.json", folder, name);
	auto_free char *text = NULL;
	size_t len;

	return file_read(store, path, STORE_MAX_RECORD, &text, &len, NULL) < 0 ? NULL : json_parse(text, len, NULL);
}

char *store_stamp(const struct image_ref *ref)
{
	auto_free char *path = ref->kind == IMAGE_OCI_DIR ? path_join(ref->path, "index.json") : xstrdup(ref->path);
	struct stat st;

	if (stat(path, &st) < 0)
		return NULL;
	return xasprintf("%llu:%llu:%lld:%lld.%09ld", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
			 (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

void image_done(struct image *i)
{
	free(i->digest);
	free(i->user);
	strv_done(&i->env);
	strv_done(&i->layers);
	close_quietly(i->hold);
	*i = (struct image){.hold = -1};
}

static int take_layers(int store, const char *dir, const json_t *record, struct image *to)
{
	const json_t *layers = json_object_get(record, "layers"), *l;
	size_t i;

	/* Listed from the lowest; overlayfs wants the topmost first. */
	for (i = json_array_size(layers); i > 0; i--) {
		char name[STORE_NAME_SIZE];
		l = json_array_get(layers, i - 1);
		const char *id = json_string_value(l);
		if (!id || !image_digest_valid(id) || !store_has_layer(store, id))
			return -ENOENT;
		store_name(id, name);
		/* Overlayfs refuses a folder twice. What lies lower of the two is wholly hidden. */
		auto_free char *path = xasprintf("%s/layers/%s/fs", dir, name);
		if (!strv_has(&to->layers, path))
			strv_take(&to->layers, TAKE_PTR(path));
	}
	return 0;
}

/* Locks the image's record and reads it. */
static int hold(int store, const char *dir, const char *digest, struct image *ret)
{
	char name[STORE_NAME_SIZE];
	struct stat st;

	store_name(digest, name);
	auto_free char *path = xasprintf("images/%s.json", name);
	auto_fd fd = openat(store, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	/* Who removes it has it locked; and it is gone when its last name is. */
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0)
		return -ENOENT;
	auto_json record = store_get(store, "images", name);
	const json_t *env = json_object_get(record, "env"), *entry;
	const char *shown = json_get_str(record, "digest"), *user = json_get_str(record, "user");
	size_t i;
	if (!record)
		return -ENOENT;
	struct image found = {.digest = shown ? xstrdup(shown) : NULL,
			      .user = user ? xstrdup(user) : NULL,
			      .foreign = json_is_true(json_object_get(record, "foreign")),
			      .hold = -1};
	json_array_foreach(env, i, entry)
	{
		if (json_is_string(entry))
			strv_add(&found.env, json_string_value(entry));
	}
	int r = take_layers(store, dir, record, &found);
	if (r < 0) {
		image_done(&found);
		return r;
	}
	/* When it was last used: what prune goes by. */
	(void)futimens(fd, NULL);
	found.hold = TAKE_FD(fd);
	*ret = found;
	return 0;
}

int image_store_find(const char *dir, const struct image_ref *ref, struct image *ret, struct err *e)
{
	char name[STORE_NAME_SIZE];

	/* Layers are named by paths without links, which are then opened without following any. */
	auto_free char *real = realpath(dir, NULL);
	if (!real)
		return -ENOENT;
	auto_fd store = store_open_existing(real, e);
	if (store < 0)
		return store;
	store_ref_name(ref->text, name);
	auto_json record = store_get(store, "refs", name);
	const char *image = json_get_str(record, "image"), *stamp = json_get_str(record, "stamp");
	if (!image || !image_digest_valid(image))
		return -ENOENT;
	if (ref->kind != IMAGE_REGISTRY) {
		auto_free char *now = store_stamp(ref);
		if (!now || !stamp || !str_eq(now, stamp))
			return -ENOENT;
	}
	return hold(store, real, image, ret);
}

int image_layer_open(const char *path)
{
	return file_open_resolve(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

char *image_file(const struct image *i, const char *path)
{
	for (size_t k = 0; k < i->layers.n; k++) {
		auto_fd root = image_layer_open(i->layers.v[k]);
		auto_fd fd = root < 0 ? -1
				      : file_open_resolve(root, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW,
							  RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
		struct stat st;
		auto_buf text = BUF_INIT(MAX_FILE);
		if (fd == -ENOENT)
			continue;
		/* What hides a file of a lower layer is a device, and cannot be opened. */
		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, &text) < 0)
			return NULL;
		return buf_steal(&text);
	}
	return NULL;
}
