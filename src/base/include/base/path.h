/* Paths as text; nothing here touches the file system. */
#pragma once

#include <stdbool.h>

/* Absolute path without "//", "." and ".." (".." at the root stays there); the caller frees.
 * Only for paths that hold no symlinks, or where the text itself is what counts. NULL when path is not absolute. */
char *path_clean(const char *path);

/* a/b with one slash between; b alone when it is absolute or a is empty; the caller frees. */
char *path_join(const char *a, const char *b);

/* Whether path is dir itself or below it; both clean and absolute. */
bool path_within(const char *path, const char *dir);

/* The part behind the last slash; points into path. */
const char *path_base(const char *path);

/* The folder that holds a clean absolute path ("/" for "/"); the caller frees. */
char *path_parent(const char *path);
