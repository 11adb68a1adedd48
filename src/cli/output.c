/* What reaches the terminal.
 *
 * Everything that is printed goes through text_neutralise: a file name, a node's output or a host name may hold escape
 * sequences that a terminal obeys, and it is not for each caller to remember that. Our own colours are the one
 * exception; they are written by out_style and by nothing else. Standard output is checked to the end: a full disk or a
 * closed pipe is a failure of the command, not a short answer with exit code 0. */
#include "output.h"

#include <base/json.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TEXT = 64 * 1024 * 1024 };

/* errno of the first write that failed. */
static int out_failed;

void output_begin(void)
{
	/* The opposite direction of what the descriptor is for: using it fails like a closed one does. */
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			/* lint: allow open, these three are meant to be inherited */
			(void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
	/* Writes that fail by these are told like any other that fails. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
}

static void put(const char *s, size_t len)
{
	if (len && fwrite(s, 1, len, stdout) != len && !out_failed)
		out_failed = errno ? errno : EIO;
}

void out_raw(const char *s, size_t len)
{
	put(s, len);
}

void out_printf(const char *fmt, ...)
{
	auto_buf text = BUF_INIT(MAX_TEXT), safe = BUF_INIT(4 * (size_t)MAX_TEXT);
	va_list ap;

	va_start(ap, fmt);
	int r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (r == 0)
		r = text_neutralise(&safe, buf_str(&text), text.len);
	if (r < 0 && !out_failed)
		out_failed = -r;
	put(buf_str(&safe), safe.len);
}

void out_value(const char *s, size_t columns)
{
	size_t len = strlen(s), shown = columns && len > columns ? columns : len;
	auto_buf safe = BUF_INIT(4 * (size_t)MAX_TEXT);

	/* A cut must not leave half a character. */
	while (shown > 0 && shown < len && ((unsigned char)s[shown] & 0xc0) == 0x80)
		shown--;
	(void)text_neutralise(&safe, s, shown);
	for (size_t i = 0; i < safe.len; i++)
		if (safe.data[i] == '\n' || safe.data[i] == '\t')
			safe.data[i] = ' ';
	put(buf_str(&safe), safe.len);
	if (shown < len)
		put("…", strlen("…"));
}

static bool colours(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && term && !str_eq(term, "dumb");
}

const char *style_code(enum style s)
{
	static const char *const codes[] = {
		[STYLE_PLAIN] = "\033[0m",  [STYLE_BOLD] = "\033[1m",	[STYLE_DIM] = "\033[2m",
		[STYLE_RED] = "\033[1;31m", [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
	};

	return codes[s];
}

bool out_has_colour(void)
{
	static int known = -1;

	if (known < 0)
		known = colours(STDOUT_FILENO);
	return known;
}

void out_style(enum style s)
{
	if (out_has_colour())
		put(style_code(s), strlen(style_code(s)));
}

void out_json(const json_t *j)
{
	auto_free char *s = json_dumps(j, JSON_REALS | JSON_INDENT(2) | JSON_ENCODE_ANY);

	if (!s)
		abort();
	put(s, strlen(s));
	put("\n", 1);
}

void out_flush(void)
{
	if (fflush(stdout) != 0 && !out_failed)
		out_failed = errno ? errno : EIO;
}

bool out_is_broken(void)
{
	return out_failed != 0;
}

int output_end(struct err *e)
{
	out_flush();
	if (!out_failed)
		return 0;
	int r = err_sys(e, out_failed, "write to standard output");
	err_hint(e, out_failed == EPIPE ? "What was printed is not complete: its reader ended first."
					: "What was printed is not complete: send it where there is room for it.");
	return r;
}

bool out_is_terminal(void)
{
	return isatty(STDOUT_FILENO);
}

static const struct output_guard *guard;

void output_set_guard(const struct output_guard *g)
{
	guard = g;
}

/* Messages that share the terminal with somebody who draws on it. */
static void write_message(const char *text, const struct buf *b)
{
	const struct output_guard *g = isatty(STDERR_FILENO) ? guard : NULL;

	if (g)
		g->before(g->arg, text);
	(void)!fd_write_all(STDERR_FILENO, b->data, b->len);
	if (g)
		g->after(g->arg);
}

/* A label and text on standard error, with the lines after the first indented. One write: two processes that share a
 * terminal do not mix within a message. */
static void complain(const char *label, enum style style, const char *text)
{
	auto_buf safe = BUF_INIT(64 * 1024), all = BUF_INIT(256 * 1024);
	bool colour = colours(STDERR_FILENO);

	/* What is longer than the limit is cut: this is the end of a path that must not fail. */
	(void)text_neutralise(&safe, text, strlen(text));
	while (safe.len && safe.data[safe.len - 1] == '\n')
		safe.data[--safe.len] = '\0';
	(void)buf_printf(&all, "%s%s:%s ", colour ? style_code(style) : "", label,
			 colour ? style_code(STYLE_PLAIN) : "");
	for (const char *s = buf_str(&safe); *s; s++) {
		(void)buf_putc(&all, *s);
		if (*s == '\n')
			(void)buf_puts(&all, "  ");
	}
	(void)buf_putc(&all, '\n');
	write_message(text, &all);
}

void show_error(const struct err *e)
{
	out_flush();
	complain("error", STYLE_RED, e->msg[0] ? e->msg : "the command failed and gave no reason");
	if (e->hint[0])
		complain("hint", STYLE_BOLD, e->hint);
}

void show_warning(const char *fmt, ...)
{
	auto_buf text = BUF_INIT(64 * 1024);
	va_list ap;

	va_start(ap, fmt);
	(void)buf_vprintf(&text, fmt, ap);
	va_end(ap);
	out_flush();
	complain("warning", STYLE_YELLOW, buf_str(&text));
}

void show_text(const char *text)
{
	auto_buf safe = BUF_INIT(4 * (size_t)MAX_TEXT);

	out_flush();
	(void)text_neutralise(&safe, text, strlen(text));
	(void)!fd_write_all(STDERR_FILENO, buf_str(&safe), safe.len);
}

static void log_line(void *arg, enum log_level level, const char *line)
{
	static const struct {
		const char *label;
		enum style style;
	} rows[] = {
		[LOG_ERROR] = {"error", STYLE_RED},
		[LOG_WARN] = {"warning", STYLE_YELLOW},
		[LOG_INFO] = {"info", STYLE_PLAIN},
		[LOG_DEBUG] = {"debug", STYLE_DIM},
	};

	(void)arg;
	complain(rows[level].label, rows[level].style, line);
}

void output_log(enum log_level max)
{
	log_set(log_line, NULL, max);
}
