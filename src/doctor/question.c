/* Questions in processes of their own.
 *
 * A question may hang (a daemon that does not answer), may need to change its own process to find out (namespaces), or
 * may start programs. So each is a child with a pipe: its answer is one write, and when the time is over, or the answer
 * has come, it is killed. What it started dies with it, by its death signal. All children run at once, and the parent
 * waits for the pipes only. */
#include "question.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

_Static_assert(sizeof(struct finding) <= PIPE_BUF, "an answer is one atomic write");

void finding_set(struct finding *f, enum finding_status status, const char *fmt, ...)
{
	va_list ap;

	f->status = status;
	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof f->detail, fmt, ap);
	va_end(ap);
}

void finding_hint(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->hint, sizeof f->hint, fmt, ap);
	va_end(ap);
}

const char *finding_status_name(enum finding_status s)
{
	static const char *const names[] = {[FINDING_UNKNOWN] = "unknown", [FINDING_YES] = "yes", [FINDING_NO] = "no"};

	return names[s];
}

struct child {
	pid_t pid;
	bool answered;
};

/* Never returns. */
static void answer(const struct question *q, pid_t parent, int to)
{
	struct finding f = {0};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	q->ask(q, &f);
	(void)!write(to, &f, sizeof f);
	_exit(0);
}

static int begin(const struct question *q, struct child *ret, struct pollfd *ret_poll, struct err *e)
{
	int fds[2];
	pid_t parent = getpid();

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for the question %s", q->id);
	auto_fd from = fds[0], to = fds[1];
	ret->pid = fork();
	if (ret->pid < 0)
		return err_sys(e, errno, "make a process for the question %s", q->id);
	if (ret->pid == 0)
		answer(q, parent, to);
	*ret_poll = (struct pollfd){.fd = TAKE_FD(from), .events = POLLIN};
	return 0;
}

/* The answer, or that there is none: the child died. */
static void take(struct child *c, struct pollfd *p, struct finding *ret)
{
	struct finding f;
	ssize_t n = read(p->fd, &f, sizeof f);

	/* What comes from a child that spoke with a daemon is looked at before it is used. */
	if (n == (ssize_t)sizeof f && f.status >= FINDING_UNKNOWN && f.status <= FINDING_NO) {
		f.detail[sizeof f.detail - 1] = f.hint[sizeof f.hint - 1] = '\0';
		*ret = f;
	} else {
		finding_set(ret, FINDING_UNKNOWN, "the process that asked died");
	}
	c->answered = true;
	close_quietly(p->fd);
	p->fd = -1; /* poll leaves it out */
}

static void wait_for_answers(struct child *c, struct pollfd *p, size_t n, unsigned timeout_ms, struct finding *answers)
{
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000u;
	size_t open = n;

	while (open > 0) {
		uint64_t now = clock_ns();
		int left = now < end ? (int)((end - now + 999999u) / 1000000u) : 0;
		int r = poll(p, n, left);
		if (r == 0 || (r < 0 && errno != EINTR))
			return;
		for (size_t i = 0; r > 0 && i < n; i++) {
			if (p[i].fd < 0 || !p[i].revents)
				continue;
			take(&c[i], &p[i], &answers[i]);
			open--;
		}
	}
}

static void finish(struct child *c, struct pollfd *p, unsigned timeout_ms, struct finding *ret)
{
	if (c->pid <= 0)
		return;
	(void)kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (c->answered)
		return;
	close_quietly(p->fd);
	finding_set(ret, FINDING_UNKNOWN, "no answer within %g s", timeout_ms / 1000.0);
	finding_hint(ret, "Give it more time with ITERION_SANDBOX_DOCTOR_TIMEOUT, such as 30s.");
}

int questions_ask(const struct question *v, size_t n, unsigned timeout_ms, struct finding *answers, struct err *e)
{
	auto_free struct child *c = xcalloc(n, sizeof *c);
	auto_free struct pollfd *p = xcalloc(n, sizeof *p);
	int r = 0;

	memset(answers, 0, n * sizeof *answers);
	/* What is buffered would be written by each child too. */
	(void)fflush(NULL);
	for (size_t i = 0; i < n; i++)
		p[i].fd = -1;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = begin(&v[i], &c[i], &p[i], e);
	if (r == 0)
		wait_for_answers(c, p, n, timeout_ms, answers);
	for (size_t i = 0; i < n; i++)
		finish(&c[i], &p[i], timeout_ms, &answers[i]);
	return r;
}
