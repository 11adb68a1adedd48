/* Declarations that are not nodes: vars, presets, attachments, prompts, schemas, MCP servers and cursors. */
#include "parser.h"

#include <base/arena.h>
#include <base/err.h>
#include <base/mem.h>
#include <dsl/vars.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* [enum: "a", "b"], behind its opening bracket. */
static bool read_choices(struct parser *p, struct dsl_list *ret)
{
	struct token word = lex_take(&p->lx);

	if (word.type != TOK_IDENT || word.len != 4 || memcmp(word.s, "enum", 4) != 0) {
		unexpected(p, &word, "\"enum\" or \"]\"");
		return false;
	}
	if (!expect_punct(p, ':', "enum"))
		return false;
	*ret = (struct dsl_list){.pos = word.pos};
	for (;;) {
		struct dsl_str item;
		if (!lex_skip_lines(&p->lx))
			return false;
		if (ret->n && token_is(lex_peek(&p->lx), ']'))
			break;
		if (!read_string(p, EXPAND_EMPTY, &item))
			return false;
		ARENA_PUSH(p->f->state->arena, ret->v, ret->n, item);
		if (!lex_skip_lines(&p->lx))
			return false;
		if (token_is(lex_peek(&p->lx), ','))
			(void)lex_take(&p->lx);
		else if (!token_is(lex_peek(&p->lx), ']')) {
			unexpected(p, lex_peek(&p->lx), "\",\" or \"]\" in the enum");
			return false;
		}
	}
	(void)lex_take(&p->lx);
	return true;
}

/* TYPE, TYPE[] and an enum behind it. An unknown type is reported and read as none. */
static bool read_type(struct parser *p, enum dsl_type *ret, struct dsl_list *choices)
{
	static const char *const names[] = {"string", "bool", "int", "float", "json", "string[]"};
	struct dsl_str word;
	char name[80];

	if (!read_name(p, "a type", &word))
		return false;
	(void)snprintf(name, sizeof name, "%s", word.s);
	bool bracket = token_is(lex_peek(&p->lx), '[');
	if (bracket) {
		(void)lex_take(&p->lx);
		if (token_is(lex_peek(&p->lx), ']')) {
			(void)lex_take(&p->lx);
			(void)snprintf(name, sizeof name, "%.70s[]", word.s);
			bracket = token_is(lex_peek(&p->lx), '[');
			if (bracket)
				(void)lex_take(&p->lx);
		}
	}
	*ret = DSL_TYPE_NONE;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			*ret = (enum dsl_type)(i + 1);
	if (*ret == DSL_TYPE_NONE)
		diag_error(p->f, "P008", word.pos,
			   hint_nearest(p->f, name, names, ARRAY_LEN(names),
					"types are string, bool, int, float, json and string[]"),
			   "unknown type \"%s\"", name);
	if (!bracket)
		return true;
	if (*ret != DSL_STRING && *ret != DSL_TYPE_NONE)
		diag_error(p->f, "P007", word.pos, "use string, or leave the enum out", "an enum of type %s", name);
	return read_choices(p, choices);
}

/* Makes the default fit the declared type: a string may hold a number, a list or JSON (that is how values come out of
 * ${…}). */
static void fit_default(struct parser *p, struct dsl_var *v)
{
	struct err e = ERR_INIT;
	json_t *converted;

	if (!v->value.v || v->type == DSL_TYPE_NONE)
		return;
	if (v->type != DSL_STRING && json_is_string(v->value.v) &&
	    dsl_type_parse(v->type, json_string_value(v->value.v), json_string_length(v->value.v), &converted, &e) ==
		    0) {
		if (json_array_append_new(p->f->state->literals, converted) < 0)
			abort();
		v->value.v = converted;
	}
	if (dsl_var_check(v, v->value.v, &e) < 0)
		diag_error(p->f, "P007", v->value.pos, NULL, "the default of \"%s\": %s", v->name.s, e.msg);
}

static bool parse_var(struct parser *p, struct dsl_var *v)
{
	if (!read_key(p, &v->name) || !read_type(p, &v->type, &v->choices))
		return false;
	if (token_is(lex_peek(&p->lx), '=')) {
		(void)lex_take(&p->lx);
		if (!read_literal(p, &v->value))
			return false;
		fit_default(p, v);
	}
	return true;
}

/* A top-level block without a name: the colon behind its keyword, then its lines. */
static void parse_plain(struct parser *p, const char *what, void (*read)(struct parser *, const struct token *, void *))
{
	if (expect_punct(p, ':', what))
		read(p, NULL, NULL);
	else
		skip_property(p);
}

void read_vars(struct parser *p, const struct token *key, void *unused)
{
	struct dsl_state *st = p->f->state;

	(void)key;
	(void)unused;
	if (!expect_block(p, "vars"))
		return;
	struct block b = BLOCK_BELOW(p->lx.indent);
	while (block_next(p, &b)) {
		struct dsl_var *v = arena_alloc(st->arena, sizeof *v);
		bool ok = parse_var(p, v);
		if (v->name.s) {
			ARENA_PUSH(st->arena, p->f->vars, p->f->n_vars, v);
			add_name(p, &st->vars, &v->name, v, "var", "C041");
		}
		if (ok)
			end_line(p);
		else
			skip_property(p);
	}
}

void parse_vars(struct parser *p, const struct token *key, void *unused)
{
	(void)key;
	(void)unused;
	parse_plain(p, "vars", read_vars);
}

static void parse_preset(struct parser *p)
{
	struct dsl_state *st = p->f->state;
	struct dsl_preset *preset = arena_alloc(st->arena, sizeof *preset);

	if (!read_key(p, &preset->name)) {
		skip_property(p);
		return;
	}
	ARENA_PUSH(st->arena, p->f->presets, p->f->n_presets, preset);
	add_name(p, &st->presets, &preset->name, preset, "preset", "C072");
	if (!expect_block(p, "a preset"))
		return;
	struct block b = BLOCK_BELOW(p->lx.indent);
	while (block_next(p, &b)) {
		struct dsl_setting s;
		if (!read_key(p, &s.key) || !read_literal(p, &s.value)) {
			skip_property(p);
			continue;
		}
		ARENA_PUSH(st->arena, preset->values, preset->n, s);
		end_line(p);
	}
}

static void read_presets(struct parser *p, const struct token *key, void *unused)
{
	(void)key;
	(void)unused;
	if (!expect_block(p, "presets"))
		return;
	struct block b = BLOCK_BELOW(p->lx.indent);
	while (block_next(p, &b))
		parse_preset(p);
}

void parse_presets(struct parser *p, const struct token *key, void *unused)
{
	(void)key;
	(void)unused;
	parse_plain(p, "presets", read_presets);
}

static const struct word attachment_words[] = {{"file", DSL_ATTACHMENT_FILE}, {"image", DSL_ATTACHMENT_IMAGE}};

static const struct prop attachment_rows[] = {
	{"description", PROP_STRING, offsetof(struct dsl_attachment, description)},
	{"accept_mime", PROP_LIST, offsetof(struct dsl_attachment, accept_mime)},
	{"required", PROP_BOOL, offsetof(struct dsl_attachment, required)},
};
static const struct props attachment_props = {"an attachment", attachment_rows, ARRAY_LEN(attachment_rows)};

static void parse_attachment(struct parser *p)
{
	struct dsl_state *st = p->f->state;
	struct dsl_attachment *a = arena_alloc(st->arena, sizeof *a);
	struct dsl_str kind;

	if (!read_key(p, &a->name) || !read_name(p, "file or image", &kind)) {
		skip_property(p);
		return;
	}
	a->kind.pos = kind.pos;
	for (size_t i = 0; i < ARRAY_LEN(attachment_words); i++)
		if (strcmp(kind.s, attachment_words[i].name) == 0)
			a->kind.v = attachment_words[i].value;
	if (!a->kind.v)
		diag_error(p->f, "P008", kind.pos, "an attachment is a file or an image",
			   "\"%s\" is no attachment type", kind.s);
	ARENA_PUSH(st->arena, p->f->attachments, p->f->n_attachments, a);
	add_name(p, &st->attachments, &a->name, a, "attachment", "C050");
	if (expect_block(p, "what describes an attachment"))
		read_props(p, &attachment_props, a, NULL);
}

void read_attachments(struct parser *p, const struct token *key, void *unused)
{
	(void)key;
	(void)unused;
	if (!expect_block(p, "attachments"))
		return;
	struct block b = BLOCK_BELOW(p->lx.indent);
	while (block_next(p, &b))
		parse_attachment(p);
}

void parse_attachments(struct parser *p, const struct token *key, void *unused)
{
	(void)key;
	(void)unused;
	parse_plain(p, "attachments", read_attachments);
}

void parse_prompt(struct parser *p, const struct token *key, void *unused)
{
	struct dsl_state *st = p->f->state;
	struct dsl_prompt *prompt = arena_alloc(st->arena, sizeof *prompt);
	struct dsl_str text;

	(void)key;
	(void)unused;
	if (!read_declared(p, "prompt", &prompt->name) || !expect_block(p, "a prompt"))
		return;
	if (!lex_body(&p->lx, p->lx.indent, &text))
		text = (struct dsl_str){.s = "", .pos = prompt->name.pos};
	expand_string(p, EXPAND_KEEP, &text);
	make_text(p, TEMPLATE_TEXT, &text, &prompt->text);
	ARENA_PUSH(st->arena, p->f->prompts, p->f->n_prompts, prompt);
	add_name(p, &st->prompts, &prompt->name, prompt, "prompt", "C041");
}

void parse_schema(struct parser *p, const struct token *key, void *unused)
{
	struct dsl_state *st = p->f->state;
	struct dsl_schema *s = arena_alloc(st->arena, sizeof *s);

	(void)key;
	(void)unused;
	s->index = arena_alloc(st->arena, sizeof *s->index);
	if (!read_declared(p, "schema", &s->name) || !expect_block(p, "a schema"))
		return;
	ARENA_PUSH(st->arena, p->f->schemas, p->f->n_schemas, s);
	add_name(p, &st->schemas, &s->name, s, "schema", "C041");
	struct block b = BLOCK_BELOW(p->lx.indent);
	while (block_next(p, &b)) {
		struct dsl_field field = {0};
		if (!read_key(p, &field.name) || !read_type(p, &field.type, &field.choices)) {
			skip_property(p);
			continue;
		}
		ARENA_PUSH(st->arena, s->fields, s->n, field);
		end_line(p);
	}
	/* Only now: the fields moved while their array grew. */
	for (size_t i = 0; i < s->n; i++)
		if (names_add(s->index, st->arena, s->fields[i].name.s, &s->fields[i]))
			diag_error(p->f, "P009", s->fields[i].name.pos, "keep one of them",
				   "the schema has \"%s\" twice", s->fields[i].name.s);
}

static const struct word transport_words[] = {{"stdio", DSL_STDIO}, {"http", DSL_HTTP}, {"sse", DSL_SSE}};

#define AUTH(field) (offsetof(struct dsl_mcp_server, auth.field) - offsetof(struct dsl_mcp_server, auth))
static const struct prop auth_rows[] = {
	{"type", PROP_STRING, AUTH(type)},
	{"token", PROP_STRING, AUTH(token)},
	{"auth_url", PROP_STRING, AUTH(auth_url)},
	{"token_url", PROP_STRING, AUTH(token_url)},
	{"revoke_url", PROP_STRING, AUTH(revoke_url)},
	{"client_id", PROP_STRING, AUTH(client_id)},
	{"scopes", PROP_LIST, AUTH(scopes)},
};
static const struct props auth_props = {"auth", auth_rows, ARRAY_LEN(auth_rows)};

#define SERVER(field) offsetof(struct dsl_mcp_server, field)
static const struct prop server_rows[] = {
	{"transport", PROP_WORD, SERVER(transport), WORDS(transport_words), .code = "C025"},
	{"command", PROP_STRING, SERVER(command)},
	{"args", PROP_LIST, SERVER(args)},
	{"url", PROP_STRING, SERVER(url)},
	{"env", PROP_MAP, SERVER(env)},
	{"auth", PROP_BLOCK, SERVER(auth), .sub = &auth_props},
	{"sandboxed", PROP_BOOL, SERVER(sandboxed)},
};
static const struct props server_props = {"an mcp_server", server_rows, ARRAY_LEN(server_rows)};

void parse_mcp_server(struct parser *p, const struct token *key, void *unused)
{
	struct dsl_state *st = p->f->state;
	struct dsl_mcp_server *s = arena_alloc(st->arena, sizeof *s);

	(void)key;
	(void)unused;
	if (!read_declared(p, "MCP server", &s->name) || !expect_block(p, "an MCP server"))
		return;
	ARENA_PUSH(st->arena, p->f->mcp_servers, p->f->n_mcp_servers, s);
	add_name(p, &st->mcp_servers, &s->name, s, "MCP server", "C024");
	read_props(p, &server_props, s, NULL);
}

#define CURSOR(field) offsetof(struct dsl_cursor, field)
static const struct prop cursor_rows[] = {
	{"description", PROP_STRING, CURSOR(description)},
	{"values", PROP_MAP, CURSOR(values)},
	{"bands", PROP_MAP, CURSOR(bands)},
};
static const struct props cursor_props = {"a cursor", cursor_rows, ARRAY_LEN(cursor_rows), .code = "C085"};

void parse_cursor(struct parser *p, const struct token *key, void *unused)
{
	struct dsl_state *st = p->f->state;
	struct dsl_cursor *c = arena_alloc(st->arena, sizeof *c);

	(void)key;
	(void)unused;
	if (!read_declared(p, "cursor", &c->name) || !expect_block(p, "a cursor"))
		return;
	ARENA_PUSH(st->arena, p->f->cursors, p->f->n_cursors, c);
	add_name(p, &st->cursors, &c->name, c, "cursor", "C086");
	read_props(p, &cursor_props, c, NULL);
}
