/* The run's side of the proxy: starts the process, hands it listeners, hears of refusals, and knows when it died.
 *
 * What comes over the control socket is treated as written by an enemy, since the process reads hostile bytes and may
 * have been taken over: records out of order, over-long or with odd characters end it, and more refusals per second
 * than an honest proxy sends are dropped. Its death is seen by the end of that socket, which nobody else holds; one
 * that closes it and lives on is killed. While it lives there are two handles on the loop; they are closed before
 * `done` is called. */
#include "proxy_child.h"
#include "proxy_start.h"
#include "proxy_wire.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/frame.h>
#include <base/mem.h>
#include <base/pack.h>
#include <base/spawn.h>
#include <base/str.h>
#include <net/proxy.h>

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"

enum {
	AUTHORITY_MS = 10000,
	GRACE_MS = 2000,
	WINDOW_MS = 1000,
	BLOCKED_LIMIT = 4 * PROXY_BLOCKED_PER_SECOND,
	HANDLES = 2
};

struct proxy {
	pid_t pid;
	bool reaped;
	struct spawn_status status;
	struct frame_conn *conn;
	int conn_want;
	uv_poll_t conn_poll;
	uv_timer_t guard;
	unsigned open_handles;
	bool attached, ready_told, lost, stopping, summary_told, free_wanted;
	struct proxy_callbacks cb;
	void (*ready)(void *arg, const struct err *e);
	void *ready_arg;
	void (*done)(void *arg);
	void *done_arg;
	char *certificate; /* of its authority, or NULL */
	struct err why;	   /* what it said or did wrong, when it ends early */
	uint64_t window;
	unsigned in_window;
};

/* Waits for the process, which was killed or has ended. */
static void reap(struct proxy *p)
{
	siginfo_t si = {0};

	if (p->reaped)
		return;
	while (waitid(P_PID, (id_t)p->pid, &si, WEXITED) < 0 && errno == EINTR)
		;
	p->status = (struct spawn_status){.signaled = si.si_code != CLD_EXITED, .code = si.si_status};
	p->reaped = true;
}

static void kill_process(struct proxy *p)
{
	/* Our own child: until it is reaped its number belongs to nobody else. */
	if (!p->reaped)
		(void)kill(p->pid, SIGKILL);
}

const char *proxy_certificate(const struct proxy *p)
{
	return p->certificate;
}

pid_t proxy_pid(const struct proxy *p)
{
	return p->pid;
}

static void release(struct proxy *p)
{
	frame_conn_free(p->conn);
	free(p->certificate);
	free(p);
}

static void handle_closed(uv_handle_t *h)
{
	struct proxy *p = h->data;

	if (--p->open_handles > 0)
		return;
	if (p->free_wanted) {
		release(p);
		return;
	}
	if (p->stopping)
		p->done(p->done_arg);
}

static void close_handles(struct proxy *p)
{
	uv_handle_t *all[HANDLES] = {(uv_handle_t *)&p->conn_poll, (uv_handle_t *)&p->guard};

	for (size_t i = 0; i < HANDLES; i++)
		if (!uv_is_closing(all[i]))
			uv_close(all[i], handle_closed);
}

void proxy_free(struct proxy *p)
{
	if (!p)
		return;
	kill_process(p);
	reap(p);
	if (p->open_handles == 0) {
		release(p);
		return;
	}
	p->free_wanted = true;
	close_handles(p);
}

/* The process broke the protocol: what it says from here on does not count. */
static int broken(struct proxy *p, const char *what)
{
	err_set(&p->why, ERR_NETWORK, EPROTO, "the egress proxy sent %s", what);
	err_hint(&p->why, "this is a fault in iterion or an attack from within the sandbox; please report it");
	kill_process(p);
	return -EPROTO;
}

/* Text that may be shown and kept: bounded UTF-8 without control characters. */
static bool is_clean(const char *s, size_t len, size_t min)
{
	if (len < min || len > PROXY_MAX_TEXT || !utf8_valid(s, len))
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return false;
	return true;
}

/* A clean string of the record in a buffer of its own; sets bad otherwise. */
static void take_text(struct unpack *u, char to[PROXY_MAX_TEXT + 1], size_t min)
{
	size_t len;
	const char *s = unpack_bytes(u, &len);

	to[0] = '\0';
	if (!s || !is_clean(s, len, min)) {
		u->bad = true;
		return;
	}
	memcpy(to, s, len);
	to[len] = '\0';
}

/* Whether one more refusal may be handed on in this second. */
static bool within_rate(struct proxy *p)
{
	uint64_t now = uv_now(uv_handle_get_loop((uv_handle_t *)&p->guard));

	if (now - p->window >= WINDOW_MS) {
		p->window = now;
		p->in_window = 0;
	}
	return ++p->in_window <= BLOCKED_LIMIT;
}

static int on_blocked(struct proxy *p, struct unpack *u)
{
	char host[PROXY_MAX_TEXT + 1], reason[PROXY_MAX_TEXT + 1], rule[PROXY_MAX_TEXT + 1];

	take_text(u, host, 1);
	uint32_t port = unpack_u32(u);
	take_text(u, reason, 1);
	take_text(u, rule, 0);
	uint32_t count = unpack_u32(u);
	uint64_t first = unpack_u64(u), last = unpack_u64(u);
	if (!unpack_end(u) || port > 65535 || count == 0 || first > last || last > clock_ms())
		return broken(p, "a malformed record of a refusal");
	if (p->cb.on_blocked && within_rate(p))
		p->cb.on_blocked(p->cb.arg, &(struct proxy_blocked){.host = host,
								    .port = port,
								    .reason = reason,
								    .rule = rule,
								    .count = count,
								    .first_ms = first,
								    .last_ms = last});
	return 0;
}

static int on_secret(struct proxy *p, struct unpack *u)
{
	char name[PROXY_MAX_TEXT + 1], host[PROXY_MAX_TEXT + 1];

	take_text(u, name, 1);
	take_text(u, host, 1);
	uint32_t port = unpack_u32(u), count = unpack_u32(u);
	uint64_t first = unpack_u64(u), last = unpack_u64(u);
	if (!unpack_end(u) || port > 65535 || count == 0 || first > last || last > clock_ms())
		return broken(p, "a malformed record of a secret");
	const struct proxy_secret_blocked b = {
		.name = name, .host = host, .port = port, .count = count, .first_ms = first, .last_ms = last};
	if (p->cb.on_secret_blocked && within_rate(p))
		p->cb.on_secret_blocked(p->cb.arg, &b);
	return 0;
}

static void free_totals(struct proxy_host_total *t, char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	free(t);
}

static int on_summary(struct proxy *p, struct unpack *u)
{
	uint32_t n = unpack_u32(u);

	if (!p->stopping || p->summary_told || n > PROXY_MAX_HOSTS + 1)
		return broken(p, "a summary that was not asked for");
	struct proxy_host_total *t = xcalloc((size_t)n + 1, sizeof *t);
	char **names = xcalloc((size_t)n + 1, sizeof *names);
	for (uint32_t i = 0; i < n && !u->bad; i++) {
		char host[PROXY_MAX_TEXT + 1];
		take_text(u, host, 1);
		t[i].host = names[i] = xstrdup(host);
		t[i].allowed = unpack_u64(u);
		t[i].blocked = unpack_u64(u);
		t[i].bytes_up = unpack_u64(u);
		t[i].bytes_down = unpack_u64(u);
	}
	bool good = unpack_end(u);
	if (good) {
		p->summary_told = true;
		if (p->cb.on_summary)
			p->cb.on_summary(p->cb.arg, t, n);
	}
	free_totals(t, names, n);
	return good ? 0 : broken(p, "a malformed summary");
}

static int on_ready(struct proxy *p)
{
	if (p->ready_told)
		return broken(p, "that it is ready twice");
	p->ready_told = true;
	p->ready(p->ready_arg, NULL);
	return 0;
}

/* It says why it could not be confined; the end of the process follows. */
static int on_error(struct proxy *p, struct unpack *u)
{
	size_t msg_len, hint_len;
	const char *msg = unpack_bytes(u, &msg_len), *hint = unpack_bytes(u, &hint_len);

	if (!unpack_end(u) || !is_clean(msg, MIN(msg_len, (size_t)PROXY_MAX_TEXT), 1) || p->ready_told)
		return broken(p, "a malformed error");
	err_set(&p->why, ERR_SANDBOX, 0, "%.*s", (int)MIN(msg_len, (size_t)PROXY_MAX_TEXT), msg);
	if (hint_len && is_clean(hint, hint_len, 1))
		err_hint(&p->why, "%.*s", (int)hint_len, hint);
	return 0;
}

/* The first word of a proxy that inspects. */
static int receive_authority(struct proxy *p, struct err *e)
{
	struct frame f = {0};
	int r = frame_recv_wait(p->conn, &f, AUTHORITY_MS);
	struct unpack u = {.p = f.payload, .left = f.len};

	if (r < 0) {
		err_hint(e, "Run again, and report it when it happens twice.");
		return err_sys(e, -r, "start the proxy: wait for the certificate of TLS inspection");
	}
	if (f.type == PROXY_ERROR) {
		r = on_error(p, &u);
		err_copy(e, &p->why);
		return r < 0 ? r : -EIO;
	}
	size_t len = 0;
	const char *pem = unpack_bytes(&u, &len);
	if (f.type != PROXY_AUTHORITY || f.nfds || !unpack_end(&u) || !proxy_is_certificate(pem, len)) {
		r = broken(p, "a malformed certificate");
		err_copy(e, &p->why);
		return r;
	}
	p->certificate = xstrndup(pem, len);
	return 0;
}

int proxy_new(const struct proxy_params *params, struct proxy **ret, struct err *e)
{
	int pair[2];
	pid_t pid = -1;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "start the proxy: make its control socket");
	auto_fd ours = pair[0], theirs = pair[1];
	int r = proxy_start_process(params, theirs, &pid, e);
	if (r < 0)
		return r;
	/* With our copy open its end would never show. */
	close_quietly(TAKE_FD(theirs));
	struct proxy *p = xcalloc(1, sizeof *p);
	p->pid = pid;
	p->conn = frame_conn_new(TAKE_FD(ours), PROXY_TO_PARENT_MAX);
	r = params->inspect ? receive_authority(p, e) : 0;
	if (r < 0) {
		proxy_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

static int on_hooked(struct proxy *p, struct unpack *u)
{
	uint32_t what = unpack_u32(u), errnum = unpack_u32(u);

	if (!TEST_HOOKS || !unpack_end(u) || what >= PROXY_HOOK_MAX || errnum > 4095)
		return broken(p, "the result of a hook that does not exist");
	if (p->cb.on_test_hook)
		p->cb.on_test_hook(p->cb.arg, (int)what, (int)errnum);
	return 0;
}

static int on_frame(struct proxy *p, const struct frame *f)
{
	struct unpack u = {.p = f->payload, .left = f->len};

	if (f->nfds || (!p->ready_told && f->type != PROXY_READY && f->type != PROXY_ERROR))
		return broken(p, "a record out of order");
	switch (f->type) {
	case PROXY_READY:
		return on_ready(p);
	case PROXY_ERROR:
		return on_error(p, &u);
	case PROXY_BLOCKED:
		return on_blocked(p, &u);
	case PROXY_SECRET:
		return on_secret(p, &u);
	case PROXY_SUMMARY:
		return on_summary(p, &u);
	case PROXY_HOOKED:
		return on_hooked(p, &u);
	default:
		return broken(p, "a record of an unknown type");
	}
}

static void on_conn(uv_poll_t *h, int status, int events);
static void ended(struct proxy *p);

static void watch(struct proxy *p)
{
	int want = UV_READABLE | (frame_wants_write(p->conn) ? UV_WRITABLE : 0);

	if (!p->attached || p->conn_want == want || uv_is_closing((uv_handle_t *)&p->conn_poll))
		return;
	p->conn_want = want;
	(void)uv_poll_start(&p->conn_poll, want, on_conn);
}

/* Works off what it sent; a negative result means that nothing more will come. */
static int receive(struct proxy *p)
{
	struct frame f;
	int r = 0;

	while (p->why.kind == ERR_NONE && (r = frame_recv(p->conn, &f)) > 0) {
		r = on_frame(p, &f);
		if (r < 0)
			return r;
	}
	if (r == -EPROTO)
		return broken(p, "a malformed frame");
	return p->why.kind == ERR_NONE ? r : -EPROTO;
}

static void on_conn(uv_poll_t *h, int status, int events)
{
	struct proxy *p = h->data;
	int r = status;

	if (r >= 0 && (events & UV_WRITABLE))
		r = frame_flush(p->conn);
	if (r >= 0)
		r = receive(p);
	if (r < 0) {
		/* A closed socket means a process about to end; make sure of it, and the wait for it is short. */
		kill_process(p);
		reap(p);
		ended(p);
		return;
	}
	watch(p);
}

static void tell_lost(struct proxy *p)
{
	struct err e = p->why;

	if (e.kind == ERR_NONE) {
		if (p->status.signaled)
			err_set(&e, ERR_NETWORK, 0, "the egress proxy was killed by signal %d (%s)", p->status.code,
				strsignal(p->status.code));
		else
			err_set(&e, ERR_NETWORK, 0, "the egress proxy ended unexpectedly with code %d", p->status.code);
		err_hint(&e, "the sandbox has no network from here on; run again, and report it when it happens twice");
	}
	p->lost = true;
	if (!p->ready_told) {
		p->ready_told = true;
		p->ready(p->ready_arg, &e);
	} else if (p->cb.on_lost) {
		p->cb.on_lost(p->cb.arg, &e);
	}
}

/* It is gone and was reaped. */
static void ended(struct proxy *p)
{
	(void)uv_poll_stop(&p->conn_poll);
	p->conn_want = -1;
	if (!p->stopping) {
		tell_lost(p);
		return;
	}
	if (!p->summary_told && p->cb.on_summary)
		p->cb.on_summary(p->cb.arg, NULL, 0);
	p->summary_told = true;
	close_handles(p);
}

/* What came behind the certificate was read with it, and no event tells of that. */
static void look_at_once(uv_timer_t *t)
{
	struct proxy *p = t->data;

	on_conn(&p->conn_poll, 0, UV_READABLE);
}

int proxy_attach(struct proxy *p, uv_loop_t *loop, const struct proxy_callbacks *cb,
		 void (*ready)(void *arg, const struct err *e), void *ready_arg, struct err *e)
{
	int r = uv_timer_init(loop, &p->guard);

	p->conn_poll.data = p->guard.data = p;
	if (r == 0) {
		p->open_handles++;
		r = uv_poll_init(loop, &p->conn_poll, frame_conn_fd(p->conn));
	}
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "watch the proxy: %s", uv_strerror(r));
	p->open_handles++;
	p->attached = true;
	p->cb = *cb;
	p->ready = ready;
	p->ready_arg = ready_arg;
	watch(p);
	if (p->certificate)
		(void)uv_timer_start(&p->guard, look_at_once, 0, 0);
	return 0;
}

int proxy_add_listener(struct proxy *p, int fd)
{
	if (p->lost || p->stopping) {
		close_quietly(fd);
		return -EPIPE;
	}
	int r = frame_send(p->conn, PROXY_LISTENER, 0, NULL, 0, &fd, 1);
	watch(p);
	return r;
}

static void too_late(uv_timer_t *t)
{
	kill_process(t->data);
}

void proxy_stop(struct proxy *p, unsigned drain_ms, void (*done)(void *arg), void *arg)
{
	auto_buf b = BUF_INIT(16);

	if (p->stopping)
		return;
	p->stopping = true;
	p->done = done;
	p->done_arg = arg;
	if (!p->attached) {
		kill_process(p);
		reap(p);
		done(arg);
		return;
	}
	if (p->lost) {
		if (p->cb.on_summary)
			p->cb.on_summary(p->cb.arg, NULL, 0);
		p->summary_told = true;
		close_handles(p);
		return;
	}
	(void)pack_u32(&b, drain_ms);
	if (frame_send(p->conn, PROXY_STOP, 0, b.data, b.len, NULL, 0) < 0)
		kill_process(p);
	watch(p);
	/* The loop's clock stands since its last turn, which may be long ago: without this the time would be up at
	 * once. */
	uv_update_time(uv_handle_get_loop((uv_handle_t *)&p->guard));
	(void)uv_timer_start(&p->guard, too_late, (uint64_t)drain_ms + GRACE_MS, 0);
}

#if TEST_HOOKS
int proxy_test_hook(struct proxy *p, int what)
{
	auto_buf b = BUF_INIT(16);

	(void)pack_u32(&b, (uint32_t)what);
	int r = frame_send(p->conn, PROXY_HOOK, 0, b.data, b.len, NULL, 0);
	watch(p);
	return r;
}
#else
int proxy_test_hook(struct proxy *p, int what)
{
	(void)p;
	(void)what;
	return -ENOSYS;
}
#endif
