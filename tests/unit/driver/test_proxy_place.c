/* Where the proxy of a container without guest listens, as the user may say it; and which engines are elsewhere. */
#include "container/proxy_place.h"
#include "container/engine.h"
#include "container/remote.h"
#include "ops.h"

#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/host_state.h>
#include <sandbox/spec.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void test_what_the_user_says(void **state)
{
	static const struct {
		const char *listen, *advertise, *where, *host;
		unsigned port;
	} rows[] = {
		{NULL, NULL, NULL, PROXY_HOST_ALIAS, 0},
		{"", "", NULL, PROXY_HOST_ALIAS, 0},
		{"192.0.2.7", NULL, "192.0.2.7:0", "192.0.2.7", 0},
		{"192.0.2.7:4000", NULL, "192.0.2.7:4000", "192.0.2.7", 0},
		{"127.0.0.1:4000", NULL, "127.0.0.1:4000", PROXY_HOST_ALIAS, 0},
		{"127.0.0.1:4000", "172.17.0.1", "127.0.0.1:4000", "172.17.0.1", 0},
		{"127.0.0.1:4000", "gate.example:81", "127.0.0.1:4000", "gate.example", 81},
		{"[::1]:4000", "[2001:db8::1]:81", "[::1]:4000", "2001:db8::1", 81},
		{"2001:db8::7", NULL, "[2001:db8::7]:0", "2001:db8::7", 0},
		{"[2001:db8::7]", NULL, "[2001:db8::7]:0", "2001:db8::7", 0},
		{NULL, "10.0.2.2:65535", NULL, "10.0.2.2", 65535},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct proxy_place p;
		struct err e = ERR_INIT;
		char where[PROXY_WHERE_SIZE];
		if (proxy_place_read(rows[i].listen, rows[i].advertise, &p, &e) < 0)
			fail_msg("%zu: %s", i, e.msg);
		assert_int_equal(p.listens, rows[i].where != NULL);
		if (p.listens) {
			proxy_address_text(&p.listen, where);
			assert_string_equal(where, rows[i].where);
		}
		assert_string_equal(p.host, rows[i].host);
		assert_int_equal(p.port, rows[i].port);
	}
}

static void test_what_is_none(void **state)
{
	static const struct {
		const char *listen, *advertise;
	} rows[] = {
		{"0.0.0.0", NULL},
		{"0.0.0.0:80", NULL},
		{"::", NULL},
		{"[::]:80", NULL},
		{"::ffff:0.0.0.0", NULL},
		{"localhost", NULL},
		{"192.0.2.7:0", NULL},
		{"192.0.2.7:65536", NULL},
		{"192.0.2.7:", NULL},
		{"192.0.2.7:x", NULL},
		{":80", NULL},
		{"[::1", NULL},
		{"[]:80", NULL},
		{"[::1]80", NULL},
		{"192.0.2", NULL},
		{NULL, "a b"},
		{NULL, "a@b"},
		{NULL, "a/b"},
		{NULL, ":80"},
		{NULL, "a:b:c"},
		{NULL, "a:0"},
		{NULL, "a\nb"},
	};
	char *long_name = xcalloc(1, 1024);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct proxy_place p;
		struct err e = ERR_INIT;
		if (proxy_place_read(rows[i].listen, rows[i].advertise, &p, &e) != -EINVAL)
			fail_msg("row %zu was taken", i);
		assert_int_not_equal(e.hint[0], '\0');
	}
	struct proxy_place p;
	memset(long_name, 'a', 1023);
	assert_int_equal(proxy_place_read(NULL, long_name, &p, NULL), -EINVAL);
	assert_int_equal(proxy_place_read(long_name, NULL, &p, NULL), -EINVAL);
	free(long_name);
}

static void test_addresses_of_this_machine(void **state)
{
	static const struct {
		const char *text;
		bool ours;
	} rows[] = {{"127.0.0.1", true}, {"127.9.9.9", true}, {"192.0.2.1", false}, {"0.0.0.0", false}, {"::", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		union proxy_address a;
		assert_int_equal(proxy_address_read(rows[i].text, &a), 0);
		assert_int_equal(proxy_address_is_ours(&a), rows[i].ours);
	}
}

static void test_engines_elsewhere(void **state)
{
	static const struct {
		const char *host;
		bool remote;
	} rows[] = {
		{NULL, false},
		{"", false},
		{"unix:///run/x.sock", false},
		{"/run/x.sock", false},
		{"tcp://127.0.0.1:2375", false},
		{"tcp://127.0.0.2:2375", false},
		{"tcp://localhost:2375", false},
		{"tcp://localhost", false},
		{"tcp://192.0.2.1:2375", true},
		{"tcp://[2001:db8::1]:2375", true},
		{"tcp://localhost.example:2375", true},
		{"tcp://127.0.0.1.example:2375", true},
		{"tcp://", true},
		{"ssh://localhost", true},
		{"ssh://user@host", true},
	};
	char own[256] = "tcp://";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].host)
			setenv("DOCKER_HOST", rows[i].host, 1);
		else
			unsetenv("DOCKER_HOST");
		if (engine_is_remote(&engine_docker) != rows[i].remote)
			fail_msg("%s", rows[i].host ? rows[i].host : "nothing");
	}
	assert_int_equal(gethostname(own + 6, sizeof own - 7), 0);
	setenv("DOCKER_HOST", own, 1);
	assert_false(engine_is_remote(&engine_docker));
}

static void test_what_an_engine_elsewhere_cannot(void **state)
{
	static const struct {
		const char *host, *listen, *required;
		bool state, bind, policy, offered;
		const char *says; /* NULL: nothing is wrong */
	} rows[] = {
		{"unix:///x", NULL, NULL, true, true, true, false, NULL},
		{"unix:///x", NULL, "required", true, true, true, false, NULL},
		{"unix:///x", NULL, "perhaps", false, false, true, false, "ITERION_NETWORK_ENFORCEMENT=perhaps"},
		{"unix:///x", "0.0.0.0", NULL, false, false, true, false, "ITERION_PROXY_LISTEN=0.0.0.0"},
		{"unix:///x", "0.0.0.0", "perhaps", false, false, false, false, NULL},
		{"ssh://far", NULL, NULL, false, false, false, false, NULL},
		{"ssh://far", NULL, NULL, true, false, false, false, "/home/me/.claude"},
		{"ssh://far", NULL, NULL, false, true, false, false, "/data"},
		{"ssh://far", NULL, NULL, false, false, true, false, "no way to the egress proxy"},
		{"ssh://far", "127.0.0.1:4000", NULL, false, false, true, true, NULL},
		{"ssh://far", "127.0.0.1:4000", "required", false, false, true, false, "cannot be enforced"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sandbox_mount bind = {.type = MOUNT_BIND, .source = xstrdup("/data")};
		struct sandbox_spec spec = {.mounts = &bind, .n_mounts = rows[i].bind};
		struct host_state_plan plan = {0};
		struct err e = ERR_INIT;
		bool offered = !rows[i].offered;
		if (rows[i].state)
			strv_add(&plan.mounts, "/home/me/.claude");
		const struct sandbox_params p = {.spec = &spec, .host_state = &plan, .enforce_network = rows[i].policy};
		setenv("DOCKER_HOST", rows[i].host, 1);
		setenv("ITERION_PROXY_LISTEN", rows[i].listen ? rows[i].listen : "", 1);
		setenv("ITERION_NETWORK_ENFORCEMENT", rows[i].required ? rows[i].required : "", 1);
		int r = remote_check(&engine_docker, &p, &offered, &e);
		if ((r < 0) != (rows[i].says != NULL) || (r < 0 && !strstr(e.msg, rows[i].says)))
			fail_msg("row %zu: %s", i, e.msg);
		assert_int_equal(offered, rows[i].offered);
		assert_true(r == 0 || e.hint[0]);
		strv_done(&plan.mounts);
		free(bind.source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_the_user_says),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_addresses_of_this_machine),
		cmocka_unit_test(test_engines_elsewhere),
		cmocka_unit_test(test_what_an_engine_elsewhere_cannot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
