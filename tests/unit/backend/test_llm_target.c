/* Which provider is asked, how, and with which key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "llm/target.h"
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <errno.h>
#include <string.h>

#define ANTHROPIC "https://api.anthropic.com/v1/messages"
#define RESPONSES "https://api.openai.com/v1/responses"
#define CHAT "https://api.openai.com/v1/chat/completions"

static const struct row {
	const char *model, *provider;
	const char *env[4];
	const char *url, *name; /* url NULL: an error that holds name */
	const char *header;	/* NULL: no key is sent */
} rows[] = {
	{NULL, NULL, {"ANTHROPIC_API_KEY=a"}, ANTHROPIC, "claude-sonnet-4-5", "x-api-key: a"},
	{NULL, NULL, {"OPENAI_API_KEY=o"}, RESPONSES, "gpt-5.1", "Authorization: Bearer o"},
	{NULL, NULL, {"OPENAI_API_KEY=o", "ANTHROPIC_API_KEY=a"}, ANTHROPIC, "claude-sonnet-4-5", "x-api-key: a"},
	{"claude-x", NULL, {"OPENAI_API_KEY=o", "ANTHROPIC_API_KEY=a"}, ANTHROPIC, "claude-x", "x-api-key: a"},
	{"gpt-x", NULL, {"OPENAI_API_KEY=o", "ANTHROPIC_API_KEY=a"}, RESPONSES, "gpt-x", "Authorization: Bearer o"},
	{"o3", NULL, {"OPENAI_API_KEY=o", "ANTHROPIC_API_KEY=a"}, RESPONSES, "o3", "Authorization: Bearer o"},
	{"anthropic/m", NULL, {"OPENAI_API_KEY=o", "ANTHROPIC_API_KEY=a"}, ANTHROPIC, "m", "x-api-key: a"},
	{"openai/m", NULL, {"OPENAI_API_KEY=o", "ANTHROPIC_API_KEY=a"}, RESPONSES, "m", "Authorization: Bearer o"},
	{"openai-chat/m", NULL, {"OPENAI_API_KEY=o"}, CHAT, "m", "Authorization: Bearer o"},
	{"m", "openai-chat", {"OPENAI_API_KEY=o"}, CHAT, "m", "Authorization: Bearer o"},
	{"claude-x",
	 "openai",
	 {"OPENAI_API_KEY=o", "ANTHROPIC_API_KEY=a"},
	 RESPONSES,
	 "claude-x",
	 "Authorization: Bearer o"},
	{"openai/m", "openai", {"OPENAI_API_KEY=o"}, RESPONSES, "m", "Authorization: Bearer o"},
	/* Tokens come before keys; both names are Anthropic's. */
	{"claude-x",
	 NULL,
	 {"ANTHROPIC_API_KEY=a", "ANTHROPIC_AUTH_TOKEN=t"},
	 ANTHROPIC,
	 "claude-x",
	 "Authorization: Bearer t"},
	/* Servers of one's own. */
	{"claude-x",
	 NULL,
	 {"ANTHROPIC_AUTH_TOKEN=t", "ANTHROPIC_BASE_URL=https://z.example/api/"},
	 "https://z.example/api/v1/messages",
	 "claude-x",
	 "Authorization: Bearer t"},
	{"qwen",
	 NULL,
	 {"OPENAI_BASE_URL=http://localhost:11434/v1"},
	 "http://localhost:11434/v1/chat/completions",
	 "qwen",
	 NULL},
	{"qwen",
	 NULL,
	 {"OPENAI_BASE_URL=http://h/v1", "ANTHROPIC_API_KEY=a"},
	 "http://h/v1/chat/completions",
	 "qwen",
	 NULL},
	{"openai-responses/m", NULL, {"OPENAI_BASE_URL=http://h/v1/"}, "http://h/v1/responses", "m", NULL},
	{"anthropic/claude-x",
	 NULL,
	 {"OPENAI_BASE_URL=http://h/v1", "OPENAI_API_KEY=o"},
	 "http://h/v1/chat/completions",
	 "anthropic/claude-x",
	 "Authorization: Bearer o"},
	{"meta/llama", NULL, {"OPENAI_BASE_URL=http://h/v1"}, "http://h/v1/chat/completions", "meta/llama", NULL},
	/* A host that only begins like the maker's is another one. */
	{"m",
	 "openai",
	 {"OPENAI_API_KEY=o", "OPENAI_BASE_URL=https://api.openai.com.evil/v1"},
	 "https://api.openai.com.evil/v1/chat/completions",
	 "m",
	 "Authorization: Bearer o"},
	{"m",
	 "openai",
	 {"OPENAI_API_KEY=o", "OPENAI_BASE_URL=https://api.openai.com/v1"},
	 RESPONSES,
	 "m",
	 "Authorization: Bearer o"},
	/* Errors. */
	{NULL, NULL, {NULL}, NULL, "no key is set", NULL},
	{NULL, NULL, {"ANTHROPIC_API_KEY="}, NULL, "no key is set", NULL},
	{"claude-x", NULL, {"OPENAI_API_KEY=o"}, NULL, "anthropic: no key", NULL},
	{"gpt-x", NULL, {"ANTHROPIC_API_KEY=a"}, NULL, "openai: no key", NULL},
	{"m", "nobody", {"ANTHROPIC_API_KEY=a"}, NULL, "nobody", NULL},
	{NULL, NULL, {"OPENAI_BASE_URL=http://h/v1"}, NULL, "no model is named", NULL},
};

static void check_found(size_t i, const struct llm_target *t)
{
	const struct row *row = &rows[i];
	bool sent = false;

	for (size_t k = 0; k < t->headers.n; k++) {
		const char *h = t->headers.v[k];
		bool key = str_starts(h, "x-api-key") || str_starts(h, "Authorization");
		if (key && !str_eq(h, row->header))
			fail_msg("row %zu: %s", i, h);
		sent |= key;
	}
	if (!str_eq(t->url, row->url) || !str_eq(t->model, row->name) || sent != (row->header != NULL))
		fail_msg("row %zu: %s %s", i, t->url, t->model);
}

static void test_targets(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct llm_target t = {0};
		struct err e = ERR_INIT;
		int r = llm_target_find(rows[i].model, rows[i].provider, rows[i].env, &t, &e);
		if (rows[i].url) {
			if (r < 0)
				fail_msg("row %zu: %s", i, e.msg);
			check_found(i, &t);
			llm_target_done(&t);
		} else {
			if (r >= 0 || !strstr(e.msg, rows[i].name) || !e.hint[0])
				fail_msg("row %zu: %d %s", i, r, e.msg);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_targets)};

	return cmocka_run_group_tests_name("llm target", tests, NULL, NULL);
}
