/* Tools that are served on this side: WebFetch and those of MCP servers. Which of them the node may use is asked again
 * here, because what the runner says it was told counts for nothing. A tool that fails is an answer like others: the
 * model reads it and goes on. Images of an MCP tool go along as such, for models that see. */
#include "claw.h"

#include "run.h"

#include <base/buf.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a result's text, and of the base64 of its images: the runner keeps so much of one message's results. */
enum { OUTPUT_MAX = 1024 * 1024, IMAGES_MAX = 1024 * 1024 };

/* images is taken; NULL: none. */
static void answer(struct claw_serving *s, const char *text, size_t len, json_t *images, const char *error)
{
	struct node_exec *x = s->x;
	json_t *d = json_object();
	size_t kept = MIN(len, (size_t)OUTPUT_MAX);

	json_put(d, "output", json_text(text ? text : "", text ? kept : 0));
	json_put_str(d, "error", error);
	if (json_array_size(images))
		json_put(d, "images", json_incref(images));
	json_decref(images);
	claw_send(x, "tool_result", s->id, d);
	if (!x->err.kind)
		claw_served(s);
}

static void on_fetched(void *arg, const char *text, size_t len, const struct err *e)
{
	struct claw_serving *s = arg;

	s->fetch = NULL;
	answer(s, text, len, NULL, e ? e->msg : NULL);
}

static void on_called(void *arg, const struct mcp_result *r, const struct err *e)
{
	struct claw_serving *s = arg;
	const char *text = r && r->text ? r->text : "";
	const char *failure = r && r->is_error ? (*text ? text : "the tool failed") : NULL;

	/* Most of those that speak Chat Completions take text only. */
	bool shown = r && !r->is_error && s->x->target.api != LLM_CHAT;

	s->op = NULL;
	answer(s, text, strlen(text), shown ? mcp_result_images(r, IMAGES_MAX) : NULL, e ? e->msg : failure);
}

static bool is_offered(const struct node_exec *x, const char *name)
{
	for (size_t i = 0; i < json_array_size(x->tools); i++)
		if (str_eq(json_get_str(json_array_get(x->tools, i), "name"), name))
			return true;
	return false;
}

void claw_call_tool(struct claw_serving *s, const json_t *data)
{
	struct node_exec *x = s->x;
	const char *name = json_get_str(data, "name");
	const json_t *input = json_object_get(data, "input");
	struct err e = ERR_INIT;
	int r;

	s->name = xstrdup(name ? name : "");
	if (!is_offered(x, s->name) || claw_forbids(x, s->name))
		r = err_set(&e, ERR_INPUT, EPERM, "tool %.100s: this node may not use it", s->name);
	else if (!json_is_object(input))
		r = err_set(&e, ERR_INPUT, EINVAL, "tool %.100s: its input is no object", s->name);
	else if (str_eq(s->name, "WebFetch"))
		r = fetch_start(backend_run_http(x->task.shared), x->task.session, input, on_fetched, s, &s->fetch, &e);
	else
		r = mcp_call(&x->task, s->name, input, 0, on_called, s, &s->op, &e);
	if (r < 0)
		answer(s, NULL, 0, NULL, e.msg);
}
