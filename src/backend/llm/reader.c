/* Reading one streamed answer: events become blocks, blocks the message.
 *
 * A provider's server is trusted with the conversation but not with this process: counts, lengths and nesting are
 * bounded, and an event that is not what is documented ends the answer. An answer counts only when the stream said that
 * it is complete; one that broke off is asked for again. */
#include "api.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_SHOWN = 400, COUNT_MAX = 1000000000, BAD_INPUT_SHOWN = 2000 };

struct llm_reader *llm_reader_new(enum llm_api api, const json_t *tools, llm_text_cb on_text, void *arg)
{
	static const struct llm_ops *const all[N_LLM_APIS] = {&llm_anthropic, &llm_responses, &llm_chat};
	struct llm_reader *r = xcalloc(1, sizeof *r);

	*r = (struct llm_reader){.ops = all[api], .tools = tools, .on_text = on_text, .arg = arg};
	sse_init(&r->sse, LLM_ANSWER_MAX + 64 * 1024);
	return r;
}

void llm_reader_free(struct llm_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++) {
		buf_done(&r->blocks[i].text);
		buf_done(&r->blocks[i].seal);
		free(r->blocks[i].id);
		free(r->blocks[i].name);
	}
	free(r->blocks);
	sse_done(&r->sse);
	free(r);
}

struct llm_block *reader_block(const struct llm_reader *r, long long index)
{
	for (size_t i = r->n; i > 0; i--)
		if (r->blocks[i - 1].index == index)
			return &r->blocks[i - 1];
	return NULL;
}

struct llm_block *reader_add(struct llm_reader *r, enum block_kind kind, long long index)
{
	if (r->n == LLM_BLOCKS_MAX) {
		r->failed = -EMSGSIZE;
		return NULL;
	}
	r->blocks = grow_array(r->blocks, r->n, &r->cap, sizeof *r->blocks);
	struct llm_block *b = &r->blocks[r->n++];
	*b = (struct llm_block){
		.kind = kind, .index = index, .text = BUF_INIT(LLM_ANSWER_MAX), .seal = BUF_INIT(LLM_ANSWER_MAX)};
	return b;
}

static int add(struct llm_reader *r, struct buf *to, const char *text, size_t len)
{
	r->total += len;
	return r->total > LLM_ANSWER_MAX || buf_add(to, text, len) < 0 ? -EMSGSIZE : 0;
}

int reader_text(struct llm_reader *r, struct llm_block *b, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	int bad = len ? add(r, &b->text, text, len) : 0;

	if (bad == 0 && len && r->on_text && (b->kind == BLOCK_TEXT || b->kind == BLOCK_THINKING))
		r->on_text(r->arg, b->kind == BLOCK_THINKING, text, len);
	return bad;
}

int reader_seal(struct llm_reader *r, struct llm_block *b, const char *text)
{
	return text ? add(r, &b->seal, text, strlen(text)) : 0;
}

int64_t reader_count(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n < 0 ? 0 : n > COUNT_MAX ? COUNT_MAX : n;
}

/* The HTTP status that the same failure has when it comes before the stream. */
static int status_of(const char *type)
{
	static const struct {
		const char *type;
		int status;
	} known[] = {
		{"overloaded_error", 529},     {"rate_limit_error", 429},
		{"rate_limit_exceeded", 429},  {"api_error", 500},
		{"server_error", 500},	       {"timeout_error", 504},
		{"server_is_overloaded", 503}, {"invalid_request_error", 400},
		{"authentication_error", 401}, {"permission_error", 403},
		{"not_found_error", 404},      {"request_too_large", 413},
	};

	for (size_t i = 0; type && i < ARRAY_LEN(known); i++)
		if (str_eq(type, known[i].type))
			return known[i].status;
	return 0;
}

int reader_refused(struct llm_reader *r, const json_t *error)
{
	const char *message = json_get_str(error, "message"), *type = json_get_str(error, "type");
	const char *code = json_get_str(error, "code");
	auto_buf shown = BUF_INIT(4 * MESSAGE_SHOWN);

	r->status = status_of(code ? code : type);
	if (message)
		(void)text_neutralise(&shown, message, strnlen(message, MESSAGE_SHOWN));
	(void)err_set(r->e, ERR_NETWORK, EREMOTEIO, "the provider ended its answer: %s",
		      shown.len ? buf_str(&shown) : "it does not say why");
	return r->failed = -EREMOTEIO;
}

static bool on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct llm_reader *r = arg;

	/* The end of a stream of Chat Completions. */
	if (len == 6 && memcmp(data, "[DONE]", 6) == 0)
		return true;
	auto_json j = json_parse_value(data, len, NULL);
	int bad = json_is_object(j) ? r->ops->on_event(r, name, j) : -EPROTO;
	if (bad < 0 && !r->failed)
		r->failed = bad;
	return r->failed == 0;
}

int llm_reader_feed(struct llm_reader *r, const char *data, size_t len, int *ret_status, struct err *e)
{
	if (r->failed)
		return r->failed;
	r->e = e;
	int bad = sse_feed(&r->sse, data, len, on_event, r);
	r->e = NULL;
	if (bad < 0 && !r->failed)
		r->failed = bad;
	if (r->failed == -EMSGSIZE) {
		(void)err_set(e, ERR_NETWORK, EMSGSIZE, "the provider's answer is larger than %d bytes",
			      LLM_ANSWER_MAX);
		err_hint(e, "lower max_tokens of the node");
	} else if (r->failed == -EPROTO) {
		(void)err_set(e, ERR_NETWORK, EPROTO,
			      "the provider's answer is not a stream of the events that its interface has");
		err_hint(e, "look whether the base URL names a server that speaks this interface");
	}
	*ret_status = r->status;
	return r->failed;
}

static const char *own_name(const json_t *tools, const char *wire, size_t i)
{
	const char *name = json_get_str(json_array_get(tools, i), "name");
	auto_free char *spelled = name ? llm_tool_name(name) : NULL;

	return str_eq(spelled, wire) ? name : NULL;
}

/* The tool's own name. */
static const char *name_back(const struct llm_reader *r, const char *wire)
{
	for (size_t i = 0; i < json_array_size(r->tools); i++) {
		const char *own = own_name(r->tools, wire, i);
		if (own)
			return own;
	}
	return wire;
}

/* A call's input. What is no object is handed on as text under a name that no tool has, so that the tool refuses it
 * and the model hears why. */
static json_t *input_of(const struct llm_block *b)
{
	json_t *j = b->text.len ? json_parse_value(b->text.data, b->text.len, NULL) : json_object();

	if (json_is_object(j))
		return j;
	json_decref(j);
	j = json_object();
	json_put(j, "_not_json", json_text(buf_str(&b->text), MIN(b->text.len, (size_t)BAD_INPUT_SHOWN)));
	return j;
}

static json_t *block_json(const struct llm_reader *r, const struct llm_block *b)
{
	json_t *o = json_object();

	if (b->kind == BLOCK_TOOL) {
		json_put_str(o, "type", "tool_use");
		json_put_str(o, "id", b->id);
		json_put_str(o, "name", name_back(r, b->name));
		json_put(o, "input", input_of(b));
	} else if (b->kind == BLOCK_SEALED) {
		json_put_str(o, "type", "redacted_thinking");
		json_put(o, "data", json_text(buf_str(&b->seal), b->seal.len));
	} else {
		const char *kind = b->kind == BLOCK_THINKING ? "thinking" : "text";
		json_put_str(o, "type", kind);
		json_put(o, kind, json_text(buf_str(&b->text), b->text.len));
		if (b->seal.len)
			json_put(o, "signature", json_text(buf_str(&b->seal), b->seal.len));
	}
	return o;
}

static bool is_empty(const struct llm_block *b)
{
	return b->kind != BLOCK_TOOL && !b->text.len && !b->seal.len;
}

int llm_reader_end(struct llm_reader *r, struct llm_answer *ret, struct err *e)
{
	bool calls = false;

	if (!r->complete) {
		int bad = err_set(e, ERR_NETWORK, ECONNRESET, "the provider's answer broke off before its end");
		err_hint(e, "try again later; a proxy on the way may end long requests");
		return bad;
	}
	json_t *content = json_array();
	for (size_t i = 0; i < r->n; i++) {
		calls |= r->blocks[i].kind == BLOCK_TOOL;
		if (!is_empty(&r->blocks[i]))
			(void)json_array_append_new(content, block_json(r, &r->blocks[i]));
	}
	const char *reason = r->stop_reason ? r->stop_reason : "end_turn";
	/* Some servers say "stop" although there are calls. */
	if (calls && str_eq(reason, "end_turn"))
		reason = "tool_use";
	*ret = (struct llm_answer){.message = json_object(), .stop_reason = reason, .usage = r->usage};
	json_put_str(ret->message, "role", "assistant");
	json_put(ret->message, "content", content);
	return 0;
}

void llm_answer_done(struct llm_answer *a)
{
	json_decref(TAKE_PTR(a->message));
}

char *llm_error_text(const char *body, size_t len)
{
	auto_json j = json_parse_value(body, len, NULL);
	const json_t *error = json_object_get(j, "error");
	const char *message = json_is_string(error) ? json_string_value(error) : json_get_str(error, "message");
	auto_buf text = BUF_INIT(4 * MESSAGE_SHOWN);

	if (!message)
		message = json_get_str(j, "message");
	if (message)
		(void)text_neutralise(&text, message, strnlen(message, MESSAGE_SHOWN));
	else if (body)
		(void)text_neutralise(&text, body, MIN(len, (size_t)MESSAGE_SHOWN));
	for (char *c = text.data; c && *c; c++)
		if (*c == '\n' || *c == '\t')
			*c = ' ';
	return buf_steal(&text);
}
