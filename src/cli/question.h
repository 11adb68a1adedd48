/* A question of a human node as a person on a terminal sees it: what is shown, and what a typed line means. */
#pragma once

#include <base/str.h>
#include <stdbool.h>

struct buf;
struct engine_question;

struct question {
	char *id;
	char *node;
	char *instructions; /* NULL: none */
	struct question_field *fields;
	size_t n;
	size_t need; /* so many must be answered */
	size_t at;   /* the field that is asked for */
	struct strv answers;
	struct question *next; /* the asker's */
};

struct question *question_new(const struct engine_question *q);
void question_free(struct question *q);

/* What is shown first, and at the current field. Not neutralised. What goes past the buffer's limit is cut. */
void question_head(const struct question *q, struct buf *to);
void question_prompt(const struct question *q, struct buf *to);

/* What a line (without its newline) says about the field: a new "field=value", which the caller checks and gives to
 * question_take; NULL with *ret_why NULL: the field is left out, which is allowed; NULL with *ret_why: what is wrong.
 */
char *question_line(const struct question *q, const char *line, size_t len, const char **ret_why);

/* The field's answer (taken), or NULL: it is left out. Whether there is one more field to ask for. */
bool question_take(struct question *q, char *answer);

/* Asks for everything again. */
void question_again(struct question *q);
