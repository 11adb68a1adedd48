/* A terminal for a program in a sandbox.
 *
 * The program gets the inner side of a pseudo-terminal of ours and never the user's own, so that it cannot push input
 * into it or change it for good. The user's goes to raw mode: keys travel as they are, and ^C means what the inner
 * terminal makes of it. What cannot be written to the program at once waits in a small buffer, during which no more
 * keys are read. The bytes themselves are not neutralised: showing what a program draws is what a terminal is for. */
#include "terminal.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <driver/session.h>

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { CHUNK = 16 * 1024, FINISH_READS = 1024 };

struct terminal {
	int outer; /* our side */
	int inner; /* the program's, -1 once it has it */
	struct termios saved;
	bool raw;
	bool started;
	uv_poll_t keys;	  /* the user's terminal */
	uv_poll_t screen; /* our side of the pair */
	uv_signal_t winch;
	char pending[CHUNK]; /* keys that the program's side does not take now */
	size_t n_pending;
	bool keys_ended;
	bool screen_ended;
	void (*on_resize)(void *arg, unsigned rows, unsigned columns);
	void *arg;
};

static int open_pair(struct terminal *t, struct session *session, struct err *e)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	struct termios mode;
	bool has_mode = tcgetattr(STDIN_FILENO, &mode) == 0;

	(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	int r = session_open_terminal(session, &t->outer, &t->inner, e);
	if (r < 0)
		return r;
	if (has_mode)
		(void)tcsetattr(t->inner, TCSANOW, &mode);
	(void)ioctl(t->outer, TIOCSWINSZ, &size);
	return 0;
}

int terminal_open(struct session *session, uv_loop_t *loop,
		  void (*on_resize)(void *arg, unsigned rows, unsigned columns), void *arg, struct terminal **ret,
		  struct err *e)
{
	struct terminal *t = xcalloc(1, sizeof *t);

	*t = (struct terminal){.outer = -1, .inner = -1, .on_resize = on_resize, .arg = arg};
	int r = open_pair(t, session, e);
	if (r < 0) {
		terminal_free(t);
		return r;
	}
	t->keys.loop = loop;
	*ret = t;
	return 0;
}

int terminal_inner(const struct terminal *t)
{
	return t->inner;
}

static void watch(struct terminal *t);

/* What the program wrote, onto the user's terminal: 1 when there was some, 0 when there is none now, -1 when none will
 * come (EIO: no process has the inner side any more). */
static int show(struct terminal *t)
{
	char chunk[CHUNK];
	ssize_t n = read(t->outer, chunk, sizeof chunk);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	return n > 0 && fd_write_all(STDOUT_FILENO, chunk, (size_t)n) == 0 ? 1 : -1;
}

static void send_pending(struct terminal *t)
{
	ssize_t n = write(t->outer, t->pending, t->n_pending);

	if (n < 0)
		return;
	t->n_pending -= (size_t)n;
	memmove(t->pending, t->pending + n, t->n_pending);
}

static void on_screen(uv_poll_t *h, int status, int events)
{
	struct terminal *t = h->data;

	if (events & UV_WRITABLE)
		send_pending(t);
	if (status < 0 || ((events & UV_READABLE) && show(t) < 0))
		t->screen_ended = true;
	watch(t);
}

static void on_keys(uv_poll_t *h, int status, int events)
{
	struct terminal *t = h->data;

	(void)events;
	ssize_t n = status < 0 ? 0 : read(STDIN_FILENO, t->pending, sizeof t->pending);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		t->keys_ended = true;
	else
		t->n_pending = (size_t)n;
	if (t->n_pending)
		send_pending(t);
	watch(t);
}

/* Keys are read only while none wait and somebody is there to read them. */
static void watch(struct terminal *t)
{
	int wanted = UV_READABLE | (t->n_pending ? UV_WRITABLE : 0);

	if (t->screen_ended)
		(void)uv_poll_stop(&t->screen);
	else
		(void)uv_poll_start(&t->screen, wanted, on_screen);
	if (t->screen_ended || t->n_pending || t->keys_ended)
		(void)uv_poll_stop(&t->keys);
	else
		(void)uv_poll_start(&t->keys, UV_READABLE, on_keys);
}

static void send_size(struct terminal *t)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
		return;
	(void)ioctl(t->outer, TIOCSWINSZ, &size);
	t->on_resize(t->arg, size.ws_row, size.ws_col);
}

static void on_winch(uv_signal_t *h, int sig)
{
	(void)sig;
	send_size(h->data);
}

void terminal_start(struct terminal *t)
{
	struct termios raw;
	uv_loop_t *loop = t->keys.loop;

	close_quietly(t->inner);
	t->inner = -1;
	if (tcgetattr(STDIN_FILENO, &t->saved) == 0) {
		raw = t->saved;
		cfmakeraw(&raw);
		t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
	}
	t->started = true;
	(void)uv_poll_init(loop, &t->keys, STDIN_FILENO);
	(void)uv_poll_init(loop, &t->screen, t->outer);
	(void)uv_signal_init(loop, &t->winch);
	t->keys.data = t->screen.data = t->winch.data = t;
	(void)uv_signal_start(&t->winch, on_winch, SIGWINCH);
	watch(t);
	send_size(t);
}

void terminal_finish(struct terminal *t)
{
	if (!t || !t->started)
		return;
	/* Its last words; a process that it left behind may go on writing for ever, so this ends too. */
	for (int i = 0; i < FINISH_READS && show(t) > 0; i++)
		;
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	t->raw = false;
	t->started = false;
	uv_close((uv_handle_t *)&t->keys, NULL);
	uv_close((uv_handle_t *)&t->screen, NULL);
	uv_close((uv_handle_t *)&t->winch, NULL);
}

void terminal_free(struct terminal *t)
{
	if (!t)
		return;
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	close_quietly(t->outer);
	close_quietly(t->inner);
	free(t);
}
