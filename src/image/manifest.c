/* Index, manifest and configuration, as the OCI image specification and Docker's schema 2 write them.
 *
 * Fields that are not used are not looked at. A digest that is not one is refused here, since it becomes a file name
 * and a part of an address; sizes are bounds for what is read later. */
#include "manifest.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <image/reference.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { MAX_ENV = 1024, MAX_INDEX = 1024 };

const char manifest_accept[] = "Accept: application/vnd.oci.image.manifest.v1+json, "
			       "application/vnd.oci.image.index.v1+json, "
			       "application/vnd.docker.distribution.manifest.v2+json, "
			       "application/vnd.docker.distribution.manifest.list.v2+json";

void manifest_done(struct manifest *m)
{
	free(m->config.digest);
	for (size_t i = 0; i < m->n_layers; i++)
		free(m->layers[i].digest);
	free(m->layers);
	*m = (struct manifest){0};
}

void image_config_done(struct image_config *c)
{
	free(c->architecture);
	free(c->user);
	free(c->workdir);
	strv_done(&c->env);
	strv_done(&c->diff_ids);
	*c = (struct image_config){0};
}

struct platform platform_here(void)
{
	static const char *const names[][2] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}};
	struct utsname u;

	for (size_t i = 0; uname(&u) == 0 && i < ARRAY_LEN(names); i++)
		if (str_eq(u.machine, names[i][0]))
			return (struct platform){"linux", names[i][1]};
	return (struct platform){"linux", "unknown"};
}

static int damaged(const char *what, const char *why, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EPROTO, "the image's %s: %s", what, why);

	err_hint(e, "The image is damaged or of a form that is not understood: build or push it again.");
	return r;
}

static json_t *parse(const char *text, size_t len, const char *what, struct err *e)
{
	auto_json j = len <= MANIFEST_MAX_BYTES ? json_parse_value(text, len, NULL) : NULL;

	if (!json_is_object(j)) {
		(void)damaged(what, "it is no JSON object of at most 4 MiB", e);
		return NULL;
	}
	return TAKE_PTR(j);
}

bool manifest_is_index(const char *text, size_t len)
{
	auto_json j = parse(text, len, "manifest", NULL);

	return j && json_is_array(json_object_get(j, "manifests"));
}

static int take_blob(const json_t *j, const char *what, struct blob_ref *ret, struct err *e)
{
	const char *digest = json_get_str(j, "digest");
	const json_t *size = json_object_get(j, "size");

	if (!digest || !image_digest_valid(digest))
		return damaged(what, "it names something by no valid digest", e);
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return damaged(what, "it names something without its size", e);
	*ret = (struct blob_ref){.digest = xstrdup(digest), .size = (uint64_t)json_integer_value(size)};
	return 0;
}

enum fit { FIT_NOT, FIT_UNSAID, FIT_YES };

static enum fit fits(const json_t *m, const char *tag, const struct platform *p)
{
	const json_t *platform = json_object_get(m, "platform");
	const char *os = json_get_str(platform, "os"), *arch = json_get_str(platform, "architecture");
	const char *name = json_get_str(json_object_get(m, "annotations"), "org.opencontainers.image.ref.name");

	if (tag && !str_eq(name ? name : "", tag))
		return FIT_NOT;
	if (!os || !arch)
		return FIT_UNSAID;
	return str_eq(os, p->os) && str_eq(arch, p->architecture) ? FIT_YES : FIT_NOT;
}

static int nothing_fits(const json_t *list, const char *tag, const struct platform *p, struct err *e)
{
	auto_buf has = BUF_INIT(400);
	const json_t *m;
	size_t i;

	json_array_foreach(list, i, m)
	{
		const json_t *platform = json_object_get(m, "platform");
		const char *os = json_get_str(platform, "os"), *arch = json_get_str(platform, "architecture");
		const char *name = json_get_str(json_object_get(m, "annotations"), "org.opencontainers.image.ref.name");
		(void)!buf_printf(&has, "%s%.40s%s%.40s%s%.40s", has.len ? ", " : "", name ? name : "",
				  name && os ? " " : "", os ? os : "", os ? "/" : "", arch ? arch : "");
	}
	int r = err_set(e, ERR_INPUT, ENOENT, "the image has nothing for %s/%s%s%s", p->os, p->architecture,
			tag ? " named " : "", tag ? tag : "");
	err_hint(e, "It has: %s. Choose another tag, or build it for this machine.", buf_str(&has));
	return r;
}

int index_choose(const char *text, size_t len, const char *tag, const struct platform *p, struct blob_ref *ret,
		 struct err *e)
{
	auto_json j = parse(text, len, "index", e);
	const json_t *list = json_object_get(j, "manifests"), *best = NULL, *m;
	enum fit found = FIT_NOT;
	size_t i;

	if (!j)
		return -EPROTO;
	if (json_array_size(list) > MAX_INDEX)
		return damaged("index", "it has more than 1024 entries", e);
	json_array_foreach(list, i, m)
	{
		enum fit f = fits(m, tag, p);
		if (f > found) {
			found = f;
			best = m;
		}
	}
	return best ? take_blob(best, "index", ret, e) : nothing_fits(list, tag, p, e);
}

int manifest_parse(const char *text, size_t len, struct manifest *ret, struct err *e)
{
	auto_json j = parse(text, len, "manifest", e);
	__attribute__((cleanup(manifest_done))) struct manifest m = {0};
	const json_t *layers = json_object_get(j, "layers"), *l;
	size_t i;

	if (!j)
		return -EPROTO;
	if (json_integer_value(json_object_get(j, "schemaVersion")) != 2 || !json_is_array(layers))
		return damaged("manifest", "it is neither OCI's nor Docker's schema 2", e);
	if (json_array_size(layers) > IMAGE_MAX_LAYERS)
		return damaged("manifest", "it has more than 200 layers", e);
	int r = take_blob(json_object_get(j, "config"), "manifest", &m.config, e);
	if (r == 0 && m.config.size > MANIFEST_MAX_BYTES)
		r = damaged("manifest", "its configuration has more than 4 MiB", e);
	m.layers = xcalloc(json_array_size(layers) + 1, sizeof *m.layers);
	json_array_foreach(layers, i, l)
	{
		if (r == 0)
			r = take_blob(l, "manifest", &m.layers[m.n_layers], e);
		m.n_layers += r == 0;
	}
	if (r < 0)
		return r;
	*ret = m;
	memset(&m, 0, sizeof m); /* it is the caller's now */
	return 0;
}

static char *text_of(const json_t *o, const char *key)
{
	const char *s = json_get_str(o, key);

	return s && *s ? xstrdup(s) : NULL;
}

/* "NAME=value" and nothing that could not be an environment. */
static void take_env(const json_t *list, struct strv *to)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		const char *s = json_string_value(entry);
		const char *eq = s ? strchr(s, '=') : NULL;
		if (!eq || eq == s || to->n >= MAX_ENV)
			continue;
		auto_free char *name = xstrndup(s, (size_t)(eq - s));
		strv_set_env(to, name, eq + 1);
	}
}

int image_config_parse(const char *text, size_t len, struct image_config *ret, struct err *e)
{
	auto_json j = parse(text, len, "configuration", e);
	__attribute__((cleanup(image_config_done))) struct image_config c = {0};
	const json_t *ids = json_object_get(json_object_get(j, "rootfs"), "diff_ids"), *id;
	const json_t *config = json_object_get(j, "config");
	const char *os = json_get_str(j, "os");
	size_t i;

	if (!j)
		return -EPROTO;
	if (os && !str_eq(os, "linux"))
		return damaged("configuration", "the image is not for linux", e);
	json_array_foreach(ids, i, id)
	{
		const char *s = json_string_value(id);
		if (!s || !image_digest_valid(s) || i >= IMAGE_MAX_LAYERS)
			return damaged("configuration", "its list of layers (rootfs.diff_ids) is wrong", e);
		strv_add(&c.diff_ids, s);
	}
	c.architecture = text_of(j, "architecture");
	c.user = text_of(config, "User");
	c.workdir = text_of(config, "WorkingDir");
	take_env(json_object_get(config, "Env"), &c.env);
	*ret = c;
	memset(&c, 0, sizeof c); /* it is the caller's now */
	return 0;
}
