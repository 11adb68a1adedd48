/* The proxy from end to end on loopback: its process, tunnels, policy, authentication, confinement. */
#include "proxy_world.h"

#include <base/cleanup.h>

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"

#ifdef __SANITIZE_ADDRESS__
static const bool sanitized = true; /* memory and descriptors are the sanitizer's, too */
#else
static const bool sanitized = false;
#endif

static const struct server_ports *srv;
static const char *const loopback[] = {"127.0.0.0/8", NULL};
static const char token[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static void connect_allowed(void **state)
{
	struct world w;
	char got[16];

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	assert_int_equal(client_tunnel(fd, srv->echo), 200);
	client_send(fd, "hello");
	assert_int_equal(client_read(fd, got, 5), 5);
	assert_memory_equal(got, "hello", 5);
	close_quietly(TAKE_FD(fd));
	world_stop(&w);
	assert_int_equal(w.n_totals, 1);
	assert_string_equal(w.totals[0].host, "127.0.0.1");
	assert_int_equal(w.totals[0].allowed, 1);
	assert_int_equal(w.totals[0].up, 5);
}

static void connect_denied(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	/* The same connection goes on after each refusal. */
	for (int i = 0; i < 5; i++) {
		client_send(fd, "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n");
		const char *head = client_head(fd);
		assert_int_equal(status_of(head), 403);
		assert_non_null(strstr(head, "\r\nX-Iterion-Reason: "));
		char body[1024] = "";
		size_t n = strtoull(strstr(head, "Content-Length: ") + 16, NULL, 10);
		assert_in_range(n, 1, sizeof body - 1);
		assert_int_equal(client_read(fd, body, n), n);
		assert_non_null(strstr(body, "evil.example"));
		assert_non_null(strstr(body, "default"));
	}
	world_run(&w, 1300);
	assert_int_equal(w.n_blocked, 2);
	assert_string_equal(w.blocked[0].host, "evil.example");
	assert_int_equal(w.blocked[0].port, 443);
	assert_int_equal(w.blocked[0].count, 1);
	assert_string_equal(w.blocked[0].rule, "default");
	assert_int_equal(w.blocked[1].count, 4);
	world_stop(&w);
	assert_int_equal(w.totals[0].blocked, 5);
}

static void authentication(void **state)
{
	static const struct {
		const char *header;
		unsigned status;
	} rows[] = {
		{"", 407},
		{"Proxy-Authorization: Bearer wrong\r\n", 407},
		{"Proxy-Authorization: Bearer 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n",
		 200},
		{"proxy-authorization: bEaReR 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n",
		 200},
		{"Proxy-Authorization: Basic "
		 "eDowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm\r\n",
		 200},
		{"Proxy-Authorization: Basic eDp3cm9uZw==\r\n", 407},
		{"Proxy-Authorization: Basic ====\r\n", 407},
		{"Authorization: Bearer 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n", 407},
	};
	const struct proxy_params params = {.token = token};
	struct world w;

	(void)state;
	world_start(&w, loopback, &params);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		auto_fd fd = client_connect(w.port);
		client_send(fd, "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", srv->echo,
			    rows[i].header);
		const char *head = client_head(fd);
		assert_int_equal(status_of(head), rows[i].status);
		if (rows[i].status == 407)
			assert_non_null(strstr(head, "\r\nProxy-Authenticate: Basic realm="));
	}
	world_stop(&w);
}

static void dial_failure(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	client_send(fd, "CONNECT 127.0.0.1:%u HTTP/1.1\r\nConnection: close\r\n\r\n", srv->dead);
	assert_int_equal(status_of(client_head(fd)), 502);
	assert_non_null(strstr(client_rest(fd), "refused"));
	world_stop(&w);
}

/* A name that is allowed by a wildcard must not lead to a loopback address; by an exact rule it may. */
static void resolved_address(void **state)
{
	static const char *const rules[] = {"**.wild.example", "exact.example", NULL};
	static const char *const resolve[] = {"a.wild.example:127.0.0.1", "exact.example:127.0.0.1", NULL};
	const struct proxy_params params = {.resolve = resolve};
	struct world w;

	(void)state;
	world_start(&w, rules, &params);
	auto_fd bad = client_connect(w.port);
	client_send(bad, "CONNECT a.wild.example:%u HTTP/1.1\r\n\r\n", srv->echo);
	assert_int_equal(status_of(client_head(bad)), 403);
	auto_fd good = client_connect(w.port);
	client_send(good, "CONNECT exact.example:%u HTTP/1.1\r\n\r\n", srv->echo);
	assert_int_equal(status_of(client_head(good)), 200);
	world_run(&w, 50);
	assert_int_equal(w.n_blocked, 1);
	assert_string_equal(w.blocked[0].host, "a.wild.example");
	world_stop(&w);
}

static void half_close(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	assert_int_equal(client_tunnel(fd, srv->echo), 200);
	client_send(fd, "last words");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_string_equal(client_rest(fd), "last wordsbye");
	world_stop(&w);
}

static void bulk(void **state)
{
	enum { TOTAL = 100 * 1024 * 1024, BLOCK = 1 << 16 };
	static unsigned char block[BLOCK];
	struct world w;
	size_t at = 0, wrong = 0;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	assert_int_equal(client_tunnel(fd, srv->bulk), 200);
	client_send(fd, "%d\n", TOTAL);
	for (size_t n; (n = client_read(fd, block, sizeof block)) > 0; at += n)
		for (size_t i = 0; i < n; i++)
			wrong += block[i] != bulk_byte(at + i);
	assert_int_equal(at, TOTAL);
	assert_int_equal(wrong, 0);
	world_stop(&w);
	assert_int_equal(w.totals[0].down, TOTAL);
}

static void many_tunnels(void **state)
{
	enum { N = 200 };
	static int fds[N];
	struct world w;
	char got[32], want[32];

	(void)state;
	world_start(&w, loopback, NULL);
	for (int i = 0; i < N; i++) {
		fds[i] = client_connect(w.port);
		client_send(fds[i], "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\nnumber %d", srv->echo, i);
	}
	for (int i = N - 1; i >= 0; i--) {
		assert_int_equal(status_of(client_head(fds[i])), 200);
		int n = snprintf(want, sizeof want, "number %d", i);
		assert_int_equal(client_read(fds[i], got, (size_t)n), n);
		assert_memory_equal(got, want, (size_t)n);
	}
	for (int i = 0; i < N; i++)
		(void)close(fds[i]);
	world_stop(&w);
	assert_int_equal(w.totals[0].allowed, N);
}

static void killed(void **state)
{
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd fd = client_connect(w.port);
	assert_int_equal(client_tunnel(fd, srv->echo), 200);
	assert_int_equal(kill(proxy_pid(w.proxy), SIGKILL), 0);
	world_wait(&w, &w.lost);
	w.may_be_lost = true;
	assert_non_null(strstr(w.error, "signal 9"));
	/* What it carried is closed: no byte goes on. */
	char c;
	assert_true(TEMP_FAILURE_RETRY(recv(fd, &c, 1, 0)) <= 0);
	world_stop(&w);
}

/* Whether a status line of /proc/PID/status reads so. */
static bool has_status(pid_t pid, const char *line)
{
	char path[64], text[256];
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	auto_file f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(text, sizeof text, f))
		found |= strncmp(text, line, strlen(line)) == 0;
	return found;
}

static void confined(void **state)
{
	static const int hooks[] = {PROXY_HOOK_OPEN, PROXY_HOOK_UNIX_SOCKET};
	struct world w;

	(void)state;
	world_start(&w, loopback, NULL);
	assert_true(has_status(proxy_pid(w.proxy), "NoNewPrivs:\t1"));
	assert_true(has_status(proxy_pid(w.proxy), "Seccomp:\t2"));
	assert_true(has_status(proxy_pid(w.proxy), "CapEff:\t0000000000000000"));
	assert_true(has_status(proxy_pid(w.proxy), "CapPrm:\t0000000000000000"));
	if (!TEST_HOOKS) {
		world_stop(&w);
		print_message("the build has no test hooks: opening, executing and crashing is not tried\n");
		skip();
	}
	for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++) {
		w.hooked = false;
		assert_int_equal(proxy_test_hook(w.proxy, hooks[i]), 0);
		world_wait(&w, &w.hooked);
		assert_int_not_equal(w.hook_errno, 0);
	}
	world_stop(&w);
}

static void crashes(void **state)
{
	static const int hooks[] = {PROXY_HOOK_ABORT, PROXY_HOOK_TRAP, PROXY_HOOK_EXEC};

	(void)state;
	for (size_t i = 0; TEST_HOOKS && i < sizeof hooks / sizeof hooks[0]; i++) {
		struct world w;
		world_start(&w, loopback, NULL);
		assert_int_equal(proxy_test_hook(w.proxy, hooks[i]), 0);
		world_wait(&w, &w.lost);
		w.may_be_lost = true;
		/* Executing is answered by the kernel; the others may be caught by a sanitizer, which ends with a code.
		 */
		assert_non_null(strstr(w.error, hooks[i] == PROXY_HOOK_EXEC ? "signal 31" : "egress proxy"));
		assert_false(w.hooked);
		world_stop(&w);
	}
	if (!TEST_HOOKS)
		skip();
}

enum { MAX_CLIENTS = 1024, MORE_CLIENTS = 20, ALL_CLIENTS = MAX_CLIENTS + MORE_CLIENTS };

/* Reads the refusals that came; which clients get them is up to the kernel's queue. Returns how many. */
static int read_refusals(struct pollfd fds[ALL_CLIENTS])
{
	int n = 0;

	for (int i = 0; i < ALL_CLIENTS; i++) {
		if (!(fds[i].revents & POLLIN))
			continue;
		n += strncmp(client_head(fds[i].fd), "HTTP/1.1 503 ", 13) == 0;
		(void)close(fds[i].fd);
		fds[i].fd = -1;
	}
	return n;
}

/* Past the limit a client is told so; when one of the others ends there is room again. */
static void too_many(void **state)
{
	static struct pollfd fds[ALL_CLIENTS];
	struct rlimit l;
	struct world w;
	int refused = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_cur < 8192) {
		print_message("missing: a hard limit of 8192 open files\n");
		skip();
	}
	world_start(&w, loopback, NULL);
	for (int i = 0; i < ALL_CLIENTS; i++)
		fds[i] = (struct pollfd){.fd = client_connect(w.port), .events = POLLIN};
	while (refused < MORE_CLIENTS && poll(fds, ALL_CLIENTS, 5000) > 0)
		refused += read_refusals(fds);
	assert_int_equal(refused, MORE_CLIENTS);
	for (int i = 0, closed = 0; i < ALL_CLIENTS && closed < 2; i++) {
		if (fds[i].fd < 0)
			continue;
		(void)close(fds[i].fd);
		fds[i].fd = -1;
		closed++;
	}
	world_run(&w, 50);
	auto_fd fd = client_connect(w.port);
	assert_int_equal(client_tunnel(fd, srv->echo), 200);
	for (int i = 0; i < ALL_CLIENTS; i++)
		close_quietly(fds[i].fd);
	world_stop(&w);
}

/* What runs may go on for the time given; what idles is closed, and nothing new begins. */
static void drains(void **state)
{
	struct world w;
	char got[8];

	(void)state;
	world_start(&w, loopback, NULL);
	auto_fd busy = client_connect(w.port);
	assert_int_equal(client_tunnel(busy, srv->echo), 200);
	auto_fd idle = client_connect(w.port);
	world_run(&w, 50);
	world_begin_stop(&w, 5000);
	world_run(&w, 50);
	assert_int_equal(TEMP_FAILURE_RETRY(recv(idle, got, 1, 0)), 0);
	client_send(busy, "more");
	assert_int_equal(client_read(busy, got, 4), 4);
	assert_false(w.done);
	assert_int_equal(shutdown(busy, SHUT_WR), 0);
	assert_string_equal(client_rest(busy), "bye");
	world_stop(&w);
	assert_int_equal(w.totals[0].up, 4);
}

static bool has_shared_memory(pid_t pid)
{
	char path[64], line[512], flags[5];
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	auto_file f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		found |= sscanf(line, "%*s %4s", flags) == 1 && strcmp(flags, "rw-s") == 0;
	return found;
}

/* Neither the environment nor descriptors nor shared memory of the run are left in it. Only root may look, and then it
 * must be so; for others, that they may not is the proof of PR_SET_DUMPABLE. */
static void gives_away(void **state)
{
	char path[64], text[65536];
	struct world w;
	size_t links = 0;

	(void)state;
	auto_fd secret = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	assert_true(has_shared_memory(getpid()));
	world_start(&w, loopback, NULL);
	snprintf(path, sizeof path, "/proc/%d/environ", proxy_pid(w.proxy));
	auto_fd environment = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof path, "/proc/%d/fd", proxy_pid(w.proxy));
	auto_dir fds = opendir(path);
	if (environment < 0 || !fds) {
		assert_int_not_equal(geteuid(), 0);
		world_stop(&w);
		return;
	}
	ssize_t n = read(environment, text, sizeof text);
	for (ssize_t i = 0; i < n; i++)
		assert_int_equal(text[i], '\0');
	for (struct dirent *d; (d = readdir(fds));) {
		ssize_t len = readlinkat(dirfd(fds), d->d_name, text, sizeof text - 1);
		if (len < 0)
			continue;
		text[len] = '\0';
		links++;
		if (strncmp(text, "socket:", 7) != 0 && strncmp(text, "anon_inode:", 11) != 0 &&
		    strncmp(text, "pipe:", 5) != 0 && strcmp(text, "/dev/null") != 0 && !sanitized)
			fail_msg("descriptor %s is %s", d->d_name, text);
	}
	assert_in_range(links, 4, 12);
	assert_false(has_shared_memory(proxy_pid(w.proxy)));
	(void)munmap(shared, 4096);
	world_stop(&w);
}

/* A run that dies without a word takes its proxy along. */
static void dies_with_parent(void **state)
{
	int pair[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid_t parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		struct world w;
		world_start(&w, loopback, NULL);
		pid = proxy_pid(w.proxy);
		if (write(pair[1], &pid, sizeof pid) != sizeof pid)
			_exit(1);
		(void)raise(SIGKILL);
	}
	assert_int_equal(read(pair[0], &pid, sizeof pid), sizeof pid);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	/* It is no child of ours; it may be a zombie until init has seen it. */
	auto_fd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	assert_true(pidfd < 0 || poll(&p, 1, 5000) == 1);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* Many connections after each other must not make it grow. */
static size_t resident_kb(pid_t pid)
{
	char path[64], line[256];
	size_t kb = 0;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	auto_file f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		(void)sscanf(line, "VmRSS: %zu", &kb);
	return kb;
}

static void does_not_grow(void **state)
{
	struct world w;
	size_t before = 0;

	(void)state;
	world_start(&w, loopback, NULL);
	for (int i = 0; i < 4000; i++) {
		auto_fd fd = client_connect(w.port);
		client_send(fd, "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\nx", srv->echo);
		assert_int_equal(shutdown(fd, SHUT_WR), 0);
		assert_int_equal(status_of(client_head(fd)), 200);
		assert_string_equal(client_rest(fd), "xbye");
		if (i == 1000)
			before = resident_kb(proxy_pid(w.proxy));
	}
	size_t after = resident_kb(proxy_pid(w.proxy));
	if (!sanitized)
		assert_in_range(after, 0, before + 256);
	world_stop(&w);
	assert_int_equal(w.totals[0].up, 4000);
}

static int set_up(void **state)
{
	(void)state;
	srv = server_start();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	server_stop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect_allowed),
		cmocka_unit_test(connect_denied),
		cmocka_unit_test(authentication),
		cmocka_unit_test(dial_failure),
		cmocka_unit_test(resolved_address),
		cmocka_unit_test(half_close),
		cmocka_unit_test(bulk),
		cmocka_unit_test(many_tunnels),
		cmocka_unit_test(killed),
		cmocka_unit_test(confined),
		cmocka_unit_test(crashes),
		cmocka_unit_test(too_many),
		cmocka_unit_test(drains),
		cmocka_unit_test(gives_away),
		cmocka_unit_test(dies_with_parent),
		cmocka_unit_test(does_not_grow),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
