/* Variables of both stages, the id, and the environment of execs. Answers of the first stage are the reference's. */
#include "devcontainer.h"
#include <base/buf.h>

#include <time.h>

/* The value of "v" after the first stage. */
static char *expanded(const char *text)
{
	auto_json in = json_object();
	auto_devcontainer d = NULL;

	json_put_str(in, "v", text);
	json_put_str(in, "workspaceFolder", "/work/ws/");
	auto_free char *words = json_compact(in);
	if (load_words(words, &d, NULL) < 0)
		return xstrdup("(error)");
	auto_json out = devcontainer_configuration(d);
	return xstrdup(json_get_str(out, "v"));
}

static void test_first_stage(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"", ""},
		{"${localEnv:DC_SET}", "setval"},
		{"${env:DC_SET}", "setval"},
		{"${localEnv:DC_SET}${localEnv:DC_SET}", "setvalsetval"},
		{"${localEnv:DC_UNSET}", ""},
		{"${localEnv:DC_UNSET:a:b}", "a"},
		{"${localEnv:DC_UNSET:}", ""},
		{"${localEnv:DC_UNSET::b}", ""},
		{"${localEnv:DC_EMPTY:a}", ""},
		{"${localEnv:}", ""},
		{"${localEnv::a}", "a"},
		{"${localEnv:DC_MULTI}", "a\nb\"c\\d"},
		{"${localEnv:DC_REC}", "${localEnv:DC_SET}"},
		{"${localEnv:DC_SE}", ""},
		{"${localEnv:DC_SET=}", ""},
		{"${localEnv}", "(error)"},
		{"${env}", "(error)"},
		{"${LOCALENV:DC_SET}", "${LOCALENV:DC_SET}"},
		{"${}", "${}"},
		{"${:}", "${:}"},
		{"$", "$"},
		{"${", "${"},
		{"$${localEnv:DC_SET}", "$setval"},
		{"${${localEnv:DC_SET}", "${${localEnv:DC_SET}"},
		{"${a\n${localEnv:DC_SET}", "${a\nsetval"},
		{"${a\r${localEnv:DC_SET}", "${a\rsetval"},
		{"${a\u2028${localEnv:DC_SET}", "${a\u2028setval"},
		{"${a\u2029${localEnv:DC_SET}}", "${a\u2029setval}"},
		{"${a\u2027${localEnv:DC_SET}", "${a\u2027${localEnv:DC_SET}"},
		{"${localEnv:A\nB:x}", "${localEnv:A\nB:x}"},
		{"${localWorkspaceFolder}", "/w/ws"},
		{"${localWorkspaceFolder:whatever}", "/w/ws"},
		{"${localWorkspaceFolderBasename}", "ws"},
		{"${containerWorkspaceFolder}", "/work/ws/"},
		{"${containerWorkspaceFolderBasename}", "ws"},
		{"${devcontainerId}", "${devcontainerId}"},
		{"${containerEnv:PATH}", "${containerEnv:PATH}"},
		{"${workspaceFolder}", "${workspaceFolder}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = expanded(rows[i].text);
		if (!str_eq(got, rows[i].want))
			fail_msg("%s: %s and not %s", rows[i].text, got, rows[i].want);
	}
}

static void test_second_stage(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"${containerEnv:A}", "1"},
		{"${containerEnv:B:x}", "x"},
		{"${containerEnv:B}", ""},
		{"${containerEnv:E:x}", ""},
		{"${containerEnv}", "${containerEnv}"},
		{"a${containerEnv:A}b${localEnv:A}", "a1b${localEnv:A}"},
		{"${containerEnv:R}", "${containerEnv:A}"},
	};
	auto_strv env = {0};

	(void)state;
	strv_add(&env, "A=1");
	strv_add(&env, "E=");
	strv_add(&env, "R=${containerEnv:A}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = devcontainer_expand_env(&env, rows[i].text);
		assert_string_equal(got, rows[i].want);
	}
}

static void test_remote_env(void **state)
{
	auto_strv env = {0};
	auto_strv remote = {0};

	(void)state;
	strv_add(&env, "PATH=/bin");
	strv_add(&env, "GONE=1");
	strv_add(&env, "GONER=2");
	strv_add(&remote, "PATH=${containerEnv:PATH}:/x");
	strv_add(&remote, "SEEN=${containerEnv:GONE}${containerEnv:PATH}");
	strv_add(&remote, "GONE");
	strv_add(&remote, "NEVER");
	devcontainer_apply_remote_env(&env, &remote);
	assert_string_equal(strv_get_env(&env, "PATH"), "/bin:/x");
	assert_string_equal(strv_get_env(&env, "SEEN"), "1/bin");
	assert_null(strv_get_env(&env, "GONE"));
	assert_string_equal(strv_get_env(&env, "GONER"), "2");
	assert_int_equal(env.n, 3);
	assert_null(env.v[env.n]);
}

/* The answers are those of the reference's own function under node. */
static void test_id(void **state)
{
	static const struct {
		const char *workspace, *path, *want;
	} rows[] = {
		{"/w/ws", "/w/ws/.devcontainer/devcontainer.json",
		 "1i37i8tolcogijq4s8u7q11rdpjav7rr0f9sd44c6brcfu0roajh"},
		{"/w/\"q\"\\\n\x01\u00e9", "/w/x", "0cisubgmnr8grkhubbd1r24d0pv189mfv3h0fl0nb1jvjr2t02bm"},
	};
	char id[DEVCONTAINER_ID_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		devcontainer_id(rows[i].workspace, rows[i].path, id);
		assert_string_equal(id, rows[i].want);
	}
}

/* Values that grow: the sum is bounded, and the time with it. */
static void test_growth(void **state)
{
	struct err e = ERR_INIT;
	auto_devcontainer d = NULL;
	auto_buf text = BUF_INIT(4 * 1024 * 1024);

	(void)state;
	(void)buf_puts(&text, "{\"workspaceFolder\":\"/");
	for (int i = 0; i < 20000; i++)
		(void)buf_puts(&text, "${containerWorkspaceFolder}");
	(void)buf_puts(&text, "\"}");
	assert_int_equal(load_words(buf_str(&text), &d, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "devcontainer.json:1:20: variables make more than"));
	buf_clear(&text);
	(void)buf_puts(&text, "{\"a\":[");
	for (int i = 0; i < 30000; i++)
		(void)buf_puts(&text, "\"${localEnv:PATH}${localWorkspaceFolder}\",");
	(void)buf_puts(&text, "]}");
	assert_int_equal(load_words(buf_str(&text), &d, &e), 0);
	/* Openings without an end. */
	devcontainer_free(TAKE_PTR(d));
	buf_clear(&text);
	(void)buf_puts(&text, "{\"a\":\"");
	for (int i = 0; i < 200000; i++)
		(void)buf_puts(&text, i % 2 ? "${\\n" : "${");
	(void)buf_puts(&text, "\"}");
	clock_t begin = clock();
	assert_int_equal(load_words(buf_str(&text), &d, &e), 0);
	assert_true(clock() - begin < 2 * CLOCKS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_stage), cmocka_unit_test(test_second_stage),
		cmocka_unit_test(test_remote_env),  cmocka_unit_test(test_id),
		cmocka_unit_test(test_growth),
	};

	return cmocka_run_group_tests_name("devcontainer vars", tests, NULL, NULL);
}
