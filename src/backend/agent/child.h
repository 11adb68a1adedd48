/* One run of an agent's program: its input in one piece, its output line by line, the end of what it says beside. */
#pragma once

#include <base/str.h>
#include <driver/exec.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct agent_child;
struct err;
struct session;

/* Everything is borrowed until on_end. */
struct agent_child_opts {
	uv_loop_t *loop;
	struct session *session;
	const char *const *argv, *const *env; /* NULL-terminated */
	const char *cwd;		      /* NULL: the workspace */
	const char *input;
	size_t input_len;
	size_t line_max; /* bytes of one line; a longer one ends the program */
	bool oversees;	 /* it may look into other programs of the sandbox */
	/* Words that must not be kept (keys): each is overwritten with '*' wherever it comes. */
	const struct strv *secrets;
};

struct agent_child_end {
	struct exec_status status;
	bool too_long;		 /* a line was longer than line_max */
	const char *stderr_text; /* the last of it, made safe to show; never NULL */
};

struct agent_child_callbacks {
	/* A line without its newline; not empty. It may be changed. */
	void (*on_line)(void *arg, char *line, size_t len);
	/* Once, never from within start; the child is gone when it returns. */
	void (*on_end)(void *arg, const struct agent_child_end *end);
	void *arg;
};

/* Returns 0 and on_end will be called, or -errno and nothing is. */
int agent_child_start(const struct agent_child_opts *o, const struct agent_child_callbacks *cb,
		      struct agent_child **ret, struct err *e) __attribute__((warn_unused_result));

/* Sends a signal to the program and its group; one that has ended is no error. */
void agent_child_signal(struct agent_child *c, int sig);

/* Overwrites each word of at least eight bytes wherever it stands. */
void agent_hide(const struct strv *secrets, char *data, size_t len);
