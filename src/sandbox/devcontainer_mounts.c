/* mounts, and where the workspace stands.
 *
 * A mount of devcontainer.json is a string of docker's --mount or an object of the same three keys. workspaceMount says
 * what stands at workspaceFolder; here that is always the workspace. So its source must be the workspace, or a folder
 * around it (a subfolder of a repository was opened), which is then mounted beside it. Anything else would make the run
 * work in other files than the ones it was started for. Whether a source is sensitive is looked at when it is mounted,
 * with its symlinks resolved. */
#include "check.h"
#include "devcontainer_priv.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/mount.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MOUNTS = 20000 };

static void mount_done(struct sandbox_mount *m)
{
	free(m->source);
	free(m->key);
	free(m->target);
	free(m->origin);
}
#define auto_mount __attribute__((cleanup(mount_done))) struct sandbox_mount

static int take(const struct dc_reader *r, const json_t *at, const char *field, struct sandbox_mount *m)
{
	if (r->out->spec.n_mounts >= MAX_MOUNTS)
		return dc_bad(r, at, field, "mount a folder that holds them", "more than %d mounts", MAX_MOUNTS);
	m->origin = xstrdup(r->d->shown);
	*sandbox_spec_add_mount(&r->out->spec) = *m;
	*m = (struct sandbox_mount){0};
	return 0;
}

int dc_add_mount(const struct dc_reader *r, const json_t *at, const char *field, const char *text)
{
	auto_mount m = {0};

	if (sandbox_mount_parse(text, &m, r->e) < 0)
		return dc_wrap(r, at, field, -EINVAL);
	return take(r, at, field, &m);
}

static int set_type(const struct dc_reader *r, const json_t *v, const char *type, struct sandbox_mount *m)
{
	for (enum mount_type t = MOUNT_BIND; t <= MOUNT_TMPFS; t++) {
		if (str_eq(type, mount_type_name(t))) {
			m->type = t;
			return 0;
		}
	}
	return dc_bad(r, v, "mounts.type", "the types are bind, volume and tmpfs", "\"%.60s\" is no type of mount",
		      type);
}

static int set_member(const struct dc_reader *r, const char *key, json_t *v, struct sandbox_mount *m)
{
	static const char *const keys[] = {"type", "source", "target"};
	auto_free char *field = xasprintf("mounts.%.60s", key);
	const char *text;

	if (str_eq(key, "external")) {
		/* Whether somebody else makes the volume: here it is used when it is there and made when not. */
		return json_is_boolean(v) ? 0 : dc_bad(r, v, field, "write true or false", "it is no boolean");
	}
	int bad = dc_text(r, v, field, &text);
	if (bad < 0)
		return bad;
	if (str_eq(key, "type"))
		return set_type(r, v, text, m);
	if (str_eq(key, "source") || str_eq(key, "target")) {
		char **to = *key == 's' ? &m->source : &m->target;
		*to = xstrdup(text);
		return 0;
	}
	const char *near = str_nearest(key, keys, ARRAY_LEN(keys));
	auto_free char *hint = near ? xasprintf("did you mean \"%s\"?", near)
				    : xstrdup("a mount object has type, source and target; write a string for more");
	return dc_bad(r, v, field, hint, "it is no member of a mount");
}

static void clean(char **path)
{
	char *cleaned = *path ? path_clean(*path) : NULL;

	if (!cleaned)
		return;
	free(*path);
	*path = cleaned;
}

static int read_object(struct dc_reader *r, json_t *v)
{
	auto_mount m = {0};
	const char *key;
	json_t *member;

	if (!json_object_get(v, "type"))
		return dc_bad(r, v, "mounts", "add \"type\": \"bind\", \"volume\" or \"tmpfs\"", "a mount has no type");
	json_object_foreach(v, key, member)
	{
		int bad = set_member(r, key, member, &m);
		if (bad < 0)
			return bad;
	}
	if (sandbox_mount_check(&m, r->e) < 0)
		return dc_wrap(r, v, "mounts", -EINVAL);
	if (m.type == MOUNT_BIND)
		clean(&m.source);
	clean(&m.target);
	return take(r, v, "mounts", &m);
}

int dc_read_mounts(struct dc_reader *r, json_t *v, const char *field)
{
	json_t *one;
	size_t i;

	if (!json_is_array(v))
		return dc_bad(r, v, field, "write a list: [\"type=bind,source=…,target=…\"]", "it is not a list");
	json_array_foreach(v, i, one)
	{
		const char *text = NULL;
		int bad = json_is_object(one) ? read_object(r, one) : dc_text(r, one, field, &text);
		if (bad == 0 && text)
			bad = dc_add_mount(r, one, field, text);
		if (bad < 0)
			return bad;
	}
	return 0;
}

/* workspaceFolder as a clean path; NULL when it is not given. */
static int read_folder(struct dc_reader *r, char **ret)
{
	json_t *v = json_object_get(r->root, "workspaceFolder");
	const char *text;

	if (!v || json_is_null(v))
		return 0;
	int bad = dc_text(r, v, "workspaceFolder", &text);
	if (bad < 0)
		return bad;
	if (check_workspace_folder(text, r->e) < 0)
		return dc_wrap(r, v, "workspaceFolder", -EINVAL);
	*ret = path_clean(text);
	return 0;
}

static const char workspace_hint[] =
	"take workspaceMount out, or write source=${localWorkspaceFolder},target=…,type=bind";

/* The mount must show the workspace; *ret_place is where it then stands inside. */
static int place_of(struct dc_reader *r, json_t *v, const struct sandbox_mount *m, char **ret_place)
{
	static const char field[] = "workspaceMount";

	if (m->type != MOUNT_BIND || !path_within(r->d->workspace, m->source))
		return dc_bad(r, v, field, workspace_hint, "it puts something else in the place of the workspace");
	if (m->readonly)
		return dc_bad(r, v, field, "take readonly out", "a run has to write to its workspace");
	const char *below = r->d->workspace + (str_eq(m->source, "/") ? 0 : strlen(m->source));
	*ret_place = xasprintf("%s%s", m->target, below);
	return 0;
}

/* What is wanted of workspaceMount besides the place. */
static int read_mount(struct dc_reader *r, json_t *v, const char *folder, char **ret_place)
{
	static const char field[] = "workspaceMount";
	auto_free char *place = NULL;
	auto_mount m = {0};
	const char *text;

	int bad = dc_text(r, v, field, &text);
	if (bad < 0)
		return bad;
	if (!*text)
		return dc_bad(r, v, field, workspace_hint, "it is empty, and a run cannot be without its workspace");
	if (sandbox_mount_parse(text, &m, r->e) < 0)
		return dc_wrap(r, v, field, -EINVAL);
	bad = place_of(r, v, &m, &place);
	if (bad == 0 && check_workspace_folder(place, r->e) < 0)
		bad = dc_wrap(r, v, field, -EINVAL);
	if (bad == 0 && folder && !path_within(folder, m.target))
		bad = dc_bad(r, json_object_get(r->root, "workspaceFolder"), "workspaceFolder",
			     "name the target of workspaceMount, or a folder below it",
			     "it does not lie in what workspaceMount shows");
	if (bad == 0 && folder && !str_eq(folder, place))
		dc_warn(r, "devcontainer_workspace_folder",
			"programs start in the workspace, %s, and not in "
			"workspaceFolder %s",
			place, folder);
	if (bad == 0 && !str_eq(m.source, r->d->workspace))
		bad = take(r, v, field, &m);
	if (bad < 0)
		return bad;
	*ret_place = TAKE_PTR(place);
	return 0;
}

int dc_read_workspace(struct dc_reader *r)
{
	json_t *v = json_object_get(r->root, "workspaceMount");
	auto_free char *folder = NULL;
	char *place = NULL;

	int bad = read_folder(r, &folder);
	if (bad == 0 && v && !json_is_null(v))
		bad = read_mount(r, v, folder, &place);
	if (bad < 0)
		return bad;
	r->out->spec.workspace_folder = place ? place : TAKE_PTR(folder);
	if (r->out->spec.workspace_folder)
		dc_source(r, "workspace_folder");
	return 0;
}
