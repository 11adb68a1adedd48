/* devcontainer.json as the reference reads it (@devcontainers/cli 0.89, `read-configuration`), up to the point where a
 * sandbox is made from it (devcontainer_block.c).
 *
 * The order matters and is the reference's: parse; move what older files have at the top level to where it stands
 * today; find out where the workspace stands inside, because ${containerWorkspaceFolder} needs it; then replace
 * variables in every string value, never in names. Values are replaced in place, so that each keeps its line and
 * column.
 *
 * A file of a megabyte can name a variable a hundred thousand times, and workspaceFolder can name itself: the sum of
 * all text that variables put in is bounded. */
#include "devcontainer_priv.h"
#include "devcontainer_vars.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <nettle/sha2.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXPANDED = 16 * 1024 * 1024 };

struct expansion {
	const struct devcontainer *d;
	var_value_fn value;
	const char *folder; /* ${containerWorkspaceFolder} */
	const char *id;	    /* ${devcontainerId} */
	size_t left;	    /* bytes that may still be made */
};

static bool is_truthy(const json_t *v)
{
	return v && !json_is_null(v) && !json_is_false(v) && !(json_is_string(v) && json_string_length(v) == 0) &&
	       !(json_is_integer(v) && json_integer_value(v) == 0);
}

/* The member as an object, made when it is missing; NULL when it is something else. */
static json_t *object_at(json_t *in, const char *key)
{
	json_t *v = json_object_get(in, key);

	if (!v) {
		json_put(in, key, json_object());
		v = json_object_get(in, key);
	}
	return json_is_object(v) ? v : NULL;
}

static void move_extensions(json_t *root, json_t *vscode)
{
	json_t *old = json_object_get(root, "extensions"), *kept = json_object_get(vscode, "extensions");

	if (!is_truthy(old))
		return;
	json_t *all = json_is_array(kept) ? json_incref(kept) : json_array();
	if (json_is_array(old))
		(void)json_array_extend(all, old);
	else
		(void)json_array_append(all, old);
	json_put(vscode, "extensions", all);
	(void)json_object_del(root, "extensions");
}

static void move_settings(json_t *root, json_t *vscode)
{
	json_t *old = json_object_get(root, "settings");

	if (!is_truthy(old))
		return;
	json_t *all = json_object();
	if (json_is_object(old))
		(void)json_object_update(all, old);
	(void)json_object_update(all, json_object_get(vscode, "settings"));
	json_put(vscode, "settings", all);
	(void)json_object_del(root, "settings");
}

/* extensions, settings and devPort of old files belong to one editor. */
static void update_legacy(json_t *root)
{
	json_t *port = json_object_get(root, "devPort");

	if (!is_truthy(json_object_get(root, "extensions")) && !is_truthy(json_object_get(root, "settings")) && !port)
		return;
	json_t *customizations = object_at(root, "customizations");
	json_t *vscode = customizations ? object_at(customizations, "vscode") : NULL;
	if (!vscode)
		return;
	move_extensions(root, vscode);
	move_settings(root, vscode);
	if (port && !json_object_get(vscode, "devPort")) {
		(void)json_object_set(vscode, "devPort", port);
		(void)json_object_del(root, "devPort");
	}
}

/* As path.posix.basename: slashes at the end do not count. */
static int add_base(struct buf *to, const char *path)
{
	size_t end = strlen(path);

	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	return buf_add(to, path + begin, end - begin);
}

static int host_value(void *arg, const struct var *v, struct buf *to)
{
	const struct expansion *x = arg;
	int r;

	if (var_is(v, "localEnv") || var_is(v, "env"))
		return var_add_env(v, x->d->env, to);
	if (var_is(v, "localWorkspaceFolder"))
		r = buf_puts(to, x->d->workspace);
	else if (var_is(v, "localWorkspaceFolderBasename"))
		r = add_base(to, x->d->workspace);
	else if (var_is(v, "containerWorkspaceFolder"))
		r = buf_puts(to, x->folder);
	else if (var_is(v, "containerWorkspaceFolderBasename"))
		r = add_base(to, x->folder);
	else
		return 0;
	return r < 0 ? r : 1;
}

static int explain(const struct devcontainer *d, const json_t *at, int r, struct err *e)
{
	if (r == -ENOBUFS) {
		r = err_set(e, ERR_INPUT, EINVAL, "variables make more than %d MiB of text",
			    MAX_EXPANDED / 1024 / 1024);
		err_hint(e, "Name the variable less often.");
	} else {
		r = err_set(e, ERR_INPUT, EINVAL, "a variable of the environment has no name");
		err_hint(e, "Write ${localEnv:NAME}, or ${localEnv:NAME:default}.");
	}
	return jsonc_at(&d->doc, at, r, e);
}

static int expand_text(struct expansion *x, const json_t *at, struct buf *to, struct err *e)
{
	size_t before = to->len;

	int r = vars_replace(json_string_value(at), json_string_length(at), x->value, x, to);
	if (r < 0)
		return explain(x->d, at, r, e);
	x->left -= MIN(x->left, to->len - before);
	return 0;
}

/* A string without variables is left alone, which is nearly every one. */
static int expand_string(struct expansion *x, json_t *v, struct err *e)
{
	if (!memmem(json_string_value(v), json_string_length(v), "${", 2))
		return 0;
	auto_buf out = BUF_INIT(x->left);
	int r = expand_text(x, v, &out, e);
	if (r == 0 && json_string_setn_nocheck(v, buf_str(&out), out.len) < 0)
		abort();
	return r;
}

/* Every string below. The parser has bounded the depth. */
static int expand_all(struct expansion *x, json_t *v, struct err *e)
{
	const char *key;
	json_t *member;
	size_t i;
	int r = 0;

	if (json_is_string(v))
		return expand_string(x, v, e);
	if (json_is_array(v)) {
		json_array_foreach(v, i, member)
		{
			r = expand_all(x, member, e);
			if (r < 0)
				return r;
		}
	}
	json_object_foreach(v, key, member)
	{
		r = expand_all(x, member, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Where the workspace stands inside. The file's own words may hold ${containerWorkspaceFolder}: then it is those words
 * once more, as the reference has it. */
static int find_folder(struct devcontainer *d, const struct devcontainer_params *p, struct expansion *x, struct err *e)
{
	const json_t *said = json_object_get(d->doc.root, "workspaceFolder");
	auto_buf out = BUF_INIT(MAX_EXPANDED);
	int r = 0;

	if (p->folder) {
		r = buf_puts(&out, p->folder);
	} else if (json_is_string(said) && json_string_length(said)) {
		x->folder = json_string_value(said);
		r = expand_text(x, said, &out, e);
		if (r < 0)
			return r;
	} else if (json_object_get(d->doc.root, "dockerComposeFile")) {
		r = buf_puts(&out, "/");
	} else if (p->default_folder) {
		r = buf_puts(&out, p->default_folder);
	} else {
		r = buf_puts(&out, "/workspaces/");
		r = r < 0 ? r : add_base(&out, d->workspace);
	}
	d->folder = buf_steal(&out);
	x->folder = d->folder;
	return r;
}

static void add_path(struct devcontainer *d)
{
	json_t *uri = json_object();

	json_put_int(uri, "$mid", 1);
	json_put_str(uri, "fsPath", d->path);
	json_put_str(uri, "path", d->path);
	json_put_str(uri, "scheme", "vscode-fileHost");
	json_put(d->doc.root, "configFilePath", uri);
}

static int load(struct devcontainer *d, const struct devcontainer_params *p, size_t len, struct err *e)
{
	struct expansion x = {.d = d, .value = host_value, .left = MAX_EXPANDED};
	int r = jsonc_parse(d->shown, d->text, len, &d->doc, e);

	if (r < 0)
		return r;
	if (!json_is_object(d->doc.root)) {
		r = err_set(e, ERR_INPUT, EINVAL, "the file holds no object");
		err_hint(e, "Write { … } around its members.");
		return jsonc_at(&d->doc, d->doc.root, r, e);
	}
	update_legacy(d->doc.root);
	r = find_folder(d, p, &x, e);
	if (r == 0)
		r = expand_all(&x, d->doc.root, e);
	if (r == 0)
		add_path(d);
	return r;
}

static int id_value(void *arg, const struct var *v, struct buf *to)
{
	const struct expansion *x = arg;

	if (!var_is(v, "devcontainerId"))
		return 0;
	int r = buf_puts(to, x->id);
	return r < 0 ? r : 1;
}

int dc_expand_id(struct devcontainer *d, struct err *e)
{
	char id[DEVCONTAINER_ID_SIZE];
	struct expansion x = {.d = d, .value = id_value, .id = id, .left = MAX_EXPANDED};

	devcontainer_id(d->workspace, d->path, id);
	return expand_all(&x, d->doc.root, e);
}

int devcontainer_load(const struct devcontainer_params *p, const char *text, size_t len, struct devcontainer **ret,
		      struct err *e)
{
	struct devcontainer *d = xcalloc(1, sizeof *d);
	bool inside = path_within(p->path, p->workspace) && !str_eq(p->path, p->workspace);

	d->env = p->env;
	d->workspace = xstrdup(p->workspace);
	d->path = xstrdup(p->path);
	d->shown = xstrdup(inside && !str_eq(p->workspace, "/") ? p->path + strlen(p->workspace) + 1 : p->path);
	d->text = xmemdup(text, len);
	int r = load(d, p, len, e);
	if (r < 0) {
		devcontainer_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

void devcontainer_free(struct devcontainer *d)
{
	if (!d)
		return;
	jsonc_done(&d->doc);
	free(d->workspace);
	free(d->path);
	free(d->shown);
	free(d->text);
	free(d->folder);
	free(d);
}

json_t *devcontainer_configuration(const struct devcontainer *d)
{
	return json_incref(d->doc.root);
}

/* "key=value" of --mount, in quotes when the value holds a comma. */
static void add_field(struct buf *to, const char *key, const char *value)
{
	const char *quote = strchr(value, ',') ? "\"" : "";

	(void)buf_printf(to, ",%s%s=%s%s", quote, key, value, quote);
}

json_t *devcontainer_workspace(const struct devcontainer *d)
{
	const json_t *folder = json_object_get(d->doc.root, "workspaceFolder");
	json_t *mount = json_object_get(d->doc.root, "workspaceMount");
	json_t *out = json_object();
	auto_buf text = BUF_INIT(1024 * 1024);

	json_put_str(out, "workspaceFolder", json_is_string(folder) ? json_string_value(folder) : d->folder);
	if (mount) {
		(void)json_object_set(out, "workspaceMount", mount);
	} else if (!json_object_get(d->doc.root, "dockerComposeFile")) {
		auto_buf target = BUF_INIT(1024 * 1024);
		(void)buf_puts(&target, "/workspaces/");
		(void)add_base(&target, d->workspace);
		(void)buf_puts(&text, "type=bind");
		add_field(&text, "source", d->workspace);
		add_field(&text, "target", buf_str(&target));
		json_put_str(out, "workspaceMount", buf_str(&text));
	}
	return out;
}

/* As JSON.stringify writes a string. */
static void add_quoted(struct buf *to, const char *s)
{
	static const char from[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";

	(void)buf_putc(to, '"');
	for (; *s; s++) {
		const char *known = strchr(from, *s);
		if (known)
			(void)buf_printf(to, "\\%c", letter[known - from]);
		else if ((unsigned char)*s < 0x20)
			(void)buf_printf(to, "\\u%04x", (unsigned)*s);
		else
			(void)buf_putc(to, *s);
	}
	(void)buf_putc(to, '"');
}

void devcontainer_id(const char *workspace, const char *path, char ret[DEVCONTAINER_ID_SIZE])
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuv";
	unsigned char sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx ctx;
	auto_buf json = BUF_INIT(1024 * 1024);

	(void)buf_puts(&json, "{\"devcontainer.config_file\":");
	add_quoted(&json, path);
	(void)buf_puts(&json, ",\"devcontainer.local_folder\":");
	add_quoted(&json, workspace);
	(void)buf_putc(&json, '}');
	sha256_init(&ctx);
	sha256_update(&ctx, json.len, (const uint8_t *)buf_str(&json));
	sha256_digest(&ctx, sizeof sum, sum);
	/* 256 bits in digits of 5, the lowest last: the first digit has one bit. */
	for (unsigned i = 0; i < DEVCONTAINER_ID_SIZE - 1; i++) {
		unsigned low = (DEVCONTAINER_ID_SIZE - 2 - i) * 5, v = 0;
		for (unsigned b = low; b < low + 5 && b < 256; b++)
			v |= (unsigned)((sum[31 - b / 8] >> (b % 8)) & 1) << (b - low);
		ret[i] = digits[v];
	}
	ret[DEVCONTAINER_ID_SIZE - 1] = '\0';
}
