/* Lines and tokens of a workflow file. */
#pragma once

#include <dsl/text.h>
#include <stdbool.h>
#include <stddef.h>

struct dsl_file;

enum tok {
	TOK_EOL, /* the end of the line, of a comment, or of the file */
	TOK_IDENT,
	TOK_INT,
	TOK_FLOAT,
	TOK_STRING, /* "…" */
	TOK_RAW,    /* `…` */
	TOK_ARROW,  /* -> */
	TOK_PUNCT,  /* one of : , = | . * [ ] { } ( ) in punct */
	TOK_BAD,    /* reported already */
};

struct token {
	enum tok type;
	char punct;
	const char *s; /* the text; of a string without its quotes */
	size_t len;
	struct dsl_pos pos; /* of the first character, for a string of the quote */
};

struct lexer {
	struct dsl_file *f; /* where errors go */
	const char *text;
	size_t len, at;
	uint32_t line;
	size_t line_start;
	bool fresh;	    /* at the start of a line, nothing of it read */
	bool open;	    /* a line was opened and none of its tokens taken */
	uint32_t indent;    /* of that line */
	struct token token; /* the one looked at */
	bool ahead;	    /* token is not taken yet */
};

void lex_init(struct lexer *lx, struct dsl_file *f, const char *text, size_t len);

/* Goes to the first token of the next line that has one (the same line again when none of its tokens was taken).
 * What is left of the current line is skipped. False at the end of the file. */
bool lex_line(struct lexer *lx, uint32_t *ret_indent);

/* Looks at the next token of the line, or takes it. */
const struct token *lex_peek(struct lexer *lx);
struct token lex_take(struct lexer *lx);

/* Takes a name or number as a value, with what stands right behind it: claude-opus-4, alpine:3.19, mcp.gh.*, 2g. */
struct token lex_take_bare(struct lexer *lx);

/* Inside brackets: moves over line ends and comments to the next token. False at the end of the file. */
bool lex_skip_lines(struct lexer *lx);

/* The lines below the current one that are indented deeper than parent (and blank lines among them), joined by
 * newlines without their common indentation; blank lines at the end are left out. False when there is none. */
bool lex_body(struct lexer *lx, uint32_t parent, struct dsl_str *ret);

/* The balanced text that starts at the token looked at, which is [ or {, to its closer; strings are skipped over.
 * Returns its length, 0 when it is not closed before a line that is indented no deeper than the one it started on
 * (so a missing closer costs no more than its own block). Takes nothing. */
size_t lex_balanced(struct lexer *lx);

/* Moves behind n bytes from the start of the token looked at (which is taken by that). */
void lex_jump(struct lexer *lx, size_t n);

/* What to call a token in a message. */
const char *token_name(const struct token *t, char *to, size_t size);

static inline bool token_is(const struct token *t, char punct)
{
	return t->type == TOK_PUNCT && t->punct == punct;
}
