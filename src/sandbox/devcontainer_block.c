/* From a devcontainer.json to what a sandbox takes over of it.
 *
 * One table says of every known member what becomes of it: a reader, a warning with a code, or nothing because it only
 * concerns editors. A member that is in no table is warned about: it may be newer than this program, or a slip. What
 * would weaken the isolation, or change what runs without a word, is an error instead.
 *
 * The members of an object have no order; two things depend on others and are read at the end: user, and the place of
 * the workspace. Values are checked like those of a block (check.c), and each message carries the place of the value.
 */
#include "check.h"
#include "devcontainer_priv.h"
#include "devcontainer_vars.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENV = 4096 };

int dc_bad(const struct dc_reader *r, const json_t *at, const char *field, const char *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	auto_free char *why = xvasprintf(fmt, ap);
	va_end(ap);
	(void)err_set(r->e, ERR_INPUT, EINVAL, "%s", why);
	err_hint(r->e, "%s", hint);
	return dc_wrap(r, at, field, -EINVAL);
}

int dc_wrap(const struct dc_reader *r, const json_t *at, const char *field, int code)
{
	(void)err_wrap(r->e, code, "devcontainer %s", field);
	return jsonc_at(&r->d->doc, at, code, r->e);
}

void dc_warn(const struct dc_reader *r, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	auto_free char *text = xvasprintf(fmt, ap);
	va_end(ap);
	strv_take(&r->out->spec.warnings, xasprintf("%s=%s: %s", code, r->d->shown, text));
}

void dc_source(const struct dc_reader *r, const char *field)
{
	strv_set_env(&r->out->spec.sources, field, r->d->shown);
}

int dc_text(const struct dc_reader *r, json_t *v, const char *field, const char **ret)
{
	if (!json_is_string(v))
		return dc_bad(r, v, field, "write a string in double quotes", "it is not a string");
	if (str_has_control(json_string_value(v)))
		return dc_bad(r, v, field, "take it out", "it holds a control character");
	*ret = json_string_value(v);
	return 0;
}

int dc_set_env(const struct dc_reader *r, const json_t *at, const char *field, struct strv *to, const char *name,
	       const char *value)
{
	if (check_env_name(name, strlen(name), r->e) < 0 || check_env_value(value, r->e) < 0)
		return dc_wrap(r, at, field, -EINVAL);
	if (to->n >= MAX_ENV)
		return dc_bad(r, at, field, "put them in a file of the workspace", "more than %d variables", MAX_ENV);
	strv_set_env(to, name, value);
	return 0;
}

/* An object of strings. unset (may be NULL): where names with null as value go. */
static int read_map(const struct dc_reader *r, json_t *v, const char *field, const char *source, struct strv *to,
		    bool null_unsets)
{
	const char *key;
	json_t *value;

	if (!json_is_object(v))
		return dc_bad(r, v, field, "write { \"NAME\": \"value\" }", "it is not an object");
	json_object_foreach(v, key, value)
	{
		auto_free char *member = xasprintf("%s.%.60s", field, key);
		bool unset = null_unsets && json_is_null(value);
		if (!unset && !json_is_string(value))
			return dc_bad(r, value, member, "write a string in double quotes", "it is not a string");
		int bad = dc_set_env(r, value, member, to, key, unset ? "" : json_string_value(value));
		if (bad < 0)
			return bad;
		/* The entry is the last one, since names are unique here. */
		if (unset)
			to->v[to->n - 1][strlen(key)] = '\0';
		auto_free char *of = source ? xasprintf("%s.%.60s", source, key) : NULL;
		if (of)
			dc_source(r, of);
	}
	return 0;
}

static int read_container_env(struct dc_reader *r, json_t *v, const char *field)
{
	return read_map(r, v, field, "env", &r->out->spec.env, false);
}

static int read_remote_env(struct dc_reader *r, json_t *v, const char *field)
{
	return read_map(r, v, field, "env", &r->out->spec.remote_env, true);
}

/* A string with a check of its own, copied. */
static int copy_checked(const struct dc_reader *r, json_t *v, const char *field,
			int (*check)(const char *, struct err *), char **ret)
{
	const char *s = NULL;
	int bad = dc_text(r, v, field, &s);

	if (bad < 0 || !s)
		return bad;
	if (check(s, r->e) < 0)
		return dc_wrap(r, v, field, -EINVAL);
	free(*ret);
	*ret = xstrdup(s);
	return 0;
}

static int read_image(struct dc_reader *r, json_t *v, const char *field)
{
	dc_source(r, "image");
	return copy_checked(r, v, field, check_image, &r->out->spec.image);
}

/* A path from the file's folder becomes one from the workspace, which it must not leave. */
static int copy_build_path(const struct dc_reader *r, json_t *v, const char *field, char **ret)
{
	const char *s = NULL;
	int bad = dc_text(r, v, field, &s);

	if (bad < 0 || !s)
		return bad;
	if (!*s)
		return dc_bad(r, v, field, "write the path from the folder of this file", "it is empty");
	auto_free char *base = path_parent(r->d->path);
	auto_free char *joined = path_join(base, s);
	auto_free char *clean = path_clean(joined);
	if (!clean || !path_within(clean, r->d->workspace))
		return dc_bad(r, v, field,
			      "the Dockerfile and the context lie in the workspace; the path starts at "
			      "the folder of this file",
			      "it leaves the workspace");
	const char *below = clean + (str_eq(r->d->workspace, "/") ? 1 : strlen(r->d->workspace));
	below += *below == '/';
	free(*ret);
	*ret = xstrdup(*below ? below : ".");
	if (check_build_path(*ret, r->e) < 0)
		return dc_wrap(r, v, field, -EINVAL);
	return 0;
}

static int read_cache_from(const struct dc_reader *r, json_t *v)
{
	static const char field[] = "build.cacheFrom";
	size_t n = json_is_array(v) ? json_array_size(v) : 1;

	for (size_t i = 0; i < n; i++) {
		json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
		char *copy = NULL;
		int bad = copy_checked(r, one, field, check_image, &copy);
		if (bad < 0)
			return bad;
		strv_take(&r->out->spec.build.cache_from, copy);
	}
	return 0;
}

static int read_dockerfile(struct dc_reader *r, json_t *v, const char *field)
{
	dc_source(r, "build");
	return copy_build_path(r, v, field, &r->out->spec.build.dockerfile);
}

static int read_context(struct dc_reader *r, json_t *v, const char *field)
{
	return copy_build_path(r, v, field, &r->out->spec.build.context);
}

static int read_build_member(struct dc_reader *r, const char *key, json_t *v)
{
	static const char *const keys[] = {"dockerfile", "context", "args", "target", "cacheFrom", "options"};
	auto_free char *field = xasprintf("build.%.60s", key);
	struct sandbox_build *b = &r->out->spec.build;

	if (str_eq(key, "dockerfile"))
		return read_dockerfile(r, v, field);
	if (str_eq(key, "context"))
		return read_context(r, v, field);
	if (str_eq(key, "args"))
		return read_map(r, v, field, NULL, &b->args, false);
	if (str_eq(key, "target"))
		return copy_checked(r, v, field, check_build_target, &b->target);
	if (str_eq(key, "cacheFrom"))
		return read_cache_from(r, v);
	const char *near = str_nearest(key, keys, ARRAY_LEN(keys));
	if (str_eq(key, "options"))
		dc_warn(r, "devcontainer_build_options",
			"build.options is not used: builds take dockerfile, context, "
			"args, target and cacheFrom");
	else
		dc_warn(r, "devcontainer_unknown", "%s is not known%s%s", field, near ? "; did you mean build." : "",
			near ? near : "");
	return 0;
}

static int read_build(struct dc_reader *r, json_t *v, const char *field)
{
	const char *key;
	json_t *member;

	if (!json_is_object(v))
		return dc_bad(r, v, field, "write { \"dockerfile\": \"Dockerfile\" }", "it is not an object");
	json_object_foreach(v, key, member)
	{
		int bad = read_build_member(r, key, member);
		if (bad < 0)
			return bad;
	}
	if (!json_object_get(v, "dockerfile"))
		return dc_bad(r, v, field, "write { \"dockerfile\": \"Dockerfile\" }", "dockerfile is missing");
	return 0;
}

static int read_compose(struct dc_reader *r, json_t *v, const char *field)
{
	return dc_bad(r, v, field,
		      "give image or build here for the one container that the run works in; start the "
		      "other services beside it and name them in network.rules",
		      "a group of Compose services is no sandbox");
}

static int read_later(struct dc_reader *r, json_t *v, const char *field)
{
	(void)r;
	(void)v;
	(void)field;
	return 0;
}

/* Everything that has a meaning here. */
static const struct {
	const char *name;
	int (*read)(struct dc_reader *r, json_t *v, const char *field);
} readers[] = {
	{"image", read_image},
	{"build", read_build},
	{"dockerFile", read_dockerfile},
	{"context", read_context},
	{"containerEnv", read_container_env},
	{"remoteEnv", read_remote_env},
	{"mounts", dc_read_mounts},
	{"runArgs", dc_read_run_args},
	{"capAdd", dc_read_cap_add},
	{"securityOpt", dc_read_security_opt},
	{"init", dc_read_init},
	{"privileged", dc_read_privileged},
	{"remoteUser", read_later},
	{"containerUser", read_later},
	{"workspaceFolder", read_later},
	{"workspaceMount", read_later},
	{"onCreateCommand", dc_read_command},
	{"updateContentCommand", dc_read_command},
	{"postCreateCommand", dc_read_command},
	{"postStartCommand", dc_read_command},
	{"dockerComposeFile", read_compose},
	{"configFilePath", read_later}, /* put in by the reader itself */
};

/* What is left out with a word. */
static const struct {
	const char *name, *code, *why;
} unused[] = {
	{"initializeCommand", "devcontainer_initialize_command",
	 "it would run on the host, which a sandbox exists to prevent"},
	{"features", "devcontainer_features", "features are not installed; use an image that has what they bring"},
	{"forwardPorts", "devcontainer_forward_ports", "no port of a sandbox is opened on the host"},
	{"appPort", "devcontainer_app_port", "no port of a sandbox is opened on the host"},
	{"customizations", "devcontainer_customizations", "they are for editors"},
	{"postAttachCommand", "devcontainer_post_attach_command", "nobody attaches to a run"},
	{"hostRequirements", "devcontainer_host_requirements",
	 "they are not checked; limits are set by the limits: of a sandbox: block"},
	{"secrets", "devcontainer_secrets", "secrets are given by the secrets: of a sandbox: block"},
	{"overrideFeatureInstallOrder", "devcontainer_features", "features are not installed"},
	{"service", "devcontainer_compose", "it is for Compose"},
	{"runServices", "devcontainer_compose", "it is for Compose"},
};

/* What changes nothing here, as it should: texts, editors' settings, and what a sandbox does anyway. */
static const char *const ignored[] = {
	"$schema",	   "name",	     "updateRemoteUserUID", "userEnvProbe",	    "waitFor",
	"overrideCommand", "shutdownAction", "portsAttributes",	    "otherPortsAttributes",
};

static bool is_ignored(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		if (str_eq(key, ignored[i]))
			return true;
	return false;
}

static void warn_unknown(const struct dc_reader *r, const char *key)
{
	const char *names[ARRAY_LEN(readers) + ARRAY_LEN(unused)];
	size_t n = 0;
	auto_buf shown = BUF_INIT(512);

	for (size_t i = 0; i < ARRAY_LEN(readers); i++)
		names[n++] = readers[i].name;
	for (size_t i = 0; i < ARRAY_LEN(unused); i++)
		names[n++] = unused[i].name;
	const char *near = str_nearest(key, names, n);
	(void)text_neutralise(&shown, key, strnlen(key, 60));
	dc_warn(r, "devcontainer_unknown", "\"%s\" is not known%s%s", buf_str(&shown), near ? "; did you mean " : "",
		near ? near : "");
}

static int read_member(struct dc_reader *r, const char *key, json_t *v)
{
	for (size_t i = 0; i < ARRAY_LEN(readers); i++)
		if (str_eq(key, readers[i].name))
			return json_is_null(v) ? 0 : readers[i].read(r, v, key);
	for (size_t i = 0; i < ARRAY_LEN(unused); i++) {
		if (str_eq(key, unused[i].name)) {
			dc_warn(r, unused[i].code, "%s is not used: %s", key, unused[i].why);
			return 0;
		}
	}
	if (!is_ignored(key))
		warn_unknown(r, key);
	return 0;
}

/* Programs run as remoteUser, and when it is not given as containerUser. */
static int read_user(struct dc_reader *r)
{
	json_t *remote = json_object_get(r->root, "remoteUser"), *container = json_object_get(r->root, "containerUser");
	char *other = NULL;
	int bad = 0;

	if (container && !json_is_null(container))
		bad = copy_checked(r, container, "containerUser", check_user, &r->out->spec.user);
	if (bad == 0 && remote && !json_is_null(remote))
		bad = copy_checked(r, remote, "remoteUser", check_user, &other);
	if (bad < 0) {
		free(other);
		return bad;
	}
	if (other && r->out->spec.user && !str_eq(other, r->out->spec.user))
		dc_warn(r, "devcontainer_container_user",
			"containerUser %s is not used: everything runs as "
			"remoteUser %s",
			r->out->spec.user, other);
	if (other) {
		free(r->out->spec.user);
		r->out->spec.user = other;
	}
	if (r->out->spec.user)
		dc_source(r, "user");
	return 0;
}

static int finish_build(struct dc_reader *r)
{
	struct sandbox_build *b = &r->out->spec.build;
	const json_t *image = json_object_get(r->root, "image");

	if (b->dockerfile && r->out->spec.image)
		return dc_bad(r, image, "image", "keep image for one that exists, or build for one that is built",
			      "image and build stand together");
	if (!b->dockerfile && b->context)
		return dc_bad(r, json_object_get(r->root, "context"), "context", "add dockerFile, or take it out",
			      "there is no dockerFile that it could belong to");
	if (b->dockerfile && !b->context) {
		/* The folder of the Dockerfile, as the reference has it. */
		auto_free char *base = path_join("/", b->dockerfile);
		auto_free char *parent = path_parent(base);
		b->context = xstrdup(parent[1] ? parent + 1 : ".");
	}
	return 0;
}

static int read_all(struct dc_reader *r)
{
	const char *key;
	json_t *v;

	json_object_foreach(r->root, key, v)
	{
		int bad = read_member(r, key, v);
		if (bad < 0)
			return bad;
	}
	int bad = read_user(r);
	if (bad == 0)
		bad = finish_build(r);
	return bad < 0 ? bad : dc_read_workspace(r);
}

int devcontainer_to_block(struct devcontainer *d, struct sandbox_block *ret, struct err *e)
{
	struct sandbox_block out = {0};
	struct err own = ERR_INIT;
	struct dc_reader r = {.d = d, .root = d->doc.root, .out = &out, .e = e ? e : &own};

	int bad = dc_expand_id(d, r.e);
	if (bad == 0)
		bad = read_all(&r);
	if (bad < 0) {
		sandbox_block_done(&out);
		return bad;
	}
	*ret = out;
	return 0;
}

int devcontainer_take(const char *workspace, const char *asked, const char *const *env, const char *folder,
		      struct sandbox_block *ret, bool *ret_there, struct err *e)
{
	auto_devcontainer_file file = {0};
	auto_devcontainer d = NULL;
	int r = 0;

	if (!asked)
		r = devcontainer_find(workspace, &file, e);
	else if (!str_eq(asked, "none"))
		r = devcontainer_read(workspace, asked, &file, e);
	if (r == 0 && file.path) {
		const struct devcontainer_params p = {
			.workspace = workspace,
			.path = file.path,
			.env = env,
			.folder = folder,
			.default_folder = workspace,
		};
		r = devcontainer_load(&p, file.text, file.len, &d, e);
	}
	if (r == 0 && d)
		r = devcontainer_to_block(d, ret, e);
	if (r == 0)
		*ret_there = d != NULL;
	return r;
}
