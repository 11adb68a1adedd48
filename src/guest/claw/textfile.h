/* Files as the editing tools see them. */
#pragma once

#include "tool.h"

#include <sys/stat.h>

enum { TEXT_MAX = 16 * 1024 * 1024 }; /* largest file that is edited */

/* Opens a regular file for reading, without blocking on anything else. The descriptor, or -1 after failing r. */
int text_open(const char *path, struct stat *ret, struct tool_result *r);

/* Reads a whole file that may be edited: it was read before and is the same still. */
bool text_load(struct tools *t, const char *path, char **ret, size_t *ret_len, struct tool_result *r);

/* Puts data in place of the file in one step, its mode (and as far as allowed its owner) kept; a symlink stays one and
 * its target is replaced. Folders that are missing are made. Notes the new file as read. */
bool text_store(struct tools *t, const char *path, const char *data, size_t len, struct tool_result *r);
