/* Listening on the loopback of a container that has no guest, from outside.
 *
 * A socket belongs to the network namespace that it was made in, whoever holds it. So a forked process enters the
 * container's network namespace (setns(2)) and the user namespace that owns it, listens there and hands the sockets
 * out; the container keeps an empty network, and its policy is enforced as with a guest. Root may do so, and whoever
 * owns the user namespace that podman made for him.
 *
 * Only the engine says which process that is, and the engine may be elsewhere: a number of another machine would name
 * any process here. So everything goes through one descriptor of /proc/PID, and the process counts only when it has, in
 * its own root, the folder that was made for that; and its network only when it has nothing but loopback. Nothing of
 * the container is run or read by this process, and nothing in it can see it.
 *
 * That the container is elsewhere is one thing, and a weaker way may be taken then. What the image does is another: it
 * must not choose how well its policy is enforced. It may keep the guest from starting, where only root could enter
 * (the cgroup, which all may read and nothing inside can change, names a container that is here). The first process is
 * the image's own `sleep`, which may hold our port, make a user namespace of its own (the one that owns the network
 * counts), change its root (the cgroup again), or end (the caller asks whether the container lives). */
#include "enter.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/frame.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKLOG = 512, ENTERED = 1, CGROUP_LIMIT = 64 * 1024 };

struct enter {
	pid_t pid;
	struct frame_conn *conn;
	uv_poll_t poll;
	void (*done)(void *arg, const int *fds, size_t n, const struct err *e);
	void *arg;
	int fds[2];
	size_t n;
	struct err why;
};

bool enter_is_elsewhere(const struct err *e)
{
	return e->errnum == ENOENT || e->errnum == ESRCH || e->errnum == EPERM || e->errnum == EACCES;
}

static bool is_same(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Which a process cannot change from within a container. */
static bool is_in_cgroup(int proc, const char *id)
{
	auto_free char *text = NULL;

	return *id && file_read(proc, "cgroup", CGROUP_LIMIT, &text, NULL, NULL) == 0 && strstr(text, id);
}

/* Whether the process is the container's. */
static int check_root(int proc, const struct enter_params *p, struct err *e)
{
	auto_fd root = openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_sys(e, errno, "open the root folder of process %d", p->pid);
	auto_fd seen = file_open_resolve(root, p->inside, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT);
	if (seen >= 0 && is_same(seen, p->marker))
		return 0;
	return err_set(e, ERR_SANDBOX, ESRCH, "process %d of this machine is not the container's", p->pid);
}

static int enter_network(int proc, struct err *e)
{
	auto_fd net = openat(proc, "ns/net", O_RDONLY | O_CLOEXEC);
	if (net < 0)
		return err_sys(e, errno, "open the container's network");
	if (is_same(net, "/proc/self/ns/net"))
		return err_set(e, ERR_SANDBOX, ESRCH, "its network is this machine's");
	auto_fd owner = ioctl(net, NS_GET_USERNS);
	if (owner < 0)
		return err_sys(e, errno, "find who owns the container's network");
	if (!is_same(owner, "/proc/self/ns/user") && setns(owner, CLONE_NEWUSER) < 0)
		return err_sys(e, errno, "enter the container's user namespace");
	return setns(net, CLONE_NEWNET) < 0 ? err_sys(e, errno, "enter the container's network") : 0;
}

static int check_alone(struct err *e)
{
	struct if_nameindex *all = if_nameindex();
	bool other = !all;

	for (size_t i = 0; all && all[i].if_index; i++)
		other |= !str_eq(all[i].if_name, "lo");
	if (all)
		if_freenameindex(all);
	return other ? err_set(e, ERR_SANDBOX, EEXIST, "the container has another network than loopback") : 0;
}

static int listen_on(const struct sockaddr *sa, socklen_t len)
{
	auto_fd fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, sa, len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Returns how many, at least one. */
static int enter_and_listen(const struct enter_params *p, int ret[2], struct err *e)
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(p->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(p->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	auto_free char *path = xasprintf("/proc/%d", p->pid);
	auto_fd proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return err_sys(e, errno, "open %s", path);
	int r = check_root(proc, p, e);

	if (r == 0)
		r = enter_network(proc, e);
	if (r < 0 && enter_is_elsewhere(e) && is_in_cgroup(proc, p->id))
		return err_set(e, ERR_SANDBOX, EEXIST,
			       "iterion-guest did not start in it, though its engine is on this machine");
	if (r == 0)
		r = check_alone(e);
	if (r < 0)
		return r;
	ret[0] = listen_on((const struct sockaddr *)&v4, sizeof v4);
	if (ret[0] < 0)
		return err_sys(e, -ret[0], "listen on 127.0.0.1:%u in the container", p->port);
	/* It may have no IPv6; then nothing inside can dial it either. */
	ret[1] = listen_on((const struct sockaddr *)&v6, sizeof v6);
	return ret[1] < 0 ? 1 : 2;
}

_Noreturn static void enter_child(const struct enter_params *p, int out, pid_t parent)
{
	struct err e = ERR_INIT;
	int fds[2];

	/* The parent may have died before the first call. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	int n = enter_and_listen(p, fds, &e);
	struct frame_conn *c = frame_conn_new(out, sizeof e);
	/* The socket is empty: one frame always fits. */
	if (frame_send(c, ENTERED, 0, &e, sizeof e, fds, n < 0 ? 0 : (size_t)n) < 0)
		_exit(1);
	_exit(0);
}

static void on_closed(uv_handle_t *h)
{
	struct enter *n = h->data;
	siginfo_t si;

	/* It has said its word or was killed, and ends at once. */
	(void)kill(n->pid, SIGKILL);
	while (waitid(P_PID, (id_t)n->pid, &si, WEXITED) < 0 && errno == EINTR)
		;
	frame_conn_free(n->conn);
	n->done(n->arg, n->fds, n->n, n->n ? NULL : &n->why);
	free(n);
}

static void take(struct enter *n, struct frame *f)
{
	if (f->type != ENTERED || f->len != sizeof n->why || f->nfds > ARRAY_LEN(n->fds))
		return;
	memcpy(&n->why, f->payload, sizeof n->why);
	for (; n->n < f->nfds; n->n++)
		n->fds[n->n] = TAKE_FD(f->fds[n->n]);
}

static void on_word(uv_poll_t *poll, int status, int events)
{
	struct enter *n = poll->data;
	struct frame f;

	(void)events;
	int r = status < 0 ? status : frame_recv(n->conn, &f);
	if (r == 0)
		return;
	if (r > 0)
		take(n, &f);
	uv_close((uv_handle_t *)poll, on_closed);
}

int enter_start(uv_loop_t *loop, const struct enter_params *p, struct err *e)
{
	int pair[2];
	pid_t self = getpid();

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "make a socket to enter the container");
	auto_fd ours = pair[0], theirs = pair[1];
	sigset_t all, old;
	sigfillset(&all);
	/* Its copies of the loop's handlers would tell this process of a signal that it has had itself. */
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	pid_t pid = fork();
	int errnum = errno;
	if (pid != 0)
		(void)sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return err_sys(e, errnum, "enter the container: fork");
	if (pid == 0)
		enter_child(p, theirs, self);
	struct enter *n = xcalloc(1, sizeof *n);
	n->pid = pid;
	n->done = p->done;
	n->arg = p->arg;
	(void)err_set(&n->why, ERR_SANDBOX, ECHILD, "the process that enters the container was killed");
	n->conn = frame_conn_new(TAKE_FD(ours), sizeof n->why);
	int r = uv_poll_init(loop, &n->poll, frame_conn_fd(n->conn));
	n->poll.data = n;
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		frame_conn_free(n->conn);
		free(n);
		return err_sys(e, -r, "watch the process that enters the container");
	}
	(void)uv_poll_start(&n->poll, UV_READABLE, on_word);
	return 0;
}
