/* The processes of the tools.
 *
 * Each leads a process group of its own, so that a signal reaches the whole of it. A leader that ends takes its group
 * along: it is looked at first and reaped after the kill, because until then the number of its group cannot belong to
 * another. What leaves the group (a daemon) is adopted by the runner, which is a child subreaper, and ends with it:
 * nothing of a node stays behind. */
#include "procs.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct proc {
	pid_t pid;
	const struct proc_cb *cb; /* NULL: dropped */
	void *arg;
	struct proc *next;
};

struct procs {
	struct proc *list;
};

struct procs *procs_new(void)
{
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	return xcalloc(1, sizeof(struct procs));
}

struct proc *procs_add(struct procs *p, pid_t pid, const struct proc_cb *cb, void *arg)
{
	struct proc *x = xcalloc(1, sizeof *x);

	*x = (struct proc){.pid = pid, .cb = cb, .arg = arg, .next = p->list};
	p->list = x;
	return x;
}

struct proc *procs_start(struct procs *p, const struct spawn_opts *o, const struct proc_cb *cb, void *arg,
			 struct err *e)
{
	struct spawn_opts own = *o;
	pid_t pid;

	own.own_group = true;
	own.death_signal = SIGKILL;
	return spawn_start(&own, &pid, NULL, e) < 0 ? NULL : procs_add(p, pid, cb, arg);
}

void proc_signal(struct proc *x, int sig)
{
	(void)kill(-x->pid, sig);
}

void proc_drop(struct proc *x)
{
	x->cb = NULL;
	proc_signal(x, SIGKILL);
}

static struct proc *take(struct procs *p, pid_t pid)
{
	for (struct proc **at = &p->list; *at; at = &(*at)->next) {
		struct proc *x = *at;
		if (x->pid != pid)
			continue;
		*at = x->next;
		return x;
	}
	return NULL;
}

void procs_reap(struct procs *p)
{
	for (;;) {
		siginfo_t si = {0};
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid == 0)
			return;
		struct proc *x = take(p, si.si_pid);
		if (x)
			proc_signal(x, SIGKILL);
		(void)waitid(P_PID, (id_t)si.si_pid, &si, WEXITED | WNOHANG);
		struct spawn_status status = {
			.signaled = si.si_code != CLD_EXITED,
			.core = si.si_code == CLD_DUMPED,
			.code = si.si_status,
		};
		if (x && x->cb)
			x->cb->ended(x->arg, &status);
		free(x);
	}
}

/* Every child, ours or adopted, as the kernel lists them. Returns how many were there. */
static int kill_children(void)
{
	char path[64];
	int pid, n = 0;

	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	auto_file f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1 && pid > 1) {
		(void)kill(pid, SIGKILL);
		n++;
	}
	return n;
}

void procs_free(struct procs *p)
{
	if (!p)
		return;
	for (struct proc *x = p->list; x; x = x->next) {
		if (x->cb && x->cb->lost)
			x->cb->lost(x->arg);
		proc_drop(x);
	}
	/* A child's own children come to us when it is reaped, so this goes on until there is none. Blocking is safe:
	 * SIGKILL was sent to all that are waited for. A kernel without the list has the leaders only. */
	while (kill_children() > 0 || p->list) {
		siginfo_t si = {0};
		if (waitid(P_ALL, 0, &si, WEXITED) < 0 && errno != EINTR)
			break;
		if (si.si_pid)
			free(take(p, si.si_pid));
	}
	while (p->list)
		free(take(p, p->list->pid));
	free(p);
}
