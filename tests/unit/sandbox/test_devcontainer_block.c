/* What a sandbox takes over of a devcontainer.json, what it warns about, and what it refuses, with the place. */
#include "devcontainer.h"

#include <base/buf.h>
#include <sandbox/resolve.h>

#include <time.h>

static void expect_list(const char *what, const struct strv *got, const char *const *want)
{
	size_t i = 0;

	for (; want[i]; i++)
		if (i >= got->n || !str_eq(got->v[i], want[i]))
			fail_msg("%s: %s and not %s", what, i < got->n ? got->v[i] : "(end)", want[i]);
	assert_int_equal(got->n, i);
}
#define EXPECT_LIST(got, ...) expect_list(#got, &(got), (const char *const[]){__VA_ARGS__, NULL})

static void test_everything(void **state)
{
	auto_sandbox_block b = {0};
	const struct sandbox_spec *s = &b.spec;
	struct err e = ERR_INIT;

	(void)state;
	int r = block_of(
		"{\"image\": \"debian:12\", \"containerEnv\": {\"A\": \"${localEnv:DC_SET}\"},"
		"\"remoteEnv\": {\"P\": \"${containerEnv:PATH}:/x\", \"GONE\": null},"
		"\"mounts\": [\"source=/srv/a,target=/a,type=bind,readonly\","
		"{\"type\": \"volume\", \"source\": \"c-${devcontainerId}\", \"target\": \"/c/\"},"
		"{\"type\": \"tmpfs\", \"target\": \"/t\"}],"
		"\"runArgs\": [\"--cap-add=sys_ptrace\", \"--cap-drop\", \"NET_RAW\", \"-e\", \"E=1\", \"-eHOME\","
		"\"-v\", \"/srv/v:/v:ro\", \"--memory=2g\", \"--cpus\", \"1.5\", \"--pids-limit=100\","
		"\"--shm-size=1g\", \"--ulimit\", \"nofile=1024:2048\", \"--hostname=box\", \"--init\","
		"\"--add-host=a.example:10.0.0.1\", \"--security-opt\", \"no-new-privileges:true\","
		"\"--mount=type=tmpfs,target=/m\"],"
		"\"capAdd\": [\"CAP_NET_ADMIN\"], \"securityOpt\": [\"label=type:x\"], \"init\": true,"
		"\"remoteUser\": \"vscode\", \"workspaceFolder\": \"/work/${localWorkspaceFolderBasename}\","
		"\"onCreateCommand\": \"echo one\", \"updateContentCommand\": [\"make\", \"deps\"],"
		"\"postCreateCommand\": {\"a\": \"npm ci\", \"b\": [\"x\", \"y z\"], \"c\": \"\"},"
		"\"postStartCommand\": \" \"}",
		&b, &e);
	if (r < 0)
		fail_msg("%s", e.msg);
	assert_string_equal(s->image, "debian:12");
	EXPECT_LIST(s->env, "A=setval", "E=1", "HOME=/home/truth");
	EXPECT_LIST(s->remote_env, "P=${containerEnv:PATH}:/x", "GONE");
	assert_int_equal(s->n_mounts, 5);
	assert_true(s->mounts[0].type == MOUNT_BIND && s->mounts[0].readonly);
	assert_true(s->mounts[1].type == MOUNT_VOLUME && strlen(s->mounts[1].source) == 2 + 52);
	assert_string_equal(s->mounts[1].target, "/c");
	assert_true(s->mounts[2].type == MOUNT_TMPFS && !s->mounts[2].source);
	assert_string_equal(s->mounts[3].source, "/srv/v");
	assert_string_equal(s->mounts[4].target, "/m");
	assert_string_equal(s->mounts[4].origin, ".devcontainer/devcontainer.json");
	EXPECT_LIST(s->run_args, "--cap-add=SYS_PTRACE", "--cap-drop=NET_RAW", "--shm-size=1g",
		    "--ulimit=nofile=1024:2048", "--hostname=box", "--init", "--add-host=a.example:10.0.0.1",
		    "--security-opt=no-new-privileges", "--cap-add=NET_ADMIN", "--security-opt=label=type:x", "--init");
	assert_true(s->limits.memory == 2ull << 30 && s->limits.pids == 100 && s->limits.cpus > 1.4);
	assert_string_equal(s->user, "vscode");
	assert_string_equal(s->workspace_folder, "/work/ws");
	const struct sandbox_lifecycle *l = &s->lifecycle;
	assert_int_equal(l->stages[STAGE_ON_CREATE].n, 1);
	EXPECT_LIST(l->stages[STAGE_ON_CREATE].v[0].argv, "/bin/sh", "-c", "echo one");
	EXPECT_LIST(l->stages[STAGE_UPDATE_CONTENT].v[0].argv, "make", "deps");
	assert_int_equal(l->stages[STAGE_POST_CREATE].n, 2);
	assert_string_equal(l->stages[STAGE_POST_CREATE].v[0].name, "postCreateCommand.a");
	EXPECT_LIST(l->stages[STAGE_POST_CREATE].v[1].argv, "x", "y z");
	assert_int_equal(l->stages[STAGE_POST_START].n, 0);
	assert_int_equal(s->warnings.n, 0);
	assert_string_equal(strv_get_env(&s->sources, "user"), ".devcontainer/devcontainer.json");
}

static void test_build(void **state)
{
	static const struct {
		const char *text, *dockerfile, *context;
	} rows[] = {
		{"{\"build\": {\"dockerfile\": \"Dockerfile\"}}", ".devcontainer/Dockerfile", ".devcontainer"},
		{"{\"build\": {\"dockerfile\": \"../docker/D\"}}", "docker/D", "docker"},
		{"{\"build\": {\"dockerfile\": \"D\", \"context\": \"..\"}}", ".devcontainer/D", "."},
		{"{\"build\": {\"context\": \"../a/./b/\", \"dockerfile\": \"D\"}}", ".devcontainer/D", "a/b"},
		{"{\"dockerFile\": \"../D\"}", "D", "."},
		{"{\"dockerFile\": \"D\", \"context\": \"..\"}", ".devcontainer/D", "."},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_block b = {0};
		struct err e = ERR_INIT;
		if (block_of(rows[i].text, &b, &e) < 0)
			fail_msg("%s: %s", rows[i].text, e.msg);
		assert_string_equal(b.spec.build.dockerfile, rows[i].dockerfile);
		assert_string_equal(b.spec.build.context, rows[i].context);
	}
	auto_sandbox_block b = {0};
	assert_int_equal(
		block_of("{\"build\": {\"dockerfile\": \"D\", \"args\": {\"V\": \"1\", \"W\": \"${localEnv:DC_SET}\"},"
			 "\"target\": \"dev\", \"cacheFrom\": [\"a\", \"b\"], \"options\": [\"--x\"]}}",
			 &b, NULL),
		0);
	EXPECT_LIST(b.spec.build.args, "V=1", "W=setval");
	EXPECT_LIST(b.spec.build.cache_from, "a", "b");
	assert_string_equal(b.spec.build.target, "dev");
	assert_int_equal(b.spec.warnings.n, 1);
}

static void test_workspace(void **state)
{
	static const struct {
		const char *text, *folder, *mount; /* mount: target of the folder around the workspace, NULL: none */
		size_t warnings;
	} rows[] = {
		{"{}", NULL, NULL, 0},
		{"{\"workspaceFolder\": \"/a/\"}", "/a", NULL, 0},
		{"{\"workspaceMount\": \"source=/w/ws,target=/a,type=bind,consistency=cached\"}", "/a", NULL, 0},
		{"{\"workspaceMount\": \"source=${localWorkspaceFolder},target=/a/b,type=bind\","
		 "\"workspaceFolder\": \"/a/b\"}",
		 "/a/b", NULL, 0},
		{"{\"workspaceMount\": \"source=/w,target=/mono,type=bind\", \"workspaceFolder\": \"/mono/ws\"}",
		 "/mono/ws", "/mono", 0},
		{"{\"workspaceMount\": \"source=${localWorkspaceFolder}/..,target=/mono,type=bind\"}", "/mono/ws",
		 "/mono", 0},
		{"{\"workspaceMount\": \"source=/w/ws,target=/a,type=bind\", \"workspaceFolder\": \"/a/sub\"}", "/a",
		 NULL, 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_block b = {0};
		struct err e = ERR_INIT;
		if (block_of(rows[i].text, &b, &e) < 0)
			fail_msg("%s: %s", rows[i].text, e.msg);
		if (!str_eq(b.spec.workspace_folder, rows[i].folder))
			fail_msg("%s: %s", rows[i].text, b.spec.workspace_folder);
		assert_int_equal(b.spec.n_mounts, rows[i].mount != NULL);
		if (rows[i].mount)
			assert_string_equal(b.spec.mounts[0].target, rows[i].mount);
		assert_int_equal(b.spec.warnings.n, rows[i].warnings);
	}
}

static void test_warnings(void **state)
{
	static const struct {
		const char *text, *code, *word;
	} rows[] = {
		{"{\"initializeCommand\": \"x\"}", "devcontainer_initialize_command", "host"},
		{"{\"features\": {}}", "devcontainer_features", "image"},
		{"{\"forwardPorts\": [1]}", "devcontainer_forward_ports", "port"},
		{"{\"appPort\": 1}", "devcontainer_app_port", "port"},
		{"{\"customizations\": {}}", "devcontainer_customizations", "editors"},
		{"{\"extensions\": [\"a\"]}", "devcontainer_customizations", "editors"},
		{"{\"postAttachCommand\": \"x\"}", "devcontainer_post_attach_command", "attaches"},
		{"{\"hostRequirements\": {}}", "devcontainer_host_requirements", "limits"},
		{"{\"secrets\": {}}", "devcontainer_secrets", "secrets:"},
		{"{\"mount\": []}", "devcontainer_unknown", "did you mean mounts"},
		{"{\"\\u001b[31mred\": 1}", "devcontainer_unknown", "\\x1b"},
		{"{\"build\": {\"dockerfile\": \"D\", \"targt\": 1}}", "devcontainer_unknown", "build.target"},
		{"{\"remoteUser\": \"a\", \"containerUser\": \"b\"}", "devcontainer_container_user", "remoteUser a"},
		{"{\"securityOpt\": [\"seccomp=unconfined\"]}", "devcontainer_security_opt", "thinner"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_block b = {0};
		struct err e = ERR_INIT;
		if (block_of(rows[i].text, &b, &e) < 0)
			fail_msg("%s: %s", rows[i].text, e.msg);
		assert_int_equal(b.spec.warnings.n, 1);
		const char *message = strv_get_env(&b.spec.warnings, rows[i].code);
		if (!message || !strstr(message, rows[i].word) || !str_starts(message, ".devcontainer/"))
			fail_msg("%s: %s", rows[i].text, b.spec.warnings.v[0]);
	}
	auto_sandbox_block quiet = {0};
	assert_int_equal(
		block_of("{\"$schema\": \"x\", \"name\": \"n\", \"userEnvProbe\": \"none\", \"waitFor\": \"x\","
			 "\"updateRemoteUserUID\": false, \"overrideCommand\": true, \"image\": null,"
			 "\"shutdownAction\": \"none\", \"portsAttributes\": {}, \"otherPortsAttributes\": {}}",
			 &quiet, NULL),
		0);
	assert_int_equal(quiet.spec.warnings.n, 0);
}

static void test_errors(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} rows[] = {
		{"[]", "1:1", "no object"},
		{"\"x\"", "1:1", "no object"},
		{"{\"image\": 5}", "1:11", "image: it is not a string"},
		{"{\"image\": \"-x\"}", "1:11", "option"},
		{"{\"image\": \"a\\nb\"}", "1:11", "control"},
		{"{\"image\": \"a\", \"build\": {\"dockerfile\": \"D\"}}", "1:11", "together"},
		{"{\"dockerComposeFile\": \"c.yml\"}", "1:23", "Compose"},
		{"{\"build\": \"D\"}", "1:11", "not an object"},
		{"{\"build\": {}}", "1:11", "dockerfile is missing"},
		{"{\"build\": {\"dockerfile\": \"../../D\"}}", "1:26", "leaves the workspace"},
		{"{\"build\": {\"dockerfile\": \"/etc/D\"}}", "1:26", "leaves the workspace"},
		{"{\"build\": {\"dockerfile\": \"D\", \"context\": \"../..\"}}", "1:42", "leaves the workspace"},
		{"{\"build\": {\"dockerfile\": \"D\", \"args\": {\"A\": 1}}}", "1:45",
		 "build.args.A: it is not a string"},
		{"{\"build\": {\"dockerfile\": \"D\", \"target\": \"--x\"}}", "1:41", "option"},
		{"{\"context\": \".\"}", "1:13", "no dockerFile"},
		{"{\"containerEnv\": {\"A-B\": \"x\"}}", "1:26", "no name of a variable"},
		{"{\"containerEnv\": {\"A\": \"${localEnv:DC_MULTI}\"}}", "1:24", "line break"},
		{"{\"containerEnv\": {\"A\": null}}", "", "not a string"},
		{"{\"containerEnv\": [\"A=1\"]}", "1:18", "not an object"},
		{"{\"remoteEnv\": {\"A\": 1}}", "1:21", "remoteEnv.A"},
		{"{\"remoteEnv\": {\"A B\": null}}", "", "no name"},
		{"{\"a\": \"${localEnv}\"}", "1:7", "no name"},
		{"{\"mounts\": \"x\"}", "1:12", "not a list"},
		{"{\"mounts\": [\n\"type=bind,source=a,target=/a\"]}", "2:1", "not absolute"},
		{"{\"mounts\": [{\"type\": \"bind\", \"source\": \"/a\"}]}", "1:13", "target is missing"},
		{"{\"mounts\": [{\"source\": \"/a\", \"target\": \"/b\"}]}", "1:13", "no type"},
		{"{\"mounts\": [{\"type\": \"npipe\", \"target\": \"/b\"}]}", "1:22", "npipe"},
		{"{\"mounts\": [{\"type\": \"tmpfs\", \"target\": \"/b\", \"sorce\": \"x\"}]}", "1:56", "no member"},
		{"{\"mounts\": [5]}", "1:13", "not a string"},
		{"{\"workspaceFolder\": \"relative\"}", "1:21", "absolute"},
		{"{\"workspaceFolder\": \"/proc/x\"}", "1:21", "own"},
		{"{\"workspaceMount\": \"\"}", "1:20", "empty"},
		{"{\"workspaceMount\": \"type=volume,source=v,target=/a\"}", "1:20", "something else"},
		{"{\"workspaceMount\": \"type=bind,source=/srv,target=/a\"}", "1:20", "something else"},
		{"{\"workspaceMount\": \"type=bind,source=/w/ws,target=/a,readonly\"}", "1:20",
		 "write to its workspace"},
		{"{\"workspaceMount\": \"type=bind,source=/w/ws,target=/a\", \"workspaceFolder\": \"/b\"}", "1:75",
		 "not lie"},
		{"{\"remoteUser\": \"-u\"}", "1:16", "option"},
		{"{\"containerUser\": \"a b\"}", "1:19", "space"},
		{"{\"postCreateCommand\": 5}", "1:23", "no command"},
		{"{\"postCreateCommand\": {\"a\": {}}}", "1:29", "postCreateCommand.a"},
		{"{\"postCreateCommand\": [\"a\", 1]}", "1:29", "not a string"},
		{"{\"postCreateCommand\": [\"\"]}", "1:23", "empty"},
		{"{\"init\": \"yes\"}", "1:10", "boolean"},
		{"{\"privileged\": true}", "", "every right"},
		{"{\"capAdd\": [\"ALL\"]}", "1:13", "--privileged by another name"},
		{"{\"capAdd\": [\"cap_sys_admin\"]}", "1:13", "SYS_ADMIN"},
		{"{\"capAdd\": [\"SYS_ADMIN \"]}", "1:13", "no capability"},
		{"{\"capAdd\": \"ALL\"}", "1:12", "not a list"},
		{"{\"securityOpt\": [\"no-new-privileges=false\"]}", "1:18", "stays on"},
		{"{\"securityOpt\": [\"systempaths=unconfined\"]}", "1:18", "systempaths"},
		{"{\"securityOpt\": [\"seccomp=/etc/shadow\"]}", "1:18", "profile"},
		{"{\"securityOpt\": [\"what=ever\"]}", "1:18", "no security option"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_block b = {0};
		struct err e = ERR_INIT;
		auto_free char *begin =
			xasprintf(".devcontainer/devcontainer.json:%s%s", rows[i].where, *rows[i].where ? ": " : "");
		if (block_of(rows[i].text, &b, &e) != -EINVAL)
			fail_msg("%s was taken", rows[i].text);
		if (!str_starts(e.msg, begin) || !strstr(e.msg, rows[i].why) || !*e.hint)
			fail_msg("%s: %s", rows[i].text, e.msg);
	}
}

static void test_run_args_refused(void **state)
{
	static const struct {
		const char *args, *why;
	} rows[] = {
		{"\"--privileged\"", "every right"},
		{"\"--privileged=true\"", "every right"},
		{"\"--pid=host\"", "processes"},
		{"\"--pid\", \"host\"", "processes"},
		{"\"--network=host\"", "policy"},
		{"\"--network\", \"none\"", "policy"},
		{"\"--net=host\"", "policy"},
		{"\"--userns=host\"", "root"},
		{"\"--ipc=host\"", "memory"},
		{"\"--uts=host\"", "name"},
		{"\"--cgroupns=host\"", "processes"},
		{"\"--device=/dev/fuse\"", "device"},
		{"\"--device\", \"/dev/kvm\"", "device"},
		{"\"--gpus=all\"", "devices"},
		{"\"-p\", \"80:80\"", "port"},
		{"\"-p80:80\"", "port"},
		{"\"--publish=80\"", "port"},
		{"\"--volumes-from=x\"", "another container"},
		{"\"--name\", \"x\"", "name of its own"},
		{"\"--env-file=.env\"", "file of the host"},
		{"\"-u\", \"root\"", "user"},
		{"\"--user=root\"", "user"},
		{"\"--entrypoint=x\"", "first program"},
		{"\"--rm\"", "removed"},
		{"\"--group-add=docker\"", "socket"},
		{"\"--sysctl=a=b\"", "kernel"},
		{"\"--runtime=x\"", "program"},
		{"\"--what\"", "not among"},
		{"\"debian\"", "not among"},
		{"\"--initx\"", "not among"},
		{"\"--init=maybe\"", "neither"},
		{"\"\"", "not among"},
		{"5", "not a string"},
		{"\"-e\"", "no value"},
		{"\"--cap-add\"", "no value"},
		{"\"--cap-add=ALL\"", "another name"},
		{"\"--cap-add\", \"--privileged\"", "no capability"},
		{"\"--cap-drop=x y\"", "no capability"},
		{"\"--memory=lots\"", "number"},
		{"\"--cpus=x\"", "out of range"},
		{"\"--cpus=1,5\"", "out of range"},
		{"\"--pids-limit=-1\"", "out of range"},
		{"\"--shm-size=1x\"", "unit"},
		{"\"--hostname=a b\"", "no value for --hostname"},
		{"\"--add-host=a b\"", "no value for --add-host"},
		{"\"--ulimit=\"", "no value for --ulimit"},
		{"\"-v\", \"relative/x:/a:zz\"", "zz"},
		{"\"--mount=type=bind,source=/a,target=b\"", "not absolute"},
		{"\"-e\", \"A-B=1\"", "no name of a variable"},
		{"\"--hostname=a\\u001bb\"", "control"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_block b = {0};
		struct err e = ERR_INIT;
		auto_free char *text = xasprintf("{\"runArgs\": [%s]}", rows[i].args);
		if (block_of(text, &b, &e) != -EINVAL)
			fail_msg("%s was taken", text);
		if (!str_starts(e.msg, ".devcontainer/devcontainer.json:1:") ||
		    !strstr(e.msg, " devcontainer runArgs: ") || !strstr(e.msg, rows[i].why) || !*e.hint)
			fail_msg("%s: %s", text, e.msg);
	}
}

/* The whole way of ten thousand mounts and of a megabyte, also laid under a block. */
static void test_many(void **state)
{
	auto_buf text = BUF_INIT(4 * 1024 * 1024);
	struct err e = ERR_INIT;
	clock_t begin = clock();

	(void)state;
	(void)buf_puts(&text, "{\"mounts\": [");
	for (int i = 0; i < 10000; i++)
		(void)buf_printf(&text,
				 i % 2 ? "{\"type\":\"tmpfs\",\"target\":\"/m/%d\"},"
				       : "\"type=bind,source=${localEnv:HOME}/%d,target=/n/%d\",",
				 i, i);
	(void)buf_puts(&text, "]}");
	auto_sandbox_block b = {0};
	auto_sandbox_block over = {0};
	auto_sandbox_resolved got = {0};
	if (block_of(buf_str(&text), &b, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(b.spec.n_mounts, 10000);
	const struct sandbox_inputs in = {.flag.mode = "auto", .devcontainer = &b, .workflow = &over};
	over.given.mode = true;
	over.spec.mode = SANDBOX_AUTO;
	assert_int_equal(sandbox_resolve(&in, &got, &e), 0);
	assert_int_equal(got.spec.n_mounts, 10000);
	assert_int_equal(sandbox_settle(&got, true, &e), 0);
	assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
	print_message("10000 mounts: %ld ms\n", (clock() - begin) / (CLOCKS_PER_SEC / 1000));
	/* Too many variables end early. */
	buf_clear(&text);
	(void)buf_puts(&text, "{\"containerEnv\": {");
	for (int i = 0; i < 80000; i++)
		(void)buf_printf(&text, "\"V%d\": \"\",", i);
	(void)buf_puts(&text, "}}");
	auto_sandbox_block none = {0};
	assert_int_equal(block_of(buf_str(&text), &none, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "4096"));
}

/* Who lies over whom: the block over the file, in everything it says. */
static void test_under_a_block(void **state)
{
	auto_sandbox_block file = {0};
	auto_sandbox_block block = {0};
	auto_sandbox_resolved got = {0};
	struct sandbox_inputs in = {.devcontainer = &file, .workflow = &block};
	enum sandbox_mode mode;

	(void)state;
	assert_int_equal(block_of("{\"image\": \"a\", \"containerEnv\": {\"A\": \"1\", \"B\": \"1\"}, \"remoteEnv\": "
				  "{\"R\": null},"
				  "\"remoteUser\": \"dev\", \"postCreateCommand\": \"x\", \"features\": {}}",
				  &file, NULL),
			 0);
	block.given.mode = true;
	block.spec.mode = SANDBOX_AUTO;
	block.spec.mode_source = xstrdup("workflow sandbox: block");
	strv_add(&block.spec.env, "B=2");
	strv_add(&block.spec.remote_env, "R=back");
	block.spec.post_create = xstrdup("y");
	assert_int_equal(sandbox_decide_mode(&in, &mode, NULL), 0);
	assert_int_equal(mode, SANDBOX_AUTO);
	assert_int_equal(sandbox_resolve(&in, &got, NULL), 0);
	assert_string_equal(got.spec.image, "a");
	assert_string_equal(got.spec.user, "dev");
	EXPECT_LIST(got.spec.env, "A=1", "B=2");
	EXPECT_LIST(got.spec.remote_env, "R=back");
	assert_int_equal(got.spec.lifecycle.stages[STAGE_POST_CREATE].n, 1);
	assert_string_equal(got.spec.post_create, "y");
	assert_int_equal(got.spec.warnings.n, 1);
	assert_string_equal(strv_get_env(&got.spec.sources, "image"), ".devcontainer/devcontainer.json");
	in.flag.mode = "none";
	assert_int_equal(sandbox_decide_mode(&in, &mode, NULL), 0);
	assert_int_equal(mode, SANDBOX_NONE);
	in.flag.mode = "nono";
	assert_int_equal(sandbox_decide_mode(&in, &mode, NULL), -EINVAL);
	/* Copies and comparison see the commands. */
	auto_sandbox_spec copy = {0};
	sandbox_spec_copy(&copy, &got.spec);
	assert_true(sandbox_spec_equal(&copy, &got.spec));
	strv_add(&copy.lifecycle.stages[STAGE_POST_CREATE].v[0].argv, "more");
	assert_false(sandbox_spec_equal(&copy, &got.spec));
}

/* Every prefix of a full file is an error or a block, never a crash. */
static void test_truncated(void **state)
{
	static const char text[] =
		"{\"image\": \"d\", \"mounts\": [{\"type\": \"tmpfs\", \"target\": \"/a\"}], \"runArgs\": "
		"[\"-e\", \"A=${localEnv:DC_SET:x}\"], \"postCreateCommand\": {\"a\": [\"b\"]}}";

	(void)state;
	for (size_t len = 0; len <= strlen(text); len++) {
		auto_free char *cut = xstrndup(text, len);
		auto_sandbox_block b = {0};
		assert_int_equal(block_of(cut, &b, NULL), len < strlen(text) ? -EINVAL : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything), cmocka_unit_test(test_build),
		cmocka_unit_test(test_workspace),  cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_errors),	   cmocka_unit_test(test_run_args_refused),
		cmocka_unit_test(test_many),	   cmocka_unit_test(test_under_a_block),
		cmocka_unit_test(test_truncated),
	};

	return cmocka_run_group_tests_name("devcontainer block", tests, NULL, NULL);
}
