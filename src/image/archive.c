/* An archive of `docker save`: a tar with manifest.json, the configuration and the layers.
 *
 * The archive is read once for where its files stand, and its parts from there. It has no manifest as a registry has,
 * so one is made up, in which each layer goes by the digest of its uncompressed form (which an archive holds) or by the
 * name that it has in an archive that is an OCI layout too. */
#include "digest.h"
#include "source.h"
#include "tar.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 256 * 1024, MAX_FILES = 10000 };

struct place {
	char *name;
	char *link; /* of a symbolic link: the name that it leads to; NULL: a file */
	uint64_t offset, size;
};

/* A blob, by the digest that the made-up manifest gives it. */
struct part {
	char *digest;
	const struct place *at;
};

struct archive {
	struct source base;
	int fd;
	char *path;
	struct place *files;
	size_t n_files, cap_files;
	struct part *parts;
	size_t n_parts, cap_parts;
	struct buf manifest;
};

static int damaged(const struct archive *a, const char *why, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EPROTO, "the archive %s: %s", a->path, why);

	err_hint(e, "It must be what `docker save` or `podman save` writes, not compressed.");
	return r;
}

/* Where an entry's name leads, taken as below the archive's root: "a/../b" is "b". */
static char *tidy(const char *dir, const char *name)
{
	auto_free char *joined = xasprintf("/%s/%s", dir, name);
	auto_free char *clean = path_clean(joined);

	return xstrdup(clean + 1);
}

static ssize_t read_at(void *arg, void *to, size_t n, struct err *e)
{
	return input_read_fd(arg, to, n, e);
}

/* Jumps over an entry's data instead of reading it. */
static int jump(struct archive *a, struct tar *t, struct err *e)
{
	if (lseek(a->fd, (off_t)t->left, SEEK_CUR) < 0)
		return err_sys(e, errno, "read %s", a->path);
	t->at += t->left;
	t->left = 0;
	return 0;
}

static int add_file(struct archive *a, struct tar *t, struct err *e)
{
	const struct tar_entry *n = &t->entry;
	struct stat st;

	if (a->n_files == MAX_FILES)
		return damaged(a, "it has more than 10000 entries", e);
	if ((n->type != TAR_FILE && n->type != TAR_SYMLINK) || n->pieces)
		return 0;
	if (fstat(a->fd, &st) < 0 || (uint64_t)st.st_size < t->at || t->left > (uint64_t)st.st_size - t->at)
		return damaged(a, "it ends in the middle", e);
	char *name = tidy("", n->name);
	const char *slash = strrchr(name, '/');
	auto_free char *dir = slash ? xstrndup(name, (size_t)(slash - name)) : xstrdup("");
	a->files = grow_array(a->files, a->n_files, &a->cap_files, sizeof *a->files);
	a->files[a->n_files++] = (struct place){
		.name = name,
		.link = n->type == TAR_SYMLINK ? tidy(dir, n->link) : NULL,
		.offset = t->at,
		.size = t->left,
	};
	return jump(a, t, e);
}

static int list_files(struct archive *a, struct err *e)
{
	const struct input in = {.read = read_at, .arg = &a->fd};
	struct tar t;
	int r;

	tar_begin(&t, &in);
	while ((r = tar_next(&t, e)) == 1) {
		r = add_file(a, &t, e);
		if (r < 0)
			break;
	}
	tar_done(&t);
	if (r < 0)
		err_hint(e, "It must be what `docker save` or `podman save` writes, not compressed.");
	return r < 0 ? err_wrap(e, r, "%s", a->path) : 0;
}

static const struct place *find_file(const struct archive *a, const char *name)
{
	auto_free char *clean = tidy("", name);
	const char *want = clean;

	/* A link leads to a file, not to another link. */
	for (int hops = 0; hops < 2; hops++) {
		const struct place *found = NULL;
		for (size_t i = 0; i < a->n_files; i++)
			if (str_eq(a->files[i].name, want))
				found = &a->files[i];
		if (!found || !found->link)
			return found;
		want = found->link;
	}
	return NULL;
}

static int read_place(const struct archive *a, const struct place *p, struct buf *to, struct err *e)
{
	if (p->size > MANIFEST_MAX_BYTES || buf_reserve(to, (size_t)p->size + 1) < 0)
		return damaged(a, "one of its documents is larger than 4 MiB", e);
	while (to->len < p->size) {
		ssize_t n = pread(a->fd, to->data + to->len, (size_t)p->size - to->len, (off_t)(p->offset + to->len));
		if (n <= 0)
			return n < 0 ? err_sys(e, errno, "read %s", a->path) : damaged(a, "it became shorter", e);
		to->len += (size_t)n;
	}
	to->data[to->len] = '\0';
	return 0;
}

static void add_part(struct archive *a, const char *digest, const struct place *at)
{
	a->parts = grow_array(a->parts, a->n_parts, &a->cap_parts, sizeof *a->parts);
	a->parts[a->n_parts++] = (struct part){xstrdup(digest), at};
}

static json_t *descriptor(struct archive *a, const char *digest, const struct place *at)
{
	json_t *o = json_object();

	add_part(a, digest, at);
	json_put_str(o, "digest", digest);
	json_put_int(o, "size", (long long)at->size);
	return o;
}

/* The image of that name, or the only one. */
static const json_t *choose(const json_t *list, const char *tag)
{
	const json_t *image, *name;
	size_t i, k;

	if (!tag)
		return json_array_size(list) == 1 ? json_array_get(list, 0) : NULL;
	json_array_foreach(list, i, image)
	{
		json_array_foreach(json_object_get(image, "RepoTags"), k, name)
		{
			if (json_is_string(name) && str_eq(json_string_value(name), tag))
				return image;
		}
	}
	return NULL;
}

/* "blobs/sha256/HEX" tells the digest itself. */
static void layer_digest(const char *name, const char *diff_id, char ret[DIGEST_SIZE])
{
	static const char blobs[] = "blobs/sha256/";

	(void)snprintf(ret, DIGEST_SIZE, "sha256:%.64s", str_starts(name, blobs) ? name + strlen(blobs) : "");
	if (!image_digest_valid(ret))
		(void)snprintf(ret, DIGEST_SIZE, "%s", diff_id);
}

static int make_manifest(struct archive *a, const json_t *image, struct err *e)
{
	const char *config_name = json_get_str(image, "Config");
	const json_t *layers = json_object_get(image, "Layers"), *l;
	const struct place *at = config_name ? find_file(a, config_name) : NULL;
	__attribute__((cleanup(image_config_done))) struct image_config config = {0};
	auto_buf text = BUF_INIT(MANIFEST_MAX_BYTES + 1);
	char digest[DIGEST_SIZE];
	size_t i;

	if (!at)
		return damaged(a, "its manifest.json names a configuration that it does not have", e);
	int r = read_place(a, at, &text, e);
	if (r == 0)
		r = image_config_parse(buf_str(&text), text.len, &config, e);
	if (r < 0)
		return r;
	auto_json out = json_object();
	json_t *list = json_array();
	json_put(out, "layers", list);
	json_put_int(out, "schemaVersion", 2);
	digest_of(buf_str(&text), text.len, digest);
	json_put(out, "config", descriptor(a, digest, at));
	if (json_array_size(layers) != config.diff_ids.n)
		return damaged(a, "its configuration has another number of layers", e);
	json_array_foreach(layers, i, l)
	{
		const char *name = json_string_value(l);
		at = name ? find_file(a, name) : NULL;
		if (!at || !config.diff_ids.v)
			return damaged(a, "its manifest.json names a layer that it does not have", e);
		layer_digest(at->name, config.diff_ids.v[i], digest);
		(void)json_array_append_new(list, descriptor(a, digest, at));
	}
	auto_free char *made = json_compact(out);
	return buf_puts(&a->manifest, made) < 0 ? damaged(a, "it has too many layers", e) : 0;
}

static int load(struct archive *a, const char *tag, struct err *e)
{
	auto_buf text = BUF_INIT(MANIFEST_MAX_BYTES + 1);
	int r = list_files(a, e);
	const struct place *at = r < 0 ? NULL : find_file(a, "manifest.json");

	if (r == 0 && !at)
		r = damaged(a, "it has no manifest.json", e);
	if (r == 0)
		r = read_place(a, at, &text, e);
	if (r < 0)
		return r;
	auto_json list = json_parse_value(buf_str(&text), text.len, NULL);
	const json_t *image = choose(list, tag);
	if (!image) {
		r = damaged(a, tag ? "it has no image of that name" : "it has not just one image", e);
		err_hint(e, "Name one of its images behind the path: docker-archive:FILE:NAME:TAG.");
		return r;
	}
	return make_manifest(a, image, e);
}

static int manifest(struct source *s, const char *digest, struct buf *to, struct err *e)
{
	struct archive *a = (struct archive *)s;

	(void)digest;
	return buf_add(to, a->manifest.data, a->manifest.len) < 0 ? damaged(a, "it has too many layers", e) : 0;
}

static int blob(struct source *s, const struct blob_ref *b, source_take take, void *arg, struct err *e)
{
	struct archive *a = (struct archive *)s;
	auto_free char *data = xmalloc(CHUNK);
	const struct place *at = NULL;

	for (size_t i = 0; i < a->n_parts; i++)
		if (str_eq(a->parts[i].digest, b->digest))
			at = a->parts[i].at;
	if (!at)
		return damaged(a, "a part of it is missing", e);
	for (uint64_t done = 0; done < at->size;) {
		size_t want = (size_t)MIN(at->size - done, (uint64_t)CHUNK);
		ssize_t n = pread(a->fd, data, want, (off_t)(at->offset + done));
		if (n <= 0)
			return n < 0 ? err_sys(e, errno, "read %s", a->path) : damaged(a, "it became shorter", e);
		int r = take(arg, data, (size_t)n);
		if (r < 0)
			return r;
		done += (uint64_t)n;
	}
	return 0;
}

static void free_archive(struct source *s)
{
	struct archive *a = (struct archive *)s;

	for (size_t i = 0; i < a->n_files; i++) {
		free(a->files[i].name);
		free(a->files[i].link);
	}
	for (size_t i = 0; i < a->n_parts; i++)
		free(a->parts[i].digest);
	free(a->files);
	free(a->parts);
	buf_done(&a->manifest);
	close_quietly(a->fd);
	free(a->path);
	free(a);
}

static const struct source_ops ops = {.manifest = manifest, .blob = blob, .free = free_archive};

int archive_open(const struct image_ref *ref, struct source **ret, struct err *e)
{
	auto_fd fd = open(ref->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		int r = err_sys(e, fd < 0 ? errno : EINVAL, "open the archive %s", ref->path);
		err_hint(e, "Name a file that `docker save` or `podman save` wrote.");
		return r;
	}
	struct archive *a = xcalloc(1, sizeof *a);
	a->base.ops = &ops;
	a->manifest = BUF_INIT(MANIFEST_MAX_BYTES);
	a->fd = TAKE_FD(fd);
	a->path = xstrdup(ref->path);
	int r = load(a, ref->tag, e);
	if (r < 0)
		free_archive(&a->base);
	else
		*ret = &a->base;
	return r;
}
