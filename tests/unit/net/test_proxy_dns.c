/* The proxy's resolver, in namespaces of the test's own: its resolv.conf and hosts file, a name server that answers by
 * a table, and an address on lo that is no private one. Needs no privilege where user namespaces are allowed. */
#include "proxy_world.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/mem.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { PORT = 7777, TYPE_A = 1, TYPE_AAAA = 28 };
enum how { ANSWER, MISSING, SILENT };

static const char public_address[] = "93.184.215.7";

/* What the name server says; a name without a row of a type exists without such an address. */
static const struct {
	const char *name;
	int type;
	enum how how;
	const char *addresses[3];
} zone[] = {
	{"pub.example", TYPE_A, ANSWER, {public_address}},
	{"priv.example", TYPE_A, ANSWER, {"10.0.0.1"}},
	{"meta.example", TYPE_A, ANSWER, {"169.254.169.254"}},
	{"mapped.example", TYPE_AAAA, ANSWER, {"::ffff:10.0.0.1"}},
	{"mixed.example", TYPE_A, ANSWER, {"10.0.0.1", public_address}},
	{"six.example", TYPE_AAAA, ANSWER, {"2a0f::1"}},
	{"six.example", TYPE_A, ANSWER, {public_address}},
	{"slow6.example", TYPE_AAAA, SILENT, {NULL}},
	{"slow6.example", TYPE_A, ANSWER, {public_address}},
	{"slow4.example", TYPE_A, SILENT, {NULL}},
	{"slow4.example", TYPE_AAAA, ANSWER, {"::ffff:93.184.215.7"}},
	{"none.example", TYPE_A, MISSING, {NULL}},
	{"none.example", TYPE_AAAA, MISSING, {NULL}},
	{"short.corp.example", TYPE_A, ANSWER, {public_address}},
	/* Asked for only when a search domain was added to a name that has a dot. */
	{"none.example.corp.example", TYPE_A, ANSWER, {public_address}},
};

static const char *skip_reason;
static pid_t helper;

/* ---- the name server ---- */

/* The question's name as text; returns where its type stands, or 0. */
static size_t read_name(const unsigned char *q, size_t len, char *to)
{
	size_t at = 12, n = 0;

	while (at < len && q[at]) {
		size_t label = q[at];
		if (label > 63 || at + label + 5 >= len)
			return 0;
		if (n)
			to[n++] = '.';
		memcpy(to + n, q + at + 1, label);
		n += label;
		at += label + 1;
	}
	to[n] = '\0';
	return at + 1;
}

static size_t add_answer(unsigned char *to, int type, const char *address)
{
	const unsigned char head[] = {0xc0, 12, 0, (unsigned char)type, 0, 1, 0, 0, 0, 1, 0, type == TYPE_A ? 4 : 16};

	memcpy(to, head, sizeof head);
	if (inet_pton(type == TYPE_A ? AF_INET : AF_INET6, address, to + sizeof head) != 1)
		_exit(1);
	return sizeof head + head[11];
}

/* Turns the question into its answer, in place; 0: no answer at all. */
static size_t make_answer(unsigned char *q, size_t len)
{
	char name[300];
	size_t at = read_name(q, len, name), out = at + 4;
	bool known = false;

	if (!at)
		return 0;
	q[2] = 0x81;
	q[3] = 0x80;
	memset(q + 6, 0, 6);
	for (size_t i = 0; i < ARRAY_LEN(zone); i++) {
		if (strcasecmp(zone[i].name, name) != 0)
			continue;
		known |= zone[i].how != MISSING;
		if (zone[i].type != q[at + 1])
			continue;
		if (zone[i].how == SILENT)
			return 0;
		for (size_t k = 0; k < 3 && zone[i].addresses[k]; k++) {
			out += add_answer(q + out, zone[i].type, zone[i].addresses[k]);
			q[7]++;
		}
	}
	if (!known)
		q[3] |= 3;
	return out;
}

static void serve_names(int fd)
{
	unsigned char q[1500];
	struct sockaddr_in from;

	for (;;) {
		socklen_t len = sizeof from;
		ssize_t n = recvfrom(fd, q, 512, 0, (struct sockaddr *)&from, &len);
		/* Without the client's additional records the answer stands right behind the question. */
		size_t out = n > 16 ? make_answer(q, (size_t)n) : 0;
		if (out)
			(void)sendto(fd, q, out, 0, (struct sockaddr *)&from, len);
	}
}

static void serve_hello(int fd)
{
	for (;;) {
		int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (c < 0)
			_exit(1);
		(void)send(c, "hello", 5, MSG_NOSIGNAL);
		(void)close(c);
	}
}

static int bound_socket(int type, const char *address, unsigned port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET, address, &sa.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		return -1;
	return fd;
}

/* ---- the surroundings ---- */

static bool write_file(const char *path, const char *text)
{
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool enter_namespaces(void)
{
	char map[64];
	unsigned uid = getuid(), gid = getgid();

	if (unshare(CLONE_NEWNS | CLONE_NEWNET) == 0)
		return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) < 0)
		return false;
	(void)write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof map, "0 %u 1", uid);
	if (!write_file("/proc/self/uid_map", map))
		return false;
	snprintf(map, sizeof map, "0 %u 1", gid);
	return write_file("/proc/self/gid_map", map) && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool set_address(const char *name, const char *address)
{
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = {0};
	struct sockaddr_in sa = {.sin_family = AF_INET};

	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
	if (address) {
		(void)inet_pton(AF_INET, address, &sa.sin_addr);
		memcpy(&r.ifr_addr, &sa, sizeof sa);
		return ioctl(fd, SIOCSIFADDR, &r) == 0;
	}
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	return ioctl(fd, SIOCSIFFLAGS, &r) == 0;
}

/* Puts a file of ours over one of the system's. */
static bool cover(const char *path, const char *text)
{
	char name[] = "/tmp/iterion-test-XXXXXX";
	auto_fd fd = mkostemp(name, O_CLOEXEC);
	bool good = fd >= 0 && write_file(name, text) && mount(name, path, NULL, MS_BIND, NULL) == 0;

	if (fd >= 0)
		(void)unlink(name);
	return good;
}

static const char *prepare(void)
{
	if (!enter_namespaces())
		return "user namespaces";
	if (!set_address("lo", NULL) || !set_address("lo:1", public_address))
		return "an address on lo";
	if (!cover("/etc/resolv.conf", "nameserver 127.0.0.1\nsearch corp.example\n"))
		return "an /etc/resolv.conf to cover";
	if (!cover("/etc/hosts", "93.184.215.7 fromhosts.example\n"))
		return "an /etc/hosts to cover";
	int names = bound_socket(SOCK_DGRAM, "127.0.0.1", 53), hello = bound_socket(SOCK_STREAM, public_address, PORT);
	if (names < 0 || hello < 0 || listen(hello, 64) < 0)
		return "sockets of one's own";
	helper = fork();
	if (helper == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		pid_t other = fork();
		if (other == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve_hello(hello);
		}
		serve_names(names);
	}
	(void)close(names);
	(void)close(hello);
	return NULL;
}

/* ---- the tests ---- */

/* A name server that is silent about one family costs seconds (2 s for each of 3 tries), when one waits for it. */
enum { PROMPT_MS = 5000 };

static void names(void **state)
{
	static const char *const rules[] = {"**.example", "short", NULL};
	static const struct {
		const char *host;
		unsigned status;
		const char *says;
	} rows[] = {
		{"pub.example", 200, "hello"},	     {"PUB.example.", 200, "hello"},
		{"fromhosts.example", 200, "hello"}, {"short", 200, "hello"},
		{"mixed.example", 200, "hello"},     {"six.example", 200, "hello"},
		{"slow6.example", 200, "hello"},     {"slow4.example", 200, "hello"},
		{"priv.example", 403, "10.0.0.1"},   {"meta.example", 403, ""},
		{"mapped.example", 403, ""},	     {"none.example", 502, "does not exist"},
		{"noaddress.six.example", 502, ""},
	};
	struct world w;

	(void)state;
	if (skip_reason) {
		print_message("missing: %s\n", skip_reason);
		skip();
	}
	world_start(&w, rules, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t start = clock_ms();
		auto_fd fd = client_connect(w.port);
		client_send(fd, "CONNECT %s:%d HTTP/1.0\r\n\r\n", rows[i].host, PORT);
		const char *head = client_head(fd);
		unsigned status = status_of(head);
		const char *rest = client_rest(fd);
		uint64_t took = clock_ms() - start;
		if (status != rows[i].status || (status != 403 && !strstr(rest, rows[i].says)) || took > PROMPT_MS)
			fail_msg("%s: %u after %llu ms\n%s%s", rows[i].host, status, (unsigned long long)took, head,
				 rest);
	}
	world_run(&w, 100);
	assert_int_equal(w.n_blocked, 3);
	assert_string_equal(w.blocked[0].host, "priv.example");
	world_stop(&w);
}

static int tear_down(void **state)
{
	(void)state;
	if (helper > 0) {
		(void)kill(helper, SIGKILL);
		(void)waitpid(helper, NULL, 0);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names)};

	skip_reason = prepare();
	return cmocka_run_group_tests(tests, NULL, tear_down);
}
