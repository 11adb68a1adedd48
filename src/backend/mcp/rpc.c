/* Reading and writing JSON-RPC messages.
 *
 * The text comes from a program or a host that nobody vouches for. Its length is bounded before it comes here; here its
 * number of values is, by a look at the text before the parser builds anything, since a message of nothing but empty
 * objects takes a hundred times its own size. Then each message is taken apart once: what does not have the form of one
 * of the four kinds is a protocol error, and the fields of a good one need no second look. */
#include "rpc.h"

#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* A bound on the values in a JSON text: each but the first stands behind one of these. */
static bool too_many_values(const char *s, size_t len)
{
	size_t n = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		if (in_string) {
			if (s[i] == '\\')
				i++;
			else if (s[i] == '"')
				in_string = false;
			continue;
		}
		if (s[i] == '"')
			in_string = true;
		else if (s[i] == '[' || s[i] == '{' || s[i] == ',' || s[i] == ':')
			n++;
	}
	return n > RPC_VALUES_MAX;
}

static int bad(struct err *e, const char *why)
{
	return err_set(e, ERR_PROTOCOL, EPROTO, "not a JSON-RPC message: %s", why);
}

static bool good_id(const json_t *id)
{
	return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= RPC_ID_MAX);
}

static int read_call(json_t *o, struct rpc_message *m, struct err *e)
{
	json_t *id = json_object_get(o, "id"), *params = json_object_get(o, "params");

	m->method = json_get_str(o, "method");
	if (!m->method || !*m->method || strlen(m->method) > RPC_METHOD_MAX)
		return bad(e, "the method is no short string");
	if (id && !good_id(id))
		return bad(e, "the id is neither a whole number nor a short string");
	/* Positional parameters exist in JSON-RPC, but MCP has none. */
	if (params && !json_is_object(params))
		return bad(e, "params is no object");
	m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
	m->id = id;
	m->params = params;
	return 0;
}

static int read_answer(json_t *o, struct rpc_message *m, struct err *e)
{
	json_t *id = json_object_get(o, "id"), *error = json_object_get(o, "error");

	m->result = json_object_get(o, "result");
	if (!m->result == !error)
		return bad(e, "it needs either a method, a result or an error");
	if (json_is_integer(id) && json_integer_value(id) > 0)
		m->number = json_integer_value(id);
	if (m->result) {
		m->kind = RPC_RESULT;
		return 0;
	}
	json_t *code = json_object_get(error, "code");
	m->text = json_get_str(error, "message");
	if (!json_is_integer(code) || !m->text)
		return bad(e, "its error has no code or no message");
	m->kind = RPC_ERROR;
	m->code = json_integer_value(code);
	return 0;
}

static int read_one(json_t *o, rpc_sink sink, void *arg, struct err *e)
{
	struct rpc_message m = {.number = -1};
	const char *version = json_get_str(o, "jsonrpc");

	if (!json_is_object(o))
		return bad(e, "it is no object");
	if (!version || strcmp(version, "2.0") != 0)
		return bad(e, "it does not say \"jsonrpc\": \"2.0\"");
	int r = json_object_get(o, "method") ? read_call(o, &m, e) : read_answer(o, &m, e);
	if (r == 0)
		sink(arg, &m);
	return r;
}

int rpc_read(const char *text, size_t len, rpc_sink sink, void *arg, struct err *e)
{
	if (len > RPC_MESSAGE_MAX)
		return bad(e, "it is too long");
	if (too_many_values(text, len))
		return bad(e, "it holds too many values");
	auto_json doc = json_parse_value(text, len, e);
	if (!doc) {
		if (e)
			e->kind = ERR_PROTOCOL;
		return err_wrap(e, -EPROTO, "not a JSON-RPC message");
	}
	if (!json_is_array(doc))
		return read_one(doc, sink, arg, e);
	size_t n = json_array_size(doc);
	if (n == 0 || n > RPC_BATCH_MAX)
		return bad(e, "a batch of no message, or of too many");
	for (size_t i = 0; i < n; i++) {
		int r = read_one(json_array_get(doc, i), sink, arg, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static char *finish(json_t *o)
{
	json_put_str(o, "jsonrpc", "2.0");
	char *text = json_compact(o);
	json_decref(o);
	return text;
}

static json_t *call(const char *method, json_t *params)
{
	json_t *o = json_object();

	json_put_str(o, "method", method);
	if (params)
		json_put(o, "params", json_incref(params));
	return o;
}

char *rpc_request(int64_t id, const char *method, json_t *params)
{
	json_t *o = call(method, params);

	json_put_int(o, "id", id);
	return finish(o);
}

char *rpc_notification(const char *method, json_t *params)
{
	return finish(call(method, params));
}

char *rpc_reply(json_t *id, json_t *result)
{
	json_t *o = json_object();

	json_put(o, "id", json_incref(id));
	json_put(o, "result", json_incref(result));
	return finish(o);
}

char *rpc_refuse(json_t *id, int code, const char *why)
{
	json_t *o = json_object(), *error = json_object();

	json_put(o, "id", json_incref(id));
	json_put_int(error, "code", code);
	json_put_str(error, "message", why);
	json_put(o, "error", error);
	return finish(o);
}
