/* Listing the store, and making room in it.
 *
 * An image is in use while somebody holds a shared lock of its record. Prune takes the exclusive one before it removes
 * a record, so that whoever looks at that moment finds nothing and fetches it anew. Layers go last, and only those that
 * no record has: no image can come to need one meanwhile, since who fetches holds the lock "fetch". */
#include "store.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names in a folder of the store; "X.json" without its end when cut. */
static void names_in(int store, const char *folder, bool cut, struct strv *to)
{
	auto_fd fd = openat(store, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *ent;

	if (!d)
		return;
	(void)TAKE_FD(fd);
	while ((ent = readdir(d))) {
		if (ent->d_name[0] == '.' || (cut && !str_ends(ent->d_name, ".json")))
			continue;
		size_t len = strlen(ent->d_name);
		strv_take(to, xstrndup(ent->d_name, cut ? len - strlen(".json") : len));
	}
}

/* An image's record, opened and tried for the exclusive lock; *ret_busy: somebody uses it. */
static int try_record(int store, const char *name, bool *ret_busy, struct stat *ret_st)
{
	auto_free char *path = xasprintf("images/%s.json", name);
	auto_fd fd = openat(store, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -errno;
	*ret_busy = flock(fd, LOCK_EX | LOCK_NB) < 0;
	return TAKE_FD(fd);
}

/* The first name that leads to the image; owned by refs. */
static const char *name_of(const json_t *refs, const char *image)
{
	const json_t *ref;
	size_t i;

	json_array_foreach(refs, i, ref)
	{
		auto_free char *name = xmalloc(STORE_NAME_SIZE);
		store_name(json_get_str(ref, "image") ? json_get_str(ref, "image") : "", name);
		if (str_eq(name, image))
			return json_get_str(ref, "reference");
	}
	return NULL;
}

static json_t *read_refs(int store)
{
	auto_strv names = {0};
	json_t *refs = json_array();

	names_in(store, "refs", true, &names);
	for (size_t i = 0; i < names.n; i++) {
		json_t *ref = store_get(store, "refs", names.v[i]);
		if (ref)
			(void)json_array_append_new(refs, ref);
	}
	return refs;
}

static void add_row(int store, const json_t *refs, const char *name, json_t *rows)
{
	auto_json record = store_get(store, "images", name);
	struct stat st = {0};
	bool busy = false;
	char used[TIMESTAMP_SIZE];

	auto_fd fd = try_record(store, name, &busy, &st);
	if (fd < 0 || !record)
		return;
	json_t *row = json_object();
	const char *reference = name_of(refs, name);
	clock_format(used, (uint64_t)st.st_mtim.tv_sec * 1000u);
	json_put(row, "reference", reference ? json_string(reference) : json_null());
	json_put_str(row, "digest", json_get_str(record, "digest"));
	json_put_int(row, "size", json_integer_value(json_object_get(record, "bytes")));
	json_put_int(row, "layers", (long long)json_array_size(json_object_get(record, "layers")));
	json_put_str(row, "used", used);
	json_put_bool(row, "in_use", busy);
	(void)json_array_append_new(rows, row);
}

int image_store_list(const char *dir, json_t *rows, struct err *e)
{
	struct stat st;

	if (stat(dir, &st) < 0 && errno == ENOENT)
		return 0;
	auto_fd store = store_open_existing(dir, e);
	auto_strv names = {0};
	if (store < 0)
		return store;
	auto_json refs = read_refs(store);
	names_in(store, "images", true, &names);
	for (size_t i = 0; i < names.n; i++)
		add_row(store, refs, names.v[i], rows);
	return 0;
}

static bool is_old(const struct stat *st, unsigned long long unused_ms)
{
	uint64_t used = (uint64_t)st->st_mtim.tv_sec * 1000u, now = clock_wall_ms();

	return unused_ms && now > used && now - used >= unused_ms;
}

/* The record goes; names that lead to it go with it. */
static void drop_image(int store, const char *image)
{
	auto_free char *path = xasprintf("images/%s.json", image);
	auto_strv names = {0};

	(void)unlinkat(store, path, 0);
	names_in(store, "refs", true, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_json ref = store_get(store, "refs", names.v[i]);
		const char *to = json_get_str(ref, "image");
		char name[STORE_NAME_SIZE];
		store_name(to ? to : "", name);
		auto_free char *file = xasprintf("refs/%s.json", names.v[i]);
		if (str_eq(name, image))
			(void)unlinkat(store, file, 0);
	}
}

static void prune_images(int store, const struct image_prune *o, struct image_pruned *ret)
{
	auto_json refs = read_refs(store);
	auto_strv names = {0};

	names_in(store, "images", true, &names);
	for (size_t i = 0; i < names.n; i++) {
		struct stat st;
		bool busy = true;
		auto_fd fd = try_record(store, names.v[i], &busy, &st);
		if (fd < 0 || busy)
			continue;
		if (o->all || !name_of(refs, names.v[i]) || is_old(&st, o->unused_ms)) {
			drop_image(store, names.v[i]);
			ret->images++;
		}
	}
}

/* All layers that an image has, as names of files. */
static void wanted_layers(int store, struct strv *to)
{
	auto_strv names = {0};

	names_in(store, "images", true, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_json record = store_get(store, "images", names.v[i]);
		const json_t *layers = json_object_get(record, "layers"), *l;
		size_t k;
		json_array_foreach(layers, k, l)
		{
			char name[STORE_NAME_SIZE];
			store_name(json_is_string(l) ? json_string_value(l) : "", name);
			if (!strv_has(to, name))
				strv_add(to, name);
		}
	}
}

static int prune_layers(int store, struct image_pruned *ret, struct err *e)
{
	auto_strv wanted = {0};
	auto_strv names = {0};
	int r = 0;

	wanted_layers(store, &wanted);
	names_in(store, "layers", false, &names);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		if (strv_has(&wanted, names.v[i]))
			continue;
		/* Out of the way first: half a layer must not look like one. */
		auto_free char *facts = xasprintf("layers/%s/layer", names.v[i]);
		auto_free char *from = xasprintf("layers/%s", names.v[i]);
		auto_free char *to = xasprintf("tmp/%s", names.v[i]);
		auto_json known = store_get(store, ".", facts);
		r = tree_remove(store, to, e);
		if (r == 0 && renameat(store, from, store, to) < 0)
			r = err_sys(e, errno, "remove a layer");
		ret->layers += r == 0;
		ret->bytes += r == 0 ? (unsigned long long)json_integer_value(json_object_get(known, "bytes")) : 0;
	}
	return r;
}

/* What was moved there, and what fetches that were killed left. */
static int empty_tmp(int store, struct err *e)
{
	auto_strv names = {0};
	int r = 0;

	names_in(store, "tmp", false, &names);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		auto_free char *path = xasprintf("tmp/%s", names.v[i]);
		r = tree_remove(store, path, e);
	}
	return r;
}

/* Layers are locked by who holds the lock "fetch" only, which is ours alone: nobody waits for one of these. */
static void drop_locks(int store)
{
	auto_strv names = {0};

	names_in(store, "locks", false, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("locks/%s", names.v[i]);
		if (!str_eq(names.v[i], "fetch"))
			(void)unlinkat(store, path, 0);
	}
}

int image_store_prune(const char *dir, const struct image_prune *o, struct image_pruned *ret, struct err *e)
{
	struct stat st;

	*ret = (struct image_pruned){0};
	if (stat(dir, &st) < 0 && errno == ENOENT)
		return 0;
	auto_fd store = store_open(dir, e);
	if (store < 0)
		return store;
	auto_fd lock = store_lock(store, "fetch", LOCK_EX | LOCK_NB);
	if (lock == -EWOULDBLOCK) {
		int r = err_set(e, ERR_SANDBOX, EBUSY, "prune images: one is being fetched");
		err_hint(e, "Run it again when that is done.");
		return r;
	}
	if (lock < 0)
		return err_sys(e, -lock, "lock the image store");
	prune_images(store, o, ret);
	int r = prune_layers(store, ret, e);
	drop_locks(store);
	return r < 0 ? r : empty_tmp(store, e);
}
