/* The guest as a container has it, here as a plain process: it connects to the control socket, gives programs its own
 * environment below theirs, and ends when it is told to. */
#include "channel.h"
#include "container/control.h"
#include "container/labels.h"
#include "ops.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/spawn.h>
#include <base/str.h>
#include <guest/protocol.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

struct world {
	uv_loop_t loop;
	struct control *control;
	struct channel *channel;
	char *path; /* of the socket */
	pid_t guest;
	bool ready, closed, done;
	struct exec_status status;
	unsigned uid;
};

static void on_ready(void *arg, int terminals, const int *listeners, size_t n)
{
	struct world *w = arg;

	(void)listeners;
	assert_int_equal(n, 0);
	close_quietly(terminals);
	w->ready = true;
}

static void on_closed(void *arg, const struct err *e)
{
	struct world *w = arg;

	(void)e;
	w->closed = true;
}

static void on_connected(void *arg, int fd, unsigned uid)
{
	struct world *w = arg;
	const struct guest_config cfg = {.ways = GUEST_WAY_OWN_ENV, .linger_ms = 60 * 1000};
	const struct channel_callbacks cb = {.on_ready = on_ready, .on_closed = on_closed, .arg = w};
	struct err e = ERR_INIT;

	w->uid = uid;
	w->channel = channel_new(fd, &cfg);
	assert_int_equal(channel_attach(w->channel, &w->loop, &cb, &e), 0);
}

static void wait_for(struct world *w, const bool *flag)
{
	while (!*flag && uv_run(&w->loop, UV_RUN_ONCE))
		;
	assert_true(*flag);
}

static void set_up(struct world *w)
{
	char own[] = "FROM_IMAGE=yes", shared[] = "SHARED=image", *const env[] = {own, shared, NULL};
	struct err e = ERR_INIT;

	*w = (struct world){0};
	/* As every container of ours has it. */
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(uv_loop_init(&w->loop), 0);
	assert_int_equal(control_new(&w->control, &e), 0);
	assert_int_equal(control_listen(w->control, &w->loop, on_connected, w, &e), 0);
	w->path = xstrdup(control_path(w->control));
	char name[] = "guest", job[] = "init", *const argv[] = {name, job, w->path, NULL};
	const struct spawn_opts o = {.file = getenv("ITERION_BIN"), .argv = argv, .envp = env, .stdio = {-1, -1, 2}};
	assert_int_equal(spawn_start(&o, &w->guest, NULL, &e), 0);
	wait_for(w, &w->ready);
}

static void tear_down(struct world *w)
{
	channel_free(w->channel, NULL, NULL);
	control_free(w->control, NULL, NULL);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	free(w->path);
}

static void on_done(void *arg, const struct exec_status *st)
{
	struct world *w = arg;

	w->status = *st;
	w->done = true;
}

static void run(struct world *w, const char *command, const char *const *env)
{
	const char *const argv[] = {"/bin/sh", "-c", command, NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .cwd = "/", .stdio = {-1, -1, 2}};
	struct err e = ERR_INIT;
	struct exec *x;

	w->done = false;
	assert_int_equal(channel_exec(w->channel, &o, on_done, w, &x, &e), 0);
	wait_for(w, &w->done);
	assert_int_equal(w->status.end, EXEC_EXITED);
}

static void test_environment(void **state)
{
	static const char *const env[] = {"SHARED=mine", "OWN=1", NULL}, *const path[] = {"PATH=/own", NULL};
	struct world w;

	(void)state;
	set_up(&w);
	run(&w, "[ \"$FROM_IMAGE $SHARED $OWN\" = 'yes mine 1' ]", env);
	assert_int_equal(w.status.code, 0);
	/* There is a PATH in any case, and one that is given counts. */
	run(&w, "[ -n \"$PATH\" ] && [ \"$PATH\" != /own ] && env | grep -q '^PATH='", env);
	assert_int_equal(w.status.code, 0);
	run(&w, "[ \"$PATH\" = /own ]", path);
	assert_int_equal(w.status.code, 0);
	channel_end(w.channel);
	wait_for(&w, &w.closed);
	int st;
	assert_int_equal(waitpid(w.guest, &st, 0), w.guest);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	tear_down(&w);
}

/* A second connection finds no name and no listener. */
static void test_one_connection(void **state)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct world w;

	(void)state;
	set_up(&w);
	assert_int_equal(w.uid, getuid());
	memcpy(sa.sun_path, w.path, strlen(w.path) + 1);
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&sa, sizeof sa), -1);
	assert_int_equal(errno, ENOENT);
	auto_free char *dir = path_parent(w.path);
	assert_int_equal(access(dir, F_OK), -1);
	/* From outside its process numbers, an engine's stop ends it; here the test is inside, and is not heeded. */
	assert_int_equal(kill(w.guest, SIGTERM), 0);
	run(&w, "exit 7", (const char *const[]){NULL});
	assert_int_equal(w.status.code, 7);
	assert_int_equal(kill(w.guest, SIGKILL), 0);
	wait_for(&w, &w.closed);
	assert_int_equal(waitpid(w.guest, NULL, 0), w.guest);
	tear_down(&w);
}

/* What a killed process left is removed; what a living one has is not. */
static void test_sweep(void **state)
{
	char host[HOST_ID_SIZE], base[] = "/tmp/iterion-test-XXXXXX";
	struct control *own;
	struct err e = ERR_INIT;

	(void)state;
	assert_non_null(mkdtemp(base));
	setenv("XDG_RUNTIME_DIR", base, 1);
	label_host_id(host);
	assert_int_equal(control_new(&own, &e), 0);
	assert_true(str_starts(control_path(own), base));
	auto_free char *dead = xasprintf("%s/iterion-control.%s:1:1.abcdef", base, host);
	auto_free char *foreign = xasprintf("%s/iterion-control.0123456789abcdef:1:1.abcdef", base);
	auto_free char *other = xasprintf("%s/something.%s:1:1.abcdef", base, host);
	assert_int_equal(mkdir(dead, 0700), 0);
	assert_int_equal(mkdir(foreign, 0700), 0);
	assert_int_equal(mkdir(other, 0700), 0);
	control_sweep();
	assert_int_equal(access(dead, F_OK), -1);
	assert_int_equal(access(foreign, F_OK), 0);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(access(control_path(own), F_OK), 0);
	control_free(own, NULL, NULL);
	assert_int_equal(tree_remove(AT_FDCWD, base, &e), 0);
	unsetenv("XDG_RUNTIME_DIR");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_one_connection),
		cmocka_unit_test(test_sweep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
