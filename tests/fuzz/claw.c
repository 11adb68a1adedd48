/* Fuzz target: what the agent runner reads. The first byte chooses: an envelope (and the task, the conversation and the
 * open step in it), or patterns and commands. Whatever the bytes are: no crash; every value is a document by itself;
 * each text that is written anew reads as itself; a conversation that is taken is taken again when it is written. */
#include "chat.h"
#include "command.h"
#include "ere.h"
#include "glob.h"
#include "step.h"
#include "task.h"
#include "wire.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void text_again(struct jv v)
{
	size_t len, again_len;
	auto_free char *text = jv_text(v, &len);
	auto_buf b = BUF_INIT(SIZE_MAX);
	struct jout o = {.b = &b};

	jout_text(&o, text, len);
	auto_jdoc d = jdoc_parse(b.data, b.len, NULL);
	require(d != NULL);
	auto_free char *again = jv_text(jdoc_root(d), &again_len);
	require(again && again_len == len && memcmp(again, text, len) == 0);
}

/* Every value below v, to a depth at which the cost of reading each again stays small. */
static void walk(struct jv v, int depth)
{
	size_t len, again_len;
	const char *raw = jv_raw(v, &len);
	auto_jdoc d = jdoc_parse(raw, len, NULL);

	require(d && jv_type(jdoc_root(d)) == jv_type(v));
	const char *again = jv_raw(jdoc_root(d), &again_len);
	require(again_len == len && memcmp(again, raw, len) == 0);
	if (jv_type(v) == J_STRING)
		text_again(v);
	for (struct jv x = jv_first(v); depth < 4 && x.doc; x = jv_next(x))
		walk(x, depth + 1);
}

static void conversation(struct jv messages)
{
	struct chat c = {0}, again = {0};
	auto_buf b = BUF_INIT(SIZE_MAX);
	struct jout o = {.b = &b};
	struct step s;

	if (chat_load(&c, messages, NULL) == 0) {
		jout_open(&o, '[');
		chat_write(&c, 0, c.n, &o);
		jout_close(&o, ']');
		auto_jdoc d = jdoc_parse(b.data, b.len, NULL);
		require(d && chat_load(&again, jdoc_root(d), NULL) == 0 && again.n == c.n && again.bytes == c.bytes);
		if (step_reopen(&s, &c) == 1) {
			require(s.n > 0 && !step_complete(&s));
			chat_say(&c, "x", 1);
		}
		step_done(&s);
	}
	chat_done(&c);
	chat_done(&again);
}

static void envelope(const char *line, size_t len)
{
	struct envelope env;
	struct task task;
	struct jdoc *doc;

	if (envelope_parse(line, len, &doc, &env, NULL) < 0)
		return;
	walk(jdoc_root(doc), 0);
	if (task_parse(env.data, &task, NULL) == 0)
		task_done(&task);
	conversation(jv_get(env.data, "conversation"));
	free(env.type);
	free(env.id);
	jdoc_free(doc);
}

static size_t repetitions(const char *pattern)
{
	size_t n = 0;

	for (const char *p = pattern; (p = strpbrk(p, "*+?")); p++)
		n++;
	return n;
}

/* A line that matches holds what it must hold. */
static void must_is_there(const char *pattern, const char *ere, const char *line)
{
	regex_t re;

	auto_free char *must = ere_must(pattern);
	if (regcomp(&re, ere, REG_EXTENDED | REG_NOSUB))
		return;
	if (strlen(line) < 200 && regexec(&re, line, 0, NULL, 0) == 0)
		require(strstr(line, must) != NULL);
	regfree(&re);
}

static void patterns(const char *text, size_t len)
{
	auto_free char *pattern = xstrndup(text, len);
	size_t at = strlen(pattern);
	auto_free char *path = at < len ? xstrndup(text + at + 1, len - at - 1) : xstrdup("a/b");
	auto_buf ere = BUF_INIT(SIZE_MAX);
	const char *why = NULL;
	struct command c;

	bool good = ere_write(&ere, pattern, &why);
	require(good == !why);
	/* The C library's memory grows with the product of counts, and by powers with repeated repetition. */
	if (good && !strchr(pattern, '{') && repetitions(pattern) < 5 && at < 200)
		must_is_there(pattern, buf_str(&ere), path);
	struct glob *g = glob_new(pattern);
	if (g)
		(void)glob_match(g, path);
	glob_free(g);
	command_split(pattern, &c);
	for (size_t i = 0; i < c.parts.n; i++)
		require(c.parts.v[i][0] != '\0' && strlen(c.parts.v[i]) <= len);
	command_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size: the sanitizer sees a read one byte too far. */
	char *copy = size > 1 ? xmemdup(data + 1, size - 1) : NULL;

	if (!copy)
		return 0;
	if (data[0] % 2)
		patterns(copy, size - 1);
	else
		envelope(copy, size - 1);
	free(copy);
	return 0;
}
