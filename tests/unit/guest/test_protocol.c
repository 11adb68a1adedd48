/* The control channel's records: what is packed is what is read, and every damaged record is refused. */
#include <guest/protocol.h>

#include <base/buf.h>
#include <base/mem.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* cmocka wants the four above before it. */
#include <cmocka.h>

static struct frame frame_of(const struct buf *b, uint16_t nfds)
{
	return (struct frame){.payload = b->data, .len = b->len, .nfds = nfds};
}

static void test_exec_round_trip(void **state)
{
	static const char *const argv[] = {"sh", "-c", "", NULL}, *const env[] = {"A=b", "EMPTY=", NULL};
	auto_buf b = BUF_INIT(4096);
	struct guest_exec x;

	(void)state;
	assert_int_equal(guest_exec_pack(&b, GUEST_EXEC_TTY, "/w", argv, env), 0);
	struct frame f = frame_of(&b, 3);
	assert_int_equal(guest_exec_unpack(&f, &x), 0);
	assert_int_equal(x.flags, GUEST_EXEC_TTY);
	assert_string_equal(x.cwd, "/w");
	assert_string_equal(x.argv[0], "sh");
	assert_string_equal(x.argv[2], "");
	assert_null(x.argv[3]);
	assert_string_equal(x.env[1], "EMPTY=");
	assert_null(x.env[2]);
	guest_exec_done(&x);
}

/* Every prefix of a good record, each right before a page that cannot be read. */
static void test_exec_truncated(void **state)
{
	static const char *const argv[] = {"program", "argument", NULL}, *const env[] = {"NAME=value", NULL};
	auto_buf b = BUF_INIT(4096);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct guest_exec x;

	(void)state;
	assert_ptr_not_equal(two, MAP_FAILED);
	assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
	assert_int_equal(guest_exec_pack(&b, 0, "/w", argv, env), 0);
	for (size_t n = 0; n < b.len; n++) {
		memcpy(two + page - n, b.data, n);
		struct frame f = {.payload = two + page - n, .len = n, .nfds = 3};
		assert_int_equal(guest_exec_unpack(&f, &x), -EPROTO);
	}
	munmap(two, 2 * page);
}

static void test_exec_refused(void **state)
{
	static const char *const none[] = {NULL}, *const argv[] = {"a", NULL};
	struct guest_exec x;

	(void)state;
	auto_buf b = BUF_INIT(4096);
	assert_int_equal(guest_exec_pack(&b, 0, "/", argv, none), 0);
	for (uint16_t nfds = 0; nfds < 6; nfds++) {
		struct frame f = frame_of(&b, nfds);
		int r = guest_exec_unpack(&f, &x);
		assert_int_equal(r, nfds == 3 ? 0 : -EPROTO);
		if (r == 0)
			guest_exec_done(&x);
	}
	auto_buf no_argv = BUF_INIT(4096);
	assert_int_equal(guest_exec_pack(&no_argv, 0, "/", none, none), 0);
	struct frame f = frame_of(&no_argv, 3);
	assert_int_equal(guest_exec_unpack(&f, &x), -EPROTO);
	/* One byte too many, and a count of strings that cannot be there. */
	assert_int_equal(buf_putc(&b, 'x'), 0);
	f = frame_of(&b, 3);
	assert_int_equal(guest_exec_unpack(&f, &x), -EPROTO);
	uint32_t lie[] = {0, 0, UINT32_MAX, 0};
	f = (struct frame){.payload = (const char *)lie, .len = sizeof lie, .nfds = 3};
	assert_int_equal(guest_exec_unpack(&f, &x), -EPROTO);
}

static void test_error_round_trip(void **state)
{
	struct err e = ERR_INIT, got = ERR_INIT;
	auto_buf b = BUF_INIT(4096);

	(void)state;
	(void)err_set(&e, ERR_SANDBOX, EPERM, "mount %s", "/x");
	err_hint(&e, "do this");
	assert_int_equal(guest_err_pack(&b, &e), 0);
	struct frame f = frame_of(&b, 0);
	assert_int_equal(guest_err_unpack(&f, &got), 0);
	assert_int_equal(got.kind, ERR_SANDBOX);
	assert_int_equal(got.errnum, EPERM);
	assert_string_equal(got.msg, "mount /x");
	assert_string_equal(got.hint, "do this");
	for (size_t n = 0; n < b.len; n++) {
		f.len = n;
		assert_int_equal(guest_err_unpack(&f, &got), -EPROTO);
	}
	uint32_t bad_kind = 10000;
	memcpy(b.data, &bad_kind, sizeof bad_kind);
	f.len = b.len;
	assert_int_equal(guest_err_unpack(&f, &got), -EPROTO);
}

static void test_fixed_records(void **state)
{
	struct guest_config cfg = {.checks = 3, .listen_port = 65535, .linger_ms = 60000}, got_cfg;
	struct guest_exec_end end = {.end = GUEST_SIGNALED, .code = 9, .core = 1}, got_end;

	(void)state;
	auto_buf b = BUF_INIT(256);
	assert_int_equal(guest_config_pack(&b, &cfg), 0);
	struct frame f = frame_of(&b, 0);
	assert_int_equal(guest_config_unpack(&f, &got_cfg), 0);
	assert_memory_equal(&cfg, &got_cfg, sizeof cfg);
	f.len--;
	assert_int_equal(guest_config_unpack(&f, &got_cfg), -EPROTO);
	cfg.listen_port = 65536;
	buf_clear(&b);
	assert_int_equal(guest_config_pack(&b, &cfg), 0);
	f = frame_of(&b, 0);
	assert_int_equal(guest_config_unpack(&f, &got_cfg), -EPROTO);

	auto_buf c = BUF_INIT(256);
	assert_int_equal(guest_end_pack(&c, &end), 0);
	f = frame_of(&c, 0);
	assert_int_equal(guest_end_unpack(&f, &got_end), 0);
	assert_memory_equal(&end, &got_end, sizeof end);
	end.end = 99;
	buf_clear(&c);
	assert_int_equal(guest_end_pack(&c, &end), 0);
	f = frame_of(&c, 0);
	assert_int_equal(guest_end_unpack(&f, &got_end), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exec_round_trip), cmocka_unit_test(test_exec_truncated),
		cmocka_unit_test(test_exec_refused),	cmocka_unit_test(test_error_round_trip),
		cmocka_unit_test(test_fixed_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
