/* The policy against the tables of tests/data/net: every row of policy.tsv, every bad rule, the presets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/str.h>
#include <net/policy.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static char *read_data(const char *name, size_t *ret_len)
{
	struct err e = ERR_INIT;
	char *text;

	if (file_read(AT_FDCWD, name, 1 << 20, &text, ret_len, &e) < 0)
		fail_msg("%s", e.msg);
	return text;
}

/* Splits at the character in place; empty fields stay. */
static size_t split(char *line, const char *at, char **ret, size_t max)
{
	size_t n = 0;

	while (line && n < max)
		ret[n++] = strsep(&line, at);
	return n;
}

static bool verdict(const char *mode, char *rules, const char *host, const char *why)
{
	struct policy *p = NULL;
	struct policy_verdict v = {.allow = false};
	struct err e = ERR_INIT;
	char *list[16] = {NULL};
	enum network_mode m;
	struct host h;
	uint16_t port;

	if (*rules)
		list[split(rules, " ", list, 15)] = NULL;
	assert_int_equal(network_mode_parse(mode, &m), 0);
	if (policy_new(m, NULL, (const char *const *)list, &p, &e) < 0)
		fail_msg("%s: %s", why, e.msg);
	if (host_port_parse(host, strlen(host), 0, &h, &port) == 0)
		policy_check_host(p, &h, port, &v);
	bool allow = v.allow;
	policy_free(p);
	return allow;
}

static void test_verdicts(void **state)
{
	size_t len, rows = 0;
	auto_free char *text = read_data(TEST_DATA "/net/policy.tsv", &len);

	(void)state;
	for (char *rest = text, *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
		char *field[5];
		if (*line == '#' || !*line)
			continue;
		assert_int_equal(split(line, "\t", field, 5), 5);
		rows++;
		if (verdict(field[0], field[1], field[2], field[4]) != str_eq(field[3], "allow"))
			fail_msg("%s %s should be %s: %s", field[0], field[2], field[3], field[4]);
	}
	assert_int_equal(rows, 48);
}

static void test_bad_rules(void **state)
{
	size_t len, rows = 0;
	auto_free char *text = read_data(TEST_DATA "/net/policy-bad-rules.tsv", &len);

	(void)state;
	for (char *rest = text, *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
		struct policy *p;
		struct err e = ERR_INIT;
		char *field[2];
		if (*line == '#' || !*line)
			continue;
		assert_int_equal(split(line, "\t", field, 2), 2);
		rows++;
		const char *rules[] = {"good.example.com", field[0], NULL};
		if (policy_new(NETWORK_ALLOWLIST, NULL, rules, &p, &e) != -EINVAL)
			fail_msg("\"%s\" is taken: %s", field[0], field[1]);
		assert_int_equal(e.kind, ERR_INPUT);
		assert_non_null(strstr(e.msg, field[0]));
		assert_true(e.hint[0] != '\0');
	}
	assert_int_equal(rows, 16);
}

static void expand(const json_t *all, const char *name, struct strv *to)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(all, name), i, item)
	{
		const char *s = json_string_value(item);
		if (*s == '@')
			expand(all, s + 1, to);
		else
			strv_add(to, s);
	}
}

static void test_presets(void **state)
{
	size_t len;
	auto_free char *text = read_data(TEST_DATA "/net/presets.json", &len);
	auto_json all = json_parse(text, len, NULL);
	const char *const *names = policy_preset_names();
	size_t found = 0;

	(void)state;
	assert_non_null(all);
	for (; *names; names++) {
		const char *one[] = {*names, NULL};
		const char *const *rules;
		struct policy *p;
		auto_strv want = {0};
		expand(all, *names, &want);
		assert_int_equal(policy_new(NETWORK_ALLOWLIST, one, NULL, &p, NULL), 0);
		assert_int_equal(policy_rules(p, &rules), want.n);
		for (size_t i = 0; i < want.n; i++)
			assert_string_equal(rules[i], want.v[i]);
		policy_free(p);
		found += json_object_get(all, *names) != NULL;
	}
	/* All of them, but "silent", which is no preset. */
	assert_int_equal(found, json_object_size(all) - 1);
}

/* The silent list silences denials and denies nothing by itself. */
static void test_silent(void **state)
{
	static const char *const any[] = {"**", NULL};
	size_t len;
	auto_free char *text = read_data(TEST_DATA "/net/presets.json", &len);
	auto_json all = json_parse(text, len, NULL);
	const json_t *item;
	size_t i;

	(void)state;
	json_array_foreach(json_object_get(all, "silent"), i, item)
	{
		const char *name = json_string_value(item);
		struct policy *closed, *open;
		struct policy_verdict v;
		struct host h;
		if (str_starts(name, "**."))
			name = "o1.ingest.sentry.io";
		assert_int_equal(host_parse(name, strlen(name), &h), 0);
		assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, NULL, &closed, NULL), 0);
		policy_check_host(closed, &h, 443, &v);
		assert_false(v.allow);
		assert_true(v.silent);
		assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, any, &open, NULL), 0);
		policy_check_host(open, &h, 443, &v);
		assert_true(v.allow);
		policy_free(closed);
		policy_free(open);
	}
	assert_true(i > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_bad_rules),
		cmocka_unit_test(test_presets),
		cmocka_unit_test(test_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
