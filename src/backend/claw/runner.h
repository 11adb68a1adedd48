/* The runner as a program: lines both ways. */
#pragma once

#include <base/err.h>
#include <driver/exec.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct runner;
struct session;

enum { RUNNER_LINE_MAX = 4 * 1024 * 1024 }; /* bytes of a line with its newline, either way */

struct runner_end {
	struct exec_status status;
	bool torn;		 /* its last line had no end */
	const char *stderr_text; /* the last of it, safe to show; never NULL */
};

struct runner_callbacks {
	/* A line without its newline; never one after runner_stop. */
	void (*on_line)(void *arg, const char *line, size_t len);
	/* A line was too long; nothing more is read. */
	void (*on_too_long)(void *arg);
	/* Once, never from within runner_start: the program has ended. The runner is gone when it returns. */
	void (*on_end)(void *arg, const struct runner_end *end);
	void *arg;
};

/* Starts argv in the session with env (both NULL-terminated). Returns 0 and on_end will be called, or -errno. */
int runner_start(uv_loop_t *loop, struct session *session, const char *const *argv, const char *const *env,
		 const char *cwd, const struct runner_callbacks *cb, struct runner **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Sends one line. -EMSGSIZE when it is too long, -ENOBUFS when the program does not read what it was sent; what is sent
 * to a program that has ended is lost without an error. */
int runner_send(struct runner *l, const json_t *envelope) __attribute__((warn_unused_result));

/* No line is handed on any more. */
void runner_stop(struct runner *l);
/* To the program's process group; one that has ended is no error. */
void runner_signal(struct runner *l, int sig);
