#include "stub_backend.h"

#include <backend/backend.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stub_backend stub_backend;

struct node_exec {
	struct node_task task;
	struct node_callbacks cb;
	const struct stub_answer *answer;
	uv_idle_t idle;
	unsigned steps;
	bool cancelled;
};

static json_t *parse(const char *text)
{
	json_t *j = json_parse(text, strlen(text), NULL);

	if (!j)
		abort();
	return j;
}

static void on_closed(uv_handle_t *h)
{
	struct node_exec *x = h->data;
	auto_json output = parse(x->answer->first);
	struct err e = ERR_INIT;

	if (x->cancelled && x->answer->steps)
		(void)err_set(&e, ERR_CANCELLED, ECANCELED, "cancelled");
	else if (x->answer->second && x->cb.check(x->cb.arg, output, &e) < 0) {
		stub_backend.repairs++;
		json_decref(output);
		output = parse(x->answer->second);
	}
	auto_json details = json_object();
	json_put_str(details, "_session_id", x->answer->session);
	const struct node_result r = {.output = output,
				      .details = details,
				      .cost_usd = 0.5,
				      .cancelled = x->cancelled,
				      .tokens = x->answer->steps ? 10 * x->steps : 100};
	x->cb.on_done(x->cb.arg, &r, r.cancelled && x->answer->steps ? &e : NULL);
	free(x);
}

static void on_idle(uv_idle_t *idle)
{
	struct node_exec *x = idle->data;

	if (!x->cancelled && x->steps < x->answer->steps) {
		x->cb.on_usage(x->cb.arg, 10 * x->steps, -1, true);
		if (!x->cancelled)
			x->cb.on_usage(x->cb.arg, 10 * ++x->steps, -1, false);
		return;
	}
	uv_close((uv_handle_t *)idle, on_closed);
}

static void note(const struct agent_task *a)
{
	auto_buf b = BUF_INIT(1 << 16);

	(void)buf_printf(&b, "%s|%s|%s|", a->model ? a->model : "", a->system ? a->system : "", a->user ? a->user : "");
	for (size_t i = 0; a->choices && a->choices[i]; i++)
		(void)buf_printf(&b, "%s ", a->choices[i]);
	free(stub_backend.seen);
	stub_backend.seen = buf_steal(&b);
}

static void note_conversation(const struct node_task *t)
{
	const struct agent_task *a = t->agent;
	char *longer = xasprintf("%s%s=%s%s%s ", stub_backend.heard ? stub_backend.heard : "", t->node_id,
				 a->session_id ? a->session_id : "", a->fork_session ? "*" : "",
				 a->session_optional ? "?" : "");

	free(stub_backend.heard);
	stub_backend.heard = longer;
}

static int start(const struct node_task *t, const struct node_callbacks *cb, struct node_exec **ret, struct err *e)
{
	const struct stub_answer *found = NULL;

	stub_backend.starts++;
	note(t->agent);
	note_conversation(t);
	for (size_t i = 0; i < stub_backend.n; i++)
		if (str_eq(stub_backend.answers[i].node, t->node_id))
			found = &stub_backend.answers[i];
	if (!found || !found->first)
		return err_set(e, ERR_NODE, ENOTCONN, "node %s: the model does not answer", t->node_id);
	struct node_exec *x = xcalloc(1, sizeof *x);
	*x = (struct node_exec){.task = *t, .cb = *cb, .answer = found};
	(void)uv_idle_init(t->loop, &x->idle);
	x->idle.data = x;
	(void)uv_idle_start(&x->idle, on_idle);
	*ret = x;
	return 0;
}

static void cancel(struct node_exec *x, enum node_cancel how)
{
	(void)how;
	x->cancelled = true;
}

static const struct backend_ops stub = {.name = "claw", .start = start, .cancel = cancel};

void stub_backend_begin(const struct stub_answer *answers, size_t n)
{
	stub_backend_end();
	stub_backend = (struct stub_backend){.answers = answers, .n = n};
	backend_register(&stub);
}

void stub_backend_end(void)
{
	free(TAKE_PTR(stub_backend.seen));
	free(TAKE_PTR(stub_backend.heard));
}
