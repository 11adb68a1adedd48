/* `sandbox plan`: what a run would use, as one JSON document, and that document for people. */
#pragma once

#include <jansson.h>

struct dsl_file;
struct err;
struct run_opts;
struct strv;

struct plan_request {
	const struct run_opts *opts;
	const struct dsl_file *file; /* NULL: the sandbox of a folder, as `sandbox exec` makes it */
	const char *workspace;	     /* absolute, resolved */
	const char *store_dir;	     /* absolute */
	const char *run_id;	     /* the one that was asked for, or one that stands for it */
	const char *project;	     /* what the file means by its workspace; NULL: the workspace itself */
};

/* The document of `sandbox plan --json`; nothing is made or started. Fails with what a run would fail with. */
int sandbox_plan_make(const struct plan_request *q, json_t **ret, struct err *e) __attribute__((warn_unused_result));

/* Prints it. */
void sandbox_plan_show(const json_t *doc);

/* Variables that a node's program would find, into an object by name. shown: the entries ("NAME=value") that the spec
 * gives, whose values are told unless the name is a secret's; all others are null. */
json_t *plan_env_json(const struct strv *env, const struct strv *shown) __attribute__((returns_nonnull));

/* Makes null of the values of an object whose names are secrets'. NULL is accepted. */
void plan_hide_values(json_t *map);

/* Puts "[NAME]" in place of the value of every secret of this process's environment, in every string of the document:
 * ${localEnv:…} may have brought one there. also: further values, as "NAME=value". */
void plan_redact(json_t *doc, const struct strv *also);
