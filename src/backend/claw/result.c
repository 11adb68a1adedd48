/* What a node under claw comes to: its output, or which of many ends it was. The most telling failure is named: what
 * this side found wrong, what the provider refused, what the runner itself says, and only then how its program ended.
 */
#include "claw.h"

#include "agent/answer.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/limits.h>

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { SHOWN = 600 };

static int not_run(const struct node_exec *x, int errnum, struct err *e)
{
	int r = err_sys(e, errnum, "node %s: run claw's runner, %s", x->task.node_id, x->guest);

	err_set_kind(e, ERR_NODE);
	err_hint(e, errnum == ENOENT ? "iterion-guest is not where the node runs: use a driver that brings it, or name "
				       "it by ITERION_BIN"
				     : "the image must let programs below /run/iterion be executed");
	return r;
}

static int died(const struct node_exec *x, const struct runner_end *end, struct err *e)
{
	const struct exec_status *st = &end->status;
	const char *words = end->stderr_text, *between = *words ? ": " : "";
	const char *name = st->end == EXEC_SIGNALED ? sigabbrev_np(st->code) : NULL;

	if (st->end == EXEC_LOST)
		(void)err_set(e, ERR_SANDBOX, ECONNRESET, "node %s: the sandbox ended while claw's runner was at work",
			      x->task.node_id);
	else if (st->end == EXEC_NOT_FOUND)
		return not_run(x, st->code, e);
	else if (end->torn)
		(void)err_set(e, ERR_PROTOCOL, EPROTO, "node %s: claw's runner ended within a line%s%.300s",
			      x->task.node_id, between, words);
	else if (st->end == EXEC_SIGNALED)
		(void)err_set(e, ERR_NODE, ECONNRESET, "node %s: claw's runner died twice, by signal %d%s%s%s%.300s",
			      x->task.node_id, st->code, name ? " (SIG" : "", name ? name : "", name ? ")" : "", words);
	else
		(void)err_set(e, ERR_NODE, ECONNRESET,
			      "node %s: claw's runner ended without a result, exit code %d%s%.300s", x->task.node_id,
			      st->code, between, words);
	limits_explain(st, e);
	err_hint(e, "`iterion resume` goes on with its conversation from the last finished step");
	return -e->errnum;
}

static int runner_says(const struct node_exec *x, const char *text, struct err *e)
{
	auto_buf shown = BUF_INIT(16 * SHOWN);

	(void)text_neutralise(&shown, text, strnlen(text, SHOWN));
	int r = err_set(e, ERR_NODE, EPROTO, "node %s: %s", x->task.node_id, buf_str(&shown));
	err_hint(e, "its events and its conversation in the run's folder show what it did; tool_max_steps and "
		    "max_tokens bound it");
	return r;
}

/* The output as a value that other documents can hold, whatever the runner put into it. */
static int take_output(struct node_exec *x, struct err *e)
{
	const json_t *output = json_object_get(x->result, "output");
	auto_free char *text = json_is_object(output) ? json_compact(output) : NULL;

	x->output = text ? json_parse_value(text, strlen(text), NULL) : NULL;
	if (x->output)
		return 0;
	return err_set(e, ERR_PROTOCOL, EPROTO, "the output of claw's runner is no object that can be used");
}

static int final_check(struct node_exec *x, struct err *e)
{
	int r = take_output(x, e);

	if (r == 0)
		r = x->cb.check(x->cb.arg, x->output, e);
	if (r == 0)
		return 0;
	err_hint(e, "say in the prompt what the fields are, or change the schema");
	return err_wrap(e, r, "node %s", x->task.node_id);
}

static int pause_for(struct node_exec *x, struct err *e)
{
	int r = x->question ? 0
			    : err_set(e, ERR_PROTOCOL, EPROTO, "claw's runner waits for an answer, and asked nothing");

	if (r == 0)
		r = claw_saved_ask(x->saved, x->result, e);
	x->asks = r == 0;
	return r < 0 ? err_wrap(e, r, "node %s", x->task.node_id) : 0;
}

int claw_outcome(struct node_exec *x, const struct runner_end *end, struct err *e)
{
	const char *error = json_get_str(x->result, "error");

	if (x->cancelled)
		return err_set(e, ERR_CANCELLED, ECANCELED, "node %s: cancelled", x->task.node_id);
	if (x->err.kind != ERR_NONE) {
		err_copy(e, &x->err);
		return -x->err.errnum;
	}
	if (x->provider_failed && (!x->result || error)) {
		err_copy(e, &x->provider_err);
		return err_wrap(e, -EREMOTEIO, "node %s", x->task.node_id);
	}
	if (!x->result)
		return died(x, end, e);
	if (!error && json_get_str(x->result, "pending_tool_use_id"))
		return pause_for(x, e);
	return error ? runner_says(x, error, e) : final_check(x, e);
}

json_t *claw_details(const struct node_exec *x)
{
	json_t *d = json_object();

	json_put_str(d, "backend", "claw");
	json_put_str(d, "model", x->target.model);
	json_put_str(d, "provider", x->target.provider);
	json_put_int(d, "steps", x->steps);
	json_put_int(d, "input_tokens", x->usage.input);
	json_put_int(d, "output_tokens", x->usage.output);
	json_put_int(d, "cache_read_tokens", x->usage.cache_read);
	json_put_int(d, "cache_write_tokens", x->usage.cache_write);
	json_put(d, "runner_start_ms", json_real((double)x->runner_ns / 1e6));
	json_put_bool(d, "formatting_pass_used", json_is_true(json_object_get(x->result, "formatting_pass_used")));
	json_put_bool(d, "parse_fallback", json_is_true(json_object_get(x->result, "parse_fallback")));
	if (x->repaired)
		json_put_bool(d, "repaired", true);
	json_put_str(d, "_session_id", claw_session_id(x));
	return d;
}
