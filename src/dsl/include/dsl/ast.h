/* A workflow file as a tree. Everything lives until dsl_file_free; names are resolved by the dsl_find_* functions. */
#pragma once

#include <dsl/node.h>
#include <dsl/text.h>

enum dsl_type { DSL_TYPE_NONE, DSL_STRING, DSL_BOOL, DSL_INT, DSL_FLOAT, DSL_JSON, DSL_STRINGS };

struct dsl_var {
	struct dsl_str name;
	enum dsl_type type;
	struct dsl_list choices;  /* [enum: …]; n 0: any */
	struct dsl_literal value; /* the default; .v NULL: the run must give one */
};

struct dsl_preset {
	struct dsl_str name;
	struct dsl_setting *values;
	size_t n;
};

enum dsl_attachment_kind { DSL_ATTACHMENT_NONE, DSL_ATTACHMENT_FILE, DSL_ATTACHMENT_IMAGE };
struct dsl_attachment {
	struct dsl_str name;
	struct dsl_word kind; /* enum dsl_attachment_kind */
	struct dsl_str description;
	struct dsl_list accept_mime;
	struct dsl_bool required;
};

struct dsl_prompt {
	struct dsl_str name;
	struct dsl_text text;
};

struct dsl_field {
	struct dsl_str name;
	enum dsl_type type;
	struct dsl_list choices;
};
struct dsl_schema {
	struct dsl_str name;
	struct dsl_field *fields;
	size_t n;
	struct names *index; /* the library's own */
};

enum dsl_transport { DSL_TRANSPORT_NONE, DSL_STDIO, DSL_HTTP, DSL_SSE };
struct dsl_mcp_server {
	struct dsl_str name;
	struct dsl_word transport; /* enum dsl_transport */
	struct dsl_str command, url;
	struct dsl_list args;
	struct dsl_map env;
	struct dsl_bool sandboxed;
	struct {
		struct dsl_pos pos; /* line 0: no auth block */
		struct dsl_str type, token, auth_url, token_url, revoke_url, client_id;
		struct dsl_list scopes;
	} auth;
};

struct dsl_cursor {
	struct dsl_str name, description;
	struct dsl_map values; /* word → meaning */
	struct dsl_map bands;  /* "0.0..0.3" → meaning */
};

enum dsl_worktree { DSL_WORKTREE_UNSET, DSL_WORKTREE_AUTO, DSL_WORKTREE_NONE };
struct dsl_workflow {
	struct dsl_str name, entry, default_backend;
	struct dsl_list tool_policy, capabilities;
	struct dsl_word worktree;    /* enum dsl_worktree */
	struct dsl_word interaction; /* enum dsl_interaction */
	struct dsl_mcp mcp;
	struct dsl_budget budget;
	struct dsl_compaction compaction;
	struct dsl_sandbox *sandbox; /* NULL: none written */
	struct dsl_edge **edges;     /* in the order of the file */
	size_t n_edges;
};

struct dsl_diag;

/* Arrays are in the order of the file; those of the workflow's own vars and attachments follow the file's. Pointers to
 * elements are stable. */
struct dsl_file {
	const char *name;
	struct dsl_var **vars;
	struct dsl_preset **presets;
	struct dsl_attachment **attachments;
	struct dsl_prompt **prompts;
	struct dsl_schema **schemas;
	struct dsl_mcp_server **mcp_servers;
	struct dsl_cursor **cursors;
	struct dsl_node **nodes;
	size_t n_vars, n_presets, n_attachments, n_prompts, n_schemas, n_mcp_servers, n_cursors, n_nodes;
	struct dsl_workflow *workflow; /* the first one; NULL only after an error */
	struct dsl_diag *diags;	       /* by position; dsl/diag.h */
	size_t n_diags;		       /* kept */
	size_t n_errors, n_warnings;   /* found, kept or not */
	struct dsl_state *state;       /* the library's own */
};

/* The declaration of a name, or NULL. Constant time. */
const struct dsl_var *dsl_find_var(const struct dsl_file *f, const char *name);
const struct dsl_preset *dsl_find_preset(const struct dsl_file *f, const char *name);
const struct dsl_attachment *dsl_find_attachment(const struct dsl_file *f, const char *name);
const struct dsl_prompt *dsl_find_prompt(const struct dsl_file *f, const char *name);
const struct dsl_schema *dsl_find_schema(const struct dsl_file *f, const char *name);
const struct dsl_mcp_server *dsl_find_mcp_server(const struct dsl_file *f, const char *name);
/* What a value of a cursor stands for; NULL when it has no such value. */
const char *dsl_cursor_meaning(const struct dsl_cursor *c, const json_t *value);
const struct dsl_cursor *dsl_find_cursor(const struct dsl_file *f, const char *name);
const struct dsl_node *dsl_find_node(const struct dsl_file *f, const char *name);
const struct dsl_field *dsl_schema_field(const struct dsl_schema *s, const char *name);
