/* Findings: kept in the file's arena up to a number that a person can still read, counted beyond it, and shown in the
 * order of the file with the source line they speak of. Everything of the file that is shown goes through
 * text_neutralise: a file from elsewhere must not drive the reader's terminal. */
#include "state.h"

#include <base/arena.h>
#include <base/buf.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_WIDTH = 160 }; /* bytes of a source line that are shown */

void *arena_grow(struct arena *a, void *v, size_t n, size_t size)
{
	if (v && (n < 4 || (n & (n - 1)) != 0))
		return v;
	void *bigger = arena_alloc(a, (n < 4 ? 4 : n * 2) * size);
	if (v && n)
		memcpy(bigger, v, n * size);
	return bigger;
}

const char *arena_printf(struct arena *a, const char *fmt, ...)
{
	auto_buf b = BUF_INIT(4096);
	va_list ap;

	va_start(ap, fmt);
	int r = buf_vprintf(&b, fmt, ap);
	va_end(ap);
	if (r < 0)
		return "";
	return arena_strndup(a, buf_str(&b), b.len);
}

void diag_add(struct dsl_file *f, enum dsl_severity severity, const char *code, struct dsl_pos pos, const char *hint,
	      const char *fmt, ...)
{
	va_list ap;

	if (severity == DSL_ERROR)
		f->n_errors++;
	else
		f->n_warnings++;
	if (f->n_diags == DSL_DIAGS_MAX)
		return;
	auto_buf b = BUF_INIT(4096);
	va_start(ap, fmt);
	int r = buf_vprintf(&b, fmt, ap);
	va_end(ap);
	auto_buf clean = BUF_INIT(SIZE_MAX / 4);
	(void)text_neutralise(&clean, r < 0 ? fmt : buf_str(&b), r < 0 ? strlen(fmt) : b.len);
	struct dsl_diag d = {
		.code = code,
		.severity = severity,
		.pos = pos.line ? pos : (struct dsl_pos){1, 1},
		.message = arena_strndup(f->state->arena, buf_str(&clean), clean.len),
		.hint = hint,
	};
	ARENA_PUSH(f->state->arena, f->diags, f->n_diags, d);
}

const char *hint_nearest(struct dsl_file *f, const char *word, const char *const *candidates, size_t n,
			 const char *otherwise)
{
	const char *near = f->n_diags < DSL_DIAGS_MAX ? str_nearest(word, candidates, n) : NULL;

	return near ? arena_printf(f->state->arena, "did you mean \"%s\"?", near) : otherwise;
}

const char *hint_nearest_name(struct dsl_file *f, const char *word, const struct names *names, const char *otherwise)
{
	return hint_nearest(f, word, names->order, names->n, otherwise);
}

static int compare_diags(const void *a, const void *b)
{
	const struct dsl_diag *x = a, *y = b;

	if (x->pos.line != y->pos.line)
		return x->pos.line < y->pos.line ? -1 : 1;
	if (x->pos.column != y->pos.column)
		return x->pos.column < y->pos.column ? -1 : 1;
	return strcmp(x->code, y->code);
}

void diag_sort(struct dsl_file *f)
{
	if (f->n_diags)
		qsort(f->diags, f->n_diags, sizeof *f->diags, compare_diags);
}

/* The line of the file, without its end. */
static const char *source_line(const struct dsl_file *f, uint32_t line, size_t *ret_len)
{
	const char *p = f->state->text, *end = p + f->state->len;

	for (uint32_t i = 1; i < line; i++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			return NULL;
		p = nl + 1;
	}
	const char *nl = memchr(p, '\n', (size_t)(end - p));
	size_t len = (size_t)((nl ? nl : end) - p);
	if (len && p[len - 1] == '\r')
		len--;
	*ret_len = len;
	return p;
}

/* Characters in len bytes: continuation bytes do not count. */
static size_t count_characters(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

/* The column as people count: in characters. */
static size_t display_column(const struct dsl_file *f, const struct dsl_diag *d)
{
	size_t len;
	const char *s = source_line(f, d->pos.line, &len);

	return s ? count_characters(s, MIN(len, (size_t)d->pos.column - 1)) + 1 : d->pos.column;
}

/* The source line and, below it, spaces (and tabs where the line has them) up to the caret. A long line is shown from
 * a little before the place. */
static int format_source(struct buf *to, const struct dsl_file *f, const struct dsl_diag *d)
{
	size_t len, from = 0;
	const char *s = source_line(f, d->pos.line, &len);

	if (!s)
		return 0;
	size_t at = MIN(len, (size_t)d->pos.column - 1);
	if (at > SOURCE_WIDTH / 2)
		from = at - SOURCE_WIDTH / 2;
	while (from > 0 && ((unsigned char)s[from] & 0xc0) == 0x80)
		from--;
	int r = buf_puts(to, "  ");
	if (r == 0)
		r = text_neutralise(to, s + from, MIN(len - from, (size_t)SOURCE_WIDTH));
	if (r == 0)
		r = buf_puts(to, "\n  ");
	auto_buf shown = BUF_INIT((size_t)64 * SOURCE_WIDTH);
	if (r == 0)
		r = text_neutralise(&shown, s + from, at - from);
	for (size_t i = 0; r == 0 && i < shown.len; i++)
		if (((unsigned char)shown.data[i] & 0xc0) != 0x80)
			r = buf_putc(to, shown.data[i] == '\t' ? '\t' : ' ');
	return r < 0 ? r : buf_puts(to, "^\n");
}

int dsl_diag_format(struct buf *to, const struct dsl_file *f, const struct dsl_diag *d)
{
	int r = text_neutralise(to, f->name, strlen(f->name));

	if (r == 0)
		r = buf_printf(to, ":%u:%zu: %s %s: %s\n", d->pos.line, display_column(f, d),
			       d->severity == DSL_ERROR ? "error" : "warning", d->code, d->message);
	if (r == 0)
		r = format_source(to, f, d);
	if (r == 0 && d->hint) {
		r = buf_puts(to, "  hint: ");
		if (r == 0)
			r = text_neutralise(to, d->hint, strlen(d->hint));
		if (r == 0)
			r = buf_putc(to, '\n');
	}
	return r;
}

int dsl_diags_format(struct buf *to, const struct dsl_file *f)
{
	size_t found = f->n_errors + f->n_warnings;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_diags; i++)
		r = dsl_diag_format(to, f, &f->diags[i]);
	if (r == 0 && found > f->n_diags)
		r = buf_printf(to, "%zu more findings are not shown\n", found - f->n_diags);
	return r;
}

json_t *dsl_diags_json(const struct dsl_file *f)
{
	json_t *doc = json_object(), *list = json_array();

	json_put_str(doc, "file", f->name);
	json_put_bool(doc, "ok", f->n_errors == 0);
	for (size_t i = 0; i < f->n_diags; i++) {
		const struct dsl_diag *d = &f->diags[i];
		json_t *one = json_object();
		json_put_str(one, "code", d->code);
		json_put_str(one, "severity", d->severity == DSL_ERROR ? "error" : "warning");
		json_put_int(one, "line", d->pos.line);
		json_put_int(one, "column", (long long)display_column(f, d));
		json_put_str(one, "message", d->message);
		json_put_str(one, "hint", d->hint);
		json_array_append_new(list, one);
	}
	json_put(doc, "diagnostics", list);
	return doc;
}
