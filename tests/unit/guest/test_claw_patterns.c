/* Patterns: of names (glob), of text (ere), of commands and calls (policy). */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/test.h"
#include "command.h"
#include "ere.h"
#include "glob.h"
#include "policy.h"

static const struct {
	const char *pattern, *path;
	bool match;
} glob_rows[] = {
	{"*.c", "a.c", true},
	{"*.c", "b/a.c", false},
	{"**/*.c", "a.c", true},
	{"**/*.c", "b/c/a.c", true},
	{"**/*.c", "b/c/a.h", false},
	{"src/**", "src/a/b", true},
	{"src/**", "src", true},
	{"src/**", "srcs/a", false},
	{"src/**/x", "src/x", true},
	{"src/**/x", "src/a/b/x", true},
	{"a?c", "abc", true},
	{"a?c", "a/c", false},
	{"[a-c]x", "bx", true},
	{"[!a-c]x", "bx", false},
	{"[!a-c]x", "dx", true},
	{"[]]x", "]x", true},
	{"[a", "[a", true},
	{"\\*x", "*x", true},
	{"\\*x", "ax", false},
	{"*.{c,h}", "x.h", true},
	{"*.{c,h}", "x.o", false},
	{"{a,b/{c,d}}/*.t", "b/d/x.t", true},
	{"{a,b/{c,d}}/*.t", "d/x.t", false},
	{"a*b*c", "aXbYc", true},
	{"a*b*c", "aXcYb", false},
	{"/a/*.c", "/a/x.c", true},
	{"", "a", false},
};

static void test_glob(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(glob_rows); i++) {
		struct glob *g = glob_new(glob_rows[i].pattern);
		assert_non_null(g);
		if (glob_match(g, glob_rows[i].path) != glob_rows[i].match)
			fail_msg("%s on %s", glob_rows[i].pattern, glob_rows[i].path);
		glob_free(g);
	}
	assert_null(glob_new("{a"));
	assert_null(glob_new("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"));
	char *longer = xcalloc(1, GLOB_MAX + 2);
	memset(longer, 'a', GLOB_MAX + 1);
	assert_null(glob_new(longer));
	free(longer);
}

/* Patterns that take for ever where stars are tried by recursion. */
static void test_glob_is_quick(void **state)
{
	(void)state;
	char path[2001];
	struct glob *g = glob_new("**/a*a*a*a*a*a*a*a*a*a*a*a*b/**/**/**/**/**/**/x");

	memset(path, 'a', 2000);
	for (size_t i = 40; i < 2000; i += 40)
		path[i] = '/';
	path[2000] = '\0';
	assert_false(glob_match(g, path));
	glob_free(g);
}

static const struct {
	const char *pattern, *line;
	int match; /* -1: the pattern is refused */
} ere_rows[] = {
	{"foo", "a foo b", 1},
	{"^\\d+$", "123", 1},
	{"^\\d+$", "12a", 0},
	{"\\w+\\(", "call_1(x)", 1},
	{"^\\S+\\s\\S+$", "a b", 1},
	{"\\bfoo\\b", "a foo.", 1},
	{"\\bfoo\\b", "afoob", 0},
	{"[\\w.-]+@[\\w.-]+", "me.x@ho-st.org", 1},
	{"[\\]x]y", "]y", 1},
	{"[\\^a]b", "^b", 1},
	{"[\\^a]b", "cb", 0},
	{"[\\^]b", "^b", 1},
	{"[^\\d]$", "a1", 0},
	{"[a\\-z]!", "-!", 1},
	{"[a\\-z]!", "m!", 0},
	{"[[:digit:]]x", "4x", 1},
	{"(?:a|b)c", "bc", 1},
	{"a.*?b", "aXXb", 1},
	{"a{2}b", "aab", 1},
	{"a{2}b", "ab", 0},
	{"f() {", "x", 0},
	{"interface{}", "interface{}", 1},
	{"\\{x\\}", "{x}", 1},
	{"a\\tb", "a\tb", 1},
	{"a\\/b", "a/b", 1},
	{"colou?r", "color", 1},
	{"(a)\\1", "", -1},
	{"(?=a)", "", -1},
	{"(?i)a", "", -1},
	{"\\p{L}", "", -1},
	{"a\\", "", -1},
	{"[a", "", -1},
	{"[a\\", "", -1},
	{"[\\p]", "", -1},
};

static void test_ere(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ere_rows); i++) {
		auto_buf b = BUF_INIT(10000);
		const char *why = NULL;
		bool good = ere_write(&b, ere_rows[i].pattern, &why);
		regex_t re;
		int got = -1;

		if (good) {
			if (regcomp(&re, buf_str(&b), REG_EXTENDED | REG_NOSUB))
				fail_msg("%s became %s, which is no expression", ere_rows[i].pattern, buf_str(&b));
			got = regexec(&re, ere_rows[i].line, 0, NULL, 0) == 0;
			regfree(&re);
		}
		if (got != ere_rows[i].match || (got < 0) != (why != NULL))
			fail_msg("%s on %s: %d (%s)", ere_rows[i].pattern, ere_rows[i].line, got, buf_str(&b));
	}
	assert_true(ere_is_literal("foo bar"));
	assert_false(ere_is_literal("foo.bar"));
}

static const struct {
	const char *pattern, *must;
} must_rows[] = {
	{"foo", "foo"},	      {"\\w+_init\\(", "_init("},
	{"foo.*ba", "foo"},   {"ab*cd", "cd"},
	{"abc?", "ab"},	      {"abc+d", "abc"},
	{"abc{0}", "ab"},     {"x{y", "x{y"},
	{"a|b", ""},	      {"(a|b)cd", "cd"},
	{"(ab)*c", "c"},      {"ab(c[)]d)*ef", "ab"},
	{"[a]]bc", "]bc"},    {"[]a]bc", "bc"},
	{"[^]a]bc", "bc"},    {"[[:alpha:]]bc", "bc"},
	{"[\\]]bc", "bc"},    {"^ab$", "ab"},
	{"\\bab\\b", "ab"},   {"a\\.b", "a.b"},
	{"\\d", ""},	      {"a.b.cd", "cd"},
	{"(?:ab)?c", "c"},    {"ab+?c", "ab"},
	{"x(a(b)c)yz", "yz"}, {"(\\()ab", "ab"},
	{"a\\/b", "a/b"},     {"a\\tbc", "bc"},
};

static void test_must(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(must_rows); i++) {
		auto_free char *must = ere_must(must_rows[i].pattern);
		if (strcmp(must, must_rows[i].must) != 0)
			fail_msg("%s: \"%s\"", must_rows[i].pattern, must);
	}
}

static const struct {
	const char *line, *parts; /* with | between them */
	bool unclear, writes;
} command_rows[] = {
	{"git status", "git status", false, false},
	{"a; b && c || d | e & f", "a|b|c|d|e|f", false, false},
	{"a\nb", "a|b", false, false},
	{"(a; b)", "a|b", false, false},
	{"echo 'a;b' \"c|d\"", "echo a;b c|d", false, false},
	{"r\"m\" -rf x", "rm -rf x", false, false},
	{"r\\m x", "rm x", false, false},
	{"rm\tx", "rm x", false, false},
	{"a \\\nb", "a b", false, false},
	{"echo $(id)", NULL, true, false},
	{"echo `id`", NULL, true, false},
	{"echo \"$(id)\"", NULL, true, false},
	{"$X y", NULL, true, false},
	{"echo '$X'", "echo $X", false, false},
	{"diff <(a) b", NULL, true, false},
	{"cat <<E", NULL, true, false},
	{"echo 'a", NULL, true, false},
	{"echo \"a", NULL, true, false},
	{"a > f", NULL, false, true},
	{"a >> f", NULL, false, true},
	{"a >f", NULL, false, true},
	{"a &> f", NULL, false, true},
	{"a >| f", NULL, false, true},
	{"a >&f", NULL, false, true},
	{"a <> f", NULL, false, true},
	{"a 2>&1", "a 2", false, false},
	{"a >&2", "a", false, false},
	{"a >&2x", NULL, false, true},
	{"a >&2\"x\"", NULL, false, true},
	{"a 2>&1|b", "a 2|b", false, false},
	{"a >/dev/null", "a", false, false},
	{"a >/dev/null\"x\"", NULL, false, true},
	{"a >/dev/null/../x", NULL, false, true},
	{"a |& b", "a|b", false, false},
	{"f() { b; }", "f|{ b|}", false, false},
	{"a > /dev/nullx", NULL, false, true},
	{"", "", false, false},
};

static void test_commands(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(command_rows); i++) {
		struct command c;
		auto_buf b = BUF_INIT(1000);
		command_split(command_rows[i].line, &c);
		for (size_t j = 0; j < c.parts.n; j++)
			assert_int_equal(buf_printf(&b, "%s%s", j ? "|" : "", c.parts.v[j]), 0);
		if (c.unclear != command_rows[i].unclear || c.writes != command_rows[i].writes ||
		    (command_rows[i].parts && strcmp(buf_str(&b), command_rows[i].parts) != 0))
			fail_msg("%s: %s%s%s", command_rows[i].line, buf_str(&b), c.unclear ? " unclear" : "",
				 c.writes ? " writes" : "");
		command_done(&c);
	}
}

static const struct {
	const char *policy; /* patterns, with a comma between them */
	bool readonly;
	const char *allowed; /* allowed_tools in the same way, NULL: all */
	const char *tool;
	const char *input; /* NULL: is the tool offered? */
	bool yes;
} policy_rows[] = {
	{"", false, NULL, "Bash", NULL, true},
	{"", false, NULL, "Bash", "{\"command\":\"rm -rf x > y; $Z\"}", true},
	{"", false, "Read", "Bash", NULL, false},
	{"", false, "read", "Read", NULL, true},
	{"", false, "Bash", "BashOutput", NULL, true},
	{"", true, NULL, "Write", NULL, false},
	{"", true, NULL, "Edit", NULL, false},
	{"", true, NULL, "MultiEdit", NULL, false},
	{"", true, NULL, "Bash", NULL, false},
	{"", true, NULL, "BashOutput", NULL, false},
	{"", true, NULL, "Grep", NULL, true},
	{"!Bash", false, NULL, "Bash", NULL, false},
	{"!Bash", false, NULL, "KillShell", NULL, false},
	{"!Bash", false, NULL, "Read", NULL, true},
	{"!Bash(rm *)", false, NULL, "Bash", "{\"command\":\"rm -rf x\"}", false},
	{"!Bash(rm *)", false, NULL, "Bash", "{\"command\":\"ls; rm x\"}", false},
	{"!Bash(rm *)", false, NULL, "Bash", "{\"command\":\"ls > f\"}", true},
	{"Bash(git *)", false, NULL, "Bash", "{\"command\":\"git status\"}", true},
	{"Bash(git *)", false, NULL, "Bash", "{\"command\":\"git\"}", true},
	{"Bash(git:*)", false, NULL, "Bash", "{\"command\":\"git log -1\"}", true},
	{"Bash(git:*)", false, NULL, "Bash", "{\"command\":\"gitx\"}", false},
	{"Bash(git *)", false, NULL, "Bash", "{\"command\":\"git log; rm x\"}", false},
	{"Bash(git *)", false, NULL, "Bash", "{\"command\":\"git log $(rm x)\"}", false},
	{"Bash(git *)", false, NULL, "Bash", "{\"command\":\"git log > f\"}", false},
	{"Bash(git *)", false, NULL, "Bash", "{\"command\":\"git log 2>/dev/null | git x\"}", true},
	{"Bash(git *)", false, NULL, "Bash", "{}", false},
	{"Bash(git *)", false, NULL, "Read", NULL, false},
	{"Bash(git *),Read", false, NULL, "Read", "{\"file_path\":\"/x\"}", true},
	{"Bash(git *),!Bash(git push *)", false, NULL, "Bash", "{\"command\":\"git push -f\"}", false},
	{"Bash,!Bash(rm *)", false, NULL, "Bash", "{\"command\":\"echo $X > f\"}", true},
	{"Bash(git *),Read", true, NULL, "Bash", "{\"command\":\"git log\"}", true},
	{"Bash(git *)", true, NULL, "Write", NULL, false},
	{"*", true, NULL, "Write", NULL, false},
	{"!Read(secret/**)", false, NULL, "Read", "{\"file_path\":\"/w/secret/a\"}", false},
	{"!Read(secret/**)", false, NULL, "Read", "{\"file_path\":\"secret/x/../a\"}", false},
	{"!Read(secret/**)", false, NULL, "Read", "{\"file_path\":\"/w/open\"}", true},
	{"Glob(src/**)", false, NULL, "Glob", "{\"pattern\":\"/etc/*\",\"path\":\"src\"}", false},
	{"Glob(src/**)", false, NULL, "Glob", "{\"pattern\":\"*\",\"path\":\"src\"}", true},
	{"Glob(src/**)", false, NULL, "Glob", "{\"pattern\":\"*\"}", false},
	{"mcp.git.*", false, NULL, "mcp.git.log", "{}", true},
	{"mcp.git.*", false, NULL, "mcp.db.read", "{}", false},
	{"mcp.git.log(x)", false, NULL, "mcp.git.log", "{}", false},
	{"!mcp.git.log(x)", false, NULL, "mcp.git.log", "{}", false},
	{"WebFetch(domain:example.org)", false, NULL, "WebFetch", "{\"url\":\"https://example.org/a\"}", true},
	{"WebFetch(*.example.org)", false, NULL, "WebFetch", "{\"url\":\"https://a.example.org:8080\"}", true},
	{"WebFetch(example.org)", false, NULL, "WebFetch", "{\"url\":\"https://example.org@evil.net/\"}", false},
	{"WebFetch(example.org)", false, NULL, "WebFetch", "{\"url\":\"example.org\"}", false},
};

static void split_into(struct strv *to, const char *text)
{
	for (const char *p = text; *p; p += strcspn(p, ","), p += *p == ',')
		strv_take(to, xstrndup(p, strcspn(p, ",")));
}

static void test_policy(void **state)
{
	(void)state;
	char dir[] = "/w";

	for (size_t i = 0; i < ARRAY_LEN(policy_rows); i++) {
		struct task t = {
			.readonly = policy_rows[i].readonly, .all_tools = !policy_rows[i].allowed, .work_dir = dir};
		const char *name = policy_rows[i].tool, *input = policy_rows[i].input;
		struct tool_result r = TOOL_RESULT_INIT;
		struct policy *p;
		split_into(&t.tool_policy, policy_rows[i].policy);
		split_into(&t.allowed_tools, policy_rows[i].allowed ? policy_rows[i].allowed : "");
		assert_int_equal(policy_new(&t, &p, NULL), 0);
		auto_jdoc d = input ? jdoc_parse(input, strlen(input), NULL) : NULL;
		bool yes = d ? policy_allows(p, name, builtin_find(name), jdoc_root(d), &r)
			     : policy_offers(p, name, builtin_find(name));
		if (yes != policy_rows[i].yes || (d && yes == r.error))
			fail_msg("[%s] %s %s: %d %s", policy_rows[i].policy, name, input ? input : "", yes,
				 buf_str(&r.text));
		tool_result_done(&r);
		policy_free(p);
		strv_done(&t.tool_policy);
		strv_done(&t.allowed_tools);
	}
}

static void test_policy_malformed(void **state)
{
	(void)state;
	static const char *const rows[] = {"", "!", "(x)", "Bash(git", "!Bash(x", " "};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct task t = {0};
		struct err e = ERR_INIT;
		struct policy *p;
		strv_add(&t.tool_policy, rows[i]);
		if (policy_new(&t, &p, &e) == 0)
			fail_msg("\"%s\" was accepted", rows[i]);
		assert_true(e.hint[0]);
		strv_done(&t.tool_policy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_glob),
		cmocka_unit_test(test_glob_is_quick),
		cmocka_unit_test(test_ere),
		cmocka_unit_test(test_must),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_policy_malformed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
