/* Fuzz target: templates and what is put into them. The first byte chooses the language; then the template, a NUL, and
 * the value. Whatever the value is, a command or script in which it stands must end in the same state (the same quotes
 * and brackets open) as with a plain word in its place: a value that closes a quote would change it. */
#include "place.h"

#include <base/arena.h>
#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <dsl/template.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *get(void *arg, enum dsl_ns ns, const char *name)
{
	(void)ns;
	(void)name;
	return json_incref(arg);
}

static void require(bool what)
{
	if (!what)
		abort();
}

static void compare_shell(const struct buf *a, const struct buf *b)
{
	struct shell_scan x = {0}, y = {0};

	shell_feed(&x, buf_str(a), a->len);
	shell_feed(&y, buf_str(b), b->len);
	/* Past the point where the reading is lost nothing is known, and nothing was put there. */
	if (x.lost || y.lost)
		return;
	require(x.depth == y.depth && x.quote == y.quote && x.in_heredoc == y.in_heredoc);
	for (size_t i = 0; i <= x.depth; i++)
		require(x.frames[i].type == y.frames[i].type && x.frames[i].parens == y.frames[i].parens);
}

static void compare_script(bool python, const struct buf *a, const struct buf *b)
{
	struct script_scan x = {.python = python}, y = {.python = python};

	script_feed(&x, buf_str(a), a->len);
	script_feed(&y, buf_str(b), b->len);
	if (x.lost || y.lost)
		return;
	require(x.quote == y.quote && x.depth == y.depth && x.regex == y.regex);
	require(x.line_comment == y.line_comment && x.block_comment == y.block_comment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum template_lang langs[] = {TEMPLATE_TEXT, TEMPLATE_SHELL, TEMPLATE_JS, TEMPLATE_PYTHON};
	const uint8_t *nul = size ? memchr(data + 1, '\0', size - 1) : NULL;
	struct err e = ERR_INIT;
	const struct template *t;
	size_t offset = 0;

	if (!nul)
		return 0;
	enum template_lang lang = langs[data[0] % 4];
	const char *text = (const char *)data + 1, *value = (const char *)nul + 1;
	size_t len = (size_t)(nul - data) - 1, value_len = size - len - 2;
	struct arena *a = arena_new();
	auto_json hostile = json_text(value, value_len);
	auto_json plain = json_string("x");
	struct dsl_scope one = {.get = get, .arg = hostile}, two = {.get = get, .arg = plain};
	auto_buf out = BUF_INIT((size_t)16 << 20), other = BUF_INIT((size_t)16 << 20);
	if (template_parse(a, text, len, lang, &t, &offset, &e) < 0) {
		require(offset <= len && e.msg[0]);
	} else if (template_render(t, &one, &out, &e) == 0 && template_render(t, &two, &other, &e) == 0 &&
		   !memmem(text, len, "raw", 3)) {
		if (lang == TEMPLATE_SHELL)
			compare_shell(&out, &other);
		else if (lang != TEMPLATE_TEXT)
			compare_script(lang == TEMPLATE_PYTHON, &out, &other);
	}
	arena_free(a);
	return 0;
}
