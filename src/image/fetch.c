/* From a reference to layers in the store.
 *
 * Manifest, configuration and layers are each checked against the digest that led to them; a layer is checked twice, as
 * it comes (its digest in the manifest) and as it is unpacked (its diff_id in the configuration), and becomes visible
 * in the store after both. Several processes may fetch the same image: each layer has a lock, and who waited for it
 * finds the layer there. No more than one layer's lock is held at a time, so nobody waits in a circle. */
#include "fetch.h"
#include "digest.h"
#include "source.h"
#include "store.h"
#include "unpack_child.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INDEX_DEPTH = 3, TELL_MS = 500 };

static const uint64_t default_max_bytes = 64ull << 30;

struct fetch {
	const struct fetch_opts *o;
	struct image_ref ref;
	struct source *source;
	int store;
	char top[DIGEST_SIZE];	  /* what the reference led to */
	char picked[DIGEST_SIZE]; /* the manifest of this platform */
	struct manifest manifest;
	struct image_config config;
	char *stamp; /* of a folder or archive, as it was before it was read; NULL: of a registry */
	uint64_t told_ms;
	uint64_t bytes;
	bool foreign;
};

static int open_source(const struct image_ref *ref, struct source **ret, struct err *e)
{
	static int (*const opens[])(const struct image_ref *ref, struct source **ret,
				    struct err *e) = {[IMAGE_REGISTRY] = registry_open,
						      [IMAGE_OCI_DIR] = oci_dir_open,
						      [IMAGE_DOCKER_ARCHIVE] = archive_open};

	return opens[ref->kind](ref, ret, e);
}

static int wrong_digest(const char *what, const char *want, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EBADMSG, "%s does not have the digest %.80s", what, want);

	err_hint(e, "What was sent is not what the image's maker published: the source is damaged, or somebody changes "
		    "it on the way. Nothing of it was kept.");
	return r;
}

static int add_document(void *arg, const void *data, size_t len)
{
	return buf_add(arg, data, len);
}

int source_document(struct source *s, const struct blob_ref *b, struct buf *to, struct err *e)
{
	struct digester d;
	char got[DIGEST_SIZE];

	if (b->size > MANIFEST_MAX_BYTES)
		return err_set(e, ERR_INPUT, EFBIG, "the image's configuration has more than 4 MiB");
	int r = s->ops->blob(s, b, add_document, to, e);
	if (r < 0)
		return r == -ENOBUFS ? err_set(e, ERR_INPUT, EFBIG, "the image's configuration is larger than it says")
				     : r;
	digester_init(&d, b->digest);
	digester_add(&d, to->data, to->len);
	digester_end(&d, got);
	return str_eq(got, b->digest) && to->len == b->size ? 0
							    : wrong_digest("the image's configuration", b->digest, e);
}

/* One manifest or index, which must be what its digest says. */
static int get_manifest(struct fetch *f, const char *digest, struct buf *to, struct err *e)
{
	struct digester d;

	buf_clear(to);
	int r = f->source->ops->manifest(f->source, digest, to, e);
	if (r < 0)
		return r;
	digester_init(&d, digest ? digest : "sha256:");
	digester_add(&d, to->data, to->len);
	digester_end(&d, f->picked);
	return digest && !str_eq(digest, f->picked) ? wrong_digest("the image's manifest", digest, e) : 0;
}

/* From an index to the manifest of this machine's platform. */
static int find_manifest(struct fetch *f, struct err *e)
{
	auto_buf text = BUF_INIT(MANIFEST_MAX_BYTES + 1);
	const struct platform here = platform_here();
	const char *tag = f->source->index_tag;

	int r = get_manifest(f, f->ref.digest, &text, e);
	memcpy(f->top, f->picked, sizeof f->top);
	for (int depth = 0; r == 0 && manifest_is_index(buf_str(&text), text.len); depth++) {
		struct blob_ref next = {0};
		if (depth == MAX_INDEX_DEPTH)
			return err_set(e, ERR_INPUT, ELOOP, "the image's index leads to ever more of them");
		r = index_choose(buf_str(&text), text.len, tag, &here, &next, e);
		if (r == 0)
			r = get_manifest(f, next.digest, &text, e);
		/* A folder's index has no digest that anybody could ask for. */
		if (depth == 0 && f->ref.kind == IMAGE_OCI_DIR)
			memcpy(f->top, f->picked, sizeof f->top);
		tag = NULL;
		free(next.digest);
	}
	return r < 0 ? r : manifest_parse(buf_str(&text), text.len, &f->manifest, e);
}

static int read_config(struct fetch *f, struct err *e)
{
	auto_buf text = BUF_INIT(MANIFEST_MAX_BYTES + 1);
	const struct platform here = platform_here();

	int r = source_document(f->source, &f->manifest.config, &text, e);
	if (r == 0)
		r = image_config_parse(buf_str(&text), text.len, &f->config, e);
	if (r < 0)
		return r;
	if (f->config.architecture && !str_eq(f->config.architecture, here.architecture)) {
		r = err_set(e, ERR_INPUT, ENOEXEC, "the image is for %.40s, and this machine is %s",
			    f->config.architecture, here.architecture);
		err_hint(e, "Choose an image for this machine's architecture.");
		return r;
	}
	if (f->config.diff_ids.n == f->manifest.n_layers)
		return 0;
	r = err_set(e, ERR_INPUT, EPROTO, "the image's manifest has %zu layers, its configuration %zu",
		    f->manifest.n_layers, f->config.diff_ids.n);
	err_hint(e, "The image is damaged: build or push it again.");
	return r;
}

/* A layer on its way. */
struct layer {
	struct fetch *f;
	const struct blob_ref *blob;
	struct unpack_child child;
	struct digester d;
	uint64_t got;
};

static void tell(struct layer *l)
{
	const struct fetch_opts *o = l->f->o;
	uint64_t now = clock_ms();

	if (!o->on_progress || (l->f->told_ms && now - l->f->told_ms < TELL_MS))
		return;
	l->f->told_ms = now;
	o->on_progress(o->arg, l->blob->digest, l->got, l->blob->size);
}

static int take_layer(void *arg, const void *data, size_t len)
{
	struct layer *l = arg;

	if (len > l->blob->size - l->got)
		return -EBADMSG;
	l->got += len;
	digester_add(&l->d, data, len);
	tell(l);
	return unpack_child_write(&l->child, data, len);
}

/* Sends the layer to the child, and hears what it made of it. */
static int stream_layer(struct layer *l, const char *diff_id, struct unpack_result *ret, struct err *e)
{
	char got[DIGEST_SIZE];

	digester_init(&l->d, l->blob->digest);
	int r = l->f->source->ops->blob(l->f->source, l->blob, take_layer, l, e);
	if (r < 0 && r != -EPIPE && r != -EBADMSG) {
		unpack_child_kill(&l->child);
		return r;
	}
	digester_end(&l->d, got);
	/* A layer that is not what it should be is told as that, whatever unpacking says of it. */
	if (r == -EBADMSG || (r == 0 && (l->got != l->blob->size || !str_eq(got, l->blob->digest)))) {
		unpack_child_kill(&l->child);
		return wrong_digest("it", l->blob->digest, e);
	}
	r = unpack_child_finish(&l->child, ret, e);
	return r == 0 && !str_eq(ret->diff_id, diff_id) ? wrong_digest("it (uncompressed)", diff_id, e) : r;
}

static int unpack_one(struct fetch *f, size_t i, struct err *e)
{
	const char *diff_id = f->config.diff_ids.v[i];
	struct layer l = {.f = f, .blob = &f->manifest.layers[i]};
	const struct unpack_opts o = {.owners = geteuid() == 0,
				      .max_bytes = f->o->max_bytes ? f->o->max_bytes : default_max_bytes};
	struct unpack_result result = {0};

	auto_fd folder = store_layer_begin(f->store, diff_id, e);
	int r = folder < 0 ? folder : unpack_child_start(folder, diff_id, &o, &l.child, e);
	if (r == 0)
		r = stream_layer(&l, diff_id, &result, e);
	if (r == 0)
		r = store_layer_commit(f->store, diff_id, &result, e);
	if (r < 0)
		store_layer_abort(f->store, diff_id);
	return r;
}

/* The facts of a layer that is there; of one that the image has twice, once. */
static void count_layer(struct fetch *f, size_t layer)
{
	const char *diff_id = f->config.diff_ids.v[layer];
	char name[STORE_NAME_SIZE];

	for (size_t i = 0; i < layer; i++)
		if (str_eq(f->config.diff_ids.v[i], diff_id))
			return;
	store_name(diff_id, name);
	auto_free char *path = xasprintf("%s/layer", name);
	auto_json facts = store_get(f->store, "layers", path);
	f->bytes += (uint64_t)json_integer_value(json_object_get(facts, "bytes"));
	f->foreign |= json_is_true(json_object_get(facts, "foreign"));
}

static int ensure_layer(struct fetch *f, size_t i, struct err *e)
{
	const char *diff_id = f->config.diff_ids.v[i];
	char name[STORE_NAME_SIZE];
	int r = 0;

	store_name(diff_id, name);
	auto_fd lock = store_lock(f->store, name, LOCK_EX);
	if (lock < 0)
		return err_sys(e, -lock, "lock the image store");
	if (!store_has_layer(f->store, diff_id))
		r = unpack_one(f, i, e);
	if (r < 0) {
		if (r == -ENOSPC || r == -EDQUOT)
			err_hint(e, "The disk of the image store is full: `iterion sandbox images prune` frees what no "
				    "image needs, and ITERION_HOME may lie on another disk.");
		err_hint(e, "The image is damaged or made to do harm: build or push it again, or choose another one.");
		return err_wrap(e, r, "layer %zu of %zu (%.19s)", i + 1, f->manifest.n_layers,
				f->manifest.layers[i].digest);
	}
	count_layer(f, i);
	return 0;
}

static json_t *strings(const struct strv *l)
{
	json_t *a = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(a, json_text(l->v[i], strlen(l->v[i])));
	return a;
}

/* A record that is right stays the same file: sandboxes that use the image hold their locks on it, and another file
 * under the name would be free to be pruned with all its layers. By which index it was found makes no difference. */
static int put_image(struct fetch *f, const char *name, json_t *image, struct err *e)
{
	auto_json known = store_get(f->store, "images", name);
	auto_free char *path = xasprintf("images/%s.json", name);
	const char *digest = json_get_str(known, "digest");

	if (digest)
		json_put_str(image, "digest", digest);
	/* It counts as used now, as a new one would. */
	if (known && json_equal(known, image) && utimensat(f->store, path, NULL, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return store_put(f->store, "images", name, image, e);
}

static int record(struct fetch *f, struct err *e)
{
	auto_json image = json_object();
	auto_json ref = json_object();
	char name[STORE_NAME_SIZE];

	json_put_str(image, "digest", f->ref.kind == IMAGE_DOCKER_ARCHIVE ? f->manifest.config.digest : f->top);
	json_put(image, "env", strings(&f->config.env));
	json_put_str(image, "user", f->config.user);
	json_put_str(image, "workdir", f->config.workdir);
	json_put(image, "layers", strings(&f->config.diff_ids));
	json_put_int(image, "bytes", (long long)f->bytes);
	json_put_bool(image, "foreign", f->foreign);
	store_name(f->picked, name);
	int r = put_image(f, name, image, e);
	json_put_str(ref, "reference", f->ref.text);
	json_put_str(ref, "image", f->picked);
	json_put_str(ref, "stamp", f->stamp);
	store_ref_name(f->ref.text, name);
	return r < 0 ? r : store_put(f->store, "refs", name, ref, e);
}

static int store_all(struct fetch *f, struct err *e)
{
	f->store = store_open(f->o->store, e);
	if (f->store < 0)
		return f->store;
	auto_fd lock = store_lock(f->store, "fetch", LOCK_SH);
	if (lock < 0)
		return err_sys(e, -lock, "lock the image store");
	int r = 0;
	for (size_t i = 0; r == 0 && i < f->manifest.n_layers; i++)
		r = ensure_layer(f, i, e);
	return r < 0 ? r : record(f, e);
}

int image_fetch(const struct fetch_opts *o, struct err *e)
{
	struct fetch f = {.o = o, .store = -1};

	(void)signal(SIGPIPE, SIG_IGN);
	int r = image_ref_parse(o->reference, o->base, &f.ref, e);
	if (r < 0)
		return r;
	f.stamp = f.ref.kind == IMAGE_REGISTRY ? NULL : store_stamp(&f.ref);
	r = open_source(&f.ref, &f.source, e);
	if (r == 0)
		r = find_manifest(&f, e);
	if (r == 0 && !o->look)
		r = read_config(&f, e);
	if (r == 0 && !o->look)
		r = store_all(&f, e);
	if (f.source)
		f.source->ops->free(f.source);
	close_quietly(f.store);
	manifest_done(&f.manifest);
	image_config_done(&f.config);
	if (r < 0) {
		(void)err_wrap(e, r, "image %.200s", f.ref.text);
		err_hint(e, "Build or push the image again, or choose another one.");
	}
	image_ref_done(&f.ref);
	free(f.stamp);
	return r;
}
