/* What a container without guest is asked before its programs run.
 *
 * The guest's connection proves that the engine runs on this machine and mounts its files. Without it the engine may be
 * anywhere: in a virtual machine, or behind a tunnel on a host that has another folder at the same path, perhaps with
 * an old copy of the same files. So an empty folder with a random name is made in the workspace, and must be seen from
 * inside; then it is removed. A later run removes what a killed one left.
 *
 * The proxy's listening socket is made here as well. Where the container's network may be entered it is on loopback
 * there (enter.c). Else it is one of this machine's, and must be reached from inside, with a random word, before it
 * becomes the proxy's: nothing else tells whether a firewall or a virtual machine stands between. An engine of this
 * machine has its bridge's address here; a virtual machine's name for its host leads to this loopback. One address is
 * tried after the other; the socket of one that was not reached is closed first. What comes in meanwhile is anybody's,
 * and is read once, within a bound. */
#include "reach.h"
#include "container_priv.h"
#include "enter.h"
#include "labels.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NONCE_BYTES = 16,
	ASK_MS = 30 * 1000,
	PROBE_MS = 15 * 1000,
	ACCEPTS = 16,
	NOT_SEEN = 3,
	NO_PROGRAM = 4,
	ID_MIN = 12
};

static const char marker_prefix[] = ".iterion-seen.";

/* As root, who may look into every folder. */
static const char look_script[] = "[ -d \"$1\" ] || exit 3";

/* $1 host, $2 port, $3 word. By whatever program the image has; what counts is what arrives here. Not by wget's own
 * time-out, over which a static busybox falls. */
static const char probe_script[] =
	"unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY\n"
	"has() { command -v \"$1\" >/dev/null 2>&1; }\n"
	"limit=; ! has timeout || limit='timeout 5'\n"
	"if has curl; then exec $limit curl -s -o /dev/null \"http://$1:$2/$3\"\n"
	"elif has wget; then exec $limit wget -q -O /dev/null \"http://$1:$2/$3\"\n"
	"elif has bash; then exec $limit bash -c 'exec 3<>\"/dev/tcp/$0/$1\" && printf \"GET /%s "
	"HTTP/1.0\\r\\n\\r\\n\" "
	"\"$2\" >&3 && read -r x <&3' \"$1\" \"$2\" \"$3\"\n"
	"elif has python3; then exec $limit python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1])' "
	"\"http://$1:$2/$3\"\n"
	"else exit 4; fi\n";

struct reach {
	struct container *c;
	void (*done)(struct container *c, const int *listeners, size_t n);
	char *marker; /* in the workspace, while it is there */
	char *inside; /* the same in the container */
	struct proxy_place place;
	union proxy_address tries[2];
	size_t n, at;
	int fd;
	uint16_t port;
	uv_poll_t poll;
	char nonce[NONCE_BYTES * 2 + 1];
	bool reached, no_program;
	bool again;	/* what could not be entered lives? */
	struct err why; /* it could not */
	char tried[PROXY_WHERE_SIZE * 4];
};

static void remove_marker(struct reach *r)
{
	if (r->marker)
		(void)rmdir(r->marker);
	free(TAKE_PTR(r->marker));
}

static void reach_free(struct reach *r)
{
	r->c->reach = NULL;
	remove_marker(r);
	close_quietly(r->fd);
	free(r->inside);
	free(r);
}

static void fail(struct reach *r, const struct err *e)
{
	struct container *c = r->c;

	reach_free(r);
	container_lost(c, e);
}

/* The engine's words for a step that failed. */
static void fail_step(struct reach *r, const struct cli_result *res, const char *what)
{
	struct container *c = r->c;

	reach_free(r);
	container_fail(c, res, what);
}

static void finish(struct reach *r, const int *listeners, size_t n)
{
	struct container *c = r->c;
	void (*done)(struct container * c, const int *listeners, size_t n) = r->done;

	reach_free(r);
	done(c, listeners, n);
}

/* One connection: read once, answered when it has the word. */
static void hear(struct reach *r, int fd)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
	char text[4096];
	ssize_t n = recv(fd, text, sizeof text, MSG_DONTWAIT);

	if (n <= 0 || !memmem(text, (size_t)n, r->nonce, strlen(r->nonce)))
		return;
	r->reached = true;
	(void)send(fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct reach *r = poll->data;

	(void)events;
	for (int i = 0; status == 0 && i < ACCEPTS; i++) {
		auto_fd fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		hear(r, fd);
	}
}

static void try_next(struct reach *r);

static void unreachable(struct reach *r)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_NETWORK, EHOSTUNREACH,
		      "start the sandbox: its programs do not reach the egress proxy as %s (it listened on%s)",
		      r->place.host, r->tried);
	err_hint(&e, "A firewall may drop what comes from the engine's network, or the engine is elsewhere: name with "
		     "ITERION_PROXY_LISTEN an address of this machine that containers reach, and with "
		     "ITERION_PROXY_ADVERTISE how they name it (docs/network.md).");
	fail(r, &e);
}

static void no_program(struct reach *r)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_SANDBOX, ENOTSUP,
		      "start the sandbox: whether its programs reach the egress proxy cannot be tried, since %s has "
		      "none of curl, wget, bash and python3",
		      r->c->image);
	err_hint(&e, "Use an image that has one of them, or one in which iterion-guest can run.");
	fail(r, &e);
}

static uint16_t advertised_port(const struct reach *r)
{
	return r->place.port ? r->place.port : r->port;
}

/* The loop has let go of the socket. */
static void on_unwatched(uv_handle_t *h)
{
	struct reach *r = h->data;
	struct container *c = r->c;
	int off = 0;

	if (c->over) {
		reach_free(r);
	} else if (r->reached) {
		(void)setsockopt(r->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &off, sizeof off);
		c->base.proxy_host = xstrdup(r->place.host);
		c->base.proxy_port = advertised_port(r);
		int fd = TAKE_FD(r->fd);
		finish(r, &fd, 1);
	} else if (r->no_program) {
		no_program(r);
	} else {
		close_quietly(TAKE_FD(r->fd));
		try_next(r);
	}
	container_idle(c);
}

static void on_probed(void *arg, const struct cli_result *res)
{
	struct container *c = arg;
	struct reach *r = c->reach;

	(void)container_step_ended(c);
	r->no_program = !res->status.signaled && res->status.code == NO_PROGRAM;
	uv_close((uv_handle_t *)&r->poll, on_unwatched);
	container_idle(c);
}

static int probe(struct reach *r, struct err *e)
{
	struct container *c = r->c;
	auto_free char *port = xasprintf("%hu", advertised_port(r));
	auto_free char *host = xasprintf(strchr(r->place.host, ':') ? "[%s]" : "%s", r->place.host);
	const char *const words[] = {"exec", c->name, "sh", "-c", probe_script, "sh", host, port, r->nonce, NULL};
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = PROBE_MS};

	return container_step_words(c, words, &o, on_probed, e);
}

/* Only what has something to say is accepted, so that one look is enough. */
static int watch(struct reach *r, struct err *e)
{
	struct container *c = r->c;
	int seconds = PROBE_MS / 1000;
	(void)setsockopt(r->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
	int bad = uv_poll_init(c->loop, &r->poll, r->fd);

	if (bad < 0)
		return err_sys(e, -bad, "watch the proxy's socket");
	r->poll.data = r;
	(void)uv_poll_start(&r->poll, UV_READABLE, on_connection);
	c->busy++;
	bad = probe(r, e);
	if (bad < 0) {
		container_lost(c, e);
		uv_close((uv_handle_t *)&r->poll, on_unwatched);
	}
	return 0;
}

static void try_next(struct reach *r)
{
	char where[PROXY_WHERE_SIZE];
	struct err e = ERR_INIT;

	for (r->fd = -1; r->fd < 0 && r->at < r->n; r->at++) {
		union proxy_address *a = &r->tries[r->at];
		r->fd = proxy_place_listen(a);
		proxy_address_text(a, where);
		if (r->fd < 0 && r->place.listens) {
			(void)err_sys(&e, -r->fd, "start the sandbox: listen on %s for the egress proxy", where);
			err_hint(&e, "ITERION_PROXY_LISTEN must be an address of this machine and, with a port, one "
				     "that nobody uses: only one sandbox at a time can have it.");
			fail(r, &e);
			return;
		}
		r->port = ntohs(a->sa.sa_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port);
	}
	if (r->fd < 0) {
		unreachable(r);
		return;
	}
	size_t len = strlen(r->tried);
	(void)snprintf(r->tried + len, sizeof r->tried - len, "%s %s", len ? "," : "", where);
	id_hex(r->nonce, NONCE_BYTES);
	if (watch(r, &e) < 0)
		fail(r, &e);
}

/* The bridge's address when that is this machine's: an engine in a virtual one has its own. */
static void add_gateway(struct reach *r, const char *text)
{
	auto_free char *first = xstrndup(text, strcspn(text, " \r\n"));
	union proxy_address a;

	if (proxy_address_read(first, &a) == 0 && proxy_address_is_ours(&a))
		r->tries[r->n++] = a;
}

static void on_gateway(void *arg, const struct cli_result *res)
{
	struct container *c = arg;
	struct reach *r = c->reach;

	if (!container_step_ended(c)) {
		reach_free(r);
	} else if (!cli_ok(res)) {
		fail_step(r, res, "ask for the sandbox's network");
	} else {
		add_gateway(r, res->out);
		r->tries[r->n++] =
			(union proxy_address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
		try_next(r);
	}
	container_idle(c);
}

static void begin_proxy(struct reach *r)
{
	struct container *c = r->c;
	const char *const words[] = {"inspect",	 "--type=container",
				     "--format", "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}",
				     c->name,	 NULL};
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = ASK_MS};
	struct err e = ERR_INIT;

	if (r->place.listens) {
		r->tries[r->n++] = r->place.listen;
		try_next(r);
	} else if (container_step_words(c, words, &o, on_gateway, &e) < 0) {
		fail(r, &e);
	}
}

static void not_ours(struct reach *r)
{
	const struct sandbox_params *p = r->c->p;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_SANDBOX, ESTALE,
		      "start the sandbox: %s in the container is not this machine's %s: the engine is on another "
		      "machine, or in a virtual one that does not share the folder",
		      p->workspace_target, p->workspace);
	err_hint(&e, "Run iterion on the engine's machine, put the workspace into a folder that both share at the same "
		     "path, or choose another driver with --sandbox-driver.");
	fail(r, &e);
}

static void offer(struct reach *r, const struct err *why)
{
	struct container *c = r->c;
	struct err e = *why;

	reach_free(r);
	container_offer(c, e.msg);
}

static int look(struct reach *r, struct err *e);

/* A process that is not here is on the engine's machine, or has ended, as an image may want it to. A container in which
 * programs can still be started is not over, and one of podman is always here. */
static void not_entered(struct reach *r, const struct err *why)
{
	struct container *c = r->c;
	struct err e = ERR_INIT;

	if (c->over) {
		reach_free(r);
	} else if (enter_is_elsewhere(why) && !c->engine->keep_id) {
		r->again = true;
		r->why = *why;
		if (look(r, &e) < 0)
			fail(r, &e);
	} else {
		e = *why;
		(void)err_wrap(&e, -e.errnum, "start the sandbox: give it a way to the egress proxy");
		err_hint(&e,
			 "Something in the image is in the way before any node runs (a first program of its own, or "
			 "folders below /run that its user may not enter): use another one. If you set ITERION_BIN, "
			 "it must name an iterion-guest for this machine.");
		fail(r, &e);
	}
}

static void on_entered(void *arg, const int *fds, size_t n, const struct err *e)
{
	struct reach *r = arg;
	struct container *c = r->c;

	if (!c->over && n > 0) {
		finish(r, fds, n);
	} else {
		for (size_t i = 0; i < n; i++)
			close_quietly(fds[i]);
		not_entered(r, e);
	}
	container_idle(c);
}

/* PID and id, as the engine says them. */
static void enter(struct reach *r, const char *text)
{
	struct container *c = r->c;
	size_t len = strcspn(text, " \r\n");
	auto_free char *first = xstrndup(text, len);
	const char *rest = text + len + strspn(text + len, " ");
	auto_free char *id = xstrndup(rest, strspn(rest, "0123456789abcdef"));
	unsigned long long pid = 0;
	struct err e = ERR_INIT;

	if (str_parse_uint(first, 2, INT32_MAX, &pid) < 0) {
		(void)err_set(&e, ERR_SANDBOX, ESRCH, "the engine does not say which process it is");
		not_entered(r, &e);
		return;
	}
	const struct enter_params p = {.pid = (pid_t)pid,
				       .id = strlen(id) >= ID_MIN ? id : "",
				       .marker = r->marker,
				       .inside = r->inside,
				       .port = PROXY_PORT,
				       .done = on_entered,
				       .arg = r};
	if (enter_start(c->loop, &p, &e) < 0)
		fail(r, &e);
	else
		c->busy++;
}

static void on_pid(void *arg, const struct cli_result *res)
{
	struct container *c = arg;
	struct reach *r = c->reach;

	if (!container_step_ended(c))
		reach_free(r);
	else if (!cli_ok(res))
		fail_step(r, res, "ask for the sandbox's first process");
	else
		enter(r, res->out);
	container_idle(c);
}

static void begin_enter(struct reach *r)
{
	struct container *c = r->c;
	const char *const words[] = {"inspect", "--type=container", "--format", "{{.State.Pid}} {{.Id}}", c->name,
				     NULL};
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = ASK_MS};
	struct err e = ERR_INIT;

	if (container_step_words(c, words, &o, on_pid, &e) < 0)
		fail(r, &e);
}

static void on_looked(void *arg, const struct cli_result *res)
{
	struct container *c = arg;
	struct reach *r = c->reach;

	if (!container_step_ended(c)) {
		reach_free(r);
	} else if (!res->status.signaled && res->status.code == NOT_SEEN) {
		not_ours(r);
	} else if (!cli_ok(res)) {
		fail_step(r, res, "look for the workspace in the sandbox");
	} else if (r->again) {
		offer(r, &r->why);
	} else if (c->enters) {
		begin_enter(r);
	} else {
		remove_marker(r);
		if (c->advisory)
			begin_proxy(r);
		else
			finish(r, NULL, 0);
	}
	container_idle(c);
}

static int look(struct reach *r, struct err *e)
{
	struct container *c = r->c;
	const char *const words[] = {"exec", "--user", "0", c->name, "sh", "-c", look_script, "sh", r->inside, NULL};
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = ASK_MS};

	return container_step_words(c, words, &o, on_looked, e);
}

static int make_marker(struct reach *r, struct err *e)
{
	const char *workspace = r->c->p->workspace;
	char owner[OWNER_SIZE];

	labels_sweep(workspace, marker_prefix);
	label_owner(owner);
	id_hex(r->nonce, NONCE_BYTES);
	auto_free char *path = xasprintf("%s/%s%s.%s", workspace, marker_prefix, owner, r->nonce);
	if (mkdir(path, 0700) < 0) {
		int bad = err_sys(e, errno,
				  "start the sandbox: make a folder in %s, to see whether the container "
				  "has the same one",
				  workspace);
		err_hint(e, "Make the workspace writable, or use an image in which iterion-guest can run.");
		return bad;
	}
	r->marker = TAKE_PTR(path);
	return 0;
}

int reach_start(struct container *c, void (*done)(struct container *c, const int *listeners, size_t n), struct err *e)
{
	struct reach *r = xcalloc(1, sizeof *r);

	r->c = c;
	r->done = done;
	r->fd = -1;
	r->place = c->place;
	c->reach = r;
	int bad = make_marker(r, e);
	if (bad == 0) {
		r->inside = path_join(c->p->workspace_target, strrchr(r->marker, '/') + 1);
		bad = look(r, e);
	}
	if (bad < 0)
		reach_free(r);
	return bad;
}
