/* The connection to an agent: programs whose bytes pass through it, with the real guest at the other end, and an agent
 * that plays by no rules. */
#include "kubernetes/mux.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/frame.h>
#include <base/mem.h>
#include <driver/session.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { MEGABYTE = 1024 * 1024 };

struct world {
	uv_loop_t loop;
	struct mux *mux;
	pid_t init, agent;
	bool ready, closed, freed;
	int r;
	struct err why;
};

static void on_ready(void *arg)
{
	((struct world *)arg)->ready = true;
}

static void on_closed(void *arg, int r, const struct err *e)
{
	struct world *w = arg;

	w->closed = true;
	w->r = r;
	w->why = *e;
}

static void on_freed(void *arg)
{
	((struct world *)arg)->freed = true;
}

static void attach(struct world *w, int fd)
{
	const struct mux_callbacks cb = {.on_ready = on_ready, .on_closed = on_closed, .arg = w};
	const struct guest_config cfg = {0};
	struct err e = ERR_INIT;

	assert_int_equal(uv_loop_init(&w->loop), 0);
	w->mux = mux_new(fd, NULL, 0, &cfg);
	assert_int_equal(mux_attach(w->mux, &w->loop, &cb, &e), 0);
}

static pid_t run_guest(const char *const *argv, int io)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	union {
		const char *const *in;
		char *const *out;
	} args = {argv};
	if (io >= 0) {
		dup2(io, 0);
		dup2(io, 1);
	}
	execv(getenv("ITERION_BIN"), args.out);
	_exit(127);
}

/* PID 1's job and the agent's, as in a pod; the first tells by the FIFO when the second may come. */
static void open_world(struct world *w)
{
	char dir[] = "/tmp/iterion-mux.XXXXXX", fifo[64], word[8];
	int pair[2];

	*w = (struct world){.init = -1, .agent = -1};
	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof fifo, "%s/ready", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	const char *const init[] = {"iterion-guest", "init", "@", fifo, NULL};
	const char *const agent[] = {"iterion-guest", "agent", NULL};
	w->init = run_guest(init, -1);
	int ready = open(fifo, O_RDONLY | O_CLOEXEC);
	assert_true(read(ready, word, sizeof word) > 0);
	close(ready);
	unlink(fifo);
	rmdir(dir);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w->agent = run_guest(agent, pair[1]);
	close(pair[1]);
	attach(w, pair[0]);
	while (!w->ready && !w->closed)
		uv_run(&w->loop, UV_RUN_ONCE);
	assert_true(w->ready);
}

static void close_world(struct world *w)
{
	int status;

	mux_end(w->mux);
	mux_free(w->mux, on_freed, w);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_true(w->freed);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	assert_int_equal(waitpid(w->init, &status, 0), w->init);
	assert_int_equal(waitpid(w->agent, &status, 0), w->agent);
}

struct job {
	struct exec *exec;
	bool done;
	struct exec_status st;
};

static void on_done(void *arg, const struct exec_status *st)
{
	struct job *j = arg;

	j->done = true;
	j->st = *st;
}

static void start_words(struct world *w, struct job *j, const char *const *argv, int in, int out, int err)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .cwd = "/", .stdio = {in, out, err}};
	struct err e = ERR_INIT;

	*j = (struct job){0};
	assert_int_equal(mux_exec(w->mux, &o, false, on_done, j, &j->exec, &e), 0);
}

static void start(struct world *w, struct job *j, const char *command, int in, int out, int err)
{
	const char *const argv[] = {"/bin/sh", "-c", command, NULL};

	start_words(w, j, argv, in, out, err);
}

static void finish(struct world *w, struct job *j)
{
	while (!j->done && !w->closed)
		uv_run(&w->loop, UV_RUN_ONCE);
	assert_true(j->done);
}

static void test_ends(void **state)
{
	static const struct {
		const char *command;
		enum exec_end end;
		int code;
	} rows[] = {
		{"exit 0", EXEC_EXITED, 0},	  {"exit 42", EXEC_EXITED, 42},	      {"exit 255", EXEC_EXITED, 255},
		{"kill -9 $$", EXEC_SIGNALED, 9}, {"kill -15 $$", EXEC_SIGNALED, 15},
	};
	struct world w;
	struct job j;

	(void)state;
	open_world(&w);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		start(&w, &j, rows[i].command, -1, -1, -1);
		finish(&w, &j);
		assert_int_equal(j.st.end, rows[i].end);
		assert_int_equal(j.st.code, rows[i].code);
	}
	static const char *const missing[] = {"/no/such", NULL}, *const folder[] = {"/tmp", NULL};
	start_words(&w, &j, missing, -1, -1, -1);
	finish(&w, &j);
	assert_int_equal(j.st.end, EXEC_NOT_FOUND);
	assert_int_equal(j.st.code, ENOENT);
	start_words(&w, &j, folder, -1, -1, -1);
	finish(&w, &j);
	assert_int_equal(j.st.code, EACCES);
	close_world(&w);
}

/* Everything that the program wrote is there when its end is told. */
static void test_many_and_much(void **state)
{
	enum { N = 20, EACH = 10 * MEGABYTE };
	struct world w;
	struct job j[N];
	FILE *out[N];

	(void)state;
	open_world(&w);
	for (size_t i = 0; i < N; i++) {
		char command[128];
		out[i] = tmpfile();
		snprintf(command, sizeof command, "head -c %d /dev/zero | tr '\\0' '%c'; exit %zu", EACH,
			 (char)('a' + i), i);
		start(&w, &j[i], command, -1, fileno(out[i]), -1);
	}
	for (size_t i = 0; i < N; i++) {
		struct stat st;
		char ends[2];
		finish(&w, &j[i]);
		assert_int_equal(j[i].st.code, i);
		assert_int_equal(fstat(fileno(out[i]), &st), 0);
		assert_int_equal(st.st_size, EACH);
		assert_int_equal(pread(fileno(out[i]), ends, 1, 0), 1);
		assert_int_equal(pread(fileno(out[i]), ends + 1, 1, EACH - 1), 1);
		assert_int_equal(ends[0], 'a' + i);
		assert_int_equal(ends[1], 'a' + i);
		fclose(out[i]);
	}
	close_world(&w);
}

/* A reader that takes nothing holds its own program up, nobody else's, and no more than a window waits here. */
static void test_slow_reader(void **state)
{
	struct world w;
	struct job slow, quick;
	int fds[2];
	size_t total = 0;
	char chunk[64 * 1024];

	(void)state;
	open_world(&w);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	start(&w, &slow, "head -c 4000000 /dev/zero", -1, fds[1], -1);
	close(fds[1]);
	for (int i = 0; i < 5; i++) {
		start(&w, &quick, "echo x", -1, -1, -1);
		finish(&w, &quick);
		assert_int_equal(quick.st.code, 0);
	}
	assert_false(slow.done);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	for (ssize_t n = 1; n != 0;) {
		uv_run(&w.loop, UV_RUN_NOWAIT);
		n = read(fds[0], chunk, sizeof chunk);
		total += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(total, 4000000);
	close(fds[0]);
	finish(&w, &slow);
	close_world(&w);
}

static void test_input(void **state)
{
	struct world w;
	struct job j;
	FILE *in = tmpfile(), *out = tmpfile();
	char line[128] = "";

	(void)state;
	for (int i = 0; i < 300000; i++)
		fprintf(in, "line %d\n", i);
	fflush(in);
	rewind(in);
	open_world(&w);
	start(&w, &j, "sha1sum; sha1sum </dev/null; read x; echo [$x]", fileno(in), fileno(out), -1);
	finish(&w, &j);
	rewind(out);
	assert_non_null(fgets(line, sizeof line, out));
	rewind(in);
	char command[] = "sha1sum";
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		lseek(fileno(in), 0, SEEK_SET);
		dup2(fileno(in), 0);
		dup2(fds[1], 1);
		execlp(command, command, (char *)NULL);
		_exit(127);
	}
	char want[128] = "";
	assert_true(read(fds[0], want, sizeof want - 1) > 0);
	assert_string_equal(line, want);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	fclose(in);
	fclose(out);
	close_world(&w);
}

/* Who stops reading, and who stops writing, is told to the other side. */
static void test_hangups(void **state)
{
	struct world w;
	struct job j;
	int fds[2];
	char chunk[16];

	(void)state;
	open_world(&w);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	start(&w, &j, "exec yes", -1, fds[1], -1);
	close(fds[1]);
	uv_run(&w.loop, UV_RUN_ONCE);
	assert_true(read(fds[0], chunk, sizeof chunk) > 0);
	close(fds[0]);
	finish(&w, &j);
	assert_int_equal(j.st.end, EXEC_SIGNALED);
	assert_int_equal(j.st.code, SIGPIPE);
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	start(&w, &j, "exec 0<&-; sleep 0.2; exec cat /dev/null", fds[0], -1, -1);
	close(fds[0]);
	while (write(fds[1], chunk, sizeof chunk) > 0 || errno == EAGAIN)
		uv_run(&w.loop, UV_RUN_NOWAIT);
	assert_int_equal(errno, EPIPE);
	close(fds[1]);
	finish(&w, &j);
	close_world(&w);
}

static void test_signals_and_loss(void **state)
{
	struct world w;
	struct job a, b, own;

	(void)state;
	open_world(&w);
	start(&w, &a, "trap 'exit 7' TERM; echo; while :; do sleep 0.05; done", -1, -1, -1);
	start(&w, &b, "exec sleep 1000", -1, -1, -1);
	exec_signal(a.exec, SIGTERM);
	finish(&w, &a);
	assert_true(a.st.end == EXEC_SIGNALED || a.st.code == 7);
	assert_true(mux_busy(w.mux));
	mux_lose_execs(w.mux);
	assert_true(b.done);
	assert_int_equal(b.st.end, EXEC_LOST);
	assert_false(mux_busy(w.mux));
	start(&w, &own, "exit 3", -1, -1, -1);
	finish(&w, &own);
	assert_int_equal(own.st.code, 3);
	start(&w, &b, "exec sleep 1000", -1, -1, -1);
	kill(w.agent, SIGKILL);
	while (!w.closed)
		uv_run(&w.loop, UV_RUN_ONCE);
	assert_int_equal(w.r, -ECONNRESET);
	assert_false(b.done);
	mux_close(w.mux);
	assert_int_equal(b.st.end, EXEC_LOST);
	close_world(&w);
}

static void test_terminal(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "tty; stty size; exec sleep 1000", NULL};
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	struct world w;
	struct job j = {0};
	struct err e = ERR_INIT;
	char text[512] = "";
	size_t len = 0;

	(void)state;
	open_world(&w);
	int outer = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	assert_true(outer >= 0 && unlockpt(outer) == 0);
	int inner = open(ptsname(outer), O_RDWR | O_NOCTTY | O_CLOEXEC);
	const struct exec_opts o = {.argv = argv, .env = env, .cwd = "/", .stdio = {inner, inner, inner}, .tty = true};
	assert_int_equal(mux_exec(w.mux, &o, false, on_done, &j, &j.exec, &e), 0);
	exec_resize(j.exec, 33, 77);
	close(inner);
	while (!strstr(text, "33 77") && !w.closed && !j.done) {
		uv_run(&w.loop, UV_RUN_NOWAIT);
		ssize_t n = read(outer, text + len, sizeof text - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	assert_non_null(strstr(text, "/dev/pts/"));
	/* ^C typed here is a signal there. */
	assert_int_equal(write(outer, "\003", 1), 1);
	finish(&w, &j);
	assert_int_equal(j.st.end, EXEC_SIGNALED);
	assert_int_equal(j.st.code, SIGINT);
	close(outer);
	close_world(&w);
}

/* What an agent that somebody took over may send. */
static void test_hostile(void **state)
{
	const uint32_t version = GUEST_PROTOCOL_VERSION, zero[3] = {0}, many = 1 << 30;
	const struct guest_ready ready = {.version = GUEST_PROTOCOL_VERSION};
	char big[1024] = {0};
	const struct {
		bool hello, is_ready, exec;
		uint16_t type;
		uint32_t stream;
		const void *data;
		size_t len;
	} rows[] = {
		{false, false, false, GUEST_READY, 0, &ready, sizeof ready}, /* no hello before */
		{true, false, false, GUEST_HELLO, 0, &version, sizeof version},
		{true, true, false, GUEST_READY, 0, &ready, sizeof ready},
		{true, true, false, 999, 0, "", 0},
		{true, true, false, GUEST_STDOUT, 1, big, sizeof big}, /* of no program */
		{true, true, false, GUEST_EXEC_ENDED, 1, zero, sizeof zero},
		{true, true, true, GUEST_EXEC_ENDED, 1, zero, 5},
		{true, true, true, GUEST_TAKEN, 1, &many, sizeof many}, /* more than was sent */
		{true, true, true, GUEST_TAKEN, 1, "", 0},
		{true, true, true, GUEST_HELLO, 1, &version, 2},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w = {.init = -1};
		struct job j;
		int pair[2], out[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		attach(&w, pair[0]);
		struct frame_conn *agent = frame_conn_new(pair[1], FRAME_MAX_PAYLOAD);
		if (rows[i].hello)
			assert_int_equal(frame_send(agent, GUEST_HELLO, 0, &version, sizeof version, NULL, 0), 0);
		if (rows[i].is_ready)
			assert_int_equal(frame_send(agent, GUEST_READY, 0, &ready, sizeof ready, NULL, 0), 0);
		while (rows[i].is_ready && !w.ready)
			uv_run(&w.loop, UV_RUN_ONCE);
		assert_int_equal(pipe2(out, O_CLOEXEC), 0);
		if (rows[i].exec)
			start(&w, &j, "x", -1, out[1], -1);
		assert_int_equal(frame_send(agent, rows[i].type, rows[i].stream, rows[i].data, rows[i].len, NULL, 0),
				 0);
		while (!w.closed)
			uv_run(&w.loop, UV_RUN_ONCE);
		assert_int_equal(w.r, -EPROTO);
		mux_close(w.mux);
		if (rows[i].exec)
			assert_int_equal(j.st.end, EXEC_LOST);
		close(out[0]);
		close(out[1]);
		mux_free(w.mux, on_freed, &w);
		uv_run(&w.loop, UV_RUN_DEFAULT);
		assert_int_equal(uv_loop_close(&w.loop), 0);
		frame_conn_free(agent);
	}
}

/* More bytes than there was credit for. */
static void test_no_credit(void **state)
{
	const uint32_t version = GUEST_PROTOCOL_VERSION;
	const struct guest_ready ready = {.version = GUEST_PROTOCOL_VERSION};
	static char chunk[GUEST_CHUNK];
	struct world w = {.init = -1};
	struct job j;
	int pair[2], out[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	attach(&w, pair[0]);
	struct frame_conn *agent = frame_conn_new(pair[1], FRAME_MAX_PAYLOAD);
	assert_int_equal(frame_send(agent, GUEST_HELLO, 0, &version, sizeof version, NULL, 0), 0);
	assert_int_equal(frame_send(agent, GUEST_READY, 0, &ready, sizeof ready, NULL, 0), 0);
	while (!w.ready)
		uv_run(&w.loop, UV_RUN_ONCE);
	start(&w, &j, "x", -1, out[1], -1);
	for (int i = 0; i < 64 && !w.closed; i++) {
		assert_true(frame_send(agent, GUEST_STDOUT, 1, chunk, sizeof chunk, NULL, 0) == 0 || w.closed);
		uv_run(&w.loop, UV_RUN_NOWAIT);
		(void)!frame_flush(agent);
	}
	assert_true(w.closed);
	assert_int_equal(w.r, -EPROTO);
	mux_free(w.mux, on_freed, &w);
	uv_run(&w.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w.loop), 0);
	frame_conn_free(agent);
	close(out[0]);
	close(out[1]);
}

/* The socket of the agent has one name for each network namespace: two of this test are not to share it. */
static int own_network(void **state)
{
	(void)state;
	/* As the program has it. */
	(void)signal(SIGPIPE, SIG_IGN);
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		print_message("no network namespace: %s; tests of this program cannot run twice at once\n",
			      strerror(errno));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),	    cmocka_unit_test(test_many_and_much),
		cmocka_unit_test(test_slow_reader), cmocka_unit_test(test_input),
		cmocka_unit_test(test_hangups),	    cmocka_unit_test(test_signals_and_loss),
		cmocka_unit_test(test_terminal),    cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_no_credit),
	};

	return cmocka_run_group_tests(tests, own_network, NULL);
}
