/* What a program tells of its work. It is hostile: the number of events of one run is bounded, so is the number of tool
 * calls that are remembered, and each text in an event is short. */
#include "turn.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

enum {
	EVENTS_MAX = 20000,
	CALLS_MAX = 256,
	SESSION_MAX = 128,		 /* characters of a conversation's name */
	WORD_MAX = 128,			 /* bytes of a tool's or a model's name */
	PREVIEW_BYTES = PREVIEW_MAX * 4, /* of UTF-8 */
};

void turn_init(struct agent_turn *t)
{
	*t = (struct agent_turn){.cost_usd = -1, .calls = json_object()};
}

void turn_done(struct agent_turn *t)
{
	free(t->session);
	free(t->model);
	free(t->text);
	free(t->error);
	for (size_t i = 0; i < ANSWERS_MAX; i++)
		free(t->answers[i].id);
	json_decref(t->structured);
	json_decref(t->calls);
	*t = (struct agent_turn){0};
}

void turn_set(char **field, const char *text)
{
	if (!text)
		return;
	free(*field);
	*field = xstrdup(text);
}

bool turn_is_session(const char *id)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

	return *id && *id != '-' && strlen(id) <= SESSION_MAX && id[strspn(id, allowed)] == '\0';
}

void turn_set_session(struct agent_turn *t, const char *id)
{
	if (id && turn_is_session(id))
		turn_set(&t->session, id);
}

int64_t turn_tokens(const json_t *number)
{
	json_int_t n = json_integer_value(number);

	return MAX(0, MIN(n, (json_int_t)1 << 40));
}

static json_t *word(const char *s)
{
	return json_text(s ? s : "", s ? strnlen(s, WORD_MAX) : 0);
}

static void emit(struct agent_turn *t, const struct agent_sink *sink, const char *type, json_t *data)
{
	if (t->events++ < EVENTS_MAX)
		sink->emit(sink->arg, type, data);
	else
		json_decref(data);
}

void turn_asks(struct agent_turn *t, const struct agent_sink *sink, const char *backend, const char *model)
{
	if (t->asking)
		return;
	t->asking = true;
	json_t *d = json_object();
	json_put_str(d, "backend", backend);
	if (model)
		json_put(d, "model", word(model));
	json_put_str(d, "purpose", "step");
	emit(t, sink, "llm_request", d);
}

static void put_usage(json_t *data, const struct agent_usage *u)
{
	json_put_int(data, "input_tokens", u->input);
	json_put_int(data, "output_tokens", u->output);
	json_put_int(data, "cache_read_tokens", u->cache_read);
	json_put_int(data, "cache_write_tokens", u->cache_write);
}

/* The pieces of one answer tell its counts again and again, and the later ones may be larger. */
static void take_usage(struct agent_turn *t, struct agent_usage *seen, const struct agent_usage *u)
{
	const struct agent_usage more = {
		.input = MAX(0, u->input - seen->input),
		.output = MAX(0, u->output - seen->output),
		.cache_read = MAX(0, u->cache_read - seen->cache_read),
		.cache_write = MAX(0, u->cache_write - seen->cache_write),
	};

	usage_add(&t->told, &more);
	usage_add(seen, &more);
}

static struct agent_answer *answer_of(struct agent_turn *t, const char *id)
{
	for (size_t i = 0; id && i < ANSWERS_MAX; i++)
		if (t->answers[i].id && str_eq(t->answers[i].id, id))
			return &t->answers[i];
	return NULL;
}

void turn_step(struct agent_turn *t, const struct agent_sink *sink, const char *id, const char *model,
	       const struct agent_usage *u)
{
	struct agent_answer *answer = answer_of(t, id);
	bool known = answer != NULL;

	t->asking = false;
	if (!known) {
		answer = &t->answers[t->n_answers++ % ANSWERS_MAX];
		free(answer->id);
		*answer = (struct agent_answer){.id = id ? xstrdup(id) : NULL};
	}
	if (u)
		take_usage(t, &answer->usage, u);
	if (known)
		return;
	turn_set(&t->model, model);
	t->steps++;
	json_t *d = json_object();
	json_put_int(d, "step", t->steps);
	if (t->model)
		json_put(d, "model", word(t->model));
	if (u)
		put_usage(d, u);
	emit(t, sink, "llm_step_finished", d);
}

const struct agent_usage *turn_usage(const struct agent_turn *t)
{
	/* A failure may tell nothing. */
	return t->ended && usage_total(&t->usage) > 0 ? &t->usage : &t->told;
}

double turn_cost(const struct agent_turn *t, const char *model)
{
	if (t->cost_usd >= 0)
		return t->cost_usd;
	return t->steps ? price_usd(t->model ? t->model : model, &t->told) : -1;
}

/* The one argument of most tools says it all; else the whole input. */
static json_t *preview_of(const json_t *input)
{
	static const char *const telling[] = {"command", "cmd", "file_path", "path", "pattern", "url", "query"};
	const char *s = NULL;

	for (size_t i = 0; !s && i < ARRAY_LEN(telling); i++)
		s = json_get_str(input, telling[i]);
	char *whole = s || !input ? NULL : json_compact(input);
	if (!s)
		s = whole;
	size_t len = s ? strnlen(s, PREVIEW_BYTES) : 0, chars = 0, end = 0;
	for (; end < len; end++) {
		if (((unsigned char)s[end] & 0xc0) != 0x80 && chars++ == PREVIEW_MAX)
			break;
	}
	json_t *j = json_text(s ? s : "", end);
	free(whole);
	return j;
}

void turn_tool_begins(struct agent_turn *t, const struct agent_sink *sink, const char *id, const char *tool,
		      const json_t *input)
{
	json_t *d = json_object();

	t->asking = false;
	json_put(d, "tool", word(tool));
	if (id)
		json_put(d, "tool_use_id", word(id));
	json_put(d, "preview", preview_of(input));
	if (id && json_object_size(t->calls) < CALLS_MAX)
		json_put(t->calls, id, json_incref(d));
	emit(t, sink, "tool_started", json_deep_copy(d));
	json_decref(d);
}

void turn_tool_ends(struct agent_turn *t, const struct agent_sink *sink, const char *id, size_t output_len,
		    bool is_error)
{
	json_t *known = id ? json_object_get(t->calls, id) : NULL;

	if (!known)
		return;
	json_t *d = json_copy(known);
	json_put_int(d, "output_len", (long long)output_len);
	if (is_error)
		json_put_bool(d, "is_error", true);
	(void)json_object_del(t->calls, id);
	emit(t, sink, "tool_called", d);
}
