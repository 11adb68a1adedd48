/* What reaches the terminal: the only place of the program that prints. */
#pragma once

#include <base/log.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* First thing of the program: makes sure that 0, 1 and 2 are open (so that no file of ours becomes one of them) and
 * that a closed pipe is an error and no signal. */
void output_begin(void);

/* Text for standard output. Control characters in it are neutralised whatever it came from; only out_style makes
 * escape sequences, and only on a terminal without NO_COLOR. A failure is kept for output_end. */
void out_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same with newlines and tabs neutralised too, at most `columns` bytes (0: no limit): one value within a line. */
void out_value(const char *s, size_t columns);

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW };
void out_style(enum style s);
/* The escape sequence of a style, and whether standard output is to have any. */
const char *style_code(enum style s);
bool out_has_colour(void);

/* Bytes as they are, for JSON lines. */
void out_raw(const char *s, size_t len);
/* One document, indented, with its newline. */
void out_json(const json_t *j);
void out_flush(void);
/* Whether something already failed to arrive: a command that only prints can stop. */
bool out_is_broken(void);

/* Flushes; -errno when anything that was printed did not arrive. */
int output_end(struct err *e) __attribute__((warn_unused_result));

/* "error: what: why" and "hint: …" on standard error. */
void show_error(const struct err *e);
/* "warning: …" on standard error. */
void show_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Several lines as they are on standard error, neutralised. */
void show_text(const char *text);

/* Sends the layers' log lines up to max to standard error. */
void output_log(enum log_level max);

/* Whether standard output is a terminal. */
bool out_is_terminal(void);

/* Who draws on the terminal is told before something else is printed on it (text: what), and after. NULL: nobody. */
struct output_guard {
	void (*before)(void *arg, const char *text);
	void (*after)(void *arg);
	void *arg;
};
void output_set_guard(const struct output_guard *g);
