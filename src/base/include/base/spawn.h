/* Starting a program, fast and exactly. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct err;

struct spawn_opts {
	/* A path with a slash, or a name that is looked up in the PATH of envp (execvpe's rule). */
	const char *file;
	char *const *argv;
	char *const *envp;
	/* What becomes 0, 1 and 2; they stay the caller's. -1: /dev/null. */
	int stdio[3];
	/* Working folder, or NULL to keep the caller's. */
	const char *cwd;
	/* A process group of its own, which signals to -pid reach, and no controlling terminal. */
	bool own_group;
	/* That in a session of its own, and stdio[0] becomes the controlling terminal. */
	bool controlling_tty;
	/* A Landlock ruleset that it enters (landlock_restrict_self(2); no_new_privs must be set), 0 for none. */
	int landlock;
	/* Signal that the child gets when the calling thread dies (PR_SET_PDEATHSIG), 0 for none. */
	int death_signal;
};

/* A constant list as execve's interface wants it, which is not const and does not write. */
static inline char *const *spawn_words(const char *const *words)
{
	union {
		const char *const *is;
		char *const *wanted;
	} list = {.is = words};

	return list.wanted;
}

/* Starts it with default signal handling, no signal blocked, and no descriptor but 0, 1, 2. The cost does not grow
 * with the caller's memory (vfork semantics). ret_pidfd may be NULL. Returns 0, or the very -errno that chdir or
 * execve gave (-ENOENT, -EACCES, -ENOEXEC, …) with nothing left behind. */
int spawn_start(const struct spawn_opts *o, pid_t *ret_pid, int *ret_pidfd, struct err *e)
	__attribute__((warn_unused_result));

/* waitid's answer as what a shell would show: the code of a normal end, or the signal. */
struct spawn_status {
	bool signaled;
	bool core;
	int code; /* exit code, or signal number */
};

/* Reaps pid without blocking: 1 when it ended, 0 when it still runs, -errno. */
int spawn_reap(pid_t pid, struct spawn_status *ret) __attribute__((warn_unused_result));
