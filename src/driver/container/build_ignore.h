/* What a .dockerignore keeps out of a build's context. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct build_ignore;

/* Reads the file's text. NULL-terminated or not does not matter; what cannot be understood keeps nothing out. */
struct build_ignore *build_ignore_new(const char *text, size_t len);
void build_ignore_free(struct build_ignore *g);

/* Whether the path, relative to the context and clean, is kept out: the last line that fits it or a folder above it
 * decides. */
bool build_ignore_matches(const struct build_ignore *g, const char *path);

/* Whether something below a folder that is kept out may be in again, by a line with '!'. */
bool build_ignore_has_exceptions(const struct build_ignore *g);
