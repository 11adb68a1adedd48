/* The conversation with a server: the hand-shake, the list of its tools page by page, calls, and what it says unasked.
 *
 * We offer no capabilities, so a server has nothing to ask for but a ping: every other request of its is refused as
 * unknown. Of its notifications only progress and a changed list of tools mean something; its log goes to ours. What it
 * answers to nobody's question is dropped: it may have been given up. A text that is no message ends the server, but
 * for lines that do not even begin like one, which careless programs print. */
#include "names.h"
#include "rpc.h"
#include "server_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	METHOD_NOT_FOUND = -32601, /* JSON-RPC 2.0 §5.1 */
	CURSOR_MAX = 4 * 1024,
	DESCRIPTION_MAX = 16 * 1024,
	SCHEMA_MAX = 256 * 1024,
	TOOLS_MAX = 1024 * 1024, /* bytes of all descriptions and schemas: a model reads them with every request */
	TITLE_SHOWN = 100,
	LOG_SHOWN = 500,
};

/* Newest first. All have the same calls of those used here; they differ in transport and in what content there is. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static int off(struct mcp_server *s, struct err *e, const char *why)
{
	int r = err_set(e, ERR_PROTOCOL, EPROTO, "MCP server %s: %s", s->spec.name, why);

	err_hint(e, "the server does not keep to the protocol; a newer version of it may");
	return r;
}

static int send_text(struct mcp_server *s, char *text, int64_t id, struct err *e)
{
	int r = link_send(s->link, text, strlen(text), id, e);

	free(text);
	return r;
}

static int ask(struct mcp_server *s, const char *method, json_t *params,
	       int (*step)(struct mcp_server *s, const json_t *result, struct err *e), struct err *e)
{
	s->step_id = ++s->last_id;
	s->step = step;
	return send_text(s, rpc_request(s->step_id, method, params), s->step_id, e);
}

/* --- tools/list --- */

static bool harmless(const json_t *tool)
{
	const json_t *a = json_object_get(tool, "annotations");

	return json_is_true(json_object_get(a, "readOnlyHint")) || json_is_true(json_object_get(a, "idempotentHint"));
}

static bool listed(const json_t *tools, const char *name)
{
	size_t i;
	json_t *t;

	json_array_foreach(tools, i, t) if (str_eq(json_get_str(t, "name"), name)) return true;
	return false;
}

/* NULL, or why the tool cannot be used. *size is what all take so far. */
static const char *add_tool(json_t *to, const json_t *tool, size_t *size)
{
	const char *name = json_get_str(tool, "name"), *said = json_get_str(tool, "description");
	const char *description = said ? said : "";
	json_t *schema = json_object_get(tool, "inputSchema");
	size_t schema_len = schema ? json_dumpb(schema, NULL, 0, JSON_COMPACT) : 0;
	size_t len = strnlen(description, (size_t)DESCRIPTION_MAX);

	if (!name || !mcp_tool_name_good(name))
		return "its name is none that can be called";
	if (listed(to, name))
		return "there is one of that name";
	if (schema && !json_is_object(schema))
		return "its schema is no object";
	if (schema_len > SCHEMA_MAX)
		return "its schema is too large";
	*size += len + schema_len;
	if (*size > TOOLS_MAX)
		return "what all its tools say of themselves is too much";
	json_t *o = json_object();
	json_put_str(o, "name", name);
	/* A cut within a character is mended by json_text. */
	json_put(o, "description", json_text(description, len));
	json_put(o, "input_schema", schema ? json_incref(schema) : json_pack("{s:s}", "type", "object"));
	json_put_bool(o, "harmless", harmless(tool));
	(void)json_array_append_new(to, o);
	return NULL;
}

static void log_left_out(const struct mcp_server *s, const json_t *tool, const char *why)
{
	auto_buf name = BUF_INIT(1024);
	const char *said = json_get_str(tool, "name");

	(void)text_neutralise(&name, said ? said : "?", said ? strnlen(said, TITLE_SHOWN) : 1);
	log_warn("MCP server %s: its tool %s is left out: %s", s->spec.name, buf_str(&name), why);
}

static int on_page(struct mcp_server *s, const json_t *result, struct err *e);

static int ask_page(struct mcp_server *s, struct err *e)
{
	auto_json params = s->cursor ? json_object() : NULL;

	if (s->cursor)
		json_put_str(params, "cursor", s->cursor);
	return ask(s, "tools/list", params, on_page, e);
}

static int on_page(struct mcp_server *s, const json_t *result, struct err *e)
{
	const json_t *tools = json_object_get(result, "tools");
	const char *next = json_get_str(result, "nextCursor");
	size_t i;
	json_t *tool;

	if (!json_is_array(tools))
		return off(s, e, "its list of tools is none");
	json_array_foreach(tools, i, tool)
	{
		if (json_array_size(s->listing) == MCP_TOOLS_MAX)
			return off(s, e, "it has too many tools");
		const char *why = add_tool(s->listing, tool, &s->listing_size);
		if (why)
			log_left_out(s, tool, why);
	}
	if (!next || !*next) {
		json_decref(s->tools);
		s->tools = TAKE_PTR(s->listing);
		s->stale = false;
		s->step_id = 0;
		server_ready(s);
		return 0;
	}
	if (++s->pages == MCP_PAGES_MAX || strlen(next) > CURSOR_MAX || str_eq(next, s->cursor))
		return off(s, e, "its list of tools does not end");
	free(s->cursor);
	s->cursor = xstrdup(next);
	return ask_page(s, e);
}

int talk_list(struct mcp_server *s, struct err *e)
{
	json_decref(s->listing);
	s->listing = json_array();
	s->listing_size = 0;
	free(TAKE_PTR(s->cursor));
	s->pages = 0;
	if (s->has_tools)
		return ask_page(s, e);
	json_decref(s->tools);
	s->tools = TAKE_PTR(s->listing);
	server_ready(s);
	return 0;
}

/* --- initialize --- */

static void take_title(struct mcp_server *s, const json_t *info)
{
	const char *name = json_get_str(info, "name"), *version = json_get_str(info, "version");
	auto_buf title = BUF_INIT(16 * TITLE_SHOWN);

	if (name)
		(void)text_neutralise(&title, name, strnlen(name, TITLE_SHOWN));
	if (version) {
		(void)buf_putc(&title, ' ');
		(void)text_neutralise(&title, version, strnlen(version, TITLE_SHOWN));
	}
	free(s->title);
	s->title = buf_steal(&title);
}

static int on_initialized(struct mcp_server *s, const json_t *result, struct err *e)
{
	const char *version = json_get_str(result, "protocolVersion");

	s->version = NULL;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (str_eq(versions[i], version))
			s->version = versions[i];
	if (!version)
		return off(s, e, "it does not name its version of the protocol");
	if (!s->version) {
		auto_buf shown = BUF_INIT(1024);
		(void)text_neutralise(&shown, version, strnlen(version, TITLE_SHOWN));
		int r = err_set(e, ERR_UNSUPPORTED, ENOTSUP, "MCP server %s: it speaks version %s of the protocol",
				s->spec.name, buf_str(&shown));
		err_hint(e, "versions %s to %s are known", versions[ARRAY_LEN(versions) - 1], versions[0]);
		return r;
	}
	s->has_tools = json_object_get(json_object_get(result, "capabilities"), "tools") != NULL;
	take_title(s, json_object_get(result, "serverInfo"));
	link_agree(s->link, s->version);
	int r = send_text(s, rpc_notification("notifications/initialized", NULL), 0, e);
	return r < 0 ? r : talk_list(s, e);
}

int talk_begin(struct mcp_server *s, struct err *e)
{
	auto_json params = json_object();
	json_t *info = json_object();

	json_put_str(info, "name", "iterion");
	json_put_str(info, "version", ITERION_VERSION);
	json_put_str(params, "protocolVersion", versions[0]);
	json_put(params, "capabilities", json_object());
	json_put(params, "clientInfo", info);
	return ask(s, "initialize", params, on_initialized, e);
}

/* --- calls --- */

int server_call(struct mcp_server *s, struct server_call *c, const char *tool, json_t *input, struct err *e)
{
	auto_json params = json_object();
	json_t *meta = json_object();

	if (s->state != SERVER_READY)
		return err_set(e, ERR_NODE, EPIPE, "MCP server %s: it is not ready", s->p.spec->name);
	c->id = ++s->last_id;
	json_put_int(meta, "progressToken", c->id);
	json_put_str(params, "name", tool);
	json_put(params, "arguments", json_incref(input));
	json_put(params, "_meta", meta);
	char *text = rpc_request(c->id, "tools/call", params);
	if (strlen(text) > RPC_MESSAGE_MAX) {
		free(text);
		int r = err_set(e, ERR_INPUT, E2BIG, "MCP server %s: the input of %s is larger than %d MiB",
				s->spec.name, tool, RPC_MESSAGE_MAX / 1024 / 1024);
		err_hint(e, "pass large values by files");
		return r;
	}
	int r = send_text(s, text, c->id, e);
	if (r < 0)
		return r;
	c->next = s->calls;
	s->calls = c;
	return 0;
}

static struct server_call *take_call(struct mcp_server *s, int64_t id)
{
	for (struct server_call **p = &s->calls; *p; p = &(*p)->next) {
		struct server_call *c = *p;
		if (c->id != id)
			continue;
		*p = c->next;
		return c;
	}
	return NULL;
}

void server_abandon(struct mcp_server *s, struct server_call *c, const char *why)
{
	struct server_call *mine = s->calls;

	while (mine && mine != c)
		mine = mine->next;
	if (!mine)
		return;
	(void)take_call(s, c->id);
	if (s->state != SERVER_READY)
		return;
	auto_json params = json_object();
	json_put_int(params, "requestId", c->id);
	json_put_str(params, "reason", why);
	link_forget(s->link, c->id);
	(void)send_text(s, rpc_notification("notifications/cancelled", params), 0, NULL);
}

/* --- what comes --- */

static void answered(struct mcp_server *s, const struct rpc_message *m)
{
	auto_buf said = BUF_INIT(16 * RPC_ERROR_SHOWN);
	struct err e = ERR_INIT;

	if (m->kind == RPC_ERROR) {
		(void)text_neutralise(&said, m->text, strnlen(m->text, RPC_ERROR_SHOWN));
		(void)err_set(&e, ERR_NODE, EREMOTEIO, "MCP server %s: error %lld: %s", s->spec.name,
			      (long long)m->code, buf_str(&said));
		err_hint(&e, "these are the server's own words");
	}
	if (m->number > 0 && m->number == s->step_id) {
		s->step_id = 0;
		if (m->kind == RPC_ERROR || s->step(s, m->result, &e) < 0)
			server_down(s, &e);
		return;
	}
	struct server_call *c = m->number > 0 ? take_call(s, m->number) : NULL;
	if (c)
		c->on_answer(c->arg, m->result, m->kind == RPC_ERROR ? &e : NULL, false);
}

static void requested(struct mcp_server *s, const struct rpc_message *m)
{
	auto_json nothing = json_object();

	if (str_eq(m->method, "ping"))
		(void)send_text(s, rpc_reply(m->id, nothing), 0, NULL);
	else
		(void)send_text(s, rpc_refuse(m->id, METHOD_NOT_FOUND, "iterion offers no such method"), 0, NULL);
}

static void progressed(struct mcp_server *s, const json_t *params)
{
	const json_t *token = json_object_get(params, "progressToken");

	for (const struct server_call *c = s->calls; c; c = c->next) {
		if (json_is_integer(token) && json_integer_value(token) == c->id) {
			c->on_progress(c->arg);
			return;
		}
	}
}

static void log_said(const struct mcp_server *s, const json_t *params)
{
	json_t *data = json_object_get(params, "data");
	auto_free char *text = data ? json_compact(data) : NULL;
	auto_buf line = BUF_INIT(16 * LOG_SHOWN);

	if (!text)
		return;
	(void)text_neutralise(&line, text, strnlen(text, LOG_SHOWN));
	log_debug("MCP server %s: %s", s->spec.name, buf_str(&line));
}

static void on_rpc(void *arg, const struct rpc_message *m)
{
	struct mcp_server *s = arg;

	/* The rest of a batch whose beginning ended the server. */
	if (!s->link || (s->state != SERVER_STARTING && s->state != SERVER_READY))
		return;
	if (m->kind == RPC_REQUEST)
		requested(s, m);
	else if (m->kind != RPC_NOTIFICATION)
		answered(s, m);
	else if (str_eq(m->method, "notifications/progress"))
		progressed(s, m->params);
	else if (str_eq(m->method, "notifications/tools/list_changed"))
		s->stale = true;
	else if (str_eq(m->method, "notifications/message"))
		log_said(s, m->params);
}

void talk_message(struct mcp_server *s, const char *text, size_t len)
{
	struct err e = ERR_INIT;
	size_t at = 0;

	while (at < len && strchr(" \t\r\n", text[at]))
		at++;
	if (at == len || (text[at] != '{' && text[at] != '[')) {
		log_debug("MCP server %s: a line of its output is no message", s->spec.name);
		return;
	}
	if (rpc_read(text, len, on_rpc, s, &e) == 0 || s->state == SERVER_CLOSING || s->state == SERVER_IDLE)
		return;
	(void)err_wrap(&e, -EPROTO, "MCP server %s", s->spec.name);
	err_hint(&e, "the server does not keep to the protocol; a newer version of it may");
	server_down(s, &e);
}

bool talk_is_waiting(const struct mcp_server *s, int64_t id)
{
	const struct server_call *c = s->calls;

	while (c && c->id != id)
		c = c->next;
	return c || (id > 0 && id == s->step_id);
}

void talk_failed(struct mcp_server *s, int64_t id, const struct err *e)
{
	if (id > 0 && id == s->step_id) {
		server_down(s, e);
		return;
	}
	struct server_call *c = take_call(s, id);
	if (c)
		c->on_answer(c->arg, NULL, e, true);
}
