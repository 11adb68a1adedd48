/* Templates: text with {{references}}, parsed once into pieces, rendered often. What stands between the braces is one
 * reference (vars.x, outputs.node.field, …), `raw` and a reference, or a quoted text, which is how braces themselves
 * are written: {{"{{"}}. In commands and scripts each reference also learns where it stands (place.h). */
#include "place.h"
#include "state.h"

#include "expr_node.h"

#include <base/arena.h>
#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/template.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 200 * 1000 };

struct piece {
	const char *text; /* NULL: a reference */
	size_t len;
	bool raw;
	enum place place;
	struct dsl_ref ref;
};

struct template
{
	enum template_lang lang;
	struct piece *pieces;
	size_t n;
	const struct dsl_ref **refs;
	size_t n_refs;
};

static const struct {
	const char *name;
	size_t min; /* names that must follow */
} spaces[] = {
	[DSL_NS_VARS] = {"vars", 1},
	[DSL_NS_INPUT] = {"input", 0},
	[DSL_NS_OUTPUTS] = {"outputs", 1},
	[DSL_NS_HISTORY] = {"outputs", 1},
	[DSL_NS_ARTIFACTS] = {"artifacts", 1},
	[DSL_NS_ATTACHMENTS] = {"attachments", 1},
	[DSL_NS_LOOP] = {"loop", 2},
	[DSL_NS_RUN] = {"run", 1},
	[DSL_NS_FIELD] = {"", 1},
};

const char *dsl_ns_name(enum dsl_ns ns)
{
	return spaces[ns].name;
}

int ref_namespace(const char *s, size_t len)
{
	for (int i = 0; i < DSL_NS_FIELD; i++)
		if (strlen(spaces[i].name) == len && memcmp(spaces[i].name, s, len) == 0)
			return i;
	return -1;
}

struct reader {
	struct arena *a;
	const char *s;
	size_t at, end; /* inside the braces */
	struct err *e;
};

static void skip_blank(struct reader *r)
{
	while (r->at < r->end && (r->s[r->at] == ' ' || r->s[r->at] == '\t'))
		r->at++;
}

static size_t word_length(const struct reader *r)
{
	size_t n = 0;

	while (r->at + n < r->end) {
		char c = r->s[r->at + n];
		if (c != '_' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9'))
			break;
		n++;
	}
	return n;
}

static int bad(struct reader *r, const char *what, const char *hint)
{
	int code = err_set(r->e, ERR_INPUT, 0, "template {{%.*s}}: %s", (int)MIN(r->end - r->at, (size_t)60),
			   r->s + r->at, what);
	err_hint(r->e, "%s", hint);
	return code;
}

/* .name, .0 or [0] behind the namespace. */
static int read_steps(struct reader *r, const char ***ret, size_t *ret_n)
{
	while (r->at < r->end && (r->s[r->at] == '.' || r->s[r->at] == '[')) {
		bool bracket = r->s[r->at++] == '[';
		size_t n = word_length(r);
		const char *word = arena_strndup(r->a, r->s + r->at, n);
		if (!n || (bracket && strspn(word, "0123456789") != n))
			return bad(r, bracket ? "an index is a number" : "a name is missing behind the dot",
				   "write {{outputs.node.field}} or {{outputs.node.list[0]}}");
		r->at += n;
		if (bracket && (r->at >= r->end || r->s[r->at++] != ']'))
			return bad(r, "\"]\" is missing", "write {{outputs.node.list[0]}}");
		ARENA_PUSH(r->a, *ret, *ret_n, word);
	}
	return 0;
}

static int check_shape(struct reader *r, struct dsl_ref *ref, const char **path)
{
	static const char *const loop_fields[] = {"iteration", "max", "previous_output"};

	if (ref->n < spaces[ref->ns].min)
		return bad(r, "a name is missing",
			   ref->ns == DSL_NS_LOOP ? "write {{loop.name.iteration}}, .max or .previous_output.field"
						  : "write {{vars.x}}, {{outputs.node.field}}, {{run.id}}");
	if (!path)
		return 0;
	if (ref->ns == DSL_NS_LOOP && strcmp(path[1], loop_fields[0]) != 0 && strcmp(path[1], loop_fields[1]) != 0 &&
	    strcmp(path[1], loop_fields[2]) != 0)
		return bad(r, "a loop has iteration, max and previous_output",
			   "write {{loop.name.iteration}}, .max or .previous_output.field");
	if (ref->ns == DSL_NS_OUTPUTS && ref->n > 1 && strcmp(path[1], "history") == 0) {
		ref->ns = DSL_NS_HISTORY;
		memmove(path + 1, path + 2, (--ref->n - 1) * sizeof *path);
	}
	return 0;
}

static int unknown_space(struct reader *r, size_t len)
{
	static const char *const names[] = {"vars", "input", "outputs", "artifacts", "attachments", "loop", "run"};
	const char *word = arena_strndup(r->a, r->s + r->at, MIN(len, (size_t)60));
	const char *near = *word ? str_nearest(word, names, ARRAY_LEN(names)) : NULL;
	int code = bad(r, "this is no reference",
		       "references begin with vars, input, outputs, artifacts, attachments, loop or run; to write the "
		       "braces themselves: {{\"{{\"}}");

	if (near) {
		code = bad(r, "this is no reference", "");
		r->e->hint[0] = '\0';
		err_hint(r->e, "did you mean \"%s\"?", near);
	}
	return code;
}

/* One reference; *p gets it. */
static int read_reference(struct reader *r, struct piece *p)
{
	const char **path = NULL;

	size_t len = word_length(r);
	if (len == 3 && memcmp(r->s + r->at, "raw", 3) == 0 && r->at + 3 < r->end && r->s[r->at + 3] == ' ') {
		p->raw = true;
		r->at += 3;
		skip_blank(r);
		len = word_length(r);
	}
	int ns = ref_namespace(r->s + r->at, len);
	if (ns < 0)
		return unknown_space(r, len);
	p->ref.ns = (enum dsl_ns)ns;
	p->ref.offset = r->at;
	r->at += len;
	int code = read_steps(r, &path, &p->ref.n);
	if (code < 0)
		return code;
	skip_blank(r);
	if (r->at < r->end)
		return bad(r, "unexpected text behind the reference",
			   "one pair of braces holds one reference; compute values in a compute node");
	r->at = p->ref.offset;
	code = check_shape(r, &p->ref, path);
	p->ref.path = path;
	return code;
}

/* {{"text"}} */
static int read_text(struct reader *r, struct piece *p)
{
	char quote = r->s[r->at];
	const char *start = r->s + r->at + 1, *close = memchr(start, quote, r->end - r->at - 1);

	if (!close)
		return bad(r, "a text that does not end", "write {{\"{{\"}}");
	size_t after = (size_t)(close - r->s) + 1;
	p->text = start;
	p->len = (size_t)(close - start);
	while (after < r->end && r->s[after] == ' ')
		after++;
	return after < r->end ? bad(r, "unexpected text behind the quotes", "write {{\"{{\"}}") : 0;
}

/* Where the braces that open at `at` close; quoted text may hold braces. len when they do not. */
static size_t find_close(const char *s, size_t len, size_t at)
{
	char quote = '\0';

	for (size_t i = at; i < len && s[i] != '\n'; i++) {
		if (quote)
			quote = s[i] == quote ? '\0' : quote;
		else if ((s[i] == '"' || s[i] == '\'') && strspn(s + at, " ") == i - at)
			quote = s[i];
		else if (s[i] == '}' && i + 1 < len && s[i + 1] == '}')
			return i;
	}
	return len;
}

static int read_braces(struct reader *r, const char *s, size_t len, size_t at, struct piece *p)
{
	r->at = at + 2;
	r->end = find_close(s, len, at + 2);
	if (r->end == len) {
		r->at = at;
		int code = err_set(r->e, ERR_INPUT, 0, "template: {{ without }} on the same line");
		err_hint(r->e, "close it, or write {{\"{{\"}} for the braces themselves");
		return code;
	}
	skip_blank(r);
	if (r->at < r->end && (s[r->at] == '"' || s[r->at] == '\''))
		return read_text(r, p);
	return read_reference(r, p);
}

static int split(struct reader *r, struct template *t, const char *s, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *open = memmem(s + at, len - at, "{{", 2);
		size_t n = open ? (size_t)(open - s) - at : len - at;
		if (n) {
			struct piece text = {.text = s + at, .len = n};
			ARENA_PUSH(r->a, t->pieces, t->n, text);
		}
		at += n;
		if (!open)
			break;
		struct piece p = {0};
		int code = read_braces(r, s, len, at, &p);
		if (code == 0 && t->n >= PIECES_MAX) {
			r->at = at;
			code = err_set(r->e, ERR_INPUT, 0, "template: more than %d references", PIECES_MAX / 2);
		}
		if (code < 0)
			return code;
		ARENA_PUSH(r->a, t->pieces, t->n, p);
		at = r->end + 2;
	}
	return 0;
}

/* Finds each reference's place in a command or script. */
static int find_places(struct template *t, size_t *ret_offset, struct err *e)
{
	struct shell_scan shell = {0};
	struct script_scan script = {.python = t->lang == TEMPLATE_PYTHON};
	bool is_shell = t->lang == TEMPLATE_SHELL;

	for (size_t i = 0; i < t->n; i++) {
		struct piece *p = &t->pieces[i];
		const char *why = NULL;
		if (p->text) {
			if (is_shell)
				shell_feed(&shell, p->text, p->len);
			else
				script_feed(&script, p->text, p->len);
			continue;
		}
		p->place = is_shell ? shell_place(&shell, &why) : script_place(&script, &why);
		if (p->place != PLACE_REFUSED || p->raw)
			continue;
		*ret_offset = p->ref.offset;
		(void)err_set(e, ERR_INPUT, 0, "template: no value can be put here safely: %s", why);
		err_hint(e, "%s",
			 is_shell ? "put it into a variable first (x={{…}}) and use \"$x\" here"
				  : "put it into a variable first and use that here");
		return -EINVAL;
	}
	return 0;
}

int template_parse(struct arena *a, const char *text, size_t len, enum template_lang lang, const struct template **ret,
		   size_t *ret_offset, struct err *e)
{
	struct err own = ERR_INIT;
	struct template *t = arena_alloc(a, sizeof *t);
	struct reader r = {.a = a, .s = arena_strndup(a, text, len), .e = e ? e : &own};
	size_t offset = 0;

	t->lang = lang;
	int code = split(&r, t, r.s, len);
	offset = r.at;
	const char *nul = lang == TEMPLATE_SHELL ? memchr(text, '\0', len) : NULL;
	if (code == 0 && nul) {
		offset = (size_t)(nul - text);
		code = err_set(r.e, ERR_INPUT, 0, "a command cannot hold a NUL byte");
	}
	if (code == 0 && lang != TEMPLATE_TEXT)
		code = find_places(t, &offset, r.e);
	if (code < 0) {
		if (ret_offset)
			*ret_offset = offset;
		return code;
	}
	for (size_t i = 0; i < t->n; i++)
		if (!t->pieces[i].text)
			ARENA_PUSH(a, t->refs, t->n_refs, &t->pieces[i].ref);
	*ret = t;
	return 0;
}

size_t template_refs(const struct template *t, const struct dsl_ref *const **ret)
{
	*ret = t->refs;
	return t->n_refs;
}

bool template_is_constant(const struct template *t)
{
	return t->n_refs == 0;
}

/* The value of a reference, a new reference; null when it leads nowhere. */
static json_t *resolve(const struct dsl_ref *ref, const struct dsl_scope *scope)
{
	json_t *v = scope->get(scope->arg, ref->ns, ref->n ? ref->path[0] : NULL);

	for (size_t i = 1; v && i < ref->n; i++)
		v = json_is_array(v) && strspn(ref->path[i], "0123456789") == strlen(ref->path[i])
			    ? ref_step_index(v, strtoll(ref->path[i], NULL, 10))
			    : ref_step_name(v, ref->path[i]);
	if (v && ref->ns == DSL_NS_ATTACHMENTS && ref->n == 1 && json_is_object(v))
		v = ref_step_name(v, "path");
	return v ? v : json_null();
}

int text_put(struct buf *to, const json_t *v)
{
	if (!v || json_is_null(v))
		return 0;
	if (json_is_string(v))
		return buf_add(to, json_string_value(v), json_string_length(v));
	char *text = json_compact(v);
	int r = buf_puts(to, text);
	free(text);
	return r;
}

static int put_value(const struct template *t, const struct piece *p, const json_t *v, struct buf *to, struct err *e)
{
	if (t->lang == TEMPLATE_TEXT)
		return text_put(to, v);
	if (p->raw) {
		if (t->lang == TEMPLATE_SHELL && json_is_string(v) &&
		    memchr(json_string_value(v), '\0', json_string_length(v)))
			return err_set(e, ERR_INPUT, 0, "a value with a NUL byte cannot be part of a command");
		return text_put(to, v);
	}
	return t->lang == TEMPLATE_SHELL ? shell_put(to, p->place, v, e)
					 : script_put(to, t->lang == TEMPLATE_PYTHON, p->place, v, e);
}

int template_render(const struct template *t, const struct dsl_scope *scope, struct buf *to, struct err *e)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct piece *p = &t->pieces[i];
		auto_json v = p->text ? NULL : resolve(&p->ref, scope);
		int r = p->text ? buf_add(to, p->text, p->len) : put_value(t, p, v, to, e);
		if (r == -ENOBUFS)
			return err_set(e, ERR_INPUT, ENOBUFS, "the text is larger than %zu bytes", to->max);
		if (r < 0)
			return r;
	}
	return 0;
}

int template_value(const struct template *t, const struct dsl_scope *scope, json_t **ret, struct err *e)
{
	if (t->n == 1 && !t->pieces[0].text) {
		*ret = resolve(&t->pieces[0].ref, scope);
		return 0;
	}
	auto_buf b = BUF_INIT(EXPR_TEXT_MAX);
	int r = template_render(t, scope, &b, e);
	if (r == 0)
		*ret = json_text(buf_str(&b), b.len);
	return r;
}
