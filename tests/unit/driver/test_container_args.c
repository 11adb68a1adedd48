/* The command line by which an engine makes a container: what is on it, what is not, and where users and folders go. */
#include "container/args.h"
#include "container/engine.h"
#include "ops.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/host_state.h>
#include <sandbox/spec.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* The words after the program, each behind a newline: "\n--user\n7:8" finds a pair. */
static char *line(const struct sandbox_params *p, const struct args_facts *f)
{
	auto_strv argv = {0};
	auto_buf b = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;

	if (args_run(p, f, &argv, &e) < 0)
		fail_msg("%s", e.msg);
	assert_string_equal(argv.v[0], f->program);
	for (size_t i = 1; i < argv.n; i++)
		(void)buf_printf(&b, "\n%s", argv.v[i]);
	(void)buf_puts(&b, "\n");
	return buf_steal(&b);
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:%s", part, text);
}

static void lacks(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" is in:%s", part, text);
}

struct world {
	struct sandbox_spec spec;
	struct host_state_plan state;
	struct sandbox_params params;
	struct args_facts facts;
};

static void make_world(struct world *w, const struct container_engine *en)
{
	*w = (struct world){
		.spec = {.host_state = HOST_STATE_NONE},
		.facts = {.engine = en,
			  .program = "/usr/bin/engine",
			  .name = "iterion-r",
			  .owner = "h:1:2",
			  .image = "img:1",
			  .guest = "/lib/guest",
			  .socket = "/tmp/c/s",
			  .env_file = "/dev/stdin",
			  .uid = 1000,
			  .gid = 100},
	};
	w->params = (struct sandbox_params){.spec = &w->spec,
					    .workspace = "/src/ws",
					    .workspace_target = "/ws",
					    .home = "/home/me",
					    .host_state = &w->state,
					    .run_id = "r",
					    .run_name = "nightly",
					    .enforce_network = true};
}

static void test_what_every_container_has(void **state)
{
	const struct container_engine *const engines[] = {&engine_docker, &engine_podman};
	static const char *const parts[] = {
		"\nrun\n--detach\n--rm\n",
		"\n--name\niterion-r\n",
		"\n--label\niterion.io/managed=true\n",
		"\n--label\niterion.io/run-id=r\n",
		"\n--label\niterion.io/run-name=nightly\n",
		"\n--label\niterion.io/owner=h:1:2\n",
		"\n--network\nnone\n",
		"\n--cap-drop=ALL\n",
		"\n--cap-add=CHOWN\n",
		"\n--cap-add=KILL\n",
		"\n--security-opt\nno-new-privileges\n",
		"\n--workdir\n/ws\n",
		"\n--mount\ntype=bind,source=/src/ws,target=/ws\n",
		"\n--mount\ntype=bind,source=/lib/guest,target=/run/iterion/bin/iterion,readonly\n",
		"\n--mount\ntype=bind,source=/tmp/c/s,target=/run/iterion/control.sock\n",
		"\n--env-file\n/dev/stdin\n--entrypoint\n/run/iterion/bin/iterion\nimg:1\ninit\n/run/iterion/"
		"control.sock\n",
	};
	static const char *const never[] = {"privileged", "SYS_ADMIN", "\n--user\n", "\n--cpus\n", "\n--memory\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
		struct world w;
		make_world(&w, engines[i]);
		auto_free char *text = line(&w.params, &w.facts);
		for (size_t k = 0; k < ARRAY_LEN(parts); k++)
			has(text, parts[k]);
		for (size_t k = 0; k < ARRAY_LEN(never); k++)
			lacks(text, never[k]);
	}
}

static void test_user_namespace(void **state)
{
	static const struct {
		const struct container_engine *en;
		uid_t uid;
		bool kept;
	} rows[] = {{&engine_docker, 1000, false},
		    {&engine_docker, 0, false},
		    {&engine_podman, 1000, true},
		    {&engine_podman, 0, false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w;
		make_world(&w, rows[i].en);
		w.facts.uid = rows[i].uid;
		auto_free char *text = line(&w.params, &w.facts);
		(rows[i].kept ? has : lacks)(text, "\n--userns=keep-id\n");
	}
}

/* Who runs: the spec's user, else our own when the home is shared, else the image's. Whose HOME is follows from it. */
static void test_users(void **state)
{
	static const struct {
		const char *user;
		enum host_state state;
		uid_t uid;
		const char *has, *home;
	} rows[] = {
		{NULL, HOST_STATE_AUTO, 1000, "\n--user\n1000:100\n", "/home/me:exec,mode=0700,uid=1000,gid=100\n"},
		{NULL, HOST_STATE_AUTO, 0, NULL, "/home/me:exec,mode=1777\n"},
		{NULL, HOST_STATE_NONE, 1000, NULL, NULL},
		{"7:8", HOST_STATE_AUTO, 1000, "\n--user\n7:8\n", "/home/me:exec,mode=0700,uid=7,gid=8\n"},
		{"7", HOST_STATE_AUTO, 1000, "\n--user\n7\n", "/home/me:exec,mode=0700,uid=7,gid=7\n"},
		{"node", HOST_STATE_AUTO, 1000, "\n--user\nnode\n", "/home/me:exec,mode=1777\n"},
		{"7:staff", HOST_STATE_AUTO, 1000, "\n--user\n7:staff\n", "/home/me:exec,mode=1777\n"},
		{"node", HOST_STATE_NONE, 1000, "\n--user\nnode\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w;
		make_world(&w, &engine_docker);
		w.spec.host_state = rows[i].state;
		w.facts.uid = rows[i].uid;
		w.spec.user = rows[i].user ? xstrdup(rows[i].user) : NULL;
		auto_free char *text = line(&w.params, &w.facts);
		auto_buf env = BUF_INIT(4096);
		assert_int_equal(args_env(&w.params, &env), 0);
		assert_int_equal(args_remaps_user(&w.params, &w.facts),
				 !rows[i].user && rows[i].state == HOST_STATE_AUTO && rows[i].uid != 0);
		if (rows[i].has)
			has(text, rows[i].has);
		else
			lacks(text, "\n--user\n");
		if (rows[i].home)
			has(text, rows[i].home);
		else
			lacks(text, "/home/me");
		assert_string_equal(buf_str(&env), rows[i].home ? "HOME=/home/me\n" : "");
		sandbox_spec_done(&w.spec);
	}
}

/* The folders between HOME and what is mounted in it are writable, and what must be hidden comes empty. */
static void test_home_and_covers(void **state)
{
	struct world w;

	(void)state;
	for (int i = 0; i < 2; i++) {
		make_world(&w, i ? &engine_podman : &engine_docker);
		w.spec.host_state = HOST_STATE_AUTO;
		strv_add(&w.state.mounts, "/home/me/.cache/go-build");
		strv_add(&w.state.sources, "/data/go-build");
		strv_add(&w.state.covers, "/home/me/.iterion/runs");
		w.params.hidden = "/src/ws/.iterion";
		auto_free char *text = line(&w.params, &w.facts);
		has(text, "\n--mount\ntype=bind,source=/data/go-build,target=/home/me/.cache/go-build\n");
		has(text, i ? "type=tmpfs,target=/home/me/.cache,tmpfs-mode=0700,U=true,notmpcopyup\n"
			    : "\n--tmpfs\n/home/me/.cache:exec,mode=0700,uid=1000,gid=100\n");
		has(text, "\n--mount\ntype=tmpfs,target=/home/me/.iterion/runs,tmpfs-mode=0555,");
		has(text, "\n--mount\ntype=tmpfs,target=/ws/.iterion,tmpfs-mode=0555,");
		/* podman fills a tmpfs with what it covers, unless it is told not to. */
		if (i) {
			has(text, "/ws/.iterion,tmpfs-mode=0555,tmpfs-size=4096,ro,notmpcopyup\n");
			has(text, "/runs,tmpfs-mode=0555,tmpfs-size=4096,ro,notmpcopyup\n");
		} else {
			has(text, "/ws/.iterion,tmpfs-mode=0555,tmpfs-size=4096,readonly\n");
		}
		host_state_done(&w.state);
	}
}

/* No character of a path becomes an option of its own. */
static void test_mounts_are_quoted(void **state)
{
	static const struct {
		enum mount_type type;
		const char *source, *target;
		bool readonly;
		const char *has;
	} rows[] = {
		{MOUNT_BIND, "/a", "/b", true, "\ntype=bind,source=/a,target=/b,readonly\n"},
		{MOUNT_BIND, "/a,readonly=false", "/b", false, "\ntype=bind,\"source=/a,readonly=false\",target=/b\n"},
		{MOUNT_BIND, "/a\"x", "/b", false, "\ntype=bind,\"source=/a\"\"x\",target=/b\n"},
		{MOUNT_VOLUME, "cache", "/b", false, "\ntype=volume,source=cache,target=/b\n"},
		{MOUNT_VOLUME, "cache", "/b", true, "\ntype=volume,source=cache,target=/b,readonly\n"},
		{MOUNT_TMPFS, NULL, "/b,c", false, "\ntype=tmpfs,\"target=/b,c\",tmpfs-mode=1777\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w;
		make_world(&w, &engine_docker);
		struct sandbox_mount *m = sandbox_spec_add_mount(&w.spec);
		m->type = rows[i].type;
		m->source = rows[i].source ? xstrdup(rows[i].source) : NULL;
		m->target = xstrdup(rows[i].target);
		m->readonly = rows[i].readonly;
		auto_free char *text = line(&w.params, &w.facts);
		has(text, rows[i].has);
		sandbox_spec_done(&w.spec);
	}
}

static void test_mounts_that_are_none(void **state)
{
	struct err e = ERR_INIT;
	auto_strv argv = {0};
	struct world w;

	(void)state;
	make_world(&w, &engine_docker);
	struct sandbox_mount *m = sandbox_spec_add_mount(&w.spec);
	m->type = MOUNT_PVC;
	m->source = xstrdup("claim");
	m->target = xstrdup("/b");
	assert_true(args_run(&w.params, &w.facts, &argv, &e) < 0);
	assert_non_null(strstr(e.msg, "/b"));
	assert_non_null(strstr(e.hint, "kubernetes"));
	sandbox_spec_done(&w.spec);

	make_world(&w, &engine_docker);
	w.spec.host_state = HOST_STATE_AUTO;
	w.params.home = "/home/a:b";
	assert_true(args_run(&w.params, &w.facts, &argv, &e) < 0);
	assert_non_null(strstr(e.msg, "/home/a:b"));
}

static void test_limits_and_run_args(void **state)
{
	struct world w;

	(void)state;
	make_world(&w, &engine_docker);
	w.spec.limits = (struct sandbox_limits){.cpus = 1.5, .memory = 1 << 30, .pids = 64};
	strv_add(&w.spec.run_args, "--init");
	strv_add(&w.spec.run_args, "--cap-add=SYS_PTRACE");
	strv_add(&w.spec.run_args, "--cap-drop=cap_kill");
	strv_add(&w.spec.run_args, "--shm-size=1g");
	auto_free char *text = line(&w.params, &w.facts);
	has(text, "\n--cpus\n1.500\n--memory\n1073741824b\n--pids-limit\n64\n");
	has(text, "\n--cap-add=SYS_PTRACE\n");
	has(text, "\n--shm-size=1g\n");
	has(text, "\n--cap-add=CHOWN\n");
	/* The guest is the init; and what is dropped is not added again. */
	lacks(text, "\n--init\n");
	lacks(text, "\n--cap-add=KILL\n");
	sandbox_spec_done(&w.spec);
}

static void test_environment_is_not_on_the_line(void **state)
{
	struct world w;
	auto_buf env = BUF_INIT(4096);

	(void)state;
	make_world(&w, &engine_docker);
	strv_add(&w.spec.env, "TOKEN=s3cret=x");
	strv_add(&w.spec.env, "EMPTY=");
	auto_free char *text = line(&w.params, &w.facts);
	lacks(text, "s3cret");
	assert_int_equal(args_env(&w.params, &env), 0);
	assert_string_equal(buf_str(&env), "TOKEN=s3cret=x\nEMPTY=\n");
	sandbox_spec_done(&w.spec);
}

static void test_open_network_and_no_guest(void **state)
{
	struct world w;

	(void)state;
	make_world(&w, &engine_docker);
	w.params.enforce_network = false;
	w.facts.socket = NULL;
	auto_free char *text = line(&w.params, &w.facts);
	lacks(text, "\n--network\n");
	lacks(text, "/run/iterion/bin");
	has(text, "\n--entrypoint\nsleep\nimg:1\ninfinity\n");
}

/* A policy that is only offered: the engine's network, and a name for its host when that is how the proxy is named. */
static void test_policy_that_is_offered(void **state)
{
	struct world w;

	(void)state;
	make_world(&w, &engine_docker);
	w.facts.socket = NULL;
	w.facts.advisory = true;
	auto_free char *plain = line(&w.params, &w.facts);
	lacks(plain, "\n--network\n");
	lacks(plain, "\n--add-host\n");
	w.facts.alias = "host.docker.internal";
	auto_free char *named = line(&w.params, &w.facts);
	has(named, "\n--add-host\nhost.docker.internal:host-gateway\n");
	w.params.enforce_network = false;
	auto_free char *open = line(&w.params, &w.facts);
	lacks(open, "\n--add-host\n");
}

static void test_label(void **state)
{
	struct world w;

	(void)state;
	make_world(&w, &engine_docker);
	w.facts.unlabelled = true;
	auto_free char *text = line(&w.params, &w.facts);
	has(text, "\n--security-opt\nlabel=disable\n");
	w.facts.unlabelled = false;
	auto_free char *labelled = line(&w.params, &w.facts);
	lacks(labelled, "label=disable");
}

static void test_names(void **state)
{
	static const struct {
		const char *run;
		unsigned n;
		const char *name;
	} rows[] = {{"01a2-b", 1, "iterion-01a2-b"}, {"r", 2, "iterion-r-2"}, {"a b/c;d", 1, "iterion-a-b-c-d"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *name = args_name(rows[i].run, rows[i].n);
		assert_string_equal(name, rows[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_every_container_has),
		cmocka_unit_test(test_user_namespace),
		cmocka_unit_test(test_users),
		cmocka_unit_test(test_home_and_covers),
		cmocka_unit_test(test_mounts_are_quoted),
		cmocka_unit_test(test_mounts_that_are_none),
		cmocka_unit_test(test_limits_and_run_args),
		cmocka_unit_test(test_environment_is_not_on_the_line),
		cmocka_unit_test(test_open_network_and_no_guest),
		cmocka_unit_test(test_policy_that_is_offered),
		cmocka_unit_test(test_label),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
