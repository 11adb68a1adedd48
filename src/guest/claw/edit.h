/* Replacing text in text. */
#pragma once

#include "tool.h"

struct edit {
	char *old_text;
	char *new_text;
	bool all;
};
void edit_done(struct edit *x);

/* Reads old_string, new_string and replace_all. */
bool edit_parse(struct jv input, struct edit *ret, struct tool_result *r);

/* Applies one edit to *text, which is replaced. Fails the result when the old text is missing, or stands there more
 * than once and not all are meant. */
bool edit_apply(char **text, size_t *len, const struct edit *x, struct tool_result *r);
