/* PID 1 of a sandbox.
 *
 * It starts confined (the driver did that before exec) and is the only process of the sandbox that the host talks to.
 * Stages, each of which may assume the ones before it:
 *   1. block every signal and read SIGCHLD and SIGTERM from a descriptor; become undumpable, so that no process of the
 *      same user can trace it, read its memory or its descriptors;
 *   2. have the control channel (inherited; in a container by connecting to the host's socket; in a pod by waiting for
 *      the agent, agent.c) and read the configuration, which the host writes as its first words;
 *   3. prove from inside that the isolation asked for is there; when a forbidden thing works, say so and end;
 *   4. open the sandbox's listening sockets and hand them out: from then on only the proxy holds them;
 *   5. serve execs and reap until the host says to end, somebody outside sends SIGTERM, or the channel has been closed
 * for a while. When PID 1 ends the kernel kills whatever else runs in its namespace (pid_namespaces(7)). It must never
 * wait for a child, never write to a descriptor of a node, and never trust a frame. */
#include "guest.h"

#include <base/buf.h>
#include <base/clock.h>
#include <base/cleanup.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { AGENT_MS = 10 * 60 * 1000 };

static void send_failure(struct frame_conn *conn, const struct err *e)
{
	auto_buf b = BUF_INIT(4096);

	if (guest_err_pack(&b, e) == 0)
		(void)!frame_send(conn, GUEST_FAILED, 0, b.data, b.len, NULL, 0);
}

/* Stage 1. Returns the descriptor of SIGCHLD and SIGTERM. */
static int protect_self(struct err *e)
{
	sigset_t all, read_here;

	sigfillset(&all);
	sigemptyset(&read_here);
	sigaddset(&read_here, SIGCHLD);
	sigaddset(&read_here, SIGTERM);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		return err_sys(e, errno, "block signals");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, errno, "make init untraceable");
	/* A setting of the first instruction is not the same as one that holds now: prove it. */
	if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return err_set(e, ERR_SANDBOX, EPERM, "init can be traced although it was made undumpable");
	int fd = signalfd(-1, &read_here, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_sys(e, errno, "open a signalfd") : fd;
}

/* Stages 2 to 4. */
static int start_up(struct frame_conn *conn, struct guest_config *cfg, struct err *e)
{
	struct frame f;
	int fds[3], n = 0;

	int r = frame_recv_wait(conn, &f, -1);
	if (r < 0)
		return err_sys(e, -r, "read the sandbox's configuration");
	if (f.type != GUEST_CONFIG || guest_config_unpack(&f, cfg) < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the sandbox's configuration is malformed");
	r = guest_verify(cfg->checks, e);
	if (r < 0)
		return r;
	/* By it the host opens terminals that have a name inside; a sandbox without one has no terminals. */
	fds[0] = open("/dev/pts", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct guest_ready ready = {.version = GUEST_PROTOCOL_VERSION, .has_terminals = fds[0] >= 0};
	if (cfg->listen_port)
		n = guest_listen((uint16_t)cfg->listen_port, fds + ready.has_terminals, e);
	if (n < 0) {
		close_quietly(fds[0]);
		return n;
	}
	r = frame_send(conn, GUEST_READY, 0, &ready, sizeof ready, fds, (size_t)n + ready.has_terminals);
	return r < 0 ? err_sys(e, -r, "report ready") : 0;
}

static int handle_frame(struct exec_table *t, const struct frame *f)
{
	switch (f->type) {
	case GUEST_END:
		return -ESHUTDOWN;
	case GUEST_EXEC:
		return exec_table_start(t, f);
	case GUEST_SIGNAL:
		return exec_table_signal(t, f);
	default:
		return -EPROTO;
	}
}

static int serve_frames(struct frame_conn *conn, struct exec_table *t)
{
	struct frame f;
	int r = frame_flush(conn);

	while (r == 0 && (r = frame_recv(conn, &f)) == 1)
		r = handle_frame(t, &f);
	return r;
}

/* Handles the signals that came: 0, -ESHUTDOWN when init is to end, or what reaping says. A SIGTERM counts when it
 * comes from outside, whose numbers are 0 here (an engine's `stop`): no program inside ends init. */
static int handle_signals(struct exec_table *t, int sigfd)
{
	struct signalfd_siginfo si;
	int r = 0;

	while (r == 0 && read(sigfd, &si, sizeof si) == sizeof si) {
		if (si.ssi_signo == SIGTERM)
			r = si.ssi_pid == 0 ? -ESHUTDOWN : 0;
		else
			r = exec_table_reap(t);
	}
	return r;
}

/* After the channel closed: what runs may go on for a while (the host may come back only by a new sandbox). */
static void linger(struct exec_table *t, int sigfd, uint32_t ms)
{
	uint64_t end = clock_ms() + ms;

	for (uint64_t now = clock_ms(); now < end; now = clock_ms()) {
		struct pollfd p = {.fd = sigfd, .events = POLLIN};
		if (poll(&p, 1, (int)(end - now)) > 0 && handle_signals(t, sigfd) == -ESHUTDOWN)
			break;
	}
}

/* Stage 5. */
static void serve(struct frame_conn *conn, int sigfd, const struct guest_config *cfg)
{
	struct exec_table *t = exec_table_new(conn, cfg->ways);
	struct pollfd p[2] = {{.fd = frame_conn_fd(conn)}, {.fd = sigfd, .events = POLLIN}};
	int r = 0;

	while (r >= 0) {
		p[0].events = (short)(POLLIN | (frame_wants_write(conn) ? POLLOUT : 0));
		if (poll(p, 2, -1) < 0)
			break;
		if (p[1].revents)
			r = handle_signals(t, sigfd);
		if (r >= 0 && p[0].revents)
			r = serve_frames(conn, t);
	}
	if (r != -ESHUTDOWN)
		linger(t, sigfd, cfg->linger_ms);
	exec_table_free(t);
}

/* The host's listening socket, which it closes once we are connected. Returns the descriptor or -errno. */
static int dial(const char *path, struct err *e)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof sa.sun_path)
		return err_set(e, ERR_INPUT, ENAMETOOLONG, "connect to %s: the path is too long", path);
	memcpy(sa.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, sizeof sa) < 0)
		return err_sys(e, errno, "connect to the host at %s", path);
	return TAKE_FD(fd);
}

static int listen_for_agent(struct err *e)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(sa.sun_path + 1, GUEST_AGENT_SOCKET, strlen(GUEST_AGENT_SOCKET));
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(GUEST_AGENT_SOCKET));
	if (fd < 0 || bind(fd, (const struct sockaddr *)&sa, len) < 0 || listen(fd, 1) < 0)
		return err_sys(e, errno, "listen for the sandbox's agent");
	return TAKE_FD(fd);
}

/* Whoever waits for that reads a line from the FIFO. */
static void tell_listening(const char *fifo)
{
	/* Read and write: an open that never waits (fifo(7)). It is left open, so that the line stays there. */
	int fd = open(fifo, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0 && write(fd, "ready\n", strlen("ready\n")) < 0)
		close_quietly(fd);
}

/* The first connection of this user's is the agent's: nothing else of the sandbox runs before it. Then the socket
 * goes. A SIGTERM from outside ends the wait, and so does nobody's coming. */
static int await_agent(int sigfd, const char *fifo, struct err *e)
{
	auto_fd listener = listen_for_agent(e);
	uint64_t end = clock_ms() + AGENT_MS;

	if (listener >= 0 && fifo)
		tell_listening(fifo);
	for (uint64_t now = clock_ms(); listener >= 0 && now < end; now = clock_ms()) {
		struct pollfd p[2] = {{.fd = listener, .events = POLLIN}, {.fd = sigfd, .events = POLLIN}};
		struct signalfd_siginfo si;
		struct ucred who = {0};
		socklen_t len = sizeof who;
		if (poll(p, 2, (int)(end - now)) < 0 && errno != EINTR)
			return err_sys(e, errno, "wait for the sandbox's agent");
		if (p[1].revents && read(sigfd, &si, sizeof si) == sizeof si && si.ssi_signo == SIGTERM &&
		    si.ssi_pid == 0)
			return err_set(e, ERR_SANDBOX, ECANCELED, "ended from outside before the sandbox's agent came");
		auto_fd fd = p[0].revents ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == getuid())
			return TAKE_FD(fd);
	}
	return listener < 0 ? listener : err_set(e, ERR_SANDBOX, ETIMEDOUT, "nobody came to start the sandbox's agent");
}

static int open_channel(int argc, char **argv, int sigfd, struct err *e)
{
	if (argc > 1 && strcmp(argv[1], "@") == 0)
		return await_agent(sigfd, argc > 2 ? argv[2] : NULL, e);
	return argc > 1 ? dial(argv[1], e) : GUEST_CONTROL_FD;
}

/* `init` takes the channel from descriptor 3, `init PATH` connects to the socket at PATH, `init @ [FIFO]` waits for
 * the agent, and says so in the FIFO. */
int guest_init(int argc, char **argv)
{
	struct err e = ERR_INIT;
	struct guest_config cfg = {0};

	auto_fd sigfd = protect_self(&e);
	int control = sigfd >= 0 ? open_channel(argc, argv, sigfd, &e) : argc > 1 ? sigfd : GUEST_CONTROL_FD;
	if (control < 0) {
		/* Nobody else listens; a container engine keeps what is written here. */
		fprintf(stderr, "iterion-guest: %s\n", e.msg);
		return 1;
	}
	struct frame_conn *conn = frame_conn_new(control, FRAME_MAX_PAYLOAD);
	int r = sigfd < 0 ? sigfd : start_up(conn, &cfg, &e);
	if (r < 0)
		send_failure(conn, &e);
	else
		serve(conn, sigfd, &cfg);
	frame_conn_free(conn);
	return r < 0;
}
