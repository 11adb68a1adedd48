/* Tool nodes: a shell command or a script, run once.
 *
 * The program gets /dev/null as its input, two pipes for what it prints, and its text as an argument of sh or of the
 * script's interpreter, so nothing has to be written where the sandbox could see it. Its end is the end of the
 * program itself: a closed standard output does not end it and a daemon that keeps the pipe open does not hold it up.
 * Cancelling sends TERM to its process group, and KILL when it is still there NODE_KILL_AFTER_MS later. The answer
 * always comes from the loop, after every handle is closed. */
#include "tool_priv.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/session.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* One argument of execve, with its NUL, is at most 32 pages (execve(2), MAX_ARG_STRLEN). */
enum { TEXT_MAX = 32 * 4096 - 1 };

static const struct interpreter {
	const char *language; /* NULL: a command */
	const char *program;
	const char *option; /* that takes the text as the next argument */
} interpreters[] = {
	{NULL, "/bin/sh", "-c"}, {"sh", "/bin/sh", "-c"}, {"bash", "bash", "-c"},      {"js", "node", "-e"},
	{"node", "node", "-e"},	 {"py", "python3", "-c"}, {"python", "python3", "-c"}, {"python3", "python3", "-c"},
};

static const struct interpreter *interpreter_of(const char *language)
{
	for (size_t i = 0; i < ARRAY_LEN(interpreters); i++)
		if (str_eq(interpreters[i].language, language))
			return &interpreters[i];
	return NULL;
}

static void answer(struct node_exec *x)
{
	struct err e = ERR_INIT;
	json_t *output = NULL, *details = NULL;
	int r = tool_result(x, &output, &details, &e);
	const struct node_result result = {
		.output = output,
		.details = details,
		.resumable = x->status.end == EXEC_LOST,
		.cancelled = x->cancelled,
		.tokens = -1,
		.cost_usd = -1,
	};

	x->cb.on_done(x->cb.arg, &result, r < 0 ? &e : NULL);
	json_decref(output);
	json_decref(details);
	capture_done(&x->out);
	capture_done(&x->err);
	free(x->out_name);
	free(x->err_name);
	free(x);
}

static void closed(struct node_exec *x)
{
	if (--x->open == 0)
		answer(x);
}

static void on_capture_closed(void *arg)
{
	closed(arg);
}

static void on_timer_closed(uv_handle_t *h)
{
	closed(h->data);
}

static void on_ended(void *arg, const struct exec_status *st)
{
	struct node_exec *x = arg;

	x->status = *st;
	x->exec = NULL;
	x->open = 3;
	capture_finish(&x->out, on_capture_closed, x);
	capture_finish(&x->err, on_capture_closed, x);
	uv_close((uv_handle_t *)&x->kill_timer, on_timer_closed);
}

static int check_text(const struct node_task *t, const struct interpreter *in, struct err *e)
{
	if (!in) {
		(void)err_set(e, ERR_INPUT, EINVAL, "node %s: language %s is not known", t->node_id, t->language);
		err_hint(e, "use js, node, py, python, python3, sh or bash");
		return -EINVAL;
	}
	size_t len = strlen(t->text);
	if (len <= TEXT_MAX - 1)
		return 0;
	(void)err_set(e, ERR_NODE, E2BIG,
		      "node %s: its %s has %zu bytes with all values filled in; at most %d can be run", t->node_id,
		      t->language ? "script" : "command", len, TEXT_MAX - 1);
	err_hint(e, "put the text into a file of the workspace and run that, and pass large values by files in "
		    "$ITERION_ARTIFACT_FILES_DIR");
	return -E2BIG;
}

static int run(struct node_exec *x, const struct interpreter *in, struct err *e)
{
	const struct node_task *t = &x->task;
	/* A text that begins with '-' would be taken for an option. */
	auto_free char *guarded = *t->text == '-' ? xasprintf("\n%s", t->text) : NULL;
	const char *const argv[] = {in->program, in->option, guarded ? guarded : t->text, NULL};
	const struct exec_opts o = {
		.argv = argv,
		.env = t->env,
		.cwd = t->cwd,
		.stdio = {-1, x->out.writer, x->err.writer},
	};

	x->program = in->program;
	int r = session_exec(t->session, &o, on_ended, x, &x->exec, e);
	return r < 0 ? err_wrap(e, r, "node %s", t->node_id) : 0;
}

/* Nothing ran: handles are closed on the loop as always, but nobody is told. */
static void on_unused_closed(void *arg)
{
	struct node_exec *x = arg;

	if (--x->open > 0)
		return;
	capture_done(&x->out);
	capture_done(&x->err);
	free(x->out_name);
	free(x->err_name);
	free(x);
}

static void on_unused_timer_closed(uv_handle_t *h)
{
	on_unused_closed(h->data);
}

static void discard(struct node_exec *x)
{
	x->open = 1u + x->out.open + x->err.open;
	if (x->out.open)
		capture_finish(&x->out, on_unused_closed, x);
	if (x->err.open)
		capture_finish(&x->err, on_unused_closed, x);
	uv_close((uv_handle_t *)&x->kill_timer, on_unused_timer_closed);
}

static int start(const struct node_task *t, const struct node_callbacks *cb, struct node_exec **ret, struct err *e)
{
	const struct interpreter *in = interpreter_of(t->language);
	int r = check_text(t, in, e);

	if (r < 0)
		return r;
	struct node_exec *x = xcalloc(1, sizeof *x);
	x->task = *t;
	x->cb = *cb;
	x->out_name = xasprintf("%s.stdout", t->node_id);
	x->err_name = xasprintf("%s.stderr", t->node_id);
	(void)uv_timer_init(t->loop, &x->kill_timer);
	x->kill_timer.data = x;
	r = capture_open(&x->out, t->loop, t->run, x->out_name, e);
	if (r == 0)
		r = capture_open(&x->err, t->loop, t->run, x->err_name, e);
	if (r == 0)
		r = run(x, in, e);
	if (r < 0) {
		discard(x);
		return r;
	}
	capture_started(&x->out);
	capture_started(&x->err);
	*ret = x;
	return 0;
}

static void on_kill(uv_timer_t *timer)
{
	const struct node_exec *x = timer->data;

	if (x->exec)
		exec_signal(x->exec, SIGKILL);
}

static void cancel(struct node_exec *x, enum node_cancel how)
{
	bool first = !x->cancelled;

	x->cancelled = true;
	if (!x->exec)
		return;
	if (how == NODE_CANCEL_KILL) {
		exec_signal(x->exec, SIGKILL);
	} else if (first) {
		exec_signal(x->exec, SIGTERM);
		(void)uv_timer_start(&x->kill_timer, on_kill, NODE_KILL_AFTER_MS, 0);
	}
}

const struct backend_ops backend_tool = {.name = "tool", .start = start, .cancel = cancel};
