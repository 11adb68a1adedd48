/* Driver, proxy and events together, with a real sandbox and a real upstream on this machine's loopback. */
#include "session_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

struct fixture {
	uv_loop_t loop;
	struct sandbox_spec spec;
	struct session_params params;
	struct session *session;
	json_t *events; /* array of [type, data] */
	bool started, lost, stopped;
	struct err start_err, why;
	char workspace[32];
};

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct fixture *f = arg;

	json_array_append_new(f->events, json_pack("[sO]", type, data));
}

static void on_lost(void *arg, const struct err *e)
{
	struct fixture *f = arg;

	f->lost = true;
	f->why = *e;
}

static void on_started(void *arg, const struct err *e)
{
	struct fixture *f = arg;

	f->started = true;
	if (e)
		f->start_err = *e;
}

static void on_stopped(void *arg, const struct err *e)
{
	struct fixture *f = arg;

	(void)e;
	f->stopped = true;
}

static void wait_for(struct fixture *f, const bool *flag)
{
	while (!*flag && uv_run(&f->loop, UV_RUN_ONCE))
		;
	assert_true(*flag);
}

static void set_up(struct fixture *f, const char *rule)
{
	memset(f, 0, sizeof *f);
	f->spec.mode = SANDBOX_INLINE;
	f->spec.mode_source = xstrdup("a test");
	f->spec.network.mode = NETWORK_ALLOWLIST;
	if (rule)
		strv_add(&f->spec.network.rules, rule);
	snprintf(f->workspace, sizeof f->workspace, "/tmp/iterion-ws-XXXXXX");
	assert_non_null(mkdtemp(f->workspace));
	f->events = json_array();
	assert_int_equal(uv_loop_init(&f->loop), 0);
	f->params = (struct session_params){.loop = &f->loop,
					    .spec = &f->spec,
					    .driver = "native",
					    .workspace = f->workspace,
					    .run_id = "run-1",
					    .run_name = "test",
					    .home = "/home/inside",
					    .on_event = on_event,
					    .on_lost = on_lost,
					    .arg = f};
}

static void start(struct fixture *f)
{
	struct err e = ERR_INIT;

	if (session_new(&f->params, &f->session, &e) < 0)
		fail_msg("%s", e.msg);
	session_start(f->session, on_started, f);
	wait_for(f, &f->started);
}

static void tear_down(struct fixture *f)
{
	if (f->session) {
		session_stop(f->session, on_stopped, f);
		wait_for(f, &f->stopped);
		uv_run(&f->loop, UV_RUN_DEFAULT);
		session_free(f->session);
	}
	assert_int_equal(uv_loop_close(&f->loop), 0);
	json_decref(f->events);
	sandbox_spec_done(&f->spec);
	rmdir(f->workspace);
}

/* Data of the only event of this type; NULL when there is none. */
static const json_t *event(const struct fixture *f, const char *type)
{
	const json_t *found = NULL;

	for (size_t i = 0; i < json_array_size(f->events); i++) {
		const json_t *e = json_array_get(f->events, i);
		if (strcmp(json_string_value(json_array_get(e, 0)), type) != 0)
			continue;
		assert_null(found);
		found = json_array_get(e, 1);
	}
	return found;
}

struct result {
	bool done;
	struct exec_status status;
};

static void on_done(void *arg, const struct exec_status *st)
{
	struct result *r = arg;

	r->done = true;
	r->status = *st;
}

/* A server on loopback that answers one connection with "pong\n". */
static int listen_loopback(uint16_t *ret_port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof sa;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

/* Runs a shell command inside; accepts on `server` meanwhile. */
static int run(struct fixture *f, const char *command, int server, char *out, size_t size)
{
	const char *const argv[] = {"sh", "-c", command, NULL}, *const env[] = {"PATH=/usr/bin:/bin", NULL};
	struct result r = {0};
	struct err e = ERR_INIT;
	struct exec *x;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, fds[1], fds[1]}};
	if (session_exec(f->session, &o, on_done, &r, &x, &e) < 0)
		fail_msg("%s", e.msg);
	close(fds[1]);
	while (!r.done) {
		uv_run(&f->loop, UV_RUN_NOWAIT);
		int conn = server < 0 ? -1 : accept4(server, NULL, NULL, SOCK_CLOEXEC);
		if (conn >= 0) {
			assert_int_equal(write(conn, "pong\n", 5), 5);
			close(conn);
		}
	}
	ssize_t n = read(fds[0], out, size - 1);
	out[n < 0 ? 0 : n] = '\0';
	close(fds[0]);
	return r.status.end == EXEC_EXITED ? r.status.code : -1;
}

static void test_allowed_and_blocked(void **state)
{
	struct fixture f;
	char command[256], out[1024];
	uint16_t port;

	(void)state;
	int server = listen_loopback(&port);
	set_up(&f, "127.0.0.1");
	start(&f);
	assert_int_equal(f.start_err.kind, ERR_NONE);
	const json_t *started = event(&f, "sandbox_started");
	assert_non_null(started);
	assert_string_equal(json_get_str(started, "driver"), "native");
	assert_string_equal(json_get_str(json_object_get(started, "network"), "enforcement"), "namespace");

	snprintf(command, sizeof command, "/run/iterion/bin/iterion connect 127.0.0.1 %u </dev/null", port);
	assert_int_equal(run(&f, command, server, out, sizeof out), 0);
	assert_string_equal(out, "pong\n");
	assert_int_equal(run(&f, "/run/iterion/bin/iterion connect evil.example 443 </dev/null", -1, out, sizeof out),
			 1);
	assert_non_null(strstr(out, "evil.example"));

	session_stop(f.session, on_stopped, &f);
	wait_for(&f, &f.stopped);
	const json_t *blocked = event(&f, "network_blocked");
	assert_non_null(blocked);
	assert_string_equal(json_get_str(blocked, "host"), "evil.example");
	assert_int_equal(json_integer_value(json_object_get(blocked, "port")), 443);
	assert_string_equal(json_get_str(blocked, "run_id"), "run-1");
	const json_t *summary = event(&f, "network_summary");
	assert_non_null(summary);
	assert_int_equal(json_array_size(json_object_get(summary, "hosts")), 2);
	const json_t *stopped = event(&f, "sandbox_stopped");
	assert_string_equal(json_get_str(stopped, "exit"), "clean");
	char *all = json_compact(f.events);
	assert_null(strstr(all, f.session->token));
	free(all);
	close(server);
	session_free(TAKE_PTR(f.session));
	tear_down(&f);
}

static void test_host_loopback_is_out_of_reach(void **state)
{
	struct fixture f;
	char command[256], out[1024];
	uint16_t port;

	(void)state;
	int server = listen_loopback(&port);
	set_up(&f, "x.example");
	start(&f);
	snprintf(command, sizeof command, "exec bash -c 'echo >/dev/tcp/127.0.0.1/%u'", port);
	assert_int_not_equal(run(&f, command, -1, out, sizeof out), 0);
	assert_non_null(strstr(out, "refused"));
	assert_int_equal(accept4(server, NULL, NULL, SOCK_CLOEXEC), -1);
	close(server);
	tear_down(&f);
}

static void test_proxy_killed_is_lost(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, "x.example");
	start(&f);
	assert_int_equal(kill(proxy_pid(f.session->proxy), SIGKILL), 0);
	wait_for(&f, &f.lost);
	assert_string_not_equal(f.why.msg, "");
	assert_string_not_equal(f.why.hint, "");
	session_stop(f.session, on_stopped, &f);
	wait_for(&f, &f.stopped);
	assert_string_equal(json_get_str(event(&f, "sandbox_stopped"), "exit"), "lost");
	session_free(TAKE_PTR(f.session));
	tear_down(&f);
}

static void test_post_create(void **state)
{
	struct fixture f;
	char out[64];

	(void)state;
	set_up(&f, NULL);
	f.spec.post_create = xstrdup("echo made > made; pwd");
	start(&f);
	assert_int_equal(f.start_err.kind, ERR_NONE);
	assert_int_equal(json_integer_value(json_object_get(event(&f, "sandbox_post_create"), "exit_code")), 0);
	assert_int_equal(run(&f, "cat made; rm made", -1, out, sizeof out), 0);
	assert_string_equal(out, "made\n");
	tear_down(&f);
}

static void test_post_create_fails(void **state)
{
	struct fixture f;

	(void)state;
	set_up(&f, NULL);
	f.spec.post_create = xstrdup("echo no such package >&2; exit 9");
	start(&f);
	assert_int_equal(f.start_err.kind, ERR_SANDBOX);
	assert_non_null(strstr(f.start_err.msg, "no such package"));
	assert_non_null(strstr(f.start_err.msg, "9"));
	tear_down(&f);
}

static void test_what_a_driver_cannot_do_is_an_error(void **state)
{
	struct fixture f;
	struct err e = ERR_INIT;

	(void)state;
	set_up(&f, NULL);
	f.spec.build.dockerfile = xstrdup("Dockerfile");
	assert_int_equal(session_new(&f.params, &f.session, &e), -ENOTSUP);
	assert_non_null(strstr(e.msg, "build"));
	assert_string_not_equal(e.hint, "");
	f.params.driver = "nativ";
	assert_int_equal(session_new(&f.params, &f.session, &e), -ENOENT);
	assert_non_null(strstr(e.hint, "native"));
	f.session = NULL;
	tear_down(&f);
}

static void expect_refused(struct fixture *f, const char *what)
{
	struct err e = ERR_INIT;

	assert_int_equal(session_new(&f->params, &f->session, &e), -EPERM);
	assert_null(f->session);
	if (!strstr(e.msg, what))
		fail_msg("%s is not in: %s", what, e.msg);
	assert_string_not_equal(e.hint, "");
}

static void test_sensitive_paths_are_refused(void **state)
{
	static const char *const workspaces[] = {"/", "/home/inside", "/proc", "/home"};
	struct fixture f;
	char link[64];

	(void)state;
	set_up(&f, NULL);
	const char *workspace = f.params.workspace;
	for (size_t i = 0; i < sizeof workspaces / sizeof workspaces[0]; i++) {
		f.params.workspace = workspaces[i];
		expect_refused(&f, workspaces[i]);
	}
	f.params.workspace = workspace;
	/* By a symlink: what it leads to is what counts. */
	snprintf(link, sizeof link, "%s/link", workspace);
	assert_int_equal(symlink("/etc/shadow", link), 0);
	struct sandbox_mount *m = sandbox_spec_add_mount(&f.spec);
	m->type = MOUNT_BIND;
	m->source = xstrdup(link);
	m->target = xstrdup("/data");
	m->origin = xstrdup("a test");
	expect_refused(&f, "/etc/shadow");
	unlink(link);
	tear_down(&f);
}

static void test_a_mount_is_there(void **state)
{
	struct fixture f;
	char out[64];

	(void)state;
	set_up(&f, NULL);
	struct sandbox_mount *m = sandbox_spec_add_mount(&f.spec);
	m->type = MOUNT_BIND;
	m->source = xstrdup("/usr/share/zoneinfo");
	m->target = xstrdup("/data/zones");
	m->readonly = true;
	m->origin = xstrdup("a test");
	start(&f);
	assert_int_equal(run(&f, "ls /data/zones/UTC; touch /data/zones/x", -1, out, sizeof out), 1);
	assert_non_null(strstr(out, "/data/zones/UTC"));
	assert_non_null(strstr(out, "Read-only"));
	tear_down(&f);
}

/* With the user's own state: caches are shared, other runs and credentials of the store are not, nothing is left
 * behind. */
static void test_host_state(void **state)
{
	static char home[] = "/tmp/iterion-home-XXXXXX";
	struct fixture f;
	char out[512], path[512];

	(void)state;
	assert_non_null(mkdtemp(home));
	for (int i = 0; i < 4; i++) {
		static const char *const below[] = {".npm", ".iterion", ".iterion/runs", ".iterion/runs/other"};
		snprintf(path, sizeof path, "%s/%s", home, below[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	unsetenv("ITERION_HOME");
	set_up(&f, NULL);
	f.params.home = home;
	f.spec.host_state = HOST_STATE_AUTO;
	f.spec.host_state_source = xstrdup("a test");
	start(&f);
	assert_int_equal(f.start_err.kind, ERR_NONE);
	const json_t *shared = event(&f, "sandbox_host_state_mounted");
	assert_int_equal(json_array_size(json_object_get(shared, "mounts")), 2);
	assert_true(json_array_size(json_object_get(shared, "skipped")) > 0);
	snprintf(path, sizeof path,
		 "cd %s && touch .npm/cached && ls .iterion/runs | wc -l && ! touch .iterion/runs/forged && "
		 "mkdir -p .cache/own && touch .cache/own/x && ls -A",
		 home);
	assert_int_equal(run(&f, path, -1, out, sizeof out), 0);
	assert_true(str_starts(out, "0\n"));
	assert_non_null(strstr(out, ".cache"));
	tear_down(&f);
	snprintf(path, sizeof path, "%s/.npm/cached", home);
	assert_int_equal(access(path, F_OK), 0);
	snprintf(path, sizeof path, "%s/.cache", home);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(tree_remove(AT_FDCWD, home, NULL), 0);
}

static void test_noop_says_so(void **state)
{
	struct fixture f;
	char out[64];

	(void)state;
	set_up(&f, NULL);
	f.params.driver = "noop";
	start(&f);
	assert_non_null(event(&f, "sandbox_skipped"));
	assert_null(event(&f, "sandbox_started"));
	assert_int_equal(run(&f, "echo hi", -1, out, sizeof out), 0);
	tear_down(&f);
}

static void test_mode_none_is_silent(void **state)
{
	struct fixture f;
	char out[64];

	(void)state;
	set_up(&f, NULL);
	f.spec.mode = SANDBOX_NONE;
	start(&f);
	assert_int_equal(run(&f, "echo hi", -1, out, sizeof out), 0);
	assert_string_equal(out, "hi\n");
	assert_int_equal(json_array_size(f.events), 0);
	tear_down(&f);
}

static void test_stop_during_start(void **state)
{
	struct fixture f;
	struct err e = ERR_INIT;

	(void)state;
	set_up(&f, "x.example");
	assert_int_equal(session_new(&f.params, &f.session, &e), 0);
	session_start(f.session, on_started, &f);
	session_stop(f.session, on_stopped, &f);
	assert_true(f.started);
	assert_int_equal(f.start_err.kind, ERR_CANCELLED);
	wait_for(&f, &f.stopped);
	assert_null(event(&f, "sandbox_stopped"));
	session_free(TAKE_PTR(f.session));
	tear_down(&f);
}

static void test_free_without_start(void **state)
{
	struct fixture f;
	struct err e = ERR_INIT;

	(void)state;
	set_up(&f, "x.example");
	assert_int_equal(session_new(&f.params, &f.session, &e), 0);
	session_free(TAKE_PTR(f.session));
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allowed_and_blocked),
		cmocka_unit_test(test_host_loopback_is_out_of_reach),
		cmocka_unit_test(test_proxy_killed_is_lost),
		cmocka_unit_test(test_post_create),
		cmocka_unit_test(test_post_create_fails),
		cmocka_unit_test(test_what_a_driver_cannot_do_is_an_error),
		cmocka_unit_test(test_sensitive_paths_are_refused),
		cmocka_unit_test(test_a_mount_is_there),
		cmocka_unit_test(test_host_state),
		cmocka_unit_test(test_noop_says_so),
		cmocka_unit_test(test_mode_none_is_silent),
		cmocka_unit_test(test_stop_during_start),
		cmocka_unit_test(test_free_without_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
