/* The parser: one pass over the file by indentation, declarations by keyword, their lines by tables (block.c). An
 * error is recorded with its place, the property it stands in is skipped, and parsing goes on, so that one run tells
 * all. The whole tree lives in one arena and is freed in one step. */
#include "parser.h"

#include <base/arena.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/expr.h>

#include <base/err.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool read_declared(struct parser *p, const char *what, struct dsl_str *ret)
{
	if (!read_name(p, arena_printf(p->f->state->arena, "the name of the %s", what), ret) ||
	    !expect_punct(p, ':', "the name")) {
		skip_property(p);
		return false;
	}
	return true;
}

void add_name(struct parser *p, struct names *names, const struct dsl_str *name, void *value, const char *what,
	      const char *code)
{
	/* Every declaration begins with its name, but for nodes, whose kind comes first and which have an own check. */
	const struct dsl_str *earlier = names_add(names, p->f->state->arena, name->s, value);

	if (earlier)
		diag_error(p->f, code, name->pos, "rename one of them", "the %s \"%s\" is declared already, in line %u",
			   what, name->s, earlier->pos.line);
}

void make_text(struct parser *p, enum template_lang lang, const struct dsl_str *src, struct dsl_text *ret)
{
	struct err e = ERR_INIT;
	size_t offset = 0;

	ret->src = *src;
	ret->t = NULL;
	if (src->s && template_parse(p->f->state->arena, src->s, src->len, lang, &ret->t, &offset, &e) < 0)
		diag_error(p->f, "C004", dsl_str_pos(src, offset),
			   e.hint[0] ? arena_printf(p->f->state->arena, "%s", e.hint) : NULL, "%s", e.msg);
}

void make_expr(struct parser *p, unsigned flags, const struct dsl_str *src, struct dsl_expr *ret)
{
	struct err e = ERR_INIT;
	size_t offset = 0;

	ret->src = *src;
	ret->x = NULL;
	if (src->s && expr_compile(p->f->state->arena, src->s, src->len, flags, &ret->x, &offset, &e) < 0)
		diag_error(p->f, "C040", dsl_str_pos(src, offset),
			   e.hint[0] ? arena_printf(p->f->state->arena, "%s", e.hint) : NULL, "%s", e.msg);
}

static const struct {
	const char *keyword;
	void (*parse)(struct parser *p, const struct token *key, void *unused);
} declarations[] = {
	{"vars", parse_vars},	  {"presets", parse_presets},	{"attachments", parse_attachments},
	{"prompt", parse_prompt}, {"schema", parse_schema},	{"mcp_server", parse_mcp_server},
	{"agent", parse_node},	  {"judge", parse_node},	{"router", parse_node},
	{"human", parse_node},	  {"tool", parse_node},		{"compute", parse_node},
	{"cursor", parse_cursor}, {"workflow", parse_workflow},
};

static void parse_declaration(struct parser *p)
{
	struct token key = lex_take(&p->lx);
	const char *names[ARRAY_LEN(declarations)];

	if (key.type != TOK_IDENT) {
		unexpected(p, &key, "a declaration");
		skip_property(p);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(declarations); i++) {
		names[i] = declarations[i].keyword;
		if (strlen(names[i]) == key.len && memcmp(names[i], key.s, key.len) == 0) {
			declarations[i].parse(p, &key, NULL);
			return;
		}
	}
	char *word = arena_strndup(p->f->state->arena, key.s, MIN(key.len, (size_t)64));
	diag_error(p->f, "P002", key.pos,
		   hint_nearest(p->f, word, names, ARRAY_LEN(names),
				"a file holds vars, presets, attachments, prompt, "
				"schema, mcp_server, agent, judge, router, human, tool, compute, cursor and workflow "
				"declarations"),
		   "unknown declaration \"%s\"", word);
	skip_property(p);
}

static void parse_all(struct parser *p)
{
	uint32_t indent;

	while (lex_line(&p->lx, &indent)) {
		if (indent > 0) {
			diag_error(p->f, "P003", lex_peek(&p->lx)->pos, "declarations start in the first column",
				   "an indented line outside of any block");
			skip_property(p);
			continue;
		}
		parse_declaration(p);
	}
}

/* The directive stands in one of the comment lines before anything else. */
static bool find_strict(const char *s, size_t len)
{
	while (len) {
		const char *nl = memchr(s, '\n', len);
		size_t n = nl ? (size_t)(nl - s) : len, i = 0;
		while (i < n && (s[i] == ' ' || s[i] == '\r'))
			i++;
		if (i < n && s[i] != '#')
			return false;
		while (i < n && (s[i] == '#' || s[i] == ' '))
			i++;
		size_t end = n;
		while (end > i && (s[end - 1] == ' ' || s[end - 1] == '\r' || s[end - 1] == '\t'))
			end--;
		if (end - i == strlen("strict-escape: on") && memcmp(s + i, "strict-escape: on", end - i) == 0)
			return true;
		if (!nl)
			break;
		s += n + 1;
		len -= n + 1;
	}
	return false;
}

static struct dsl_pos pos_of(const char *text, size_t at)
{
	struct dsl_pos pos = {1, 1};
	const char *p = text, *end = text + at, *nl;

	for (; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1)
		pos.line++;
	pos.column += (uint32_t)(end - p);
	return pos;
}

/* Where the text stops to be valid UTF-8, len when it does not. Plain ASCII, eight bytes at a time, is most of it. */
static size_t find_bad_utf8(const char *s, size_t len)
{
	size_t i = 0;

	while (i < len) {
		uint64_t word;
		size_t n = 1;
		if (len - i >= 8) {
			memcpy(&word, s + i, 8);
			if ((word & UINT64_C(0x8080808080808080)) == 0) {
				i += 8;
				continue;
			}
		}
		unsigned char c = (unsigned char)s[i];
		if (c >= 0x80)
			n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
		if (n > 1 && !utf8_valid(s + i, MIN(n, len - i)))
			return i;
		i += n;
	}
	return len;
}

/* What no part of a text file may hold. */
static void check_bytes(struct dsl_file *f)
{
	const char *text = f->state->text, *nul = memchr(text, '\0', f->state->len);

	if (nul)
		diag_error(f, "P010", pos_of(text, (size_t)(nul - text)), "the file may not be text", "a NUL byte");
	size_t bad = find_bad_utf8(text, f->state->len);
	if (bad < f->state->len)
		diag_error(f, "P010", pos_of(text, bad), "save the file as UTF-8", "bytes that are not UTF-8");
}

static struct dsl_file *new_file(const char *name)
{
	struct arena *a = arena_new();
	struct dsl_file *f = arena_alloc(a, sizeof *f);

	f->state = arena_alloc(a, sizeof *f->state);
	f->state->arena = a;
	f->state->text = "";
	f->state->literals = json_array();
	if (!f->state->literals)
		abort();
	f->name = arena_strndup(a, name, strlen(name));
	return f;
}

int dsl_parse(const char *file, const char *text, size_t len, const struct dsl_env *env, struct dsl_file **ret)
{
	struct dsl_file *f = new_file(file);

	*ret = f;
	if (len > DSL_FILE_MAX) {
		diag_error(f, "P011", ((struct dsl_pos){1, 1}), NULL, "the file has %zu MiB; the most is %d MiB",
			   len >> 20, DSL_FILE_MAX >> 20);
		return -EINVAL;
	}
	f->state->text = arena_strndup(f->state->arena, text, len);
	f->state->len = len;
	check_bytes(f);
	struct parser p = {.f = f, .env = env, .strict = find_strict(f->state->text, len)};
	lex_init(&p.lx, f, f->state->text, len);
	parse_all(&p);
	graph_link(f);
	diag_sort(f);
	return f->n_errors ? -EINVAL : 0;
}

void dsl_file_free(struct dsl_file *f)
{
	if (!f)
		return;
	json_decref(f->state->literals);
	arena_free(f->state->arena);
}
