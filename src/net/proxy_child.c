/* The life of the proxy process.
 *
 * It is forked from the run and never execs, or is a program of its own when it inspects TLS (proxy_main.c). Before
 * anything of a client is read it gives away what it inherited (proxy_inherit.c), reads what needs files (resolver
 * settings, hosts, whom to trust), and locks itself in (proxy_confine.c). Only then it makes its event loop, so that
 * whatever the loop's library opens is what the lock allows: newer ones would set up an io_uring, through which a
 * process does what its filter forbids. It reports that it is ready, and from then on looks at its control socket for
 * listeners.
 *
 * It ends with its parent, whatever happens: by PR_SET_PDEATHSIG, and by the end of the control socket. The parent's
 * event loop exists in its memory as a copy that it never touches. */
#include "proxy_child.h"

#include "dns.h"
#include "inspect.h"
#include "proxy_confine.h"
#include "proxy_conn.h"
#include "proxy_inherit.h"
#include "proxy_wire.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/frame.h>
#include <base/mem.h>
#include <base/pack.h>
#include <net/proxy.h>

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config.h"

/* What the C library, its allocator and libuv need wherever they are called, in the versions of Debian 12 and 13:
 * #syscalls: brk munmap mremap madvise futex getrandom clock_gettime gettimeofday restart_syscall
 * #syscalls: mmap mprotect if arg2 & PROT_EXEC == 0
 * #syscalls: epoll_create1 epoll_ctl epoll_pwait ?epoll_wait epoll_pwait2 eventfd2
 * #syscalls: rt_sigprocmask rt_sigreturn rt_sigaction exit exit_group
 * #syscalls: read write close getpid gettid sched_yield sendmmsg uname
 * #syscalls: ioctl if arg1 == FIONBIO
 * F_GETFD, F_SETFD, F_GETFL, F_SETFL and F_SETPIPE_SZ:
 * #syscalls: fcntl if arg1 in 1,2,3,4,1031
 * Reporting over the control socket:
 * #syscalls: sendmsg recvmsg */

enum { CONTROL_FD = PROXY_CONTROL_FD, FDS_PER_CONN = 6, RESERVED_FDS = 64 };

/* As many descriptors as it may have, and no more connections than they carry. */
static size_t connection_limit(void)
{
	struct rlimit l = {.rlim_cur = 256};

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		struct rlimit more = {.rlim_cur = l.rlim_max, .rlim_max = l.rlim_max};
		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			l = more;
	}
	if (l.rlim_cur == RLIM_INFINITY)
		return PROXY_MAX_CONNS;
	size_t fds = (size_t)l.rlim_cur > RESERVED_FDS ? (size_t)l.rlim_cur - RESERVED_FDS : 0;
	return MAX((size_t)1, MIN((size_t)PROXY_MAX_CONNS, fds / FDS_PER_CONN));
}

static void on_control(uv_poll_t *h, int status, int events);

static void watch_control(struct proxy_child *p)
{
	int want = UV_READABLE | (frame_wants_write(p->ctl) ? UV_WRITABLE : 0);

	if (p->ctl_want == want)
		return;
	p->ctl_want = want;
	(void)uv_poll_start(&p->ctl_poll, want, on_control);
}

/* Sends a record. A parent that is gone ends the process; one that does not read loses records, not memory. */
static void send_record(struct proxy_child *p, enum proxy_frame type, struct buf *b)
{
	int r = frame_send(p->ctl, (uint16_t)type, 0, b->data, b->len, NULL, 0);

	if (r < 0 && r != -ENOBUFS)
		_exit(1);
	watch_control(p);
}

static void send_blocked(void *arg, const struct proxy_blocked *r)
{
	auto_buf b = BUF_INIT((size_t)4 * PROXY_MAX_TEXT);

	(void)pack_str(&b, r->host);
	(void)pack_u32(&b, r->port);
	(void)pack_str(&b, r->reason);
	(void)pack_bytes(&b, r->rule, strnlen(r->rule, PROXY_MAX_TEXT));
	(void)pack_u32(&b, r->count);
	(void)pack_u64(&b, r->first_ms);
	(void)pack_u64(&b, r->last_ms);
	send_record(arg, PROXY_BLOCKED, &b);
}

/* The kind of a refusal is here the name of the secret. */
static void send_secret(void *arg, const struct proxy_blocked *r)
{
	auto_buf b = BUF_INIT((size_t)4 * PROXY_MAX_TEXT);

	(void)pack_str(&b, r->reason);
	(void)pack_str(&b, r->host);
	(void)pack_u32(&b, r->port);
	(void)pack_u32(&b, r->count);
	(void)pack_u64(&b, r->first_ms);
	(void)pack_u64(&b, r->last_ms);
	send_record(arg, PROXY_SECRET, &b);
}

/* Everything that still runs is cut; the summary is the last word. */
static void end(struct proxy_child *p)
{
	auto_buf b = BUF_INIT(PROXY_TO_PARENT_MAX);

	if (p->ending)
		return;
	p->ending = true;
	while (p->conns)
		conn_close(p->conns);
	proxy_report_flush(p->report);
	proxy_report_flush(p->secret_report);
	proxy_totals_pack(p->totals, &b);
	send_record(p, PROXY_SUMMARY, &b);
	if (!frame_wants_write(p->ctl))
		_exit(0);
}

static void drain_over(uv_timer_t *t)
{
	end(t->data);
}

static void begin_drain(struct proxy_child *p, unsigned ms)
{
	if (p->draining)
		return;
	p->draining = true;
	proxy_listeners_close(p);
	for (struct conn *c = p->conns, *next; c; c = next) {
		next = c->next;
		bool waits = (c->state == CONN_FIRST || c->state == CONN_HEAD) && c->client->in.len == 0;
		if (waits || (c->state == CONN_H2 && h2_is_idle(c)))
			conn_close(c);
	}
	if (ms == 0 || p->n_conns == 0)
		end(p);
	else
		(void)uv_timer_start(&p->drain, drain_over, ms, 0);
}

void proxy_child_conn_ended(struct proxy_child *p)
{
	if (p->draining && p->n_conns == 0)
		end(p);
	else
		proxy_listeners_resume(p);
}

#if TEST_HOOKS
/* Tries what a taken-over proxy would try, and tells how that went. */
static void run_hook(struct proxy_child *p, unsigned what)
{
	auto_buf b = BUF_INIT(16);
	char *argv[] = {(char[]){"true"}, NULL};
	int r = 0;

	switch (what) {
	case PROXY_HOOK_ABORT:
		abort();
	case PROXY_HOOK_TRAP:
		__builtin_trap();
		break;
	case PROXY_HOOK_OPEN:
		r = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
		break;
	case PROXY_HOOK_EXEC:
		r = execv("/bin/true", argv);
		break;
	case PROXY_HOOK_UNIX_SOCKET:
		r = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		break;
	default:
		return;
	}
	(void)pack_u32(&b, what);
	(void)pack_u32(&b, r < 0 ? (uint32_t)errno : 0);
	send_record(p, PROXY_HOOKED, &b);
}
#endif

static void on_frame(struct proxy_child *p, struct frame *f)
{
	struct unpack u = {.p = f->payload, .left = f->len};

	switch (f->type) {
	case PROXY_LISTENER:
		if (f->nfds == 1)
			proxy_listener_add(p, TAKE_FD(f->fds[0]));
		break;
	case PROXY_STOP:
		begin_drain(p, unpack_u32(&u));
		break;
#if TEST_HOOKS
	case PROXY_HOOK:
		run_hook(p, unpack_u32(&u));
		break;
#endif
	default:
		break;
	}
}

static void on_control(uv_poll_t *h, int status, int events)
{
	struct proxy_child *p = h->data;
	struct frame f;
	int r;

	if (status < 0)
		_exit(1);
	if ((events & UV_WRITABLE) && frame_flush(p->ctl) < 0)
		_exit(1);
	while ((r = frame_recv(p->ctl, &f)) > 0)
		on_frame(p, &f);
	if (r < 0)
		_exit(0);
	if (p->ending && !frame_wants_write(p->ctl))
		_exit(0);
	watch_control(p);
}

/* All that needs files, before the doors close. */
static int prepare(struct proxy_child *p, const struct proxy_params *params, struct err *e)
{
	p->policy = params->policy;
	p->learn = params->learn;
	p->strict_sni = params->strict_sni;
	if (params->token) {
		p->token = xstrdup(params->token);
		p->token_len = strlen(params->token);
	}
	p->totals = proxy_totals_new();
	p->max_conns = connection_limit();
	if (params->inspect) {
		int r = inspect_prepare(p, params->inspect, e);
		if (r < 0)
			return r;
	}
	return dns_new(params->resolve, &p->dns, e);
}

/* The loop and what stands in it, behind the lock. */
static int make_loop(struct proxy_child *p, struct err *e)
{
	int r = uv_loop_init(&p->loop);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "start the proxy: make an event loop: %s", uv_strerror(r));
	(void)uv_timer_init(&p->loop, &p->drain);
	(void)uv_timer_init(&p->loop, &p->resume);
	p->drain.data = p->resume.data = p->ctl_poll.data = p;
	p->report = proxy_report_new(&p->loop, send_blocked, p);
	p->secret_report = proxy_report_new(&p->loop, send_secret, p);
	dns_start(p->dns, &p->loop);
	r = uv_poll_init(&p->loop, &p->ctl_poll, CONTROL_FD);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "start the proxy: watch its control socket") : 0;
}

_Noreturn static void give_up(struct frame_conn *c, const struct err *e)
{
	auto_buf b = BUF_INIT(4096);

	(void)pack_str(&b, e->msg);
	(void)pack_str(&b, e->hint);
	/* The socket is empty: one record always fits. */
	if (frame_send(c, PROXY_ERROR, 0, b.data, b.len, NULL, 0) < 0)
		_exit(2);
	_exit(1);
}

_Noreturn void proxy_child_main(const struct proxy_params *params, int ctl, int parent_pid)
{
	struct proxy_child *p = xcalloc(1, sizeof *p);
	struct err e = ERR_INIT;
	unsigned landlock = 0;
	int r = proxy_leave_parent(ctl, parent_pid, &e);

	if (r < 0)
		give_up(frame_conn_new(ctl, PROXY_TO_CHILD_MAX), &e);
	p->ctl = frame_conn_new(CONTROL_FD, PROXY_TO_CHILD_MAX);
	r = prepare(p, params, &e);
	proxy_wipe_environment();
	if (r == 0)
		r = proxy_confine(&landlock, &e);
	if (r == 0)
		r = make_loop(p, &e);
	if (r < 0)
		give_up(p->ctl, &e);
	auto_buf b = BUF_INIT(16);
	(void)pack_u32(&b, landlock);
	send_record(p, PROXY_READY, &b);
	(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	_exit(1);
}
