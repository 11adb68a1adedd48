/* What is wrong with a workflow file. */
#pragma once

#include <dsl/text.h>
#include <jansson.h>
#include <stddef.h>

struct buf;
struct dsl_file;

enum dsl_severity { DSL_ERROR, DSL_WARNING };

enum { DSL_DIAGS_MAX = 100 }; /* kept; more are only counted */

struct dsl_diag {
	const char *code; /* "P001", "C012" */
	enum dsl_severity severity;
	struct dsl_pos pos;
	const char *message;
	const char *hint; /* NULL: none */
};

/* Appends one finding as people read it, in several lines: file:line:column: severity CODE: message, the source line
 * with a caret, and the hint; safe on a terminal. Returns 0 or -ENOBUFS. */
int dsl_diag_format(struct buf *to, const struct dsl_file *f, const struct dsl_diag *d);

/* All findings, and a last line when more were found than kept. */
int dsl_diags_format(struct buf *to, const struct dsl_file *f);

/* {"file","ok","diagnostics":[{"code","severity","line","column","message","hint"?}]}; columns count characters. */
json_t *dsl_diags_json(const struct dsl_file *f);
