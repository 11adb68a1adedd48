/* The variables by which programs find the proxy. */
#include "proxy_env.h"

#include <base/str.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_both_cases(void **state)
{
	static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
					    "http_proxy", "https_proxy", "all_proxy"};
	auto_strv env = {0};

	(void)state;
	proxy_env_add(&env, NULL, 4711, "t0ken", true);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		assert_string_equal(strv_get_env(&env, names[i]), "http://iterion:t0ken@127.0.0.1:4711");
	assert_non_null(strstr(strv_get_env(&env, "NO_PROXY"), "127.0.0.1"));
	assert_string_equal(strv_get_env(&env, "NODE_USE_ENV_PROXY"), "1");
	assert_non_null(strstr(strv_get_env(&env, "GIT_SSH_COMMAND"), "connect %h %p"));
}

/* An image's own go, the rest of its variables stays. */
static void test_of_an_image(void **state)
{
	auto_strv env = {0};

	(void)state;
	strv_add(&env, "PATH=/bin");
	strv_add(&env, "http_proxy=http://proxy.example:3128");
	strv_add(&env, "NO_PROXY=*");
	strv_add(&env, "http_proxy_x=1");
	strv_add(&env, "ODD");
	proxy_env_drop(&env);
	assert_int_equal(env.n, 3);
	assert_string_equal(strv_get_env(&env, "http_proxy_x"), "1");
	proxy_env_add(&env, NULL, 4711, "t", true);
	assert_string_equal(strv_get_env(&env, "http_proxy"), "http://iterion:t@127.0.0.1:4711");
	assert_null(strchr(strv_get_env(&env, "NO_PROXY"), '*'));
}

/* Elsewhere than on loopback there is no guest to take ssh through it. */
static void test_another_host(void **state)
{
	auto_strv env = {0}, six = {0};

	(void)state;
	proxy_env_add(&env, "host.docker.internal", 4711, "t0ken", false);
	assert_string_equal(strv_get_env(&env, "https_proxy"), "http://iterion:t0ken@host.docker.internal:4711");
	assert_non_null(strstr(strv_get_env(&env, "JAVA_TOOL_OPTIONS"), "-Dhttps.proxyHost=host.docker.internal "));
	assert_null(strv_get_env(&env, "GIT_SSH_COMMAND"));
	proxy_env_add(&six, "2001:db8::1", 1, "t", false);
	assert_string_equal(strv_get_env(&six, "HTTP_PROXY"), "http://iterion:t@[2001:db8::1]:1");
}

static void test_what_is_set_stays(void **state)
{
	auto_strv env = {0};

	(void)state;
	strv_add(&env, "NO_PROXY=mine");
	strv_add(&env, "GIT_SSH_COMMAND=ssh -v");
	proxy_env_add(&env, NULL, 1, "t", true);
	assert_string_equal(strv_get_env(&env, "NO_PROXY"), "mine");
	assert_string_equal(strv_get_env(&env, "GIT_SSH_COMMAND"), "ssh -v");
}

/* A JVM prints this variable on stderr, which is kept in events. */
static void test_no_token_where_it_is_printed(void **state)
{
	auto_strv env = {0};

	(void)state;
	proxy_env_add(&env, NULL, 1, "s3cret", true);
	assert_null(strstr(strv_get_env(&env, "JAVA_TOOL_OPTIONS"), "s3cret"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_cases),
		cmocka_unit_test(test_another_host),
		cmocka_unit_test(test_of_an_image),
		cmocka_unit_test(test_what_is_set_stays),
		cmocka_unit_test(test_no_token_where_it_is_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
