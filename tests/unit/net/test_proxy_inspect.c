/* The proxy that inspects, as a program: what it gives, how it is locked in, and that it is not started by halves. */
#include "proxy_world.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>
#include <net/secret.h>

#include <stdarg.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static const char trust[] = TEST_DATA "/net/authority.pem";
static const char *const rules[] = {"127.0.0.1", "**.test", NULL};
#define VALUE "value-of-a-secret-1"

static struct secrets *one_secret(void)
{
	struct secrets *s = secrets_new();
	auto_strv hosts = {0};

	strv_add(&hosts, "api.test");
	assert_int_equal(secrets_add(s, "A", VALUE, strlen(VALUE), &hosts, NULL), 0);
	return s;
}

static void test_confined(void **state)
{
	static const int hooks[] = {PROXY_HOOK_OPEN, PROXY_HOOK_UNIX_SOCKET};
	auto_secrets s = one_secret();
	const struct proxy_inspect inspect = {.secrets = s, .program = PROXY_PROGRAM, .trust = trust};
	struct world w;

	(void)state;
	world_start(&w, rules, &(struct proxy_params){.inspect = &inspect});
	const char *pem = proxy_certificate(w.proxy);
	assert_non_null(pem);
	assert_int_equal(strncmp(pem, "-----BEGIN CERTIFICATE-----\n", 28), 0);
	for (size_t i = 0; TEST_HOOKS && i < ARRAY_LEN(hooks); i++) {
		w.hooked = false;
		assert_int_equal(proxy_test_hook(w.proxy, hooks[i]), 0);
		world_wait(&w, &w.hooked);
		assert_int_not_equal(w.hook_errno, 0);
	}
	world_stop(&w);
}

static void test_exec_ends_it(void **state)
{
	auto_secrets s = one_secret();
	const struct proxy_inspect inspect = {.secrets = s, .program = PROXY_PROGRAM, .trust = trust};
	struct world w;

	(void)state;
	if (!TEST_HOOKS)
		skip();
	world_start(&w, rules, &(struct proxy_params){.inspect = &inspect});
	w.may_be_lost = true;
	assert_int_equal(proxy_test_hook(w.proxy, PROXY_HOOK_EXEC), 0);
	world_wait(&w, &w.lost);
	assert_non_null(strstr(w.error, "signal 31"));
	world_stop(&w);
}

/* What is no TLS passes a tunnel to a host that is inspected, and what is no HTTP head is refused. */
static void test_other_protocols_pass(void **state)
{
	const struct server_ports *ports = server_start();
	const struct proxy_inspect inspect = {.all = true, .program = PROXY_PROGRAM, .trust = trust};
	struct world w;
	char got[8] = "";

	(void)state;
	world_start(&w, rules, &(struct proxy_params){.inspect = &inspect});
	int fd = client_connect(w.port);
	assert_int_equal(client_tunnel(fd, ports->echo), 200);
	client_send(fd, "SSH-2.0");
	assert_int_equal(client_read(fd, got, 7), 7);
	assert_string_equal(got, "SSH-2.0");
	close(fd);
	world_stop(&w);
}

static void fails(const struct proxy_inspect *inspect, const char *words)
{
	struct policy *policy = NULL;
	struct proxy *p = NULL;
	struct err e = ERR_INIT;

	assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, rules, &policy, NULL), 0);
	assert_true(proxy_new(&(struct proxy_params){.policy = policy, .inspect = inspect}, &p, &e) < 0);
	assert_non_null(strstr(e.msg, words));
	policy_free(policy);
}

static void test_programs_that_are_none(void **state)
{
	(void)state;
	fails(&(struct proxy_inspect){.program = "/nowhere/iterion-proxy", .trust = trust}, "/nowhere/iterion-proxy");
	/* It ends without a word. */
	fails(&(struct proxy_inspect){.program = "/bin/true", .trust = trust}, "certificate of TLS inspection");
}

static int end_server(void **state)
{
	(void)state;
	server_stop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_exec_ends_it),
		cmocka_unit_test(test_other_protocols_pass),
		cmocka_unit_test(test_programs_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, end_server);
}
