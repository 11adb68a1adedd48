/* What names in expressions and templates refer to, and how values are looked up. */
#pragma once

#include <jansson.h>
#include <stddef.h>

enum dsl_ns {
	DSL_NS_VARS,
	DSL_NS_INPUT,
	DSL_NS_OUTPUTS,
	DSL_NS_HISTORY, /* outputs.NODE.history: the array of earlier outputs of that node */
	DSL_NS_ARTIFACTS,
	DSL_NS_ATTACHMENTS, /* an object {path, url, mime, size, sha256} */
	DSL_NS_LOOP,	    /* an object {iteration, max, previous_output} */
	DSL_NS_RUN,
	DSL_NS_FIELD, /* a bare name in a when expression: a field of the source's output */
};
const char *dsl_ns_name(enum dsl_ns ns);

struct dsl_scope {
	/* The value of name in ns: a new reference, or NULL when there is none (which reads as null). name is NULL for
	 * the whole namespace ("{{input}}"). */
	json_t *(*get)(void *arg, enum dsl_ns ns, const char *name);
	void *arg;
};

/* One reference: ns.path[0].path[1]… The first element is the name in ns (of outputs.NODE.history, the node). */
struct dsl_ref {
	enum dsl_ns ns;
	const char *const *path; /* names, and numbers of [i]; "*" for an index that is computed */
	size_t n;
	size_t offset; /* in the text that holds it */
};
