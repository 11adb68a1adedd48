/* The commands of a container's life: a string is for a shell, a list is a program with its arguments, an object is
 * several of either that run at once. An empty one is none, as the reference has it. */
#include "devcontainer_priv.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

enum { MAX_COMMANDS = 64, MAX_ARGS = 4096 };

static enum sandbox_stage stage_of(const char *field)
{
	static const char *const names[STAGE_COUNT] = {
		[STAGE_ON_CREATE] = "onCreateCommand",
		[STAGE_UPDATE_CONTENT] = "updateContentCommand",
		[STAGE_POST_CREATE] = "postCreateCommand",
		[STAGE_POST_START] = "postStartCommand",
	};
	unsigned s = 0;

	while (s < STAGE_COUNT - 1 && !str_eq(names[s], field))
		s++;
	return (enum sandbox_stage)s;
}

static int read_args(const struct dc_reader *r, json_t *v, const char *name, struct sandbox_command *to)
{
	json_t *one;
	size_t i;

	if (json_array_size(v) > MAX_ARGS)
		return dc_bad(r, v, name, "put them in a script", "more than %d arguments", MAX_ARGS);
	json_array_foreach(v, i, one)
	{
		if (!json_is_string(one))
			return dc_bad(r, one, name, "write every argument in double quotes", "it is not a string");
		strv_add(&to->argv, json_string_value(one));
	}
	if (!to->argv.v[0][0])
		return dc_bad(r, v, name, "name the program first", "the program's name is empty");
	return 0;
}

static bool is_blank(const char *s)
{
	return !s[strspn(s, " \t\n\r\v\f")];
}

static int read_one(const struct dc_reader *r, json_t *v, const char *name, enum sandbox_stage stage)
{
	if (!json_is_string(v) && !json_is_array(v))
		return dc_bad(r, v, name, "write a string for a shell, or a list of program and arguments",
			      "it is no command");
	if (json_is_string(v) ? is_blank(json_string_value(v)) : json_array_size(v) == 0)
		return 0;
	struct sandbox_command *c = lifecycle_add(&r->out->spec.lifecycle, stage, name);
	if (json_is_array(v))
		return read_args(r, v, name, c);
	strv_add(&c->argv, "/bin/sh");
	strv_add(&c->argv, "-c");
	strv_add(&c->argv, json_string_value(v));
	return 0;
}

int dc_read_command(struct dc_reader *r, json_t *v, const char *field)
{
	enum sandbox_stage stage = stage_of(field);
	const char *key;
	json_t *member;

	dc_source(r, field);
	if (!json_is_object(v))
		return read_one(r, v, field, stage);
	if (json_object_size(v) > MAX_COMMANDS)
		return dc_bad(r, v, field, "put them in a script", "more than %d commands at once", MAX_COMMANDS);
	json_object_foreach(v, key, member)
	{
		auto_free char *name = xasprintf("%s.%.100s", field, key);
		int bad = read_one(r, member, name, stage);
		if (bad < 0)
			return bad;
	}
	return 0;
}
