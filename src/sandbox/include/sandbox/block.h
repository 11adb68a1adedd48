/* What one statement about the sandbox says: a workflow's sandbox: block, or a node's. */
#pragma once

#include <dsl/sandbox_block.h>
#include <sandbox/spec.h>

struct sandbox_vars;

/* The values that were written; what was not is empty in spec, or, where empty means something, false here. */
struct sandbox_block {
	struct sandbox_spec spec;
	struct {
		bool mode;
		bool network; /* a network block, also an empty one */
		bool network_mode;
		bool tls_inspect;
		bool strict_sni;
	} given;
};

void sandbox_block_done(struct sandbox_block *b);
#define auto_sandbox_block __attribute__((cleanup(sandbox_block_done))) struct sandbox_block

/* One thing that is wrong with a block, and where it stands. */
typedef void (*sandbox_problem_fn)(void *arg, struct dsl_pos pos, const struct err *e);

/* Reads a block of the syntax tree: checks every value, expands variables in mounts and environment values. origin is
 * the phrase that becomes the source of its values ("workflow sandbox: block"). Reports every problem and returns how
 * many there were; ret is the caller's to end in any case. */
size_t sandbox_block_read(const struct dsl_sandbox *b, const struct sandbox_vars *v, const char *origin,
			  struct sandbox_block *ret, sandbox_problem_fn report, void *arg);

/* As above, for callers that stop at the first: 0, or -EINVAL with "file:line:column: …"; ret is filled on success
 * only. */
int sandbox_block_load(const char *file, const struct dsl_sandbox *b, const struct sandbox_vars *v, const char *origin,
		       struct sandbox_block *ret, struct err *e) __attribute__((warn_unused_result));
