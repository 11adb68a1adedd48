/* The life of a container against an engine that is a shell script: each step's failures, a name that is in use, a
 * guest that cannot run, and stops at any time. What a real engine does is in the end-to-end tests. */
#include "container/engine.h"
#include "container/labels.h"
#include "sandboxed.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <driver/driver.h>

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* What it does is steered by files in its folder. */
static const char script[] =
	"#!/bin/sh\n"
	"cd \"$FAKE\"\n"
	"echo \"$*\" >>calls\n"
	"say() { [ ! -e \"$1\" ] || { cat \"$1\" >&2; exit 1; }; }\n"
	"case \"$1\" in\n"
	"image) say image-fails\n"
	"	[ -e image ] || { echo 'Error: No such image: img:1' >&2; exit 1; }\n"
	"	echo '[\"sha256:1\",[],\"amd64\",[\"FROM=image\"]]' ;;\n"
	"pull) say pull-fails\n"
	"	echo 'aaaaaaaaaaaa: Pulling fs layer'; echo 'aaaaaaaaaaaa: Pull complete'\n"
	"	[ ! -e pull-hangs ] || { echo pulling >pulling; exec sleep 100; }\n"
	"	: >image ;;\n"
	"run) cat /dev/stdin >env\n"
	"	[ ! -e in-use ] || { rm in-use; echo 'Error: the container name \"/x\" is already in use' >&2; exit "
	"125; }\n"
	"	[ -e image ] || { echo 'Error: No such image: img:1' >&2; exit 125; }\n"
	"	say run-fails\n"
	"	case \"$*\" in *'--entrypoint sleep'*) ;; *) say refuse ;; esac\n"
	"	: >made; echo 0123456789abcdef\n"
	"	echo 'WARNING: Your kernel does not support memory limit capabilities. Limitation discarded.' >&2 ;;\n"
	"wait) if [ -e guest-dies ]; then rm guest-dies; else exec sleep 100; fi ;;\n"
	"exec) hang() { [ ! -e \"$1\" ] || { : >waits; echo; exec sleep 100; }; }\n"
	"	case \"$*\" in *'exit 3 sh '*) hang look-hangs; [ ! -e elsewhere ] || exit 3\n"
	"		[ ! -e looked ] || say ends; : >looked ;;\n"
	"	*'exit 4; fi'*) hang probe-hangs ;; esac\n"
	"	tr '\\0' '\\n' </proc/$$/environ >exec-own\n"
	"	while [ \"$1\" != sh ]; do [ \"$1\" != --env-file ] || cp \"$2\" exec-env; shift; done\n"
	"	c=$(printf %s \"$3\" | sed \"s#/tmp/#$FAKE/#\"); shift 3; [ ! -d only ] || PATH=$FAKE/only; exec "
	"/bin/sh -c \"$c\" \"$@\" ;;\n"
	"ps) [ ! -e left ] || echo 0123456789abcdef ;;\n"
	"inspect) case \"$*\" in *NetworkSettings*) [ ! -e gateway-hangs ] || { : >waits; echo; exec sleep 100; }\n"
	"	cat gateway ;; *State.Pid*) echo $PPID ;; *State.Running*) [ ! -e made ] || echo true ;; *) cat left "
	";; esac ;;\n"
	"rm) rm -f made left ;;\n"
	"esac\n";

struct fake {
	struct sandboxed s;
	struct sandbox_spec spec;
	char dir[64];
	char *path; /* the PATH before */
	json_t *events;
};

static void put(const struct fake *f, const char *name, const char *text)
{
	auto_free char *path = path_join(f->dir, name);
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static char *get(const struct fake *f, const char *name)
{
	auto_free char *path = path_join(f->dir, name);
	char *text = NULL;

	return file_read(AT_FDCWD, path, 1 << 20, &text, NULL, NULL) < 0 ? xstrdup("") : text;
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void set_up(struct fake *f)
{
	*f = (struct fake){.dir = "/tmp/iterion-fake-XXXXXX", .path = xstrdup(getenv("PATH"))};
	assert_non_null(mkdtemp(f->dir));
	put(f, "docker", script);
	auto_free char *path = xasprintf("%s:%s", f->dir, f->path);
	setenv("PATH", path, 1);
	setenv("FAKE", f->dir, 1);
	unsetenv("DOCKER_HOST");
	unsetenv("DOCKER_CONTEXT");
	f->spec =
		(struct sandbox_spec){.mode = SANDBOX_INLINE, .image = xstrdup("img:1"), .host_state = HOST_STATE_NONE};
	strv_add(&f->spec.env, "SECRET=hush");
	f->events = json_array();
}

static void tear_down(struct fake *f)
{
	setenv("PATH", f->path, 1);
	free(f->path);
	sandbox_spec_done(&f->spec);
	json_decref(f->events);
	assert_int_equal(tree_remove(AT_FDCWD, f->dir, NULL), 0);
}

static void start(struct fake *f, bool enforce_network)
{
	f->s = (struct sandboxed){.events = f->events};
	sandboxed_start_with(&f->s, &driver_docker, enforce_network, &f->spec);
}

/* Those of a type; code NULL: any. */
static unsigned count_events(const struct fake *f, const char *type, const char *code)
{
	unsigned n = 0;
	size_t i;
	json_t *one;

	json_array_foreach(f->events, i, one)
	{
		const char *has_code = json_get_str(json_array_get(one, 1), "code");
		n += str_eq(json_string_value(json_array_get(one, 0)), type) &&
		     (!code || (has_code && str_eq(has_code, code)));
	}
	return n;
}

/* Each step's failure ends the start with the engine's words, and leaves nothing. */
static void test_failures(void **state)
{
	static const struct {
		const char *file, *words, *says;
		bool has_image;
	} rows[] = {
		{"image-fails", "Cannot connect to the Docker daemon at x. Is the docker daemon running?",
		 "Cannot connect", true},
		{"pull-fails", "manifest for img:1 not found: manifest unknown", "pull the image img:1", false},
		{"run-fails", "unable to find user x: no matching entries in passwd file", "unable to find user", true},
		{"run-fails", "no space left on device", "no space left", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fake f;
		set_up(&f);
		put(&f, rows[i].file, rows[i].words);
		if (rows[i].has_image)
			put(&f, "image", "");
		start(&f, true);
		assert_true(f.s.lost && !f.s.ready);
		has(f.s.why.msg, rows[i].says);
		assert_int_not_equal(f.s.why.hint[0], '\0');
		sandboxed_end(&f.s);
		tear_down(&f);
	}
}

/* Without a guest the engine starts the programs: output, exit codes, environment, signals, and the removal. */
static void test_no_guest(void **state)
{
	static const char *const how[] = {"refuse", "guest-dies"};
	struct fake f;
	char out[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(how); i++) {
		set_up(&f);
		put(&f, "image", "");
		put(&f, how[i], "exec: \"/run/iterion/bin/iterion\": permission denied\n");
		start(&f, false);
		if (!f.s.ready)
			fail_msg("%s", f.s.why.msg);
		assert_int_equal(count_events(&f, "sandbox_warning", "no_guest"), 1);
		assert_int_equal(count_events(&f, "sandbox_warning", "limits"), i == 0 ? 1 : 2);
		struct exec_status st = sandboxed_sh(&f.s, "echo out; exit 3", out, sizeof out);
		assert_int_equal(st.end, EXEC_EXITED);
		assert_int_equal(st.code, 3);
		assert_string_equal(out, "out\n");
		st = sandboxed_sh(&f.s, "kill -9 $$", out, sizeof out);
		assert_int_equal(st.end, EXEC_SIGNALED);
		assert_int_equal(st.code, SIGKILL);
		assert_string_equal(f.s.sandbox->env.v[0], "FROM=image");
		auto_free char *env = get(&f, "env");
		auto_free char *exec_env = get(&f, "exec-env");
		assert_string_equal(env, "SECRET=hush\n");
		has(exec_env, "PATH=/usr/bin:/bin\n");
		sandboxed_end(&f.s);
		auto_free char *calls = get(&f, "calls");
		assert_null(strstr(calls, "hush"));
		has(calls, "rm --force iterion-r");
		tear_down(&f);
	}
}

/* A value with a line break goes through the engine's own environment, in place of the host's value of that name. */
static void test_value_with_a_line_break(void **state)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", "TEST_WORDS=a\nb", NULL};
	struct fake f;

	(void)state;
	set_up(&f);
	put(&f, "image", "");
	put(&f, "refuse", "exec format error\n");
	start(&f, false);
	assert_true(f.s.ready);
	setenv("TEST_WORDS", "of the host", 1);
	f.s.env = env;
	assert_int_equal(sandboxed_sh(&f.s, "true", NULL, 0).code, 0);
	unsetenv("TEST_WORDS");
	auto_free char *own = get(&f, "exec-own"), *lines = get(&f, "exec-env"), *calls = get(&f, "calls");
	has(own, "TEST_WORDS=a\nb\n");
	assert_null(strstr(own, "of the host"));
	assert_null(strstr(lines, "TEST_WORDS"));
	has(calls, "--env TEST_WORDS --env-file");
	sandboxed_end(&f.s);
	tear_down(&f);
}

/* A program that was killed with its whole container was lost, not ended. */
static void test_container_dies_under_a_program(void **state)
{
	struct fake f;

	(void)state;
	set_up(&f);
	put(&f, "image", "");
	put(&f, "refuse", "exec format error\n");
	start(&f, false);
	assert_true(f.s.ready);
	auto_free char *command = xasprintf("rm %s/made; kill -9 $$", f.dir);
	struct exec_status st = sandboxed_sh(&f.s, command, NULL, 0);
	assert_int_equal(st.end, EXEC_LOST);
	assert_true(f.s.lost);
	sandboxed_end(&f.s);
	tear_down(&f);
}

/* Programs of the image that ask the proxy's socket, whatever name it was told by. */
static const char asks[] =
	"#!/bin/bash\n"
	"cd \"$FAKE\"; url=${!#}; rest=${url#*//*:}\n"
	"exec 3<>\"/dev/tcp/127.0.0.1/${rest%%/*}\" || exit 7\n"
	"printf 'GET /%s HTTP/1.0\\r\\n\\r\\n' \"${rest#*/}\" >&3; read -r x <&3; echo \"$x\" >heard\n";
static const char asks_wrong[] = "#!/bin/bash\n"
				 "url=${!#}; rest=${url#*//*:}\n"
				 "exec 3<>\"/dev/tcp/127.0.0.1/${rest%%/*}\" && echo 'GET /0123456789abcdef' >&3\n"
				 "read -r x <&3\n";

/* Without a guest a policy is offered, when the proxy is reached from inside. Root would enter the container, but the
 * process that this engine names is not in a network of its own. */
static void test_policy_without_guest(void **state)
{
	static const struct {
		const char *curl, *gateway, *says;
	} rows[] = {
		{asks, "127.0.0.1 \n", NULL},
		{asks, "192.0.2.1 \n", NULL}, /* of a virtual machine */
		{asks, "no address\n", NULL},
		{asks_wrong, "127.0.0.1 \n", "do not reach the egress proxy"},
		{"#!/bin/sh\nexit 7\n", "127.0.0.1\n", "do not reach the egress proxy"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fake f;
		set_up(&f);
		put(&f, "image", "");
		put(&f, "refuse", "exec format error\n");
		put(&f, "gateway", rows[i].gateway);
		put(&f, "curl", rows[i].curl);
		start(&f, true);
		auto_free char *calls = get(&f, "calls"), *heard = get(&f, "heard");
		has(calls, "--add-host host.docker.internal:host-gateway");
		if (rows[i].says) {
			assert_true(f.s.lost);
			has(f.s.why.msg, rows[i].says);
			assert_int_equal(f.s.n_listeners, 0);
		} else {
			if (!f.s.ready)
				fail_msg("%s", f.s.why.msg);
			assert_int_equal(f.s.n_listeners, 1);
			assert_string_equal(f.s.sandbox->proxy_host, "host.docker.internal");
			assert_int_not_equal(f.s.sandbox->proxy_port, 0);
			has(heard, "HTTP/1.1 200");
		}
		sandboxed_end(&f.s);
		tear_down(&f);
	}
}

/* The image's own first program, which ends so that its process is not found: that is no engine elsewhere. */
static void test_container_that_ends_when_it_was_seen(void **state)
{
	struct fake f;

	(void)state;
	if (geteuid() != 0)
		skip();
	set_up(&f);
	put(&f, "image", "");
	put(&f, "refuse", "exec format error\n");
	put(&f, "gateway", "127.0.0.1\n");
	put(&f, "curl", asks);
	put(&f, "ends", "Error response from daemon: container r is not running\n");
	start(&f, true);
	assert_true(f.s.lost);
	has(f.s.why.msg, "is not running");
	auto_free char *calls = get(&f, "calls");
	assert_null(strstr(calls, "--add-host"));
	sandboxed_end(&f.s);
	tear_down(&f);
}

/* What the image has of programs decides by which one the proxy is tried: each real one of this machine. */
static void test_programs_that_try_the_proxy(void **state)
{
	static const char *const tools[] = {"curl", "wget", "bash", "python3", "none"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
		struct fake f;
		auto_free char *tool = xasprintf("/usr/bin/%s", tools[i]);
		bool none = str_eq(tools[i], "none");
		if (!none && access(tool, X_OK) < 0)
			continue;
		set_up(&f);
		put(&f, "image", "");
		put(&f, "refuse", "exec format error\n");
		put(&f, "gateway", "127.0.0.1\n");
		auto_free char *only = path_join(f.dir, "only");
		auto_free char *link = path_join(only, tools[i]), *limit = path_join(only, "timeout");
		assert_int_equal(mkdir(only, 0755), 0);
		assert_true(none || symlink(tool, link) == 0);
		assert_int_equal(symlink("/usr/bin/timeout", limit), 0);
		setenv("ITERION_PROXY_ADVERTISE", "127.0.0.1", 1);
		start(&f, true);
		unsetenv("ITERION_PROXY_ADVERTISE");
		if (none) {
			assert_true(f.s.lost);
			has(f.s.why.msg, "none of curl, wget, bash and python3");
		} else if (!f.s.ready) {
			fail_msg("%s: %s", tools[i], f.s.why.msg);
		}
		sandboxed_end(&f.s);
		tear_down(&f);
	}
}

static void test_policy_that_must_be_enforced(void **state)
{
	struct fake f;

	(void)state;
	set_up(&f);
	put(&f, "image", "");
	put(&f, "refuse", "exec: \"/run/iterion/bin/iterion\": permission denied\n");
	setenv("ITERION_NETWORK_ENFORCEMENT", "required", 1);
	start(&f, true);
	unsetenv("ITERION_NETWORK_ENFORCEMENT");
	assert_true(f.s.lost);
	has(f.s.why.msg, "network policy cannot be enforced");
	auto_free char *calls = get(&f, "calls");
	assert_null(strstr(calls, "--add-host"));
	sandboxed_end(&f.s);
	tear_down(&f);
}

/* The engine has another folder where this machine has the workspace: a test of it fails there. */
static void test_another_workspace(void **state)
{
	struct fake f;

	(void)state;
	set_up(&f);
	put(&f, "image", "");
	put(&f, "refuse", "exec format error\n");
	put(&f, "elsewhere", "");
	start(&f, false);
	assert_true(f.s.lost);
	has(f.s.why.msg, "is not this machine's");
	sandboxed_end(&f.s);
	tear_down(&f);
}

static void test_pull_is_told(void **state)
{
	struct fake f;

	(void)state;
	set_up(&f);
	put(&f, "refuse", "exec format error\n");
	start(&f, false);
	assert_true(f.s.ready);
	assert_true(count_events(&f, "sandbox_pull_progress", NULL) > 0);
	auto_free char *calls = get(&f, "calls");
	has(calls, "\npull img:1\n");
	sandboxed_end(&f.s);
	tear_down(&f);
}

/* A name in use: the container of a dead owner is removed, once; that of a living one is not touched. */
static void test_name_in_use(void **state)
{
	char host[HOST_ID_SIZE], own[OWNER_SIZE];

	(void)state;
	label_host_id(host);
	label_owner(own);
	for (int dead = 0; dead < 2; dead++) {
		struct fake f;
		set_up(&f);
		put(&f, "image", "");
		put(&f, "in-use", "");
		put(&f, "refuse", "exec format error\n");
		auto_free char *owner = dead ? xasprintf("%s:1:1", host) : xstrdup(own);
		auto_free char *left = xasprintf("[\"0123456789abcdef\",\"/x\",\"running\",\"\",\"i\",{\"" LABEL_MANAGED
						 "\":\"true\",\"" LABEL_OWNER "\":\"%s\"}]\n",
						 owner);
		put(&f, "left", left);
		start(&f, false);
		auto_free char *calls = get(&f, "calls");
		assert_int_equal(f.s.ready, dead);
		if (dead) {
			has(calls, "\nrm --force 0123456789abcdef\n");
		} else {
			has(f.s.why.hint, "iterion sandbox ls");
			assert_null(strstr(calls, "\nrm "));
		}
		sandboxed_end(&f.s);
		tear_down(&f);
	}
}

static void on_stopped(void *arg, bool killed)
{
	struct sandboxed *s = arg;

	(void)killed;
	s->stopped = true;
}

/* On this loop, and what comes of it is nobody's. */
static struct sandbox *begin(struct fake *f, bool enforce_network, uv_loop_t *loop)
{
	static const struct sandbox_callbacks cb = {0};
	struct err e = ERR_INIT;
	struct sandbox *s;

	f->s.params = (struct sandbox_params){.spec = &f->spec,
					      .workspace = f->dir,
					      .workspace_target = f->dir,
					      .run_id = "r",
					      .run_name = "n",
					      .enforce_network = enforce_network};
	assert_int_equal(uv_loop_init(loop), 0);
	if (driver_docker.sandbox_new(&f->s.params, &s, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(s->ops->start(s, loop, &cb, &e), 0);
	return s;
}

/* A pull takes as long as it likes, but not longer than the run. */
static void test_stop_while_it_pulls(void **state)
{
	struct fake f;
	uv_loop_t loop;

	(void)state;
	set_up(&f);
	put(&f, "pull-hangs", "");
	struct sandbox *s = begin(&f, false, &loop);
	for (bool there = false; !there;) {
		uv_run(&loop, UV_RUN_ONCE);
		auto_free char *pulling = get(&f, "calls");
		there = strstr(pulling, "pull img:1") != NULL;
	}
	s->ops->stop(s, on_stopped, &f.s);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(f.s.stopped);
	s->ops->free(s);
	assert_int_equal(uv_loop_close(&loop), 0);
	auto_free char *calls = get(&f, "calls");
	assert_null(strstr(calls, "\nrm "));
	tear_down(&f);
}

/* Whatever the start waits for: the answer of a program inside, here. */
static void test_stop_while_it_is_asked(void **state)
{
	static const char *const waits[] = {"look-hangs", "gateway-hangs", "probe-hangs"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
		struct fake f;
		uv_loop_t loop;
		set_up(&f);
		put(&f, "image", "");
		put(&f, "refuse", "exec format error\n");
		put(&f, "gateway", "127.0.0.1\n");
		put(&f, "curl", asks);
		put(&f, waits[i], "");
		struct sandbox *s = begin(&f, true, &loop);
		auto_free char *path = path_join(f.dir, "waits");
		while (access(path, F_OK) < 0)
			uv_run(&loop, UV_RUN_ONCE);
		s->ops->stop(s, on_stopped, &f.s);
		uv_run(&loop, UV_RUN_DEFAULT);
		assert_true(f.s.stopped);
		s->ops->free(s);
		assert_int_equal(uv_loop_close(&loop), 0);
		tear_down(&f);
	}
}

static void test_leftovers(void **state)
{
	char host[HOST_ID_SIZE];
	struct fake f;
	struct err e = ERR_INIT;
	auto_json rows = json_array();
	size_t n;

	(void)state;
	label_host_id(host);
	set_up(&f);
	setenv("DOCKER_CONTEXT", "somewhere", 1);
	auto_free char *left = xasprintf("[\"0123456789abcdef\",\"/x\",\"running\",\"\",\"i\",{\"" LABEL_MANAGED
					 "\":\"true\",\"" LABEL_OWNER "\":\"%s:1:1\",\"" LABEL_RUN_ID "\":\"old\"}]\n",
					 host);
	put(&f, "left", left);
	assert_int_equal(driver_docker.list(rows, &e), 0);
	assert_int_equal(json_array_size(rows), 1);
	assert_string_equal(json_get_str(json_array_get(rows, 0), "owner"), "gone");
	assert_string_equal(json_get_str(json_array_get(rows, 0), "run_id"), "old");
	assert_int_equal(driver_docker.sweep(&n, &e), 0);
	assert_int_equal(n, 1);
	assert_int_equal(driver_docker.sweep(&n, &e), 0);
	assert_int_equal(n, 0);
	tear_down(&f);
}

/* An engine that is not there, or lets nobody in, is known without running its program. */
static void test_probe(void **state)
{
	struct fake f;
	struct err e = ERR_INIT;

	(void)state;
	set_up(&f);
	setenv("DOCKER_HOST", "unix:///nowhere/docker.sock", 1);
	assert_int_equal(engine_probe(&engine_docker, &e), -ENOENT);
	has(e.msg, "/nowhere/docker.sock");
	auto_free char *calls = get(&f, "calls");
	assert_string_equal(calls, "");
	setenv("DOCKER_HOST", "tcp://192.0.2.1:1", 1);
	assert_int_equal(engine_probe(&engine_docker, &e), 0);
	assert_true(engine_is_remote(&engine_docker));
	setenv("PATH", "relative:/nowhere", 1);
	assert_int_equal(engine_probe(&engine_docker, &e), -ENOENT);
	has(e.hint, "native");
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_no_guest),
		cmocka_unit_test(test_value_with_a_line_break),
		cmocka_unit_test(test_container_dies_under_a_program),
		cmocka_unit_test(test_policy_without_guest),
		cmocka_unit_test(test_container_that_ends_when_it_was_seen),
		cmocka_unit_test(test_programs_that_try_the_proxy),
		cmocka_unit_test(test_policy_that_must_be_enforced),
		cmocka_unit_test(test_another_workspace),
		cmocka_unit_test(test_stop_while_it_is_asked),
		cmocka_unit_test(test_pull_is_told),
		cmocka_unit_test(test_name_in_use),
		cmocka_unit_test(test_stop_while_it_pulls),
		cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_probe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
