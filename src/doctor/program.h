/* Asking a program of the host; only for questions, which wait in a process of their own. */
#pragma once

struct buf;

/* By PATH, absolute entries only; NULL: not there. The caller frees. */
char *program_find(const char *name);

/* Runs it with these words (NULL-terminated, at most 8) to its end; said gets what it writes to both outputs. Its exit
 * code, or -errno. */
int program_ask(const char *file, const char *const *words, struct buf *said);
