/* The command line of `claude`. */
#pragma once

#include <base/str.h>
#include <jansson.h>
#include <stdbool.h>

struct dsl_node;
struct dsl_workflow;

/* What it is made from; borrowed; NULL: none. */
struct claude_wish {
	const struct dsl_node *node;
	const struct dsl_workflow *workflow;
	const char *model;
	const json_t *schema;
	const char *system_file; /* where it runs */
	const char *mcp_file;
	const struct strv *mcp_tools; /* names of servers' tools, as claude knows them: allowed without asking */
	const char *resume;
	bool fork;
	bool isolated; /* in a sandbox: it may do anything there */
};

/* Its permission mode for the wish: NULL for its own default. */
const char *claude_permission_mode(const struct claude_wish *w);
/* Appends the arguments behind the program. */
void claude_arguments(const struct claude_wish *w, struct strv *argv);
