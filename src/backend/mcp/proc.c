/* Starting and ending the program of a stdio server.
 *
 * Inside, the session does it. On the host it is a child in a process group of its own, watched through its pidfd, that
 * gets SIGKILL when this process dies; whatever it leaves in its process group ends with it, before it is reaped,
 * because until then the group's number cannot belong to anybody else. */
#include "proc.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/spawn.h>
#include <driver/session.h>

#include <errno.h>
#include <signal.h>

static void ended_inside(void *arg, const struct exec_status *st)
{
	struct proc *p = arg;

	p->exec = NULL;
	p->running = false;
	p->on_ended(p->arg, st);
}

static void on_closed(uv_handle_t *h)
{
	struct proc *p = h->data;

	close_quietly(TAKE_FD(p->pidfd));
	p->on_ended(p->arg, &p->status);
}

static void on_exit_event(uv_poll_t *poll, int status, int events)
{
	struct proc *p = poll->data;
	struct spawn_status st = {0};

	(void)status;
	(void)events;
	(void)kill(-p->pid, SIGKILL);
	int r = spawn_reap(p->pid, &st);
	if (r == 0)
		return;
	p->running = false;
	p->status = (struct exec_status){.end = r < 0	      ? EXEC_LOST
						: st.signaled ? EXEC_SIGNALED
							      : EXEC_EXITED,
					 .code = st.code,
					 .core = st.core};
	uv_close((uv_handle_t *)poll, on_closed);
}

static void on_not_run(uv_idle_t *idle)
{
	uv_close((uv_handle_t *)idle, on_closed);
}

static int start_on_host(struct proc *p, uv_loop_t *loop, const struct exec_opts *o, struct err *e)
{
	const struct spawn_opts so = {
		.file = o->argv[0],
		.argv = spawn_words(o->argv),
		.envp = spawn_words(o->env),
		.stdio = {o->stdio[0], o->stdio[1], o->stdio[2]},
		.cwd = o->cwd,
		.own_group = true,
		.death_signal = SIGKILL,
	};
	int r = spawn_start(&so, &p->pid, &p->pidfd, e);

	if (r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	if (r < 0) {
		p->status = (struct exec_status){.end = EXEC_NOT_FOUND, .code = -r};
		(void)uv_idle_init(loop, &p->idle);
		p->idle.data = p;
		(void)uv_idle_start(&p->idle, on_not_run);
		return 0;
	}
	p->running = true;
	(void)uv_poll_init(loop, &p->exit, p->pidfd);
	p->exit.data = p;
	(void)uv_poll_start(&p->exit, UV_READABLE, on_exit_event);
	return 0;
}

int proc_start(struct proc *p, uv_loop_t *loop, struct session *session, const struct exec_opts *o, struct err *e)
{
	p->pid = -1;
	p->pidfd = -1;
	if (!session)
		return start_on_host(p, loop, o, e);
	int r = session_exec(session, o, ended_inside, p, &p->exec, e);
	if (r == 0)
		p->running = true;
	return r;
}

void proc_signal(const struct proc *p, int sig)
{
	if (!p->running)
		return;
	if (p->exec)
		exec_signal(p->exec, sig);
	else if (p->pid > 0)
		(void)kill(-p->pid, sig);
}
