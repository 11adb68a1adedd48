/* What `run` and `resume` share once they know what to run: the engine works on the loop, its events are shown as they
 * come, and signals are handed to it. What fails in the run itself is the run's result and not an error of the command,
 * but it is told in the same form. */
#include "run_engine.h"
#include "ask.h"
#include "event_view.h"
#include "output.h"
#include "place.h"
#include "run_signals.h"
#include "view.h"

#include <base/err.h>
#include <dsl/ast.h>
#include <engine/engine.h>

#include <signal.h>
#include <uv.h>

struct runner {
	const struct run_show *show;
	struct engine *engine;
	struct signal_watch signals;
	struct event_view view;
	struct live_view *live; /* NULL: plain lines, or none */
	struct asker *asker;	/* NULL: nobody is asked */
	struct engine_result result;
};

static void on_event(void *arg, const struct store_event *ev)
{
	struct runner *r = arg;

	if (r->show->json) {
		out_raw(ev->line, ev->len);
		out_raw("\n", 1);
		out_flush();
	} else if (r->live) {
		live_view_event(r->live, ev->json);
	} else if (!r->show->quiet) {
		event_view_show(&r->view, ev->json);
	}
}

static void on_question(void *arg, const struct engine_question *q)
{
	const struct runner *r = arg;

	asker_add(r->asker, q);
}

static void on_signal(void *arg, int sig)
{
	const struct runner *r = arg;

	asker_stop(r->asker);
	if (r->live)
		live_view_doing(r->live, "stopping (again: kill)");
	/* A terminal that goes away asks for the same as SIGTERM. */
	engine_interrupt(r->engine, sig == SIGHUP ? SIGTERM : sig);
}

static void on_done(void *arg, const struct engine_result *result)
{
	struct runner *r = arg;

	r->result = *result;
	signal_watch_stop(&r->signals);
	asker_stop(r->asker);
	live_view_end(r->live);
}

static void tell_result(const struct runner *r)
{
	struct err e = r->result.err;

	if (r->result.exit_code == 0)
		return;
	if (e.kind == ERR_NONE)
		(void)err_set(&e, ERR_NODE, 0, "the run ended as %s", run_status_name(r->result.status));
	err_hint(&e, "`iterion inspect %s` shows what ran; `iterion logs %s` every event.", engine_run_id(r->engine),
		 engine_run_id(r->engine));
	show_error(&e);
}

static int run(struct runner *r, const struct engine_params *p, struct err *e)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, 0};
	const struct run_show *show = r->show;

	signal_watch_start(&r->signals, p->loop, numbers, on_signal, r);
	if (!show->json && !show->quiet && !show->lines && live_view_possible())
		r->live = live_view_new(p->loop, p->run_name ? p->run_name : p->file->workflow->name.s);
	if (r->asker)
		asker_serve(r->asker, r->engine, r->live);
	int n = engine_run(r->engine, on_done, r, e);
	if (n == 0) {
		place_keep_store(p->store_dir);
		(void)uv_run(p->loop, UV_RUN_DEFAULT);
	}
	signal_watch_stop(&r->signals);
	asker_stop(r->asker);
	live_view_end(r->live);
	(void)uv_run(p->loop, UV_RUN_DEFAULT);
	live_view_free(r->live);
	event_view_done(&r->view);
	return n;
}

int run_engine(const struct engine_params *p, const struct run_show *show, struct err *e)
{
	struct runner r = {.show = show};
	struct engine_params mine = *p;

	mine.on_event = on_event;
	mine.arg = &r;
	r.asker = show->json || show->no_ask || !ask_possible() ? NULL : asker_new(p->loop);
	mine.ask = r.asker ? on_question : NULL;
	int n = engine_new(&mine, &r.engine, e);
	if (n == 0)
		n = run(&r, p, e);
	else
		asker_stop(r.asker);
	(void)uv_run(p->loop, UV_RUN_DEFAULT);
	asker_free(r.asker);
	if (n == 0) {
		tell_result(&r);
		n = r.result.exit_code;
	}
	engine_free(r.engine);
	return n;
}
