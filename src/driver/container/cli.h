/* Running a command-line program (docker, podman, kubectl): its words captured, its end told. */
#pragma once

#include <base/spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct cli;
struct err;

enum { CLI_ERR_TAIL = 4096 };

struct cli_opts {
	const char *const *argv; /* NULL-terminated; argv[0] is the program's path */
	const char *cwd;	 /* NULL: the caller's */
	int stdin_fd;		 /* stays the caller's; -1: nothing to read */
	size_t out_limit;	 /* bytes of stdout that are kept; what comes after is read and dropped */
	unsigned timeout_ms;	 /* after it the program is killed; 0: it may take as long as it likes */
	/* Each line of stdout and stderr as it comes, without its end ('\n' or '\r') and cut at 4 KiB; NULL: no need.
	 */
	void (*on_line)(void *arg, const char *line);
	void *line_arg;
	/* Each piece of stdout as it comes; NULL: no need. */
	void (*on_out)(void *arg, const char *data, size_t len);
	void *out_arg;
	int out_fd; /* what becomes its stdout in place of a pipe of ours; stays the caller's; 0: a pipe */
};

/* How it ended and what it said. The texts are NUL-terminated, may hold any bytes but NUL in between, and live until
 * the callback returns. */
struct cli_result {
	struct spawn_status status;
	bool timed_out;
	bool out_cut; /* stdout was longer than the limit */
	const char *out;
	size_t out_len;
	const char *err; /* the last CLI_ERR_TAIL bytes of stderr */
	size_t err_len;
};

/* Whether it ended by itself with exit code 0. */
bool cli_ok(const struct cli_result *r);

/* Called once, never from within cli_start. The object is gone when it returns. */
typedef void (*cli_done_cb)(void *arg, const struct cli_result *r);

/* Starts it with the environment of this process, in a group of its own without the terminal (a Ctrl-C there is not
 * for it), and dies with this process. Returns 0, or -errno and done is never called. ret may be NULL. */
int cli_start(uv_loop_t *loop, const struct cli_opts *o, cli_done_cb done, void *arg, struct cli **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Sends it a signal; done follows when it ended. */
void cli_signal(struct cli *c, int sig);

/* Kills it when it still runs after this time from now. */
void cli_limit(struct cli *c, unsigned timeout_ms);

/* The same to its end, on a loop of its own, for callers that have none. done is called before this returns. */
int cli_run(const struct cli_opts *o, cli_done_cb done, void *arg, struct err *e) __attribute__((warn_unused_result));
