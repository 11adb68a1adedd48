/* The live view: events go into the model (view_model.c), a timer makes lines of it (view_frame.c) and sends what
 * changed (view_screen.c).
 *
 * The timer runs from the first event to the last and its first tick comes late, so that a run of a few milliseconds
 * never changes the screen; events themselves draw nothing, so that a thousand of them cost a few drawings. None of the
 * handles keeps the loop alive. When the process is stopped (^Z), put into the background, or prints something else,
 * the terminal is given back first, and the next tick in the foreground takes it again. */
#include "view.h"
#include "event_view.h"
#include "output.h"
#include "view_frame.h"
#include "view_model.h"
#include "view_screen.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 100, FIRST_TICK_MS = 150, MIN_COLUMNS = 20, MAX_DRAWING = 4 * 1024 * 1024 };

struct live_view {
	struct view model;
	struct screen screen;
	struct output_guard guard;
	uv_timer_t timer;
	uv_signal_t winch, stop;
	unsigned columns, rows;
	unsigned held;
	bool ended;
	json_t *learned; /* network_summary of a run in learn mode: what the run was for */
};

bool live_view_possible(void)
{
	const char *term = getenv("TERM");
	unsigned columns, rows;

	return out_is_terminal() && term && *term && !str_eq(term, "dumb") && screen_size(&columns, &rows) &&
	       columns >= MIN_COLUMNS && screen_is_ours();
}

static void draw(struct live_view *v)
{
	const struct view_space space = {.columns = v->columns, .rows = v->rows, .colour = out_has_colour()};
	auto_strv lines = {0};
	auto_buf bytes = BUF_INIT(MAX_DRAWING);

	if (v->held || !screen_is_ours())
		return;
	screen_enter();
	view_frame(&v->model, &space, clock_wall_ms(), &lines);
	screen_update(&v->screen, &lines, &bytes);
	if (bytes.len) {
		out_raw(bytes.data, bytes.len);
		out_flush();
	}
}

/* The first screen again; the next drawing starts from nothing. */
static void leave(struct live_view *v)
{
	screen_leave();
	screen_forget(&v->screen);
}

static void on_tick(uv_timer_t *t)
{
	draw(t->data);
}

static void on_winch(uv_signal_t *h, int sig)
{
	struct live_view *v = h->data;

	(void)sig;
	(void)screen_size(&v->columns, &v->rows);
	screen_forget(&v->screen);
	if (uv_timer_get_due_in(&v->timer) <= TICK_MS)
		draw(v);
}

/* ^Z. The default action is what stops the process, and the shell is to see that it was this signal. */
static void on_stop(uv_signal_t *h, int sig)
{
	leave(h->data);
	(void)uv_signal_stop(h);
	(void)raise(sig);
	(void)uv_signal_start(h, on_stop, sig);
}

static void watch(uv_loop_t *loop, uv_signal_t *h, uv_signal_cb cb, int sig, struct live_view *v)
{
	struct sigaction now;

	(void)uv_signal_init(loop, h);
	h->data = v;
	if (sigaction(sig, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
		(void)uv_signal_start(h, cb, sig);
	uv_unref((uv_handle_t *)h);
}

static void before_message(void *arg, const char *text)
{
	struct live_view *v = arg;

	live_view_hold(v);
	view_note(&v->model, text);
}

static void after_message(void *arg)
{
	live_view_release(arg);
}

struct live_view *live_view_new(uv_loop_t *loop, const char *title)
{
	struct live_view *v = xcalloc(1, sizeof *v);

	view_title(&v->model, title);
	(void)screen_size(&v->columns, &v->rows);
	screen_forget(&v->screen);
	(void)uv_timer_init(loop, &v->timer);
	v->timer.data = v;
	uv_unref((uv_handle_t *)&v->timer);
	watch(loop, &v->winch, on_winch, SIGWINCH, v);
	watch(loop, &v->stop, on_stop, SIGTSTP, v);
	v->guard = (struct output_guard){.before = before_message, .after = after_message, .arg = v};
	output_set_guard(&v->guard);
	return v;
}

void live_view_event(struct live_view *v, const json_t *ev)
{
	if (v->ended)
		return;
	if (!uv_is_active((uv_handle_t *)&v->timer))
		(void)uv_timer_start(&v->timer, on_tick, FIRST_TICK_MS, TICK_MS);
	view_add(&v->model, ev);
	if (v->model.learning && !v->learned && str_eq(json_get_str(ev, "type"), "network_summary"))
		v->learned = json_deep_copy(ev);
}

void live_view_doing(struct live_view *v, const char *word)
{
	v->model.doing = word;
}

void live_view_hold(struct live_view *v)
{
	if (v->held++ == 0)
		leave(v);
}

void live_view_release(struct live_view *v)
{
	v->held--;
}

/* What stays on the screen: the same lines, all of them, as they are at the end. */
static void print_summary(struct live_view *v)
{
	const struct view_space space = {.columns = v->columns, .colour = out_has_colour()};
	auto_strv lines = {0};

	if (!v->model.begun_ms)
		return;
	view_frame(&v->model, &space, clock_wall_ms(), &lines);
	for (size_t i = 0; i < lines.n; i++) {
		out_raw(lines.v[i], strlen(lines.v[i]));
		out_raw("\n", 1);
	}
	if (v->learned) {
		struct event_view ev = {.learning = true};
		event_view_show(&ev, v->learned);
	}
	out_flush();
}

void live_view_end(struct live_view *v)
{
	if (!v || v->ended)
		return;
	v->ended = true;
	output_set_guard(NULL);
	screen_leave();
	(void)screen_size(&v->columns, &v->rows);
	print_summary(v);
	uv_close((uv_handle_t *)&v->timer, NULL);
	uv_close((uv_handle_t *)&v->winch, NULL);
	uv_close((uv_handle_t *)&v->stop, NULL);
}

void live_view_free(struct live_view *v)
{
	if (!v)
		return;
	json_decref(v->learned);
	screen_done(&v->screen);
	view_done(&v->model);
	free(v);
}
