/* One search in the text of files. */
#pragma once

#include "tool.h"

#include <regex.h>

enum grep_mode { GREP_FILES, GREP_CONTENT, GREP_COUNT };

struct grep {
	enum grep_mode mode;
	bool ignore_case, numbers;
	long long before, after;
	long long limit; /* most lines of output, 0 for no other limit than the text's */
	regex_t re;
	const char *must; /* a text (in any case with ignore_case) without which no line matches; NULL: none is known */
	bool literal;	  /* and with which every line does */
	struct buf *to;
	const char *name; /* the file's, as it is shown */
	long long lines;  /* of output so far */
	bool full;	  /* no more is shown */
};

/* Searches one text, which is changed (its newlines become NULs). Returns how many lines match. */
size_t grep_text(struct grep *g, char *text, size_t len);
