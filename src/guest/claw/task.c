/* The task envelope: every field is checked for its type and its bounds before the loop relies on it. A table says
 * which field goes where; what is absent or null has its default. */
#include "task.h"

#include <base/clock.h>
#include <base/err.h>
#include <base/id.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HOST_TOOLS = 1024, MAX_NAMES = 4096 };

static int wrong(struct err *e, const char *field, const char *want)
{
	int r = err_set(e, ERR_PROTOCOL, EPROTO, "read the task: %s is not %s", field, want);

	err_hint(e, "Launcher and runner differ: use an iterion-guest of the same release.");
	return r;
}

static bool absent(struct jv v)
{
	return jv_type(v) == J_MISSING || jv_type(v) == J_NULL;
}

static char *raw_copy(struct jv v)
{
	size_t len;
	const char *raw = jv_raw(v, &len);

	return xstrndup(raw, len);
}

static const struct {
	const char *name;
	size_t at;
} strings[] = {
	{"node_id", offsetof(struct task, node_id)},
	{"system_prompt", offsetof(struct task, system_prompt)},
	{"user_prompt", offsetof(struct task, user_prompt)},
	{"model", offsetof(struct task, model)},
	{"reasoning_effort", offsetof(struct task, reasoning_effort)},
	{"work_dir", offsetof(struct task, work_dir)},
	{"session_id", offsetof(struct task, session_id)},
	{"resume_pending_tool_use_id", offsetof(struct task, pending_tool_use_id)},
};

static int read_strings(struct jv data, struct task *t, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
		struct jv v = jv_get(data, strings[i].name);
		char **to = (char **)((char *)t + strings[i].at);
		if (absent(v))
			continue;
		*to = jv_cstr(v);
		if (!*to)
			return wrong(e, strings[i].name, "a string");
	}
	/* Somebody's answer may be any value: what is no string is handed on as its JSON. */
	struct jv answer = jv_get(data, "resume_answer");
	if (!absent(answer))
		t->answer = jv_type(answer) == J_STRING ? jv_text(answer, NULL) : raw_copy(answer);
	return 0;
}

static const struct {
	const char *name;
	size_t at;
	long long least, most, usual;
} numbers[] = {
	{"tool_max_steps", offsetof(struct task, max_steps), 1, 100000, 50},
	{"max_tokens", offsetof(struct task, max_tokens), 1, 10000000, 8192},
	{"compact_preserve_recent", offsetof(struct task, preserve_recent), 1, 10000, 4},
	{"context_window", offsetof(struct task, context_window), 1, 1000000000, 200000},
};

static int read_numbers(struct jv data, struct task *t, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		struct jv v = jv_get(data, numbers[i].name);
		long long *to = (long long *)(void *)((char *)t + numbers[i].at);
		*to = numbers[i].usual;
		if (absent(v))
			continue;
		if (!jv_int(v, to) || *to < numbers[i].least || *to > numbers[i].most)
			return wrong(e, numbers[i].name, "a whole number within its bounds");
	}
	struct jv ratio = jv_get(data, "compact_threshold_ratio");
	t->compact_ratio = 0.8;
	if (!absent(ratio) && (!jv_number(ratio, &t->compact_ratio) || t->compact_ratio <= 0 || t->compact_ratio > 1))
		return wrong(e, "compact_threshold_ratio", "a number above 0 and at most 1");
	return 0;
}

static int read_flag(struct jv data, const char *name, bool *to, struct err *e)
{
	struct jv v = jv_get(data, name);

	return absent(v) || jv_bool(v, to) ? 0 : wrong(e, name, "true or false");
}

static int read_names(struct jv data, const char *name, struct strv *to, struct err *e)
{
	struct jv v = jv_get(data, name);

	if (absent(v))
		return 0;
	if (jv_type(v) != J_ARRAY)
		return wrong(e, name, "a list of strings");
	for (struct jv x = jv_first(v); x.doc; x = jv_next(x)) {
		char *s = jv_cstr(x);
		if (!s)
			return wrong(e, name, "a list of strings");
		strv_take(to, s);
		if (to->n > MAX_NAMES)
			return wrong(e, name, "a list of at most 4096 strings");
	}
	return 0;
}

static int read_host_tools(struct jv data, struct task *t, struct err *e)
{
	struct jv v = jv_get(data, "tool_defs");
	size_t cap = 0;

	if (absent(v))
		return 0;
	if (jv_type(v) != J_ARRAY)
		return wrong(e, "tool_defs", "a list of tools");
	for (struct jv x = jv_first(v); x.doc; x = jv_next(x)) {
		struct jv schema = jv_get(x, "input_schema");
		char *name = jv_cstr(jv_get(x, "name"));
		if (!name || !name[0] || jv_type(schema) != J_OBJECT || t->n_host_tools >= MAX_HOST_TOOLS) {
			free(name);
			return wrong(e, "tool_defs", "a list of at most 1024 tools with name and input_schema");
		}
		char *description = jv_cstr(jv_get(x, "description"));
		t->host_tools = grow_array(t->host_tools, t->n_host_tools, &cap, sizeof *t->host_tools);
		t->host_tools[t->n_host_tools++] = (struct host_tool){
			.name = name,
			.description = description ? description : xstrdup(""),
			.schema = raw_copy(schema),
		};
	}
	return 0;
}

/* An object or list that is kept as text. */
static int read_json(struct jv data, const char *name, enum jtype type, char **to, struct err *e)
{
	struct jv v = jv_get(data, name);

	if (absent(v))
		return 0;
	if (jv_type(v) != type)
		return wrong(e, name, type == J_OBJECT ? "an object" : "a list");
	*to = raw_copy(v);
	return 0;
}

static void set_session(struct task *t, bool fork_session)
{
	char id[UUID_SIZE];

	if (t->session_id && t->session_id[0] && !fork_session)
		return;
	id_uuid7(id, clock_wall_ms());
	free(t->session_id);
	t->session_id = xstrdup(id);
}

static int read_all(struct jv data, struct task *t, struct err *e)
{
	bool fork_session = false;
	int r = read_strings(data, t, e);

	if (r == 0)
		r = read_numbers(data, t, e);
	if (r == 0)
		r = read_flag(data, "interaction_enabled", &t->interaction, e);
	if (r == 0)
		r = read_flag(data, "readonly", &t->readonly, e);
	if (r == 0)
		r = read_flag(data, "fork_session", &fork_session, e);
	if (r == 0)
		r = read_names(data, "allowed_tools", &t->allowed_tools, e);
	if (r == 0)
		r = read_names(data, "tool_policy", &t->tool_policy, e);
	if (r == 0)
		r = read_host_tools(data, t, e);
	if (r == 0)
		r = read_json(data, "output_schema", J_OBJECT, &t->output_schema, e);
	if (r == 0)
		r = read_json(data, "resume_conversation", J_ARRAY, &t->conversation, e);
	if (r == 0 && !t->user_prompt)
		r = wrong(e, "user_prompt", "there");
	t->all_tools = absent(jv_get(data, "allowed_tools"));
	set_session(t, fork_session);
	return r;
}

int task_parse(struct jv data, struct task *ret, struct err *e)
{
	struct task t = {0};
	int r = jv_type(data) == J_OBJECT ? read_all(data, &t, e) : wrong(e, "data", "an object");

	if (r < 0) {
		task_done(&t);
		return r;
	}
	*ret = t;
	return 0;
}

void task_done(struct task *t)
{
	for (size_t i = 0; i < ARRAY_LEN(strings); i++)
		free(*(char **)((char *)t + strings[i].at));
	for (size_t i = 0; i < t->n_host_tools; i++) {
		free(t->host_tools[i].name);
		free(t->host_tools[i].description);
		free(t->host_tools[i].schema);
	}
	free(t->host_tools);
	strv_done(&t->allowed_tools);
	strv_done(&t->tool_policy);
	free(t->output_schema);
	free(t->conversation);
	free(t->answer);
	*t = (struct task){0};
}
