/* Blocks by tables: a block's properties are rows (name, type, place in the target), so that every kind of block has
 * the same rules and messages. Recovery is by lines: an error skips the property it stands in, with whatever is
 * indented below it, and reading goes on behind. No function here calls itself deeper than the tables nest. */
#include "parser.h"

#include <base/arena.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdio.h>
#include <string.h>

bool block_next(struct parser *p, struct block *b)
{
	uint32_t indent;

	while (lex_line(&p->lx, &indent)) {
		if (indent <= b->parent)
			return false;
		if (b->indent < 0)
			b->indent = indent;
		if (indent == b->indent)
			return true;
		diag_error(
			p->f, "P003", lex_peek(&p->lx)->pos,
			"lines of one block start in the same column; a deeper block follows a line that ends in ':'",
			"indented by %u, but this block's lines are indented by %u", indent, (unsigned)b->indent);
		if (indent < b->indent)
			return true;
		skip_property(p);
	}
	return false;
}

void skip_property(struct parser *p)
{
	uint32_t own = p->lx.indent, indent;

	(void)lex_take(&p->lx);
	while (lex_line(&p->lx, &indent) && indent > own)
		(void)lex_take(&p->lx);
	if (p->lx.open && indent == own && (token_is(lex_peek(&p->lx), '}') || token_is(lex_peek(&p->lx), ']')))
		(void)lex_take(&p->lx);
}

void unexpected(struct parser *p, const struct token *t, const char *wanted)
{
	char name[64];

	if (t->type != TOK_BAD)
		diag_error(p->f, "P001", t->pos, NULL, "expected %s, found %s", wanted,
			   token_name(t, name, sizeof name));
}

void end_line(struct parser *p)
{
	const struct token *t = lex_peek(&p->lx);

	if (t->type == TOK_EOL) {
		(void)lex_take(&p->lx);
		return;
	}
	unexpected(p, t, "the end of the line");
	skip_property(p);
}

bool expect_punct(struct parser *p, char punct, const char *after)
{
	struct token t = *lex_peek(&p->lx);
	char wanted[96];

	if (token_is(&t, punct)) {
		(void)lex_take(&p->lx);
		return true;
	}
	(void)snprintf(wanted, sizeof wanted, "\"%c\" after %s", punct, after);
	unexpected(p, &t, wanted);
	return false;
}

bool expect_block(struct parser *p, const char *what)
{
	const struct token *t = lex_peek(&p->lx);

	if (t->type == TOK_EOL)
		return true;
	if (t->type != TOK_BAD)
		diag_error(p->f, "P001", t->pos, "write its lines below, indented", "%s is a block", what);
	skip_property(p);
	return false;
}

static const struct prop *find_prop(const struct props *props, const struct token *key)
{
	for (size_t i = 0; i < props->n; i++)
		if (strlen(props->v[i].name) == key->len && memcmp(props->v[i].name, key->s, key->len) == 0)
			return &props->v[i];
	return NULL;
}

static void unknown_prop(struct parser *p, const struct props *props, const struct token *key)
{
	const char *names[64];
	char *word = arena_strndup(p->f->state->arena, key->s, MIN(key->len, (size_t)64));

	for (size_t i = 0; i < props->n; i++)
		names[i] = props->v[i].name;
	diag_error(p->f, props->code ? props->code : "P002", key->pos, hint_nearest(p->f, word, names, props->n, NULL),
		   "%s has no property \"%s\"", props->what, word);
}

static bool read_word(struct parser *p, const struct prop *prop, struct dsl_word *ret)
{
	struct dsl_str s;
	const char *names[16] = {NULL};

	if (!read_string(p, EXPAND_EMPTY, &s))
		return false;
	ret->pos = s.pos;
	for (size_t i = 0; i < prop->n_words; i++) {
		names[i] = prop->words[i].name;
		if (strcmp(s.s, names[i]) == 0) {
			ret->v = prop->words[i].value;
			return true;
		}
	}
	struct dsl_state *st = p->f->state;
	const char *all = names[0];
	for (size_t i = 1; i < prop->n_words; i++)
		all = arena_printf(st->arena, "%s, %s", all, names[i]);
	const char *otherwise = arena_printf(st->arena, "use one of %s", all);
	diag_error(p->f, prop->code ? prop->code : "P008", s.pos,
		   hint_nearest(p->f, s.s, names, prop->n_words, otherwise), "\"%.100s\" is no value of \"%s\"", s.s,
		   prop->name);
	return true;
}

static bool read_word_list(struct parser *p, struct dsl_list *ret)
{
	if (token_is(lex_peek(&p->lx), '['))
		return read_list(p, ret);
	struct dsl_str one;
	if (!read_string(p, EXPAND_EMPTY, &one))
		return false;
	*ret = (struct dsl_list){.pos = one.pos};
	ARENA_PUSH(p->f->state->arena, ret->v, ret->n, one);
	return true;
}

/* A value that ends with its line. */
static bool read_value(struct parser *p, const struct prop *prop, void *field)
{
	switch (prop->type) {
	case PROP_NAME:
	case PROP_STRING:
		return read_string(p, EXPAND_EMPTY, field);
	case PROP_COMMAND:
		return read_quoted(p, EXPAND_KEEP, &((struct dsl_text *)field)->src);
	case PROP_WORD:
		return read_word(p, prop, field);
	case PROP_INT:
		return read_int(p, field);
	case PROP_NUM:
		return read_num(p, field);
	case PROP_BOOL:
		return read_bool(p, field);
	case PROP_LIST:
		return read_list(p, field);
	case PROP_WORD_LIST:
		return read_word_list(p, field);
	case PROP_MAP:
	case PROP_BLOCK:
	case PROP_READ:
		break;
	}
	return false;
}

/* The value of a known property, behind its colon. */
static void read_prop(struct parser *p, const struct prop *prop, const struct token *key, void *target)
{
	void *field = (char *)target + prop->offset;

	if (prop->type == PROP_READ) {
		prop->read(p, key, field);
	} else if (prop->type == PROP_MAP) {
		if (expect_block(p, prop->name)) {
			((struct dsl_map *)field)->pos = key->pos;
			read_map(p, field);
		}
	} else if (prop->type == PROP_BLOCK) {
		if (!expect_block(p, prop->name))
			return;
		*(struct dsl_pos *)field = key->pos;
		/* The table's offsets count from the start of the block's own struct. */
		read_props(p, prop->sub, field, NULL);
	} else if (read_value(p, prop, field)) {
		end_line(p);
	} else {
		/* Written, if badly: nobody must say that it is missing. */
		if (prop->type == PROP_COMMAND)
			((struct dsl_text *)field)->src.pos = key->pos;
		skip_property(p);
	}
}

/* One line of a block: NAME ":" value. */
static void read_line(struct parser *p, const struct props *props, void *target, uint64_t *seen)
{
	if (props->other && props->other(p, target))
		return;
	struct token key = lex_take(&p->lx);
	if (key.type != TOK_IDENT) {
		unexpected(p, &key, arena_printf(p->f->state->arena, "a property of %s", props->what));
		skip_property(p);
		return;
	}
	const struct prop *prop = find_prop(props, &key);
	if (!prop) {
		unknown_prop(p, props, &key);
		skip_property(p);
		return;
	}
	if (!expect_punct(p, ':', prop->name)) {
		skip_property(p);
		return;
	}
	uint64_t bit = UINT64_C(1) << (prop - props->v);
	if (*seen & bit)
		diag_error(p->f, "P009", key.pos, "keep one of them", "%s gives \"%s\" twice", props->what, prop->name);
	*seen |= bit;
	read_prop(p, prop, &key, target);
}

void read_props(struct parser *p, const struct props *props, void *target, size_t *n_read)
{
	struct block b = BLOCK_BELOW(p->lx.indent);
	uint64_t seen = 0;
	size_t n = 0;

	for (; block_next(p, &b); n++)
		read_line(p, props, target, &seen);
	if (n_read)
		*n_read = n;
}
