/* Asking on the terminal, from the run's loop.
 *
 * The terminal stays in its line mode: people edit their lines as they are used to, and a line arrives whole. It is
 * read by a description of our own (/dev/tty), because a loop makes what it reads non-blocking, and standard input
 * shares its description with the user's shell. Questions wait in a queue; while one is asked the live view is held,
 * and what was typed before it could be read is thrown away, so that no stray key approves anything.
 *
 * ^D says that nobody answers now: this question and all others are given back, and the run pauses when nothing else
 * is left to do. ^C is a signal and cancels the run as ever. */
#include "ask.h"
#include "output.h"
#include "question.h"
#include "view.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <engine/engine.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 64 * 1024, TEXT_SHOWN = 256 * 1024 };

struct asker {
	struct engine *engine;
	struct live_view *view;
	struct question *queue; /* the first is being asked */
	struct buf line;
	int tty;
	uv_poll_t keys;
	uv_signal_t cont;
	bool asking;
	bool declined; /* ^D */
	bool stopped;
};

bool ask_possible(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void show_prompt(const struct asker *a)
{
	auto_buf text = BUF_INIT(TEXT_SHOWN);

	question_prompt(a->queue, &text);
	show_text(buf_str(&text));
}

static void show_question(const struct asker *a)
{
	auto_buf text = BUF_INIT(TEXT_SHOWN);

	question_head(a->queue, &text);
	show_text(buf_str(&text));
	show_prompt(a);
}

/* What was typed before a question could be read is no answer to it. */
static void ask_first(struct asker *a)
{
	(void)tcflush(a->tty, TCIFLUSH);
	buf_clear(&a->line);
	show_question(a);
}

static void on_keys(uv_poll_t *h, int status, int events);

static void begin(struct asker *a)
{
	if (a->view)
		live_view_hold(a->view);
	a->asking = true;
	(void)uv_poll_start(&a->keys, UV_READABLE, on_keys);
	ask_first(a);
}

static void end(struct asker *a)
{
	if (!a->asking)
		return;
	a->asking = false;
	(void)uv_poll_stop(&a->keys);
	if (a->view)
		live_view_release(a->view);
}

static void drop_first(struct asker *a)
{
	struct question *q = a->queue;

	a->queue = q->next;
	question_free(q);
}

static void decline(struct asker *a)
{
	a->declined = true;
	show_text("\n");
	end(a);
	while (a->queue) {
		/* One that the run does not wait for any more needs no answer either. */
		(void)!engine_answer(a->engine, a->queue->id, NULL, NULL);
		drop_first(a);
	}
}

static void complain(const char *why, const char *hint)
{
	auto_buf text = BUF_INIT(4096);

	(void)buf_printf(&text, "  %s%s%s\n", why, hint && *hint ? ": " : "", hint ? hint : "");
	show_text(buf_str(&text));
}

/* All fields have been asked for. */
static void finish(struct asker *a)
{
	struct question *q = a->queue;
	struct err e = ERR_INIT;
	static const char *const none[] = {NULL};
	const char *const *answers = q->answers.n ? (const char *const *)q->answers.v : none;

	int r = engine_answer(a->engine, q->id, answers, &e);
	if (r == -EINVAL) {
		complain(e.msg, e.hint);
		question_again(q);
		show_prompt(a);
		return;
	}
	/* The engine may have stopped us from within. */
	if (a->stopped)
		return;
	drop_first(a);
	if (!a->queue)
		end(a);
	else
		ask_first(a);
}

static void take_line(struct asker *a, const char *line, size_t len)
{
	struct question *q = a->queue;
	struct err e = ERR_INIT;
	const char *why;
	char *answer = question_line(q, line, len, &why);

	if (answer && engine_check_answer(a->engine, q->id, answer, &e) == -EINVAL) {
		/* Whose answer it is stands above. */
		const char *colon = strstr(e.msg, ": ");
		why = colon ? colon + 2 : e.msg;
		free(TAKE_PTR(answer));
	}
	if (why) {
		complain(why, e.hint);
		show_prompt(a);
	} else if (question_take(q, answer)) {
		show_prompt(a);
	} else {
		finish(a);
	}
}

static void take_lines(struct asker *a)
{
	const char *end_of_line;

	while (a->asking && a->line.len && (end_of_line = memchr(a->line.data, '\n', a->line.len))) {
		size_t len = (size_t)(end_of_line - a->line.data);
		/* What is behind it is for the question's other fields: a person may paste a few lines. */
		auto_free char *line = xmemdup(a->line.data, len + 1);
		buf_consume(&a->line, len + 1);
		take_line(a, line, len);
	}
}

static void on_keys(uv_poll_t *h, int status, int events)
{
	struct asker *a = h->data;
	char chunk[4096];

	(void)events;
	ssize_t n = status < 0 ? 0 : read(a->tty, chunk, sizeof chunk);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		decline(a);
		return;
	}
	if (buf_add(&a->line, chunk, (size_t)n) < 0) {
		buf_clear(&a->line);
		complain("the answer is too long", "`iterion resume --answer` takes longer ones");
		show_prompt(a);
		return;
	}
	take_lines(a);
}

/* Brought back by fg: the shell has written below the question. */
static void on_continued(uv_signal_t *h, int sig)
{
	const struct asker *a = h->data;

	(void)sig;
	if (a->asking)
		show_question(a);
}

struct asker *asker_new(uv_loop_t *loop)
{
	int tty = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (tty < 0)
		return NULL;
	struct asker *a = xcalloc(1, sizeof *a);
	*a = (struct asker){.tty = tty, .line = BUF_INIT(LINE_MAX_BYTES)};
	if (uv_poll_init(loop, &a->keys, tty) < 0) {
		close_quietly(tty);
		free(a);
		return NULL;
	}
	(void)uv_signal_init(loop, &a->cont);
	a->keys.data = a->cont.data = a;
	(void)uv_signal_start(&a->cont, on_continued, SIGCONT);
	/* A run that waits for an answer has nothing else to keep the loop alive than the keys. */
	uv_unref((uv_handle_t *)&a->cont);
	return a;
}

void asker_serve(struct asker *a, struct engine *en, struct live_view *view)
{
	a->engine = en;
	a->view = view;
}

void asker_add(struct asker *a, const struct engine_question *q)
{
	struct question **at = &a->queue;

	if (a->declined || a->stopped) {
		(void)!engine_answer(a->engine, q->id, NULL, NULL);
		return;
	}
	while (*at)
		at = &(*at)->next;
	*at = question_new(q);
	if (!a->asking)
		begin(a);
}

void asker_stop(struct asker *a)
{
	if (!a || a->stopped)
		return;
	a->stopped = true;
	if (a->asking)
		show_text("\n");
	end(a);
	uv_close((uv_handle_t *)&a->keys, NULL);
	uv_close((uv_handle_t *)&a->cont, NULL);
}

void asker_free(struct asker *a)
{
	if (!a)
		return;
	while (a->queue)
		drop_first(a);
	close_quietly(a->tty);
	buf_done(&a->line);
	free(a);
}
