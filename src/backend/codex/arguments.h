/* The command line of `codex`. */
#pragma once

#include <base/str.h>
#include <stdbool.h>

struct dsl_node;

/* What it is made from; borrowed; NULL: none. */
struct codex_wish {
	const struct dsl_node *node;
	const char *model;
	const char *schema_file; /* where it runs */
	const char *base_url;	 /* of a provider that is not OpenAI; its key is in CODEX_API_KEY */
	const char *resume;
	bool fork;
	bool isolated; /* in a sandbox of iterion's: it needs none of its own */
};

/* What its commands may do: "read-only", "workspace-write", or "danger-full-access" within a sandbox. */
const char *codex_permission_mode(const struct codex_wish *w);
/* Appends the arguments behind the program. */
void codex_arguments(const struct codex_wish *w, struct strv *argv);
