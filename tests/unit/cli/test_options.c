/* The option parser over a table: what it takes, what it refuses and what it says then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "command.h"

#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdio.h>
#include <string.h>

struct opts {
	bool json;
	bool all;
	const char *name;
	const char *mode;
	struct strv list;
	unsigned long long count;
	unsigned long long time_ms;
};

static const char *const modes[] = {"auto", "none", NULL};
static const struct option_row rows[] = {
	{.name = "json", .letter = 'j', .kind = OPTION_FLAG, .offset = offsetof(struct opts, json)},
	{.name = "all", .letter = 'a', .kind = OPTION_FLAG, .offset = offsetof(struct opts, all)},
	{.name = "name", .letter = 'n', .kind = OPTION_STRING, .value = "NAME", .offset = offsetof(struct opts, name)},
	{.name = "mode", .kind = OPTION_WORD, .value = "MODE", .words = modes, .offset = offsetof(struct opts, mode)},
	{.name = "item", .letter = 'i', .kind = OPTION_LIST, .value = "ITEM", .offset = offsetof(struct opts, list)},
	{.name = "count", .kind = OPTION_UINT, .value = "N", .offset = offsetof(struct opts, count)},
	{.name = "time", .kind = OPTION_DURATION, .value = "TIME", .offset = offsetof(struct opts, time_ms)},
	OPTIONS_END,
};
static const struct command plain = {.name = "test",
				     .operands = "A [B]",
				     .options = rows,
				     .options_size = sizeof(struct opts),
				     .min_args = 1,
				     .max_args = 2};
static const struct command runner = {.name = "test",
				      .operands = "-- PROGRAM",
				      .options = rows,
				      .options_size = sizeof(struct opts),
				      .max_args = 1,
				      .takes_program = true};

/* One text for everything that was parsed, so that a table row can say what is expected. */
static void describe(const struct parsed *p, char *to, size_t size)
{
	const struct opts *o = p->options;
	size_t n = 0;

	n += (size_t)snprintf(to + n, size - n, "%s%s", o->json ? "json " : "", o->all ? "all " : "");
	if (o->name)
		n += (size_t)snprintf(to + n, size - n, "name=%s ", o->name);
	if (o->mode)
		n += (size_t)snprintf(to + n, size - n, "mode=%s ", o->mode);
	for (size_t i = 0; i < o->list.n; i++)
		n += (size_t)snprintf(to + n, size - n, "item=%s ", o->list.v[i]);
	if (o->count)
		n += (size_t)snprintf(to + n, size - n, "count=%llu ", o->count);
	if (o->time_ms)
		n += (size_t)snprintf(to + n, size - n, "time=%llu ", o->time_ms);
	for (size_t i = 0; i < p->inv.n_args; i++)
		n += (size_t)snprintf(to + n, size - n, "<%s>", p->inv.args[i]);
	for (size_t i = 0; i < p->inv.n_program; i++)
		n += (size_t)snprintf(to + n, size - n, "{%s}", p->inv.program[i]);
}

enum { MAX_WORDS = 10 };

static size_t count(const char *const *words)
{
	size_t n = 0;

	while (n < MAX_WORDS && words[n])
		n++;
	return n;
}

static void takes(void **state)
{
	static const struct {
		const struct command *c;
		const char *words[MAX_WORDS];
		const char *result;
	} cases[] = {
		{&plain, {"x"}, "<x>"},
		{&plain, {"--json", "x"}, "json <x>"},
		{&plain, {"x", "--json", "y"}, "json <x><y>"},
		{&plain, {"--name", "n", "x"}, "name=n <x>"},
		{&plain, {"--name=n", "x"}, "name=n <x>"},
		{&plain, {"--name=a=b", "x"}, "name=a=b <x>"},
		{&plain, {"--name", "--json", "x"}, "name=--json <x>"},
		{&plain, {"--name", "a", "--name", "b", "x"}, "name=b <x>"},
		{&plain, {"-n", "v", "x"}, "name=v <x>"},
		{&plain, {"-nv", "x"}, "name=v <x>"},
		{&plain, {"-ja", "x"}, "json all <x>"},
		{&plain, {"-jan", "v", "x"}, "json all name=v <x>"},
		{&plain, {"-janv", "x"}, "json all name=v <x>"},
		{&plain, {"-i", "1", "--item=2", "-i3", "x"}, "item=1 item=2 item=3 <x>"},
		{&plain, {"--mode", "auto", "x"}, "mode=auto <x>"},
		{&plain, {"--count", "17", "--time", "1m30s", "x"}, "count=17 time=90000 <x>"},
		{&plain, {"--", "--json", "-x"}, "<--json><-x>"},
		{&plain, {"x", "--", "y"}, "<x><y>"},
		{&plain, {"-"}, "<->"},
		{&runner, {"--", "ls", "--json", "--", "-x"}, "{ls}{--json}{--}{-x}"},
		{&runner, {"f", "-j", "--", "ls"}, "json <f>{ls}"},
		{&runner, {"--"}, ""},
		{&runner, {"f"}, "<f>"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		auto_parsed p = {0};
		char text[512] = "";
		assert_int_equal(options_parse(cases[i].c, count(cases[i].words), cases[i].words, &p, &e), 0);
		describe(&p, text, sizeof text);
		assert_string_equal(text, cases[i].result);
	}
}

static void refuses(void **state)
{
	static const struct {
		const struct command *c;
		const char *words[MAX_WORDS];
		const char *msg;
		const char *hint;
	} cases[] = {
		{&plain, {"--jsn", "x"}, "--jsn", "--json"},
		{&plain, {"--nam=1", "x"}, "--nam=1", "--name"},
		{&plain, {"--js", "x"}, "no such option", "--help"},
		{&plain, {"--hlep"}, "no such option", "--help"},
		{&plain, {"--qqqqqq", "x"}, "--qqqqqq", "--help"},
		{&plain, {"-z", "x"}, "-z", "--help"},
		{&plain, {"-jz", "x"}, "-jz", "--help"},
		{&plain, {"--name"}, "missing", "--name NAME"},
		{&plain, {"-n"}, "missing", "-n NAME"},
		{&plain, {"--name", "--", "x"}, "missing", "--name NAME"},
		{&plain, {"--name=", "x"}, "empty", "--name NAME"},
		{&plain, {"--name", "", "x"}, "empty", "--name NAME"},
		{&plain, {"--json=1", "x"}, "no value", "--json"},
		{&plain, {"--mode", "atuo", "x"}, "auto or none", "auto"},
		{&plain, {"--mode", "zzz", "x"}, "auto or none", "--help"},
		{&plain, {"--count", "-1", "x"}, "-1", "--help"},
		{&plain, {"--count", "1x", "x"}, "1x", "--help"},
		{&plain, {"--count", "99999999999999999999", "x"}, "9999", "--help"},
		{&plain, {"--time", "10", "x"}, "duration", "30m"},
		{&plain, {NULL}, "A [B]", "--help"},
		{&plain, {"x", "y", "z"}, "z", "A [B]"},
		{&runner, {"f", "g"}, "g", "-- PROGRAM"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		auto_parsed p = {0};
		assert_true(options_parse(cases[i].c, count(cases[i].words), cases[i].words, &p, &e) < 0);
		assert_int_equal(e.kind, ERR_USAGE);
		if (!strstr(e.msg, cases[i].msg))
			fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i].msg, e.msg);
		if (!strstr(e.hint, cases[i].hint))
			fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i].hint, e.hint);
	}
}

static void help_comes_first(void **state)
{
	static const char *const yes[][4] = {{"--help"}, {"-h"}, {"--no-such", "--help"}, {"x", "y", "z", "-h"}};
	static const char *const no[][4] = {{"--", "--help"}, {"x", "--", "-h"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		auto_parsed p = {0};
		size_t n = 0;
		while (n < 4 && yes[i][n])
			n++;
		assert_int_equal(options_parse(&plain, n, yes[i], &p, NULL), 0);
		assert_true(p.help);
	}
	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		auto_parsed p = {0};
		size_t n = 0;
		while (n < 4 && no[i][n])
			n++;
		assert_int_equal(options_parse(&plain, n, no[i], &p, NULL), 0);
		assert_false(p.help);
	}
}

static void commands_are_found(void **state)
{
	static const struct {
		const char *words[4];
		const char *name; /* NULL: none */
		size_t used;
	} cases[] = {
		{{"version", "--json"}, "version", 1},
		{{"sandbox", "exec", "f"}, "sandbox exec", 2},
		{{"sandbox", "network", "check", "h"}, "sandbox network check", 3},
		{{"sandbox"}, NULL, 1},
		{{"sandbox", "--help"}, NULL, 1},
		{{"--help"}, NULL, 0},
		{{NULL}, NULL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		size_t n = 0, used;
		while (n < 4 && cases[i].words[n])
			n++;
		const struct command *c = command_find(n, cases[i].words, &used, &e);
		assert_int_equal(e.kind, ERR_NONE);
		assert_int_equal(used, cases[i].used);
		if (cases[i].name)
			assert_string_equal(c->name, cases[i].name);
		else
			assert_null(c);
	}
}

/* What a table must hold for parser and help to work: every command says enough about itself. */
static void tables_are_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_commands; i++) {
		const struct command *c = commands[i];
		assert_non_null(c->run);
		assert_true(strlen(c->summary) > 5 && strlen(c->about) > 20);
		assert_true(c->max_args >= c->min_args);
		for (const struct option_row *o = c->options; o && o->name; o++) {
			assert_true(o->offset < c->options_size);
			assert_true(o->help && strlen(o->help) > 4);
			assert_true((o->value == NULL) == (o->kind == OPTION_FLAG));
			assert_true((o->words != NULL) == (o->kind == OPTION_WORD));
			assert_string_not_equal(o->name, "help");
			assert_int_not_equal(o->letter, 'h');
			for (const struct option_row *p = c->options; p != o; p++) {
				assert_string_not_equal(p->name, o->name);
				assert_true(!o->letter || p->letter != o->letter);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes),
		cmocka_unit_test(refuses),
		cmocka_unit_test(help_comes_first),
		cmocka_unit_test(commands_are_found),
		cmocka_unit_test(tables_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
