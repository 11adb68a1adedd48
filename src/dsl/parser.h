/* The parser's state, and reading of values and of blocks by tables. */
#pragma once

#include "lex.h"
#include "state.h"

#include <dsl/parse.h>
#include <dsl/template.h>

struct parser {
	struct dsl_file *f;
	struct lexer lx;
	const struct dsl_env *env;
	bool strict; /* ## strict-escape: on */
};

/* A block's lines: those deeper than parent; all must have the first one's indentation. */
struct block {
	uint32_t parent;
	int64_t indent; /* -1: no line was seen */
};
#define BLOCK_BELOW(line_indent)                                                                                       \
	(struct block)                                                                                                 \
	{                                                                                                              \
		.parent = (line_indent), .indent = -1                                                                  \
	}
/* Goes to the next line of the block; false when there is none. */
bool block_next(struct parser *p, struct block *b);

/* The rest of the line must be empty. */
void end_line(struct parser *p);
/* After an error: leaves the line, whatever is indented deeper than it, and a closing bracket behind that. */
void skip_property(struct parser *p);
bool expect_punct(struct parser *p, char punct, const char *after);
void unexpected(struct parser *p, const struct token *t, const char *wanted);
/* A block must follow: the line has to end here. */
bool expect_block(struct parser *p, const char *what);

/* Whether ${NAME} without a value and a default stays as it is written (text for a shell) or becomes empty. */
enum expand { EXPAND_EMPTY, EXPAND_KEEP };

/* Each reads one value and leaves the lexer behind it. They return false after reporting an error (the rest of the
 * property is to be skipped then). */
bool read_string(struct parser *p, enum expand how, struct dsl_str *ret); /* a string or a bare word */
bool read_quoted(struct parser *p, enum expand how, struct dsl_str *ret); /* a string only */
bool read_name(struct parser *p, const char *what, struct dsl_str *ret);
bool read_key(struct parser *p, struct dsl_str *ret); /* a name or a quoted string, before a colon */
bool read_int(struct parser *p, struct dsl_int *ret);
bool read_num(struct parser *p, struct dsl_num *ret);
bool read_bool(struct parser *p, struct dsl_bool *ret);
bool read_list(struct parser *p, struct dsl_list *ret);
bool read_literal(struct parser *p, struct dsl_literal *ret);
void read_map(struct parser *p, struct dsl_map *ret); /* a block of key: string */

/* Reads the template or expression in src; a bad one is reported and leaves NULL. */
void make_text(struct parser *p, enum template_lang lang, const struct dsl_str *src, struct dsl_text *ret);
void make_expr(struct parser *p, unsigned flags, const struct dsl_str *src, struct dsl_expr *ret);

/* Replaces ${…} in a string that was read. */
void expand_string(struct parser *p, enum expand how, struct dsl_str *s);
/* Gives the escapes of a strict file their meaning. */
void unescape_string(struct parser *p, struct dsl_str *s);

struct word {
	const char *name;
	int value;
};

enum prop_type {
	PROP_NAME,    /* dsl_str: a name, or a string */
	PROP_STRING,  /* dsl_str */
	PROP_COMMAND, /* dsl_text.src, ${…} without a value kept */
	PROP_WORD,    /* dsl_word, of words */
	PROP_INT,
	PROP_NUM,
	PROP_BOOL,
	PROP_LIST,	/* dsl_list: [a, b] */
	PROP_WORD_LIST, /* dsl_list: one string or [a, b] */
	PROP_MAP,	/* dsl_map: a block */
	PROP_BLOCK,	/* a struct that begins with its dsl_pos, by the table sub */
	PROP_READ,	/* by a function of its own, which also ends the line */
};

struct props;
struct prop {
	const char *name;
	enum prop_type type;
	size_t offset; /* of the field in the target */
	const struct word *words;
	size_t n_words;
	const struct props *sub;
	void (*read)(struct parser *p, const struct token *key, void *field);
	const char *code; /* of a wrong word; NULL: P008 */
};

/* The properties of one kind of block. */
struct props {
	const char *what; /* "agent", "budget", for messages */
	const struct prop *v;
	size_t n;
	const char *code; /* of an unknown property; NULL: P002 */
	/* Called with a line that no property begins (an edge); true when it took the line. May be NULL. */
	bool (*other)(struct parser *p, void *target);
};

#define WORDS(w) .words = (w), .n_words = sizeof(w) / sizeof *(w)

/* Reads the block below the current line into target; n_read (may be NULL) gets the number of properties. */
void read_props(struct parser *p, const struct props *props, void *target, size_t *n_read);

/* Declarations, one function a kind; called behind the keyword. */
void parse_vars(struct parser *p, const struct token *key, void *unused);
void parse_attachments(struct parser *p, const struct token *key, void *unused);
void parse_presets(struct parser *p, const struct token *key, void *unused);
void parse_prompt(struct parser *p, const struct token *key, void *unused);
void parse_schema(struct parser *p, const struct token *key, void *unused);
void parse_mcp_server(struct parser *p, const struct token *key, void *unused);
void parse_cursor(struct parser *p, const struct token *key, void *unused);
void parse_node(struct parser *p, const struct token *key, void *unused);
void parse_workflow(struct parser *p, const struct token *key, void *unused);
/* The same blocks inside a workflow, behind their colon. */
void read_vars(struct parser *p, const struct token *key, void *unused);
void read_attachments(struct parser *p, const struct token *key, void *unused);
bool parse_edge(struct parser *p, void *workflow);
/* The value of sandbox:, a word or a block; field is a struct dsl_sandbox *. */
void read_sandbox(struct parser *p, const struct token *key, void *field);

/* NAME ":" behind a keyword, the name added to the index with its declaration. False after an error. */
bool read_declared(struct parser *p, const char *what, struct dsl_str *ret);
void add_name(struct parser *p, struct names *names, const struct dsl_str *name, void *value, const char *what,
	      const char *code);

/* Tables that more than one kind of block has. */
extern const struct props mcp_props, compaction_props;
extern const struct word interaction_words[4];
