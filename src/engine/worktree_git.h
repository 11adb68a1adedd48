/* One run of the git program, on the loop. */
#pragma once

#include <base/buf.h>
#include <base/err.h>
#include <base/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum { GIT_OUTPUT_MAX = 64 * 1024 * 1024, GIT_TIME_LIMIT_MS = 10 * 60 * 1000 };

struct git_command {
	struct strv args; /* behind the program's name */
	struct strv env;  /* the whole environment */
	struct buf input; /* its standard input */
	const char *file; /* the program, absolute; borrowed */
	const char *cwd;  /* borrowed */
};
void git_command_done(struct git_command *c);

struct git_answer {
	int code;	 /* exit code; -1: it was killed, or took too long */
	const char *out; /* NUL-terminated; may hold NULs before */
	size_t len;
	const char *said; /* its words on standard error, harmless on a terminal, without trailing newlines */
};

struct git_job;
typedef void (*git_done_cb)(void *arg, const struct git_answer *a);

/* Starts it; done is called once, from the loop. Returns 0, or -errno and done is never called. */
int git_start(uv_loop_t *loop, const struct git_command *c, git_done_cb done, void *arg, struct git_job **ret,
	      struct err *e) __attribute__((warn_unused_result));

/* Ends it now; done still comes. */
void git_kill(struct git_job *j);

/* The absolute path of git in the PATH of an environment, of its absolute folders only: a program in the folder that a
 * workflow works in is not the user's git. NULL: there is none. The caller frees. */
char *git_find(const char *const *env);
