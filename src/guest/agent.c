/* `agent`: the exec server where no descriptor can travel between host and sandbox, as through `kubectl exec`.
 *
 * It is a translator between two connections. On its stdin and stdout the host sends frames, the bytes of programs
 * among them; on the other side PID 1 (init.c) starts programs and gets descriptors, as in every sandbox. For each
 * program the agent makes the pipes, passes one end of each to PID 1, and moves bytes (agent_exec.c). It decides
 * nothing itself. PID 1 takes one connection, which is the agent's, since nothing else runs yet; when the agent ends,
 * because the host went away or somebody inside killed it, PID 1 sees that and ends the sandbox a while later.
 *
 * It never waits for a program and never blocks on a descriptor of one. */
#include "agent_exec.h"
#include "guest.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HOST_IN, HOST_OUT, INIT, N_FIXED };

struct agent {
	struct frame_conn *host, *init;
	struct agent_exec **v;
	size_t n, cap;
	struct pollfd *polls;
};

static struct agent_exec *find(const struct agent *a, uint32_t stream)
{
	for (size_t i = 0; i < a->n; i++)
		if (agent_exec_stream(a->v[i]) == stream)
			return a->v[i];
	return NULL;
}

static int not_started(struct agent *a, uint32_t stream, int errnum)
{
	auto_buf b = BUF_INIT(64);
	const struct guest_exec_end end = {.end = GUEST_NOT_STARTED, .code = (uint32_t)errnum};
	int r = guest_end_pack(&b, &end);

	return r < 0 ? r : frame_send(a->host, GUEST_EXEC_ENDED, stream, b.data, b.len, NULL, 0);
}

static int start(struct agent *a, const struct frame *f)
{
	struct agent_exec *x;
	int fds[3];

	if (find(a, f->stream))
		return -EPROTO;
	int r = agent_exec_new(f, &x, fds);
	if (r < 0)
		return not_started(a, f->stream, -r);
	a->v = grow_array(a->v, a->n, &a->cap, sizeof(struct agent_exec *));
	a->v[a->n++] = x;
	return frame_send(a->init, GUEST_EXEC, f->stream, f->payload, f->len, fds, 3);
}

static int on_host_frame(struct agent *a, const struct frame *f)
{
	struct agent_exec *x = find(a, f->stream);

	switch (f->type) {
	case GUEST_CONFIG:
	case GUEST_SIGNAL:
	case GUEST_END:
		return frame_send(a->init, f->type, f->stream, f->payload, f->len, NULL, 0);
	case GUEST_EXEC:
		return start(a, f);
	/* What was under way when the program ended. */
	case GUEST_INPUT:
		return x ? agent_exec_input(x, a->host, f) : 0;
	case GUEST_CREDIT:
		return x ? agent_exec_credit(x, f) : 0;
	case GUEST_RESIZE:
		return x ? agent_exec_resize(x, f) : 0;
	default:
		return -EPROTO;
	}
}

static int on_init_frame(struct agent *a, const struct frame *f)
{
	struct agent_exec *x = find(a, f->stream);

	/* Descriptors that came with it are closed with the next frame. */
	if (f->type != GUEST_EXEC_ENDED)
		return frame_send(a->host, f->type, f->stream, f->payload, f->len, NULL, 0);
	if (x)
		agent_exec_ended(x, f);
	return 0;
}

static int take(struct agent *a, struct frame_conn *from, int (*on_frame)(struct agent *, const struct frame *))
{
	struct frame f;
	int r = frame_flush(from);

	while (r == 0 && (r = frame_recv(from, &f)) == 1)
		r = on_frame(a, &f);
	return r;
}

static void prepare(struct agent *a)
{
	bool may_read = !frame_wants_write(a->host);

	a->polls = xreallocarray(a->polls, N_FIXED + a->n * AGENT_EXEC_POLLS, sizeof *a->polls);
	a->polls[HOST_IN] = (struct pollfd){.fd = frame_conn_fd(a->host), .events = POLLIN};
	a->polls[HOST_OUT] = (struct pollfd){.fd = may_read ? -1 : frame_conn_out_fd(a->host), .events = POLLOUT};
	a->polls[INIT] = (struct pollfd){.fd = frame_conn_fd(a->init),
					 .events = (short)(POLLIN | (frame_wants_write(a->init) ? POLLOUT : 0))};
	for (size_t i = 0; i < a->n; i++)
		agent_exec_poll(a->v[i], may_read, a->polls + N_FIXED + i * AGENT_EXEC_POLLS);
}

static int move_all(struct agent *a, size_t n)
{
	size_t kept = 0;
	int r = 0;

	/* n of them were asked for; frames may have brought more since, behind those. */
	for (size_t i = 0; i < a->n; i++) {
		int one = r == 0 && i < n ? agent_exec_move(a->v[i], a->host, a->polls + N_FIXED + i * AGENT_EXEC_POLLS)
					  : 0;
		if (one == 1)
			agent_exec_free(a->v[i]);
		else
			a->v[kept++] = a->v[i];
		r = one < 0 ? one : r;
	}
	a->n = kept;
	return r;
}

static int serve(struct agent *a)
{
	const uint32_t version = GUEST_PROTOCOL_VERSION;
	int r = frame_send(a->host, GUEST_HELLO, 0, &version, sizeof version, NULL, 0);

	while (r == 0) {
		prepare(a);
		size_t n = a->n;
		if (poll(a->polls, N_FIXED + n * AGENT_EXEC_POLLS, -1) < 0)
			return -errno;
		if (a->polls[HOST_OUT].revents)
			r = frame_flush(a->host);
		if (r == 0 && a->polls[INIT].revents)
			r = take(a, a->init, on_init_frame);
		if (r == 0 && a->polls[HOST_IN].revents)
			r = take(a, a->host, on_host_frame);
		if (r == 0)
			r = move_all(a, n);
	}
	return r;
}

static int dial(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(sa.sun_path + 1, GUEST_AGENT_SOCKET, strlen(GUEST_AGENT_SOCKET));
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(GUEST_AGENT_SOCKET));
	if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, len) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int guest_agent(int argc, char **argv)
{
	sigset_t all;

	(void)argc;
	(void)argv;
	/* No program inside ends it by a signal that can be blocked, and none reads the bytes of another in it. */
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	int fd = dial();
	if (fd < 0) {
		fprintf(stderr, "iterion-guest: the sandbox's init does not answer: %s\n", strerror(-fd));
		return 1;
	}
	struct agent a = {
		.host = frame_conn_new_plain(STDIN_FILENO, STDOUT_FILENO, FRAME_MAX_PAYLOAD),
		.init = frame_conn_new(fd, FRAME_MAX_PAYLOAD),
	};
	int r = serve(&a);
	/* The last words of init, such as why it cannot start, may not have left yet. */
	if (r == -ECONNRESET && frame_wants_write(a.host)) {
		struct pollfd p = {.fd = frame_conn_out_fd(a.host), .events = POLLOUT};
		while (frame_wants_write(a.host) && poll(&p, 1, 1000) > 0 && frame_flush(a.host) == 0)
			;
	}
	for (size_t i = 0; i < a.n; i++)
		agent_exec_free(a.v[i]);
	free(a.v);
	free(a.polls);
	frame_conn_free(a.host);
	frame_conn_free(a.init);
	return r == -ECONNRESET ? 0 : 1;
}
