/* Running one program in a started sandbox: what the backends and the commands use. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct exec_opts {
	const char *const *argv; /* NULL-terminated; argv[0] with a slash, or looked up in the PATH of env */
	const char *const *env;	 /* NULL-terminated NAME=value: the whole environment, nothing is added but what the
				  * sandbox itself needs (proxy variables) */
	const char *cwd;	 /* inside; NULL: the workspace folder */
	const char *user;	 /* NULL: the sandbox's own */
	/* What becomes 0, 1, 2; -1: /dev/null. Stay the caller's: they may be closed once exec was called. */
	int stdio[3];
	/* stdio[0] is a terminal that becomes the program's controlling one. */
	bool tty;
	/* It may look into the memory and environment of the programs of other execs, which are kept apart otherwise
	 * where the kernel can. */
	bool oversees;
};

enum exec_end {
	EXEC_EXITED,	/* code: exit status */
	EXEC_SIGNALED,	/* code: signal number; core */
	EXEC_NOT_FOUND, /* the exec itself failed; code: errno (ENOENT, EACCES, ENOEXEC, …) */
	EXEC_LOST,	/* the sandbox died under it */
};

struct exec_status {
	enum exec_end end;
	int code;
	bool core;
	/* The sandbox's limits of memory (bytes) and processes, when one was reached while it ran; else 0. */
	uint64_t memory_limit;
	uint64_t pids_limit;
};

struct exec;

/* Called once, never from within session_exec. The exec object is gone when it returns. */
typedef void (*exec_done_cb)(void *arg, const struct exec_status *st);
