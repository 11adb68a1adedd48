/* What engines say: about failures, images, pulls and containers. The texts are what the programs print. */
#include "container/cli.h"
#include "container/engine.h"
#include "container/image.h"
#include "container/labels.h"
#include "container/words.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static const struct {
	const char *text;
	enum words_kind kind;
	const char *says, *hint; /* parts of the message and of what to do */
} failures[] = {
	{"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
	 WORDS_DAEMON_DOWN, "Cannot connect", "systemctl start docker"},
	{"permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get "
	 "\"http://%2Fvar%2Frun%2Fdocker.sock/v1.50/version\": dial unix /var/run/docker.sock: connect: permission "
	 "denied",
	 WORDS_NO_PERMISSION, "permission denied", "docker group"},
	{"Error response from daemon: No such image: nosuch:1\n\nRun 'docker run --help' for more information\n",
	 WORDS_IMAGE_NOT_FOUND, "No such image: nosuch:1", "`docker pull`"},
	{"Error: nosuch:1: image not known\n", WORDS_IMAGE_NOT_FOUND, "image not known", "docker login"},
	{"Error response from daemon: manifest for debian:nope not found: manifest unknown: manifest unknown\n",
	 WORDS_IMAGE_NOT_FOUND, "debian:nope", "name and tag"},
	{"Error response from daemon: pull access denied for x, repository does not exist or may require 'docker "
	 "login'",
	 WORDS_IMAGE_NOT_FOUND, "pull access denied", "login"},
	{"Error response from daemon: Head \"http://r/v2/x/manifests/1\": no basic auth credentials",
	 WORDS_UNAUTHORIZED, "credentials", "docker login"},
	{"Error: initializing source docker://r/x:1: reading manifest: unauthorized: authentication required",
	 WORDS_UNAUTHORIZED, "unauthorized", "login"},
	{"failed to register layer: Error processing tar file(exit status 1): write /big: no space left on device",
	 WORDS_DISK_FULL, "no space left", "system prune"},
	{"docker: invalid reference format: repository name (Nosuch) must be lowercase.", WORDS_BAD_NAME, "lowercase",
	 "REGISTRY/NAME:TAG"},
	{"Error: short-name \"x:1\" did not resolve to an alias and no unqualified-search registries are defined",
	 WORDS_BAD_NAME, "short-name", "docker.io/library"},
	{"docker: Error response from daemon: Conflict. The container name \"/iterion-r\" is already in use by "
	 "container "
	 "\"0123\". You have to remove (or rename) that container to be able to reuse that name.",
	 WORDS_NAME_IN_USE, "already in use", "sandbox ls"},
	{"Error: creating container storage: the container name \"q\" is already in use by 34f9", WORDS_NAME_IN_USE,
	 "already in use", "--run-id"},
	{"docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create "
	 "failed: "
	 "unable to start container process: exec: \"/run/iterion/bin/iterion\": permission denied: unknown",
	 WORDS_GUEST_REFUSED, "permission denied", "noexec"},
	{"Error: exec container process `/run/iterion/bin/iterion`: Exec format error", WORDS_GUEST_REFUSED,
	 "Exec format error", "architecture"},
	{"docker: Error response from daemon: unable to find user who: no matching entries in passwd file",
	 WORDS_NO_USER, "unable to find user who", "remoteUser"},
	{"docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: "
	 "/x",
	 WORDS_MOUNT_REFUSED, "/x", "must exist"},
	{"docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create "
	 "failed: unable to start container process: error during container init: error mounting "
	 "\"/tmp/iterion-control.1/s\" to rootfs at \"/run/iterion/control.sock\": open o_path procfd: open "
	 "/data/merged/exec format error/iterion/control.sock: not a directory: unknown",
	 WORDS_IMAGE_IN_THE_WAY, "not a directory", "another image"},
	{"docker: Error response from daemon: lstat /data/overlay2/1/merged/tmp/work: not a directory.",
	 WORDS_IMAGE_IN_THE_WAY, "not a directory", "workspace_folder"},
	{"Error: crun: creating `/run/iterion`: openat2 `run/iterion`: Not a directory: OCI runtime error",
	 WORDS_IMAGE_IN_THE_WAY, "crun", "another image"},
	{"Error response from daemon: Get \"https://r/v2/\": dial tcp: lookup r on 10.0.0.1:53: no such host",
	 WORDS_NO_REGISTRY, "no such host", "reaches the registry"},
	{"Error response from daemon: Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available",
	 WORDS_LIMITS, "Range of CPUs", "limits"},
	{"Error: No such container: x", WORDS_NO_CONTAINER, "No such container", "removed"},
	{"the moon is full", WORDS_OTHER, "the moon is full", "docker's own words"},
};

static void test_failures(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		const struct cli_result r = {.status = {.code = 125},
					     .out = "",
					     .err = failures[i].text,
					     .err_len = strlen(failures[i].text)};
		struct err e = ERR_INIT;
		if (words_classify(failures[i].text) != failures[i].kind)
			fail_msg("%s: kind %d", failures[i].text, (int)words_classify(failures[i].text));
		assert_true(words_explain(&engine_docker, &r, "nosuch:1", &e) < 0);
		assert_int_equal(strncmp(e.msg, "docker: ", 8), 0);
		if (!strstr(e.msg, failures[i].says) || !strstr(e.hint, failures[i].hint))
			fail_msg("%s\n%s", e.msg, e.hint);
		assert_null(strstr(e.msg, "--help"));
	}
}

static void test_failures_without_words(void **state)
{
	struct cli_result r = {.status = {.code = 7}, .out = "", .err = ""};
	struct err e = ERR_INIT;

	(void)state;
	assert_true(words_explain(&engine_podman, &r, NULL, &e) < 0);
	assert_non_null(strstr(e.msg, "exit code 7"));
	r.status.signaled = true;
	assert_true(words_explain(&engine_podman, &r, NULL, &e) < 0);
	assert_non_null(strstr(e.msg, "signal 7"));
	r.timed_out = true;
	assert_int_equal(words_explain(&engine_podman, &r, NULL, &e), -ETIMEDOUT);
	assert_non_null(strstr(e.hint, "ITERION_SANDBOX_DOCTOR_TIMEOUT"));
	/* What an image or a registry says does not steer the terminal. */
	r = (struct cli_result){.status = {.code = 1}, .out = "", .err = "bad \033]0;title\007 words\r\nmore"};
	assert_true(words_explain(&engine_podman, &r, NULL, &e) < 0);
	assert_null(strchr(e.msg, '\033'));
	assert_non_null(strstr(e.msg, "; more"));
}

#define HEX64 "004fde80578b637bc05b6ecd356d98da55ce9d56cd8aad860afe84a21d745332"

static void test_images(void **state)
{
	static const struct {
		const char *text;
		int r;
		const char *digest, *env;
	} rows[] = {
		{"[\"sha256:" HEX64 "\",[],\"amd64\",[\"A=1\",\"PATH=/x\",\"bad\",\"=\",7]]\n", 0, "sha256:" HEX64,
		 "A=1"},
		{"[\"" HEX64 "\",null,\"arm64\",null]", 0, "sha256:" HEX64, NULL},
		{"[\"sha256:1\",[\"r/x@sha256:" HEX64 "\"],\"amd64\",[]]", 0, "sha256:" HEX64, NULL},
		{"[\"x\",[\"r/x@sha256:zz\"],7,{}]", 0, NULL, NULL},
		{"{}", -EPROTO, NULL, NULL},
		{"", -EPROTO, NULL, NULL},
		{"[\"a\"", -EPROTO, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct image_facts f = {0};
		assert_int_equal(image_parse(rows[i].text, strlen(rows[i].text), &f), rows[i].r);
		if (rows[i].digest)
			assert_string_equal(f.digest, rows[i].digest);
		else
			assert_null(f.digest);
		assert_int_equal(f.env.n, rows[i].env ? 2 : 0);
		if (rows[i].env)
			assert_string_equal(f.env.v[0], rows[i].env);
		image_facts_done(&f);
	}
}

static void test_pulls(void **state)
{
	static const struct {
		const char *line;
		bool changed;
		size_t n, done;
	} rows[] = {
		{"Using default tag: latest", false, 0, 0},
		{"latest: Pulling from library/debian", false, 0, 0},
		{"1b930d010525: Pulling fs layer", true, 1, 0},
		{"aaaaaaaaaaaa: Already exists", true, 2, 1},
		{"1b930d010525: Verifying Checksum", false, 2, 1},
		{"1b930d010525: Pull complete", true, 2, 2},
		{"1b930d010525: Pull complete", false, 2, 2},
		{"Digest: sha256:" HEX64, false, 2, 2},
		{"Trying to pull docker.io/library/debian:12...", false, 2, 2},
		{"Copying blob sha256:" HEX64, true, 3, 2},
		{"Copying blob 004fde80578b done  ", true, 3, 3},
		{"Copying config sha256:" HEX64, false, 3, 3},
		{"zz: Pull complete", false, 3, 3},
		{"", false, 3, 3},
	};
	struct pull_count c = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *layer = NULL;
		assert_int_equal(pull_count_line(&c, rows[i].line, &layer), rows[i].changed);
		assert_int_equal(c.n, rows[i].n);
		assert_int_equal(c.n_done, rows[i].done);
		assert_int_equal(layer != NULL, rows[i].changed);
	}
	/* A registry may name as many as it likes. */
	for (unsigned i = 0; i < 5000; i++) {
		const char *layer;
		char text[64];
		(void)snprintf(text, sizeof text, "%012x: Pulling fs layer", i);
		(void)pull_count_line(&c, text, &layer);
	}
	assert_true(c.n <= 512);
	pull_count_done(&c);
}

static void test_owners(void **state)
{
	char host[HOST_ID_SIZE], own[OWNER_SIZE], text[OWNER_SIZE + 64];
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	(void)waitpid(pid, NULL, 0);
	label_host_id(host);
	label_owner(own);
	assert_int_equal(strlen(host), HOST_ID_SIZE - 1);
	assert_int_equal(label_owner_state(own, host), OWNER_ALIVE);
	/* The same number at another time is another process. */
	(void)snprintf(text, sizeof text, "%s:%d:1", host, getpid());
	assert_int_equal(label_owner_state(text, host), OWNER_DEAD);
	(void)snprintf(text, sizeof text, "%s:%d:12345", host, pid);
	assert_int_equal(label_owner_state(text, host), OWNER_DEAD);
	static const char *const foreign[] = {
		"",	   ":",	     "x",	 "0123456789abcdef:1:1", "%s",	   "%s:",    "%s:1", "%s:1:",
		"%s:-1:5", "%s:0:5", "%s:1:2:3", "%s:99999999999:1",	 "%s:1:x", "%s0:1:2"};
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
		const char *rest = str_starts(foreign[i], "%s") ? foreign[i] + 2 : NULL;
		(void)snprintf(text, sizeof text, "%s%s", rest ? host : foreign[i], rest ? rest : "");
		if (label_owner_state(text, host) != OWNER_FOREIGN)
			fail_msg("\"%s\" is not foreign", text);
	}
	memset(text, '1', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	assert_int_equal(label_owner_state(text, host), OWNER_FOREIGN);
}

static void test_containers(void **state)
{
	static const char text[] =
		"[\"34f9dae015a4db3e\",\"/qq\",\"running\",\"2026-01-02T03:04:05Z\",\"busy:1\",{\"iterion.io/managed\":"
		"\"true\",\"iterion.io/run-name\":\"a b,c=d\",\"iterion.io/owner\":\"h:1:2\"}]\n"
		"[\"0935221ed53ecaa9\",\"other\",\"running\",\"\",\"x\",{\"iterion.io/managed\":\"false\"}]\n"
		"[\"0935221ed53ecaa9\",\"none\",\"running\",\"\",\"x\",null]\n"
		"[\"--all\",\"evil\",\"running\",\"\",\"x\",{\"iterion.io/managed\":\"true\"}]\n"
		"[\"0935221ed53ecaa9\",7,null,\"\",\"x\",{\"iterion.io/managed\":\"true\"}]\n"
		"{}\n7 [\"broken";
	struct contained_list l = {0};

	(void)state;
	contained_parse(text, strlen(text), &l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0].name, "qq");
	assert_string_equal(l.v[0].run_name, "a b,c=d");
	assert_string_equal(l.v[0].owner, "h:1:2");
	assert_string_equal(l.v[0].run_id, "");
	assert_string_equal(l.v[1].id, "0935221ed53ecaa9");
	assert_string_equal(l.v[1].name, "");
	contained_list_done(&l);
	for (size_t n = 0; n < strlen(text); n++) {
		auto_free char *cut = xstrndup(text, n);
		contained_parse(cut, n, &l);
		assert_true(l.n <= 2);
		contained_list_done(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failures), cmocka_unit_test(test_failures_without_words),
		cmocka_unit_test(test_images),	 cmocka_unit_test(test_pulls),
		cmocka_unit_test(test_owners),	 cmocka_unit_test(test_containers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
