/* One program in a sandbox of its own.
 *
 * Start, exec, stop, one after the other on one loop; each step's callback begins the next. The program has our own
 * standard streams as descriptors, so no byte of it passes through us, or a terminal of its own (terminal.h). Signals
 * that reach us before it runs end the start; later they are passed on, since it may have its own way to end; the third
 * SIGINT or SIGTERM takes the sandbox away from it. */
#include "sandbox_program.h"
#include "event_file.h"
#include "output.h"
#include "program_env.h"
#include "run_signals.h"
#include "terminal.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/id.h>
#include <base/json.h>
#include <base/str.h>
#include <driver/session.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <signal.h>
#include <uv.h>

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128, STOPS_TO_KILL = 3 };

struct program {
	const struct program_request *q;
	uv_loop_t loop;
	struct session *session;
	struct exec *exec; /* NULL: it does not run now */
	struct signal_watch signals;
	struct terminal *terminal;
	unsigned stops; /* SIGINT and SIGTERM so far */
	bool stopping;
	int exit_code;
	bool failed;
	struct err err;
};

static void on_session_stopped(void *arg, const struct err *e)
{
	struct program *p = arg;

	(void)e;
	signal_watch_stop(&p->signals);
}

static void stop(struct program *p)
{
	if (p->stopping)
		return;
	p->stopping = true;
	session_stop(p->session, on_session_stopped, p);
}

static void fail(struct program *p, const struct err *e)
{
	if (!p->failed)
		err_copy(&p->err, e);
	p->failed = true;
	stop(p);
}

static int exit_code_of(struct program *p, const struct exec_status *st)
{
	switch (st->end) {
	case EXEC_EXITED:
		return st->code;
	case EXEC_SIGNALED:
		return EXIT_SIGNAL + st->code;
	case EXEC_NOT_FOUND:
		(void)err_sys(&p->err, st->code, "run %s in the sandbox", p->q->argv[0]);
		err_hint(&p->err,
			 "Inside the sandbox there is what its mounts and image bring; look with `iterion sandbox "
			 "exec -- ls /usr/bin`.");
		show_error(&p->err);
		return st->code == ENOENT || st->code == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	case EXEC_LOST:
		break;
	}
	if (!p->failed && p->stops == 0) {
		p->failed = true;
		(void)err_set(&p->err, ERR_SANDBOX, ESHUTDOWN, "run %s in the sandbox: the sandbox died under it",
			      p->q->argv[0]);
		err_hint(&p->err, "The kernel's log (dmesg) says when memory was out.");
	}
	return EXIT_SIGNAL + SIGKILL;
}

static void on_program_done(void *arg, const struct exec_status *st)
{
	struct program *p = arg;

	p->exec = NULL;
	terminal_finish(p->terminal);
	p->exit_code = exit_code_of(p, st);
	stop(p);
}

static void on_resize(void *arg, unsigned rows, unsigned columns)
{
	const struct program *p = arg;

	if (p->exec)
		exec_resize(p->exec, rows, columns);
}

static int exec_program(struct program *p, struct err *e)
{
	auto_strv env = {0};
	struct exec_opts o = {.argv = p->q->argv, .stdio = {0, 1, 2}};

	program_env(&env, p->q->spec, p->session);
	o.env = (const char *const *)env.v;
	if (p->q->on_terminal) {
		int r = terminal_open(p->session, &p->loop, on_resize, p, &p->terminal, e);
		if (r < 0)
			return r;
		o.tty = true;
		for (int i = 0; i < 3; i++)
			o.stdio[i] = terminal_inner(p->terminal);
	}
	int r = session_exec(p->session, &o, on_program_done, p, &p->exec, e);
	if (r == 0 && p->terminal)
		terminal_start(p->terminal);
	return r;
}

static void on_session_started(void *arg, const struct err *e)
{
	struct program *p = arg;
	struct err why = ERR_INIT;

	if (p->stopping)
		return;
	if (e) {
		fail(p, e);
		return;
	}
	if (exec_program(p, &why) < 0)
		fail(p, &why);
}

static void on_signal(void *arg, int sig)
{
	struct program *p = arg;

	if (sig == SIGINT || sig == SIGTERM)
		p->stops++;
	if (p->exec && p->stops < STOPS_TO_KILL) {
		exec_signal(p->exec, sig);
		return;
	}
	if (!p->stopping)
		p->exit_code = EXIT_SIGNAL + sig;
	stop(p);
}

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct program *p = arg;

	event_file_add(p->q->events, type, data);
	if (str_eq(type, "sandbox_warning") && json_get_str(data, "message"))
		show_warning("%s", json_get_str(data, "message"));
	else if (str_eq(type, "sandbox_skipped"))
		show_warning("nothing is isolated: %s", json_get_str(data, "reason"));
}

static void on_lost(void *arg, const struct err *e)
{
	fail(arg, e);
}

static int run_session(struct program *p, const char *run_id, struct err *e)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0};
	const struct session_params sp = {
		.loop = &p->loop,
		.spec = p->q->spec,
		.driver = p->q->driver,
		.workspace = p->q->workspace,
		.run_id = run_id,
		.run_name = p->q->argv[0],
		.store_dir = p->q->store_dir,
		.home = getenv("HOME"),
		.resolve = p->q->resolve,
		.on_event = on_event,
		.on_lost = on_lost,
		.arg = p,
	};

	int r = session_new(&sp, &p->session, e);
	if (r < 0)
		return r;
	signal_watch_start(&p->signals, &p->loop, numbers, on_signal, p);
	session_start(p->session, on_session_started, p);
	(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	signal_watch_stop(&p->signals);
	(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	terminal_free(p->terminal);
	session_free(p->session);
	if (!p->failed)
		return p->exit_code;
	err_copy(e, &p->err);
	return p->err.errnum > 0 ? -p->err.errnum : -EIO;
}

int program_run(const struct program_request *q, struct err *e)
{
	struct program p = {.q = q, .err = ERR_INIT};
	char run_id[UUID_SIZE];

	id_uuid7(run_id, clock_wall_ms());
	q->events->run_id = run_id;
	int r = uv_loop_init(&p.loop);
	if (r < 0)
		return err_sys(e, -r, "prepare the event loop");
	r = run_session(&p, run_id, e);
	(void)uv_loop_close(&p.loop);
	return r;
}
