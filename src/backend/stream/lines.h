/* Lines of a bounded length out of bytes as they come. */
#pragma once

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>

struct lines {
	struct buf rest; /* the beginning of a line */
};

/* max: the most bytes a line may have. Free with lines_done. */
void lines_init(struct lines *l, size_t max);
void lines_done(struct lines *l);

/* Returns false when no more lines are wanted. The line has neither its newline nor a carriage return before it, and no
 * NUL behind it. */
typedef bool (*lines_sink)(void *arg, const char *line, size_t len);

/* Calls sink for each whole line, empty ones too. 0, or -EMSGSIZE for a longer line: then nothing more can be fed. */
int lines_feed(struct lines *l, const char *data, size_t len, lines_sink sink, void *arg)
	__attribute__((warn_unused_result));
