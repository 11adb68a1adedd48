/* The processes that the runner started, and their ends. */
#pragma once

#include <base/spawn.h>

struct err;
struct proc;
struct procs;

/* Makes this process the one that adopts what its tools leave behind. */
struct procs *procs_new(void);
/* Kills everything that was started, also what left its group, and reaps it. */
void procs_free(struct procs *p);

struct proc_cb {
	/* Once, from procs_reap, after its group was killed. The proc lives until it has returned. */
	void (*ended)(void *arg, const struct spawn_status *status);
	/* Instead, from procs_free: only to free what arg is. May be NULL. */
	void (*lost)(void *arg);
};

/* Starts a program in a process group of its own. NULL on error. */
struct proc *procs_start(struct procs *p, const struct spawn_opts *o, const struct proc_cb *cb, void *arg,
			 struct err *e);
/* As procs_start for a child that was forked and leads its own group. */
struct proc *procs_add(struct procs *p, pid_t pid, const struct proc_cb *cb, void *arg);
/* Signals its whole group. */
void proc_signal(struct proc *x, int sig);
/* It is killed, and nobody is told. */
void proc_drop(struct proc *x);

/* To be called at SIGCHLD. */
void procs_reap(struct procs *p);
