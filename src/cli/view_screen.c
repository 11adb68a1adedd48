/* Drawing on the terminal's second ("alternate") screen.
 *
 * The second screen, because the first one belongs to what the user did before: a terminal that changes its size breaks
 * the lines of the first one anew, and no program can know where its own then stand. On the second each line has its
 * row by number, without line wrap, so that a character whose width is guessed wrongly cannot move another line. What
 * is the same is not sent again, and an update goes out in one write between the marks of a synchronised update
 * (terminals that do not know them ignore them).
 *
 * Between enter and leave the terminal must be given back whatever happens. Signals that others send are handled by the
 * event loop; those that a fault of this program or ^\ raises by a handler here, which may do nothing but write and set
 * the mode (both are async-signal-safe) and then dies by the signal as without it. It does nothing in a child, whose
 * standard output is another. */
#include "view_screen.h"
#include "output.h"

#include <base/buf.h>
#include <base/mem.h>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
/* Cleared first: on a terminal with one screen only, what follows starts at the top of an empty one. */
#define LEAVE "\033[0m\033[H\033[2J\033[?7h\033[?25h\033[?1049l"
#define UPDATE_BEGIN "\033[?2026h"
#define UPDATE_END "\033[?2026l"

static const int faults[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* What a signal handler needs to know. */
static struct {
	volatile sig_atomic_t entered, has_mode;
	pid_t pid;
	struct termios mode;
	struct sigaction before[ARRAY_LEN(faults)];
} given;

static void row(struct buf *to, size_t n, const char *line)
{
	/* Erased before and not after: behind the last column, "to the end of the line" is that column. */
	(void)buf_printf(to, "\033[%zu;1H\033[2K%s", n + 1, line);
}

void screen_update(struct screen *s, const struct strv *lines, struct buf *to)
{
	size_t before = to->len;

	(void)buf_puts(to, UPDATE_BEGIN);
	if (s->fresh)
		(void)buf_puts(to, "\033[2J");
	size_t same = to->len;
	for (size_t i = 0; i < lines->n; i++)
		if (s->fresh || i >= s->shown.n || !str_eq(s->shown.v[i], lines->v[i]))
			row(to, i, lines->v[i]);
	for (size_t i = lines->n; !s->fresh && i < s->shown.n; i++)
		row(to, i, "");
	if (to->len == same && !s->fresh) {
		to->len = before;
		to->data[before] = '\0';
		return;
	}
	(void)buf_puts(to, UPDATE_END);
	s->fresh = false;
	strv_done(&s->shown);
	for (size_t i = 0; i < lines->n; i++)
		strv_add(&s->shown, lines->v[i]);
}

void screen_forget(struct screen *s)
{
	s->fresh = true;
}

void screen_done(struct screen *s)
{
	strv_done(&s->shown);
}

bool screen_size(unsigned *ret_columns, unsigned *ret_rows)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
		return false;
	*ret_columns = size.ws_col;
	*ret_rows = size.ws_row;
	return true;
}

bool screen_is_ours(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return tcgetpgrp(STDOUT_FILENO) == getpgrp() && poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

static void give_back_mode(void)
{
	if (given.has_mode)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &given.mode);
	given.has_mode = 0;
}

static void on_fault(int sig)
{
	size_t i = 0;

	if (given.entered && getpid() == given.pid) {
		(void)!write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
		give_back_mode();
	}
	while (i < ARRAY_LEN(faults) - 1 && faults[i] != sig)
		i++;
	(void)sigaction(sig, &given.before[i], NULL);
	(void)raise(sig);
}

static void watch_faults(void)
{
	struct sigaction action = {.sa_handler = on_fault};

	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		(void)sigaction(faults[i], NULL, &given.before[i]);
		if (given.before[i].sa_handler != SIG_IGN)
			(void)sigaction(faults[i], &action, NULL);
	}
}

static void unwatch_faults(void)
{
	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		(void)sigaction(faults[i], &given.before[i], NULL);
}

/* What is typed meanwhile is for the shell afterwards and must not show between the lines; ^C stays a signal. */
static void hush(void)
{
	struct termios quiet;

	if (tcgetattr(STDIN_FILENO, &given.mode) < 0 || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	quiet = given.mode;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	given.has_mode = 1;
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
}

void screen_enter(void)
{
	if (given.entered)
		return;
	given.pid = getpid();
	hush();
	given.entered = 1;
	watch_faults();
	out_raw(ENTER, sizeof ENTER - 1);
	out_flush();
}

void screen_leave(void)
{
	if (!given.entered)
		return;
	out_raw(LEAVE, sizeof LEAVE - 1);
	out_flush();
	given.entered = 0;
	unwatch_faults();
	give_back_mode();
}
