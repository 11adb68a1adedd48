/* Asking systemd: the bytes of D-Bus, and the dialogue with a bus that is this test's child. */
#include "native/dbus.h"
#include "native/systemd.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/limits.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* A message as a bus sends it; the strings of the body are its arguments. */
struct said {
	enum dbus_type type;
	uint32_t reply_to;
	const char *member, *error, *signature;
	const char *strings[4];
};

static void put_text_field(struct buf *b, char code, const char *type, const char *value)
{
	if (!value)
		return;
	dbus_align(b, 8);
	(void)buf_putc(b, code);
	dbus_put_signature(b, type);
	if (type[0] == 'g')
		dbus_put_signature(b, value);
	else
		dbus_put_string(b, value);
}

static void put_said(struct buf *to, const struct said *s)
{
	const char start[4] = {'l', (char)s->type, 0, 1};
	auto_buf body = BUF_INIT(4096);
	auto_buf b = BUF_INIT(8192);
	size_t k = 0;

	for (const char *t = s->signature ? s->signature : ""; *t; t++) {
		if (*t == 'u')
			dbus_put_u32(&body, 77);
		else
			dbus_put_string(&body, s->strings[k++]);
	}
	(void)buf_add(&b, start, sizeof start);
	dbus_put_u32(&b, (uint32_t)body.len);
	dbus_put_u32(&b, 9);
	size_t at = dbus_array_begin(&b, 8);
	put_text_field(&b, 3, "s", s->member);
	put_text_field(&b, 4, "s", s->error);
	if (s->reply_to) {
		dbus_align(&b, 8);
		(void)buf_putc(&b, 5);
		dbus_put_signature(&b, "u");
		dbus_put_u32(&b, s->reply_to);
	}
	put_text_field(&b, 8, "g", s->signature);
	dbus_array_end(&b, at, 8);
	dbus_align(&b, 8);
	(void)buf_add(&b, body.data, body.len);
	(void)buf_add(to, b.data, b.len);
}

static void test_bytes_of_a_call(void **state)
{
	/* D-Bus Specification, "Message Format"; little-endian. */
	static const unsigned char expected[] = "l\1\0\1\6\0\0\0\2\0\0\0\x6b\0\0\0"
						"\1\1o\0\2\0\0\0/p\0\0\0\0\0\0"
						"\2\1s\0\3\0\0\0a.b\0\0\0\0\0"
						"\3\1s\0\1\0\0\0M\0\0\0\0\0\0\0"
						"\6\1s\0\3\0\0\0c.d\0\0\0\0\0"
						"\x8\1g\0\1s\0\0"
						"\1\0\0\0x";
	const struct dbus_call call = {
		.serial = 2, .destination = "c.d", .path = "/p", .interface = "a.b", .member = "M", .signature = "s"};
	auto_buf body = BUF_INIT(64);
	auto_buf b = BUF_INIT(1024);

	(void)state;
	dbus_put_string(&body, "x");
	assert_int_equal(dbus_put_call(&b, &call, &body), 0);
	/* The length of the fields is without the padding behind them. */
	assert_int_equal(b.len, sizeof expected);
	assert_memory_equal(b.data + 16, expected + 16, sizeof expected - 16);
	assert_int_equal(b.data[4], 6);
	struct dbus_message m;
	assert_int_equal(dbus_parse(b.data, b.len, &m), b.len);
	assert_int_equal(m.type, DBUS_CALL);
	assert_string_equal(m.member, "M");
	assert_string_equal(m.signature, "s");
	assert_string_equal(dbus_body_string(&m, 0), "x");
	assert_null(dbus_body_string(&m, 1));
}

static const struct said removed = {.type = DBUS_SIGNAL,
				    .member = "JobRemoved",
				    .signature = "uoss",
				    .strings = {"/job/77", "iterion-x.scope", "done"}};

static void test_parse_what_is_cut_or_wrong(void **state)
{
	auto_buf b = BUF_INIT(8192);
	struct dbus_message m;

	(void)state;
	put_said(&b, &removed);
	/* Each beginning alone, in memory that ends with it: not there yet, and nothing behind it is read. */
	for (size_t n = 0; n < b.len; n++) {
		auto_free char *part = xmalloc(n ? n : 1);
		memcpy(part, b.data, n);
		assert_int_equal(dbus_parse(part, n, &m), 0);
	}
	assert_int_equal(dbus_parse(b.data, b.len, &m), b.len);
	assert_string_equal(dbus_body_string(&m, 2), "done");
	/* Every byte another one: refused, or understood; never past the end. */
	for (size_t i = 0; i < b.len; i++) {
		for (unsigned v = 0; v < 256; v += 51) {
			auto_free char *copy = xmemdup(b.data, b.len);
			copy[i] = (char)v;
			if (dbus_parse(copy, b.len, &m) > 0)
				for (size_t k = 0; k < 4; k++)
					(void)dbus_body_string(&m, k);
		}
	}
}

static int listen_at(const char *path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	union {
		struct sockaddr_un *un;
		struct sockaddr *sa;
	} u = {.un = &un};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(un.sun_path, path);
	assert_int_equal(bind(fd, u.sa, sizeof un), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* Reads until the text has come; the rest of what was read is dropped with it. */
static void expect(int fd, struct buf *in, const char *text, size_t len)
{
	char part[4096];

	while (!in->len || !memmem(in->data, in->len, text, len)) {
		ssize_t n = read(fd, part, sizeof part);
		if (n <= 0)
			_exit(2);
		(void)buf_add(in, part, (size_t)n);
	}
}

/* The bus: one client, which is to ask for the unit, gets this answer to AUTH and these messages. */
static void serve(int listener, const char *auth, const struct said *said, size_t n, const char *tail)
{
	auto_buf in = BUF_INIT(1 << 20);
	auto_buf out = BUF_INIT(1 << 16);
	int fd = accept(listener, NULL, NULL);

	/* Who has heard enough hangs up. */
	(void)signal(SIGPIPE, SIG_IGN);
	expect(fd, &in, "AUTH EXTERNAL 34373131\r\n", 24);
	(void)!write(fd, auth, strlen(auth));
	if (str_starts(auth, "OK")) {
		expect(fd, &in, "StartTransientUnit", 18);
		expect(fd, &in, "iterion-x.scope", 15);
		expect(fd, &in, "MemoryMax\0\1t\0\0\0\0\0\0\0\0\0\0\0\4", 24);
	}
	for (size_t i = 0; i < n; i++)
		put_said(&out, &said[i]);
	(void)!write(fd, buf_str(&out), out.len);
	(void)!write(fd, tail, strlen(tail));
	close(fd);
	_exit(0);
}

static void test_dialogue(void **state)
{
	static const struct said hello = {.type = DBUS_REPLY, .reply_to = 1, .signature = "s", .strings = {":1.5"}};
	static const struct said other = {.type = DBUS_SIGNAL,
					  .member = "JobRemoved",
					  .signature = "uoss",
					  .strings = {"/job/1", "other.scope", "failed"}};
	static const struct said failed = {.type = DBUS_SIGNAL,
					   .member = "JobRemoved",
					   .signature = "uoss",
					   .strings = {"/job/77", "iterion-x.scope", "failed"}};
	static const struct said short_signal = {.type = DBUS_SIGNAL, .member = "JobRemoved", .signature = "u"};
	static const struct said refused = {.type = DBUS_ERROR,
					    .reply_to = 4,
					    .error = "org.x.Denied",
					    .signature = "s",
					    .strings = {"not \033[31mallowed"}};
	static const struct said refused_silently = {.type = DBUS_ERROR, .reply_to = 2, .error = "org.x.Denied"};
	static const struct said foreign_error = {.type = DBUS_ERROR, .reply_to = 99, .error = "org.x.Other"};
	const struct {
		const char *auth;
		struct said said[4];
		size_t n;
		const char *tail, *error; /* NULL: the unit stands */
	} rows[] = {
		{"OK 1234\r\n", {hello, other, removed}, 3, "", NULL},
		{"OK 1234\r\n", {hello, short_signal, foreign_error, removed}, 4, "", NULL},
		{"OK 1234\r\n", {hello, failed}, 2, "", "job for the unit failed (failed)"},
		{"OK 1234\r\n", {hello, refused}, 2, "", "systemd refused: not \\x1b[31mallowed"},
		{"OK 1234\r\n", {refused_silently}, 1, "", "systemd refused: org.x.Denied"},
		{"OK 1234\r\n", {hello}, 1, "", "Connection reset"},
		{"OK 1234\r\n", {hello}, 1, "this is no message of any kind", "Protocol error"},
		{"REJECTED\r\n", {hello}, 0, "", "Permission denied"},
		{"O", {hello}, 0, "", "Connection reset"},
	};
	char dir[] = "/tmp/iterion-bus.XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	auto_free char *path = xasprintf("%s/bus", dir);
	const struct unit_params p = {.name = "iterion-x.scope",
				      .run_id = "x",
				      .pid = 5,
				      .uid = 4711,
				      .limits = {.memory = 1 << 26, .pids = 3, .cpus = 0.5},
				      .which = LIMIT_CPUS | LIMIT_MEMORY | LIMIT_PIDS};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		int listener = listen_at(path), status;
		pid_t pid = fork();
		if (pid == 0)
			serve(listener, rows[i].auth, rows[i].said, rows[i].n, rows[i].tail);
		close(listener);
		int r = unit_start(path, &p, &e);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		if (rows[i].error) {
			assert_true(r < 0);
			assert_non_null(strstr(e.msg, rows[i].error));
		} else {
			assert_string_equal(e.msg, "");
			assert_int_equal(r, 0);
		}
		assert_int_equal(unlink(path), 0);
	}
	struct err e = ERR_INIT;
	assert_true(unit_start(path, &p, &e) < 0);
	assert_non_null(strstr(e.msg, path));
	assert_false(unit_bus_answers(path));
	assert_int_equal(rmdir(dir), 0);
}

static void test_address(void **state)
{
	const char *name = geteuid() == 0 ? "DBUS_SYSTEM_BUS_ADDRESS" : "DBUS_SESSION_BUS_ADDRESS";
	char dir[] = "/tmp/iterion-bus.XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	auto_free char *path = xasprintf("%s/bus", dir);
	auto_fd listener = listen_at(path);
	static const struct {
		const char *format;
		bool found;
	} rows[] = {
		{"unix:path=%s", true},
		{"unix:path=%s,guid=0123", true},
		{"unix:abstract=/x;unix:path=%s;tcp:host=a", true},
		{"unix:path=%s%%20", false},
		{"unix:path=/nowhere/%s", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_buf address = BUF_INIT(256);
		const char *at = strstr(rows[i].format, "%s");
		(void)buf_add(&address, rows[i].format, (size_t)(at - rows[i].format));
		(void)buf_printf(&address, "%s%s", path, at + 2);
		assert_int_equal(setenv(name, buf_str(&address), 1), 0);
		auto_free char *bus = unit_bus();
		assert_int_equal(bus != NULL, rows[i].found);
		if (bus) {
			assert_string_equal(bus, path);
			assert_true(unit_bus_answers(bus));
		}
	}
	assert_int_equal(unsetenv(name), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_of_a_call),
		cmocka_unit_test(test_parse_what_is_cut_or_wrong),
		cmocka_unit_test(test_dialogue),
		cmocka_unit_test(test_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
