/* Where in a command or script a value is put, and how it is written there so that it stays a value. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

enum place {
	PLACE_CODE,   /* as a word or literal of its own */
	PLACE_DOUBLE, /* inside "…" */
	PLACE_SINGLE, /* inside '…' */
	PLACE_STRING, /* inside a string of a script, of any kind */
	PLACE_COMMENT,
	PLACE_NUMBER,  /* inside $((…)) */
	PLACE_REFUSED, /* no value can be put here safely */
};

enum { SHELL_FRAMES_MAX = 64, SHELL_HEREDOCS_MAX = 8 };

/* What a POSIX shell (or bash) would be inside of, after the text fed so far. Start with zeroes. */
struct shell_scan {
	struct shell_frame {
		enum { FRAME_CODE, FRAME_DOUBLE, FRAME_COMMAND, FRAME_ARITH, FRAME_PARAM, FRAME_BACKTICK } type;
		unsigned parens;
	} frames[SHELL_FRAMES_MAX];
	size_t depth; /* frames above the first, which is code */
	enum { QUOTE_NONE, QUOTE_SINGLE, QUOTE_ANSI, QUOTE_COMMENT } quote;
	char last; /* the character before, 0 at the start */
	struct {
		const char *word;
		size_t len;
		bool tabs; /* <<-: tabs before the word are skipped */
	} heredocs[SHELL_HEREDOCS_MAX];
	size_t n_heredocs;
	bool in_heredoc;
	const char *lost; /* set: the place is not known any more, and why */
};
void shell_feed(struct shell_scan *s, const char *text, size_t len);
/* A value stands here: the place; *ret_why for PLACE_REFUSED. */
enum place shell_place(struct shell_scan *s, const char **ret_why);
int shell_put(struct buf *to, enum place place, const json_t *v, struct err *e);

enum { SCRIPT_FRAMES_MAX = 64 };

/* The same for JavaScript and Python. */
struct script_scan {
	bool python;
	char quote; /* the string one is in; 0: none */
	bool triple, raw, bytes;
	bool line_comment, block_comment, regex, regex_class;
	char last;			  /* the last character that is no space */
	char word[3];			  /* letters right before a quote: a prefix of a Python string */
	size_t braces[SCRIPT_FRAMES_MAX]; /* open braces in each ${…} of template strings */
	size_t depth;
	const char *lost;
};
void script_feed(struct script_scan *s, const char *text, size_t len);
enum place script_place(struct script_scan *s, const char **ret_why);
int script_put(struct buf *to, bool python, enum place place, const json_t *v, struct err *e);

/* A value as plain text: strings as they are, nothing for null, JSON for lists and objects. */
int text_put(struct buf *to, const json_t *v);
