/* Replacing text in text: byte for byte, and only where it is clear which place is meant.
 *
 * Models see lines, not line ends: in a file with CRLF, text that is not found as it stands is looked for with its line
 * ends as the file has them. */
#include "args.h"
#include "edit.h"
#include "textfile.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

void edit_done(struct edit *x)
{
	free(x->old_text);
	free(x->new_text);
	*x = (struct edit){0};
}

bool edit_parse(struct jv input, struct edit *ret, struct tool_result *r)
{
	struct edit x = {0};
	bool good = arg_str(input, "old_string", &x.old_text, r) && arg_str(input, "new_string", &x.new_text, r) &&
		    arg_opt_bool(input, "replace_all", &x.all, r);

	if (good && !x.old_text[0])
		good = tool_fail(r, "old_string is empty: Write makes new files.");
	if (good && strcmp(x.old_text, x.new_text) == 0)
		good = tool_fail(r, "old_string and new_string are the same.");
	if (!good) {
		edit_done(&x);
		return false;
	}
	*ret = x;
	return true;
}

static size_t count(const char *text, size_t len, const char *what, size_t what_len)
{
	const char *end = text + len;
	size_t n = 0;

	for (const char *at = text; (at = memmem(at, (size_t)(end - at), what, what_len)); at += what_len)
		n++;
	return n;
}

static char *with_crlf(const char *s)
{
	struct buf b = BUF_INIT(SIZE_MAX);

	for (; *s; s++) {
		if (*s == '\n')
			(void)buf_putc(&b, '\r');
		(void)buf_putc(&b, *s);
	}
	return buf_steal(&b);
}

bool edit_apply(char **text, size_t *len, const struct edit *x, struct tool_result *r)
{
	bool crlf = !strchr(x->old_text, '\r') && strchr(x->old_text, '\n') &&
		    !memmem(*text, *len, x->old_text, strlen(x->old_text)) && memmem(*text, *len, "\r\n", 2);
	auto_free char *what = crlf ? with_crlf(x->old_text) : xstrdup(x->old_text);
	auto_free char *with = crlf ? with_crlf(x->new_text) : xstrdup(x->new_text);
	size_t what_len = strlen(what), n = count(*text, *len, what, what_len);
	const char *end = *text + *len;

	if (n == 0)
		return tool_fail(r, "old_string is not in the file: it must be there exactly, white space included.");
	if (n > 1 && !x->all)
		return tool_fail(r,
				 "old_string is in the file %zu times: give more of what stands around it, or set "
				 "replace_all.",
				 n);
	struct buf b = BUF_INIT(TEXT_MAX);
	bool fits = true;
	const char *from = *text, *at;
	while ((at = memmem(from, (size_t)(end - from), what, what_len))) {
		fits = fits && buf_add(&b, from, (size_t)(at - from)) == 0 && buf_puts(&b, with) == 0;
		from = at + what_len;
	}
	if (!fits || buf_add(&b, from, (size_t)(end - from)) < 0) {
		buf_done(&b);
		return tool_fail(r, "The file would become larger than %d bytes.", TEXT_MAX);
	}
	free(*text);
	*len = b.len;
	*text = buf_steal(&b);
	return true;
}
