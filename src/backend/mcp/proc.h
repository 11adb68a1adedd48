/* The program of a stdio server, on the host or inside a sandbox. */
#pragma once

#include <driver/exec.h>
#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct err;
struct session;
struct strv;

struct proc {
	bool running;
	void (*on_ended)(void *arg, const struct exec_status *st);
	void *arg;
	/* inside */
	struct exec *exec;
	/* on the host */
	pid_t pid;
	int pidfd;
	uv_poll_t exit;
	uv_idle_t idle; /* it could not be executed, and says so later */
	struct exec_status status;
};

/* session NULL: on the host, in cwd, in a process group of its own that ends with it. on_ended is called once, later,
 * and p may not move until then; nothing of it is left on the loop then. stdio stays the caller's. */
int proc_start(struct proc *p, uv_loop_t *loop, struct session *session, const struct exec_opts *o, struct err *e)
	__attribute__((warn_unused_result));

/* To all of the program's process group; one that ended is no error. */
void proc_signal(const struct proc *p, int sig);
