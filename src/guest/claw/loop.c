/* The agent loop: a state machine between the launcher, the model behind it, and the tools.
 *
 * It is fed envelopes and the ends of tools, and answers with envelopes; it never waits itself. One thing at a time is
 * awaited: a task, a reply of the model, the tools of one message, the launcher's word on the result. An envelope that
 * is not awaited is a warning and nothing else, so that a confused launcher cannot make a tool run twice. */
#include "loop_priv.h"
#include "react.h"

#include <base/clock.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loop *loop_new(struct react *r, struct procs *p)
{
	struct loop *l = xcalloc(1, sizeof *l);

	l->react = r;
	l->procs = p;
	l->started_ms = clock_ms();
	l->text = BUF_INIT(WIRE_LINE / 2);
	return l;
}

void loop_set_wire(struct loop *l, struct wire *w)
{
	l->wire = w;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	if (l->tools_ready)
		tools_done(&l->tools, l->keep_files);
	task_done(&l->task);
	policy_free(l->policy);
	chat_done(&l->chat);
	step_done(&l->step);
	buf_done(&l->text);
	free(l->offered);
	free(l->output);
	free(l);
}

bool loop_over(const struct loop *l, int *ret_code)
{
	*ret_code = l->phase == PHASE_ACK ? 0 : l->phase == PHASE_OVER ? l->exit_code : 1;
	return l->phase == PHASE_OVER;
}

void loop_ticket(struct loop *l, char ret[32])
{
	snprintf(ret, 32, "r%u", ++l->tickets);
}

void loop_flushed(struct loop *l)
{
	if (l->phase == PHASE_TOOLS)
		tools_pump(l);
}

void loop_bad(struct loop *l, const struct err *e)
{
	end_error(l, "%s", e->msg);
}

static void on_replay(struct loop *l, const struct envelope *env)
{
	struct err e = ERR_INIT;
	long long step = 0;

	chat_done(&l->chat);
	if (chat_load(&l->chat, jv_get(env->data, "conversation"), &e) < 0) {
		end_error(l, "%s", e.msg);
		return;
	}
	if (jv_int(jv_get(env->data, "step"), &step) && step > 0)
		l->steps = step;
	l->replayed = l->chat.n > 0;
}

/* Calls of an earlier task that were never carried out, before something new is said. */
static void abandon_step(struct loop *l)
{
	struct buf b = BUF_INIT(SIZE_MAX);
	struct jout o = {.b = &b};

	for (size_t i = 0; i < l->step.n; i++)
		if (l->step.v[i].state != CALL_DONE)
			step_result_text(&l->step, &l->step.v[i], true, "The call was not carried out.");
	step_message(&l->step, &o);
	step_done(&l->step);
	size_t len = b.len;
	chat_add(&l->chat, false, buf_steal(&b), len);
}

/* Somebody's answer is the result of the call that asked. */
static bool give_answer(struct loop *l)
{
	struct call *x = l->task.pending_tool_use_id ? step_find(&l->step, l->task.pending_tool_use_id) : NULL;

	if (x && x->state == CALL_WAITS)
		step_result_text(&l->step, x, false, l->task.answer ? l->task.answer : "");
	return x != NULL;
}

/* What the conversation starts with: a replay, another task's, or nothing. */
static bool start_chat(struct loop *l, struct err *e)
{
	if (!l->replayed && l->task.conversation) {
		auto_jdoc d = jdoc_parse(l->task.conversation, strlen(l->task.conversation), e);
		if (!d || chat_load(&l->chat, jdoc_root(d), e) < 0)
			return false;
	}
	int r = step_reopen(&l->step, &l->chat);
	if (r < 0) {
		(void)err_set(e, ERR_PROTOCOL, 0, "read the conversation: the calls at its end are malformed");
		return false;
	}
	bool answered = give_answer(l);
	if (l->replayed)
		return true;
	if (l->task.pending_tool_use_id && !answered) {
		(void)err_set(e, ERR_PROTOCOL, 0, "resume: the conversation has no open call %.100s to answer",
			      l->task.pending_tool_use_id);
		return false;
	}
	if (answered)
		return true;
	if (l->step.message)
		abandon_step(l);
	chat_say(&l->chat, l->task.user_prompt, strlen(l->task.user_prompt));
	return true;
}

static void on_task(struct loop *l, const struct envelope *env)
{
	struct buf offered = BUF_INIT(WIRE_LINE);
	struct jout o = {.b = &offered};
	struct err e = ERR_INIT;

	if (task_parse(env->data, &l->task, &e) < 0 || policy_new(&l->task, &l->policy, &e) < 0) {
		end_error(l, "%s", e.msg);
		return;
	}
	tools_init(&l->tools, l->react, l->procs, l->task.work_dir);
	l->tools_ready = true;
	offer_write(&l->task, l->policy, &o);
	l->offered = buf_steal(&offered);
	if (jout_end(&o) < 0 || !start_chat(l, &e)) {
		end_error(l, "%s", e.kind ? e.msg : "read the task: its tools are longer than a line");
		return;
	}
	l->tokens_now = (long long)(l->chat.bytes / 4);
	loop_proceed(l);
}

static bool shorten(struct loop *l)
{
	const struct task *t = &l->task;

	if (l->shortened || !compact_due(&l->chat, l->tokens_now, t->compact_ratio, t->context_window))
		return false;
	l->cut = compact_cut(&l->chat, t->preserve_recent);
	return l->cut > 0;
}

void loop_proceed(struct loop *l)
{
	if (l->phase == PHASE_OVER)
		return;
	if (l->step.message) {
		l->phase = PHASE_TOOLS;
		tools_pump(l);
	} else if (l->chat.n && l->chat.v[l->chat.n - 1].assistant) {
		reply_conclude(l);
	} else if (shorten(l)) {
		model_request(l, PURPOSE_COMPACT);
	} else {
		model_request(l, PURPOSE_STEP);
	}
}

static void warn_unexpected(struct loop *l, const struct envelope *env)
{
	auto_free char *text = xasprintf("an envelope of type %.100s is not awaited here and was ignored", env->type);

	say_warning(l, "unexpected_envelope", text);
}

void loop_envelope(struct loop *l, const struct envelope *env)
{
	static const struct {
		const char *type;
		enum phase phase;
		void (*take)(struct loop *l, const struct envelope *env);
	} rows[] = {
		{"session_replay", PHASE_TASK, on_replay},	{"task", PHASE_TASK, on_task},
		{"llm_chunk", PHASE_MODEL, model_chunk},	{"tool_result", PHASE_TOOLS, tools_result},
		{"ask_user_answer", PHASE_TOOLS, tools_answer}, {"result_ack", PHASE_ACK, end_ack},
	};

	if (l->phase == PHASE_OVER)
		return;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(env->type, rows[i].type) != 0 || l->phase != rows[i].phase)
			continue;
		rows[i].take(l, env);
		return;
	}
	warn_unexpected(l, env);
}
