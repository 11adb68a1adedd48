/* The surroundings of the proxy in its tests. The server is a process of its own with a thread for each connection, so
 * that the test itself can be a plain blocking client; it was forked before any thread or loop existed. */
#include "proxy_world.h"

#include <errno.h>
#include <poll.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <net/policy.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { REST_MAX = 1 << 20, HEAD_MAX = 128 * 1024 };

static struct server_ports ports;
static pid_t server_pid;

unsigned char bulk_byte(size_t i)
{
	return (unsigned char)((i * 2654435761u) >> 13 ^ i >> 20);
}

static int listen_on_loopback(unsigned *ret_port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof sa;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

/* ---- the server's side; no assertions here ---- */

static bool send_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(send(fd, p, len, MSG_NOSIGNAL));
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool say(int fd, const char *s)
{
	return send_all(fd, s, strlen(s));
}

/* A line without its CR LF; false at the end. */
static bool read_line(int fd, char *to, size_t size)
{
	size_t n = 0;
	char c;

	while (n + 1 < size && TEMP_FAILURE_RETRY(recv(fd, &c, 1, 0)) == 1) {
		if (c == '\n') {
			to[n] = '\0';
			return true;
		}
		if (c != '\r')
			to[n++] = c;
	}
	return false;
}

static void serve_echo(int fd)
{
	char block[16384];
	ssize_t n;

	while ((n = TEMP_FAILURE_RETRY(recv(fd, block, sizeof block, 0))) > 0)
		if (!send_all(fd, block, (size_t)n))
			return;
	if (n == 0)
		say(fd, "bye");
}

static void serve_bulk(int fd)
{
	char line[64];
	static const size_t size = 1 << 16;
	unsigned char *block = malloc(size);

	if (block && read_line(fd, line, sizeof line)) {
		size_t total = strtoull(line, NULL, 10);
		for (size_t at = 0; at < total;) {
			size_t n = total - at < size ? total - at : size;
			for (size_t i = 0; i < n; i++)
				block[i] = bulk_byte(at + i);
			if (!send_all(fd, block, n))
				break;
			at += n;
		}
	}
	free(block);
}

struct request {
	char line[4096];
	char fields[8192]; /* all header lines, joined by \n */
	size_t length;
	bool chunked, close, expect;
};

static bool read_request(int fd, struct request *r)
{
	char line[4096];

	memset(r, 0, sizeof *r);
	if (!read_line(fd, r->line, sizeof r->line))
		return false;
	while (read_line(fd, line, sizeof line) && line[0]) {
		if (strncasecmp(line, "content-length:", 15) == 0)
			r->length = strtoull(line + 15, NULL, 10);
		r->chunked |= strcasecmp(line, "transfer-encoding: chunked") == 0;
		r->expect |= strcasecmp(line, "expect: 100-continue") == 0;
		if (strlen(r->fields) + strlen(line) + 2 < sizeof r->fields) {
			strcat(r->fields, line);
			strcat(r->fields, "\n");
		}
	}
	return true;
}

/* Reads the body; returns its length in a NUL-terminated buffer. */
static size_t read_body(int fd, const struct request *r, char *to, size_t max)
{
	char line[256];
	size_t n = 0;

	if (!r->chunked) {
		while (n < r->length && n < max && TEMP_FAILURE_RETRY(recv(fd, to + n, 1, 0)) == 1)
			n++;
		return n;
	}
	while (read_line(fd, line, sizeof line)) {
		size_t chunk = strtoull(line, NULL, 16);
		for (size_t i = 0; i < chunk && n < max && TEMP_FAILURE_RETRY(recv(fd, to + n, 1, 0)) == 1; i++)
			n++;
		(void)read_line(fd, line, sizeof line);
		if (chunk == 0)
			break;
	}
	return n;
}

static void answer(int fd, const char *extra, const char *body, size_t len)
{
	char head[512];

	snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n%s\r\n", len, extra);
	say(fd, head);
	send_all(fd, body, len);
}

/* One answer by path; false when the connection ends. */
static bool serve_request(int fd, const struct request *r, const char *path)
{
	static _Thread_local char body[1 << 20];

	if (r->expect)
		say(fd, "HTTP/1.1 100 Continue\r\n\r\n");
	size_t n = read_body(fd, r, body, sizeof body);
	if (strcmp(path, "/echo") == 0) {
		answer(fd, "", body, n);
	} else if (strcmp(path, "/fields") == 0) {
		answer(fd, "X-Kept: yes\r\nConnection: X-Dropped\r\nX-Dropped: 1\r\nProxy-Thing: 1\r\n", r->fields,
		       strlen(r->fields));
	} else if (strcmp(path, "/line") == 0) {
		answer(fd, "", r->line, strlen(r->line));
	} else if (strcmp(path, "/chunked") == 0) {
		say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\n"
			"X-Trailer: 1\r\n\r\n");
	} else if (strcmp(path, "/until-close") == 0) {
		say(fd, "HTTP/1.1 200 OK\r\n\r\nto the end");
		return false;
	} else if (strcmp(path, "/cut") == 0) {
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
		return false;
	} else if (strcmp(path, "/smuggle") == 0) {
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc");
		return false;
	} else if (strcmp(path, "/once") == 0) {
		answer(fd, "", "once", 4);
		return false;
	} else if (strcmp(path, "/sse") == 0) {
		/* The second event comes only after the client has opened /go: it must have seen the first by then. */
		say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
			"6\r\ndata 1\r\n");
		char c;
		(void)TEMP_FAILURE_RETRY(recv(fd, &c, 1, 0));
		return false;
	} else if (strcmp(path, "/ws") == 0) {
		say(fd, strstr(r->fields, "Upgrade: websocket")
				? "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
				  "Connection: Upgrade\r\n\r\nfirst"
				: "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
		serve_echo(fd);
		return false;
	} else {
		say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
	}
	return true;
}

static void serve_http(int fd)
{
	struct request *r = malloc(sizeof *r);
	bool go = r != NULL;

	while (go && read_request(fd, r)) {
		char path[1024] = "";
		if (sscanf(r->line, "%*31s %1023s", path) != 1)
			break;
		path[strcspn(path, "?")] = '\0';
		go = serve_request(fd, r, path);
	}
	free(r);
}

struct service {
	int fd;
	void (*serve)(int fd);
};

static void *connection(void *arg)
{
	struct service *s = arg;
	int on = 1;

	(void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	s->serve(s->fd);
	(void)close(s->fd);
	free(s);
	return NULL;
}

static void *acceptor(void *arg)
{
	struct service *l = arg;
	pthread_t t;

	for (;;) {
		struct service *s = malloc(sizeof *s);
		if (!s)
			return NULL;
		s->serve = l->serve;
		s->fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		if (s->fd < 0 || pthread_create(&t, NULL, connection, s) != 0)
			return NULL;
		(void)pthread_detach(t);
	}
}

const struct server_ports *server_start(void)
{
	int dead = listen_on_loopback(&ports.dead);
	static struct service services[3] = {{0, serve_echo}, {0, serve_bulk}, {0, serve_http}};

	services[0].fd = listen_on_loopback(&ports.echo);
	services[1].fd = listen_on_loopback(&ports.bulk);
	services[2].fd = listen_on_loopback(&ports.http);
	(void)close(dead);
	server_pid = fork();
	assert_true(server_pid >= 0);
	if (server_pid == 0) {
		pthread_t t[3];
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < 3; i++)
			(void)pthread_create(&t[i], NULL, acceptor, &services[i]);
		(void)pthread_join(t[0], NULL);
		_exit(0);
	}
	for (int i = 0; i < 3; i++)
		(void)close(services[i].fd);
	return &ports;
}

void server_stop(void)
{
	(void)kill(server_pid, SIGKILL);
	(void)waitpid(server_pid, NULL, 0);
}

/* ---- the run's side ---- */

static void on_blocked(void *arg, const struct proxy_blocked *b)
{
	struct world *w = arg;
	struct seen_blocked *s = &w->blocked[w->n_blocked];

	if (w->n_blocked == MAX_SEEN)
		return;
	w->n_blocked++;
	snprintf(s->host, sizeof s->host, "%s", b->host);
	snprintf(s->reason, sizeof s->reason, "%s", b->reason);
	snprintf(s->rule, sizeof s->rule, "%s", b->rule);
	s->port = b->port;
	s->count = b->count;
}

static void on_summary(void *arg, const struct proxy_host_total *t, size_t n)
{
	struct world *w = arg;

	w->summaries++;
	for (size_t i = 0; i < n && w->n_totals < MAX_SEEN; i++) {
		struct seen_total *s = &w->totals[w->n_totals++];
		snprintf(s->host, sizeof s->host, "%s", t[i].host);
		s->allowed = t[i].allowed;
		s->blocked = t[i].blocked;
		s->up = t[i].bytes_up;
		s->down = t[i].bytes_down;
	}
}

static void on_lost(void *arg, const struct err *e)
{
	struct world *w = arg;

	assert_false(w->lost);
	w->lost = true;
	snprintf(w->error, sizeof w->error, "%s", e->msg);
}

static void on_test_hook(void *arg, int what, int errnum)
{
	struct world *w = arg;

	(void)what;
	w->hooked = true;
	w->hook_errno = errnum;
}

static void on_ready(void *arg, const struct err *e)
{
	struct world *w = arg;

	w->ready = true;
	w->failed = e != NULL;
	if (e)
		snprintf(w->error, sizeof w->error, "%s", e->msg);
}

static void on_done(void *arg)
{
	((struct world *)arg)->done = true;
}

static void on_tick(uv_timer_t *t)
{
	*(bool *)t->data = true;
}

static void wait_for(struct world *w, const bool *flag, unsigned ms, bool must)
{
	bool late = false;
	uv_timer_t timer;

	uv_timer_init(&w->loop, &timer);
	timer.data = &late;
	/* It repeats: one turn of the loop runs due timers first and then waits, for ever when none is left. */
	uv_update_time(&w->loop);
	uv_timer_start(&timer, on_tick, ms, ms);
	while (!late && !(flag && *flag))
		uv_run(&w->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&w->loop, UV_RUN_NOWAIT);
	if (must && !*flag)
		fail_msg("waited in vain; last error: %s", w->error);
}

void world_wait(struct world *w, const bool *flag)
{
	wait_for(w, flag, 10000, true);
}

void world_run(struct world *w, unsigned ms)
{
	wait_for(w, NULL, ms, false);
}

void world_start(struct world *w, const char *const *rules, const struct proxy_params *params)
{
	const struct proxy_callbacks cb = {.on_blocked = on_blocked,
					   .on_summary = on_summary,
					   .on_lost = on_lost,
					   .on_test_hook = on_test_hook,
					   .arg = w};
	struct proxy_params p = params ? *params : (struct proxy_params){0};
	struct policy *policy = NULL;
	struct err e = ERR_INIT;

	memset(w, 0, sizeof *w);
	uv_loop_init(&w->loop);
	if (policy_new(NETWORK_ALLOWLIST, NULL, rules, &policy, &e) < 0)
		fail_msg("%s", e.msg);
	p.policy = policy;
	if (proxy_new(&p, &w->proxy, &e) < 0)
		fail_msg("%s", e.msg);
	policy_free(policy);
	if (proxy_attach(w->proxy, &w->loop, &cb, on_ready, w, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(proxy_add_listener(w->proxy, listen_on_loopback(&w->port)), 0);
	world_wait(w, &w->ready);
	if (w->failed)
		fail_msg("%s", w->error);
}

void world_begin_stop(struct world *w, unsigned drain_ms)
{
	w->stopping = true;
	proxy_stop(w->proxy, drain_ms, on_done, w);
}

void world_stop(struct world *w)
{
	if (!w->stopping)
		world_begin_stop(w, 300);
	world_wait(w, &w->done);
	if (w->lost && !w->may_be_lost)
		fail_msg("%s", w->error);
	assert_int_equal(w->summaries, 1);
	proxy_free(w->proxy);
	assert_int_equal(uv_loop_close(&w->loop), 0);
}

/* ---- the client's side ---- */

int client_connect(unsigned port)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval limit = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	int r = connect(fd, (struct sockaddr *)&sa, sizeof sa);
	if (r < 0 && errno == EINTR) {
		/* It goes on by itself, and is not to be called again (connect(2), ERRORS). */
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		socklen_t len = sizeof r;
		(void)TEMP_FAILURE_RETRY(poll(&p, 1, 10000));
		assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &r, &len), 0);
	}
	assert_int_equal(r, 0);
	return fd;
}

void client_write(int fd, const void *data, size_t len)
{
	assert_true(send_all(fd, data, len));
}

void client_send(int fd, const char *fmt, ...)
{
	char text[HEAD_MAX];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	assert_in_range(n, 0, sizeof text - 1);
	client_write(fd, text, (size_t)n);
}

const char *client_head(int fd)
{
	static char head[HEAD_MAX];
	size_t n = 0;

	while (n + 1 < sizeof head && (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0)) {
		if (TEMP_FAILURE_RETRY(recv(fd, head + n, 1, 0)) != 1)
			return "";
		n++;
	}
	head[n] = '\0';
	return head;
}

size_t client_read(int fd, void *to, size_t len)
{
	size_t n = 0;

	while (n < len) {
		ssize_t r = TEMP_FAILURE_RETRY(recv(fd, (char *)to + n, len - n, 0));
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	return n;
}

const char *client_rest(int fd)
{
	static char rest[REST_MAX];

	rest[client_read(fd, rest, sizeof rest - 1)] = '\0';
	return rest;
}

unsigned status_of(const char *head)
{
	return strncmp(head, "HTTP/1.1 ", 9) == 0 ? (unsigned)strtoul(head + 9, NULL, 10) : 0;
}

unsigned client_tunnel(int fd, unsigned port)
{
	client_send(fd, "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", port, port);
	return status_of(client_head(fd));
}
