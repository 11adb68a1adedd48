/* What a file holds beside its tree, and the helpers that every part of the front end uses. */
#pragma once

#include "names.h"

#include <dsl/ast.h>
#include <dsl/diag.h>

struct arena;

struct dsl_state {
	struct arena *arena;
	const char *text; /* a copy of the whole file */
	size_t len;
	json_t *literals; /* an array that owns the values of dsl_literal */
	struct names vars, presets, attachments, prompts, schemas, mcp_servers, cursors, nodes;
};

/* Room for one more element in an array of the arena that holds n: returns v or a larger copy of it. Capacities are
 * powers of two, so that n tells when to grow. */
void *arena_grow(struct arena *a, void *v, size_t n, size_t size) __attribute__((returns_nonnull));

/* Adds item to the array v that holds n. */
#define ARENA_PUSH(a, v, n, item)                                                                                      \
	do {                                                                                                           \
		(v) = arena_grow((a), (v), (n), sizeof *(v));                                                          \
		(v)[(n)++] = (item);                                                                                   \
	} while (0)

/* Records a finding; hint may be NULL. Past DSL_DIAGS_MAX it is only counted. */
void diag_add(struct dsl_file *f, enum dsl_severity severity, const char *code, struct dsl_pos pos, const char *hint,
	      const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* (file, code, position, hint, format, …) */
#define diag_error(f, ...) diag_add((f), DSL_ERROR, __VA_ARGS__)
#define diag_warning(f, ...) diag_add((f), DSL_WARNING, __VA_ARGS__)

/* Formatted text in the arena, for hints. */
const char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3), returns_nonnull));

/* "did you mean X?" for the nearest candidate, or otherwise (which may be NULL). */
const char *hint_nearest(struct dsl_file *f, const char *word, const char *const *candidates, size_t n,
			 const char *otherwise);
/* The same among the names of an index. */
const char *hint_nearest_name(struct dsl_file *f, const char *word, const struct names *names, const char *otherwise);

/* Sorts the findings by position. */
void diag_sort(struct dsl_file *f);

/* Fills edges' nodes and nodes' edges. */
void graph_link(struct dsl_file *f);
