/* Frames over a socket pair: whole, in single bytes, with descriptors, and from a hostile side that writes the raw
 * stream itself. */
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/file.h>
#include <base/frame.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "test.h"

struct head {
	uint32_t len;
	uint16_t type;
	uint16_t nfds;
	uint32_t stream;
};

static void make_pair(struct frame_conn **a, struct frame_conn **b, size_t max)
{
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	*a = frame_conn_new(s[0], max);
	*b = frame_conn_new(s[1], max);
}

/* One side is a raw socket. */
static int make_raw(struct frame_conn **b, size_t max)
{
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	*b = frame_conn_new(s[1], max);
	return s[0];
}

static int count_fds(void)
{
	auto_dir d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	return n;
}

static void send_raw(int fd, const void *data, size_t len, const int *fds, size_t nfds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * 253)];
	} control = {0};
	union {
		const void *is;
		void *wanted;
	} base = {.is = data};
	struct iovec iov = {.iov_base = base.wanted, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nfds) {
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * nfds);
	}
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)len);
}

static void test_order(void **state)
{
	(void)state;
	struct frame_conn *a, *b;
	struct frame f;

	make_pair(&a, &b, 1000);
	assert_int_equal(frame_recv(b, &f), 0);
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(frame_send(a, (uint16_t)i, i * 7, "payload", i % 8, NULL, 0), 0);
	for (uint32_t i = 0; i < 50; i++) {
		assert_int_equal(frame_recv(b, &f), 1);
		assert_int_equal(f.type, i);
		assert_int_equal(f.stream, i * 7);
		assert_int_equal(f.len, i % 8);
		assert_memory_equal(f.payload, "payload", f.len);
		assert_int_equal(f.nfds, 0);
	}
	assert_int_equal(frame_recv(b, &f), 0);
	/* What was sent before the end still arrives. */
	assert_int_equal(frame_send(a, 9, 0, "bye", 3, NULL, 0), 0);
	frame_conn_free(a);
	assert_int_equal(frame_recv(b, &f), 1);
	assert_int_equal(f.type, 9);
	assert_int_equal(frame_recv(b, &f), -ECONNRESET);
	assert_int_equal(frame_recv(b, &f), -ECONNRESET);
	assert_int_equal(frame_send(b, 1, 0, "x", 1, NULL, 0), -EPIPE);
	frame_conn_free(b);
	frame_conn_free(NULL);
}

static int named_memory(const char *text)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	return fd;
}

static void check_memory(int fd, const char *text)
{
	char got[16] = "";

	assert_int_equal(pread(fd, got, sizeof got - 1, 0), strlen(text));
	assert_string_equal(got, text);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

/* Frames with and without descriptors, sent before any is read: each gets its own. */
static void test_descriptors(void **state)
{
	(void)state;
	struct frame_conn *a, *b;
	struct frame f;
	int before = count_fds();

	make_pair(&a, &b, 1000);
	for (int round = 0; round < 20; round++) {
		int two[2] = {named_memory("one"), named_memory("two")}, three = named_memory("three");
		assert_int_equal(frame_send(a, 1, 0, "", 0, NULL, 0), 0);
		assert_int_equal(frame_send(a, 2, 0, "xx", 2, two, 2), 0);
		assert_int_equal(frame_send(a, 3, 0, "y", 1, NULL, 0), 0);
		assert_int_equal(frame_send(a, 4, 0, NULL, 0, &three, 1), 0);
		int kept = -1;
		for (uint16_t type = 1; type <= 4; type++) {
			assert_int_equal(frame_recv(b, &f), 1);
			assert_int_equal(f.type, type);
			assert_int_equal(f.nfds, type == 2 ? 2 : type == 4);
			if (type == 2) {
				check_memory(f.fds[0], "one");
				check_memory(f.fds[1], "two");
				kept = TAKE_FD(f.fds[1]);
			} else if (type == 4) {
				check_memory(f.fds[0], "three");
			}
		}
		assert_int_equal(frame_recv(b, &f), 0);
		check_memory(kept, "two");
		close(kept);
	}
	frame_conn_free(a);
	frame_conn_free(b);
	assert_int_equal(count_fds(), before);
}

/* Each byte of a stream in a write of its own. */
static void test_single_bytes(void **state)
{
	(void)state;
	struct frame_conn *b;
	struct frame f;
	int raw = make_raw(&b, 1000), memory = named_memory("m");
	char bytes[sizeof(struct head) + 5];
	struct head h = {.len = 5, .type = 3, .nfds = 1, .stream = 8};

	memcpy(bytes, &h, sizeof h);
	memcpy(bytes + sizeof h, "hello", 5);
	for (size_t i = 0; i < sizeof bytes; i++) {
		assert_int_equal(frame_recv(b, &f), 0);
		send_raw(raw, bytes + i, 1, &memory, i == 0);
	}
	assert_int_equal(frame_recv(b, &f), 1);
	assert_int_equal(f.len, 5);
	assert_memory_equal(f.payload, "hello", 5);
	check_memory(f.fds[0], "m");
	close(memory);
	close(raw);
	frame_conn_free(b);
}

/* Large frames, some with descriptors, wait in the queue before a child begins to read. */
static void test_partial_writes(void **state)
{
	(void)state;
	enum { FRAMES = 12, SIZE = 300000 };
	struct frame_conn *a, *b;
	int status, gate[2];
	char byte = 0;

	make_pair(&a, &b, SIZE);
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct frame f;
		frame_conn_free(a);
		if (read(gate[0], &byte, 1) != 1)
			_exit(4);
		for (uint32_t i = 0; i < FRAMES; i++) {
			if (frame_recv_wait(b, &f, 10000) != 1 || f.stream != i || f.len != SIZE || f.nfds != i % 3)
				_exit(1);
			for (size_t k = 0; k < f.len; k++)
				if (f.payload[k] != (char)(i + k % 100))
					_exit(2);
			for (uint16_t k = 0; k < f.nfds; k++) {
				char text[2] = "";
				if (pread(f.fds[k], text, 1, 0) != 1 || text[0] != (char)('a' + i))
					_exit(3);
			}
		}
		_exit(0);
	}
	frame_conn_free(b);
	char *payload = xmalloc(SIZE);
	for (uint32_t i = 0; i < FRAMES; i++) {
		char name[2] = {(char)('a' + i), '\0'};
		int fds[2];
		for (size_t k = 0; k < SIZE; k++)
			payload[k] = (char)(i + k % 100);
		for (size_t k = 0; k < i % 3; k++)
			fds[k] = named_memory(name);
		assert_int_equal(frame_send(a, 1, i, payload, SIZE, fds, i % 3), 0);
	}
	free(payload);
	assert_true(frame_wants_write(a));
	assert_int_equal(write(gate[1], &byte, 1), 1);
	while (frame_wants_write(a)) {
		struct pollfd room = {.fd = frame_conn_fd(a), .events = POLLOUT};
		assert_int_equal(poll(&room, 1, 10000), 1);
		assert_int_equal(frame_flush(a), 0);
	}
	close(gate[0]);
	close(gate[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	frame_conn_free(a);
}

static void test_hostile_heads(void **state)
{
	(void)state;
	static const struct head rows[] = {
		{.len = 1001},	      {.len = UINT32_MAX}, {.len = 0x80000000}, {.nfds = FRAME_MAX_FDS + 1},
		{.nfds = UINT16_MAX}, {.nfds = 1}, /* announced, and none came */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct frame_conn *b;
		struct frame f;
		int raw = make_raw(&b, 1000);
		send_raw(raw, &rows[i], sizeof rows[i], NULL, 0);
		assert_int_equal(frame_recv(b, &f), -EPROTO);
		frame_conn_free(b);
		close(raw);
	}
}

/* Descriptors without end, in frames that announce none, in one message and in many. */
static void test_descriptor_floods(void **state)
{
	(void)state;
	int before = count_fds();
	struct frame_conn *b;
	struct frame f;
	struct head h = {.type = 1};
	int fds[253];

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = 0;
	int raw = make_raw(&b, 1000);
	send_raw(raw, &h, sizeof h, fds, ARRAY_LEN(fds));
	assert_int_equal(frame_recv(b, &f), -EPROTO);
	frame_conn_free(b);
	close(raw);
	assert_int_equal(count_fds(), before);

	raw = make_raw(&b, 1000);
	int r = 1;
	for (int i = 0; i < 20 && r == 1; i++) {
		send_raw(raw, &h, sizeof h, fds, 8);
		r = frame_recv(b, &f);
		assert_true(count_fds() < before + 2 + 64 + 8);
	}
	assert_int_equal(r, -EPROTO);
	frame_conn_free(b);
	close(raw);
	assert_int_equal(count_fds(), before);
}

static void test_queue_limit(void **state)
{
	(void)state;
	struct frame_conn *a, *b;
	int before = count_fds(), r = 0, n = 0;
	char *payload = xcalloc(1, FRAME_MAX_PAYLOAD);

	make_pair(&a, &b, FRAME_MAX_PAYLOAD);
	int one = named_memory("x");
	assert_int_equal(frame_send(a, 1, 0, payload, FRAME_MAX_PAYLOAD + 1, &one, 1), -EMSGSIZE);
	assert_int_equal(fcntl(one, F_GETFD), -1);
	int many[FRAME_MAX_FDS + 1];
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = named_memory("x");
	assert_int_equal(frame_send(a, 1, 0, NULL, 0, many, ARRAY_LEN(many)), -EMSGSIZE);
	while (r == 0 && n < 100) {
		int fd = named_memory("x");
		r = frame_send(a, 1, 0, payload, FRAME_MAX_PAYLOAD, &fd, 1);
		n++;
	}
	assert_int_equal(r, -ENOBUFS);
	assert_in_range(n, 4, 16);
	frame_conn_free(a);
	frame_conn_free(b);
	free(payload);
	/* What was queued and refused is closed. */
	assert_int_equal(count_fds(), before);
}

static void test_wait(void **state)
{
	(void)state;
	struct frame_conn *b;
	struct frame f;
	int raw = make_raw(&b, 1000), status;
	uint64_t start = clock_ms();

	assert_int_equal(frame_recv_wait(b, &f, 0), -ETIMEDOUT);
	assert_int_equal(frame_recv_wait(b, &f, 30), -ETIMEDOUT);
	assert_true(clock_ms() - start >= 30);
	/* Bytes that trickle in must not put the end off: waiting on, one would get the whole frame. */
	pid_t pid = fork();
	if (pid == 0) {
		struct head h = {.len = 900};
		send_raw(raw, &h, sizeof h, NULL, 0);
		for (int i = 0; i < 900; i++) {
			nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
			if (send(raw, "x", 1, MSG_NOSIGNAL) != 1)
				break;
		}
		_exit(0);
	}
	start = clock_ms();
	assert_int_equal(frame_recv_wait(b, &f, 100), -ETIMEDOUT);
	assert_true(clock_ms() - start >= 100);
	assert_int_equal(kill(pid, SIGKILL), 0);
	frame_conn_free(b);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	      cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_single_bytes),  cmocka_unit_test(test_partial_writes),
		cmocka_unit_test(test_hostile_heads), cmocka_unit_test(test_descriptor_floods),
		cmocka_unit_test(test_queue_limit),   cmocka_unit_test(test_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
