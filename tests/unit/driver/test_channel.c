/* The host's end of the control channel against a guest that plays by no rules. */
#include "channel.h"
#include "sandboxed.h"

#include <base/buf.h>
#include <base/frame.h>
#include <driver/session.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

struct end {
	uv_loop_t loop;
	struct channel *channel;
	struct frame_conn *guest;
	bool ready, closed, freed, exec_done;
	struct exec *exec;
	struct err why;
	struct exec_status status;
};

static void on_ready(void *arg, int terminals, const int *listeners, size_t n)
{
	struct end *t = arg;

	if (terminals >= 0)
		close(terminals);
	for (size_t i = 0; i < n; i++)
		close(listeners[i]);
	t->ready = true;
}

static void on_closed(void *arg, const struct err *e)
{
	struct end *t = arg;

	t->closed = true;
	t->why = *e;
}

static void open_ends(struct end *t)
{
	const struct channel_callbacks cb = {.on_ready = on_ready, .on_closed = on_closed, .arg = t};
	const struct guest_config cfg = {.listen_port = 5};
	struct err e = ERR_INIT;
	int pair[2];

	memset(t, 0, sizeof *t);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(uv_loop_init(&t->loop), 0);
	t->channel = channel_new(pair[0], &cfg);
	t->guest = frame_conn_new(pair[1], FRAME_MAX_PAYLOAD);
	assert_int_equal(channel_attach(t->channel, &t->loop, &cb, &e), 0);
}

static void on_freed(void *arg)
{
	struct end *t = arg;

	t->freed = true;
}

static void close_ends(struct end *t)
{
	channel_free(t->channel, on_freed, t);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	assert_true(t->freed);
	frame_conn_free(t->guest);
	assert_int_equal(uv_loop_close(&t->loop), 0);
}

static void run(struct end *t)
{
	for (int i = 0; i < 4; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
}

static void send_ready(struct end *t)
{
	const struct guest_ready ready = {.version = GUEST_PROTOCOL_VERSION};

	assert_int_equal(frame_send(t->guest, GUEST_READY, 0, &ready, sizeof ready, NULL, 0), 0);
	run(t);
}

static void on_done(void *arg, const struct exec_status *st)
{
	struct end *t = arg;

	t->exec_done = true;
	t->status = *st;
}

static uint32_t start_exec(struct end *t)
{
	static const char *const argv[] = {"a", NULL}, *const env[] = {NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, -1, -1}};
	struct err e = ERR_INIT;
	struct frame f;

	assert_int_equal(channel_exec(t->channel, &o, on_done, t, &t->exec, &e), 0);
	while (frame_recv(t->guest, &f) == 1)
		if (f.type == GUEST_EXEC)
			return f.stream;
	fail_msg("no exec arrived");
	return 0;
}

static void test_config_is_there_first(void **state)
{
	struct end t;
	struct frame f;
	struct guest_config cfg;

	(void)state;
	open_ends(&t);
	assert_int_equal(frame_recv(t.guest, &f), 1);
	assert_int_equal(f.type, GUEST_CONFIG);
	assert_int_equal(guest_config_unpack(&f, &cfg), 0);
	assert_int_equal(cfg.listen_port, 5);
	send_ready(&t);
	assert_true(t.ready);
	close_ends(&t);
	assert_false(t.closed);
}

/* It told why, and was gone before the first words to it were written: that they cannot be is no reason not to listen.
 */
static void test_last_words_of_one_that_is_gone(void **state)
{
	const struct channel_callbacks cb = {.on_ready = on_ready, .on_closed = on_closed, .arg = NULL};
	const struct guest_config cfg = {.listen_port = 5};
	struct channel_callbacks own = cb;
	struct err e = ERR_INIT, told = ERR_INIT;
	auto_buf b = BUF_INIT(4096);
	struct end t = {0};
	int pair[2];

	(void)state;
	own.arg = &t;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(uv_loop_init(&t.loop), 0);
	t.guest = frame_conn_new(pair[1], FRAME_MAX_PAYLOAD);
	(void)err_set(&told, ERR_SANDBOX, ENOENT, "the very reason");
	assert_int_equal(guest_err_pack(&b, &told), 0);
	assert_int_equal(frame_send(t.guest, GUEST_FAILED, 0, b.data, b.len, NULL, 0), 0);
	frame_conn_free(t.guest);
	t.guest = NULL;
	t.channel = channel_new(pair[0], &cfg);
	assert_int_equal(channel_attach(t.channel, &t.loop, &own, &e), 0);
	run(&t);
	assert_true(t.closed);
	assert_string_equal(t.why.msg, "the very reason");
	channel_free(t.channel, on_freed, &t);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&t.loop), 0);
}

static void test_end_of_an_exec(void **state)
{
	const struct guest_exec_end end = {.end = GUEST_SIGNALED, .code = 11, .core = 1};
	struct end t;

	(void)state;
	open_ends(&t);
	send_ready(&t);
	uint32_t stream = start_exec(&t);
	assert_int_equal(frame_send(t.guest, GUEST_EXEC_ENDED, stream, &end, sizeof end, NULL, 0), 0);
	run(&t);
	assert_true(t.exec_done);
	assert_int_equal(t.status.end, EXEC_SIGNALED);
	assert_int_equal(t.status.code, 11);
	assert_true(t.status.core);
	/* A second end of the same exec is a lie. */
	assert_int_equal(frame_send(t.guest, GUEST_EXEC_ENDED, stream, &end, sizeof end, NULL, 0), 0);
	run(&t);
	assert_true(t.closed);
	close_ends(&t);
}

static void test_hang_up_loses_execs(void **state)
{
	struct end t;

	(void)state;
	open_ends(&t);
	send_ready(&t);
	(void)start_exec(&t);
	frame_conn_free(t.guest);
	t.guest = NULL;
	run(&t);
	assert_true(t.exec_done);
	assert_int_equal(t.status.end, EXEC_LOST);
	assert_true(t.closed);
	assert_string_not_equal(t.why.hint, "");
	close_ends(&t);
}

static void test_lies_close_the_channel(void **state)
{
	static const struct {
		const char *name;
		uint16_t type;
		const char *payload;
		size_t len;
	} rows[] = {
		{"unknown type", 4711, "", 0},
		{"host's own type", GUEST_EXEC, "", 0},
		{"short ready", GUEST_READY, "\x01", 1},
		{"wrong version", GUEST_READY, "\xff\xff\xff\xff\0\0\0\0", 8},
		{"terminals that did not come", GUEST_READY, "\1\0\0\0\1\0\0\0", 8},
		{"terminals of no sense", GUEST_READY, "\1\0\0\0\7\0\0\0", 8},
		{"exec that never was", GUEST_EXEC_ENDED, "\0\0\0\0\0\0\0\0\0\0\0\0", 12},
		{"short end", GUEST_EXEC_ENDED, "\0\0\0\0", 4},
		{"malformed error", GUEST_FAILED, "\xff\xff\xff\xff", 4},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct end t;
		open_ends(&t);
		assert_int_equal(frame_send(t.guest, rows[i].type, 1, rows[i].payload, rows[i].len, NULL, 0), 0);
		run(&t);
		if (!t.closed)
			fail_msg("%s was accepted", rows[i].name);
		assert_string_not_equal(t.why.msg, "");
		assert_string_not_equal(t.why.hint, "");
		close_ends(&t);
	}
}

static void test_second_ready(void **state)
{
	struct end t;

	(void)state;
	open_ends(&t);
	send_ready(&t);
	assert_false(t.closed);
	send_ready(&t);
	assert_true(t.closed);
	close_ends(&t);
}

static void test_its_own_words_arrive(void **state)
{
	struct err e = ERR_INIT;
	auto_buf b = BUF_INIT(4096);
	struct end t;

	(void)state;
	(void)err_set(&e, ERR_SANDBOX, EPERM, "mount /usr");
	err_hint(&e, "do that");
	assert_int_equal(guest_err_pack(&b, &e), 0);
	open_ends(&t);
	assert_int_equal(frame_send(t.guest, GUEST_FAILED, 0, b.data, b.len, NULL, 0), 0);
	run(&t);
	assert_true(t.closed);
	assert_string_equal(t.why.msg, "mount /usr");
	assert_string_equal(t.why.hint, "do that");
	close_ends(&t);
}

/* Init says why it cannot start and ends without having read the configuration: the socket then reports an error before
 * anybody read what was sent. */
static void test_its_own_words_survive_a_reset(void **state)
{
	auto_buf b = BUF_INIT(4096);
	struct err why = ERR_INIT;
	struct end t;

	(void)state;
	open_ends(&t);
	(void)err_set(&why, ERR_SANDBOX, EBUSY, "the words of init");
	assert_int_equal(guest_err_pack(&b, &why), 0);
	assert_int_equal(frame_send(t.guest, GUEST_FAILED, 0, b.data, b.len, NULL, 0), 0);
	frame_conn_free(t.guest);
	t.guest = NULL;
	run(&t);
	assert_true(t.closed);
	assert_string_equal(t.why.msg, "the words of init");
	close_ends(&t);
}

/* A program can stop init's child before its exec, and init with it: the run must get an end nevertheless. */
static void test_killed_program_must_end(void **state)
{
	const struct guest_exec_end end = {.end = GUEST_SIGNALED, .code = SIGKILL};
	struct end t;

	(void)state;
	for (int answered = 0; answered < 2; answered++) {
		open_ends(&t);
		send_ready(&t);
		uint32_t stream = start_exec(&t);
		exec_signal(t.exec, SIGKILL);
		if (answered)
			assert_int_equal(frame_send(t.guest, GUEST_EXEC_ENDED, stream, &end, sizeof end, NULL, 0), 0);
		/* The socket's handle keeps the loop; only the timer, when it runs, can end this. */
		while (!t.exec_done)
			uv_run(&t.loop, UV_RUN_ONCE);
		assert_int_equal(t.status.end, answered ? EXEC_SIGNALED : EXEC_LOST);
		assert_int_equal(t.closed, !answered);
		if (!answered)
			assert_int_equal(t.why.errnum, ETIMEDOUT);
		close_ends(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config_is_there_first),	cmocka_unit_test(test_last_words_of_one_that_is_gone),
		cmocka_unit_test(test_end_of_an_exec),		cmocka_unit_test(test_hang_up_loses_execs),
		cmocka_unit_test(test_lies_close_the_channel),	cmocka_unit_test(test_second_ready),
		cmocka_unit_test(test_its_own_words_arrive),	cmocka_unit_test(test_its_own_words_survive_a_reset),
		cmocka_unit_test(test_killed_program_must_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
