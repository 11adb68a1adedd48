/* One run of a workflow, from a checked file to an exit code, on the caller's loop. */
#pragma once

#include <base/err.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <store/run.h>
#include <uv.h>

struct backend_ops;
struct dsl_file;
struct dsl_node;
struct dsl_schema;
struct engine;
struct sandbox_spec;

/* What a human node asks; borrowed during the call. */
struct engine_question {
	const char *id; /* for engine_answer */
	const char *node_id;
	const char *instructions;	 /* NULL: none */
	const struct dsl_schema *schema; /* the fields that are asked for; NULL: any, such as "answer" */
	size_t min_answers;
};

/* A sandbox that is not the run's own. */
struct engine_sandbox {
	const struct sandbox_spec *spec; /* NULL: the run's */
	const char *driver;
};

/* Everything is borrowed until engine_free. */
struct engine_params {
	uv_loop_t *loop;
	const struct dsl_file *file; /* parsed and checked without errors */
	const char *file_path;	     /* as the user named it */
	const char *source;	     /* its bytes, for the sha-256 */
	size_t source_len;
	const struct sandbox_spec *sandbox; /* the run's resolved spec */
	const char *driver;		    /* NULL: chosen by the driver layer */
	/* What nodes run in, by dsl_node.index; nodes with equal ones share it. NULL: all run in the run's, but for
	 * those that say none. */
	const struct engine_sandbox *node_sandboxes;
	const char *workspace;		/* absolute, resolved; must exist */
	const char *store_dir;		/* absolute (store_locate) */
	const char *run_id;		/* NULL: a new UUIDv7 */
	const char *run_name;		/* NULL: none */
	const char *const *vars;	/* "name=value", NULL-terminated, or NULL; values are read by declared type */
	const char *preset;		/* NULL: none */
	const char *const *attachments; /* "name=path", NULL-terminated, or NULL: copied into the run */
	const char *const *host_env;	/* NULL-terminated: PATH, HOME, USER, LANG, TERM, TZ are taken from it */
	const char *const *resolve;	/* "HOST:IP" answers of the egress proxy, or NULL */
	uint64_t timeout_ms;		/* --timeout; 0: none */
	json_t *options; /* for run.json: what a later resume is to know of the command line; NULL: nothing */
	/* Of a workflow with worktree: auto (engine/worktree.h); NULL and false: not given. */
	const char *branch_name, *merge_into, *merge_strategy;
	/* Going on with the run run_id of the store, which failed, was cancelled or interrupted, or waits for a person.
	 * vars and preset are then the run's own, and the ones here are not looked at. */
	bool resume;
	bool force;		    /* although the file has changed since */
	bool auto_merge;	    /* the worktree's branch, when the run finished */
	const char *const *answers; /* "field=value" or "NODE.field=value" for what it waits for; NULL: none */
	/* Somebody is to be asked; engine_answer brings the answer, from the loop, any time later. Several questions
	 * may be open at once. NULL: nobody can be asked, so the run pauses (exit code 3). */
	void (*ask)(void *arg, const struct engine_question *q);
	/* Every event, after it was appended. Must not call engine functions but engine_interrupt. */
	void (*on_event)(void *arg, const struct store_event *ev);
	void *arg;
};

struct engine_result {
	enum run_status status;
	int exit_code;
	struct err err;		 /* kind ERR_NONE when the run finished */
	const char *failed_node; /* NULL: none, or it failed before any node ran */
};

/* Checks what can be checked before anything is created: node kinds that need a backend this program lacks, vars,
 * preset, workspace, run id. Nothing is created or started; a run that is resumed is locked. Returns 0, or -errno with
 * the whole message; the exit code is err_exit_code(e->kind), 2. */
int engine_new(const struct engine_params *p, struct engine **ret, struct err *e) __attribute__((warn_unused_result));

/* Called once, when everything has stopped and run.json is final; the loop then has nothing of this run left. */
typedef void (*engine_done_cb)(void *arg, const struct engine_result *r);

/* Creates the run in the store, makes the sandbox's session, which forks what it needs (call it while the process is
 * small), and starts; done is called from the loop. A sandbox that cannot be made is a failed run, not an error of this
 * call. Returns 0, or -errno when the run could not be created (then nothing runs and done is never called). */
int engine_run(struct engine *en, engine_done_cb done, void *arg, struct err *e) __attribute__((warn_unused_result));

/* SIGINT or SIGTERM came. The first stops the run in order (nodes get TERM, KILL after 10 s; the sandbox is stopped;
 * status cancelled, exit code 130 or 143); any further one kills what still runs at once. Call from the loop. */
void engine_interrupt(struct engine *en, int sig);

/* The answers ("field=value", NULL-terminated) to a question, or NULL: nobody will answer now, and the run pauses when
 * nothing else is left. Returns 0, -EINVAL when they do not do (ask again), or -ENOENT when the run does not wait for
 * them any more. */
int engine_answer(struct engine *en, const char *id, const char *const *answers, struct err *e)
	__attribute__((warn_unused_result));

/* Whether one "field=value" would do for a question; nothing is answered by it. 0, or -errno as engine_answer. */
int engine_check_answer(const struct engine *en, const char *id, const char *answer, struct err *e)
	__attribute__((warn_unused_result));

/* Which backend carries out a node of a file without errors; NULL: none but the engine itself, or one that this program
 * does not have. */
const struct backend_ops *engine_backend_of(const struct dsl_file *f, const struct dsl_node *n,
					    const char *const *host_env);

const char *engine_run_id(const struct engine *en);
/* NULL before engine_run, unless the run is resumed. */
const char *engine_run_dir(const struct engine *en);

/* After done, or when engine_run was never called or failed. */
void engine_free(struct engine *en);
