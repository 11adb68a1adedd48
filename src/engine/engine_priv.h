/* The state of one run, and what the engine's parts offer each other. */
#pragma once

#include "attachment.h"

#include <backend/backend.h>
#include <base/err.h>
#include <base/str.h>
#include <dsl/ast.h>
#include <dsl/scope.h>
#include <engine/engine.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <store/run.h>
#include <uv.h>

struct activity;
struct backend_run;
struct branch;
struct group;
struct large;
struct place;
struct recovery;

enum phase {
	PHASE_NEW,	/* nothing was started */
	PHASE_STARTING, /* sandboxes start */
	PHASE_RUNNING,
	PHASE_ENDING,	/* the outcome is known; nodes under way are being stopped */
	PHASE_STOPPING, /* sandboxes stop */
	PHASE_ENDED,
};

struct loop_state {
	const char *name;
	long long max;
	long long count;
	json_t *previous_output;
};

struct node_state {
	json_t *history;	 /* array of its outputs before the latest; NULL: nobody asks for it */
	unsigned version;	 /* of its latest artifact; 0: none */
	unsigned long long turn; /* round_robin: edges given out */
	struct place *place;
	const struct backend_ops *ops; /* that carries it out; NULL: the engine itself */
	unsigned char *joins; /* fan_out_all: which nodes (by index) its branches meet at; made when first needed */
};

enum budget_dimension { BUDGET_ITERATIONS, BUDGET_TOKENS, BUDGET_COST, BUDGET_DURATION, BUDGET_TIMEOUT, N_BUDGETS };
struct budget {
	double used, limit; /* limit 0: none */
	bool warned;
};

struct outcome {
	enum run_status status;
	struct err err;
	const char *node; /* that failed; NULL: none */
};

struct engine {
	struct engine_params p;
	const struct dsl_workflow *workflow;
	char *run_id;
	char sha256[SHA256_HEX_SIZE]; /* of the file */
	struct store_run *run;
	enum phase phase;
	struct outcome outcome;
	int signal;	   /* that ended the run, or 0 */
	unsigned starting; /* places that must be up before the first node and are not */
	engine_done_cb done;
	void *done_arg;

	struct place *places; /* the run's own first */
	size_t n_places;
	struct attachments given;    /* until they are copied */
	char *attachments_dir;	     /* NULL: none */
	uv_work_t attach_work;	     /* that copies them */
	struct store_attach *attach; /* NULL: nothing is being copied */
	struct run_tree *tree;	     /* worktree_run.c; NULL: nodes work in the workspace itself */
	json_t *early;		     /* sandbox events that came before run_started */

	json_t *vars;		  /* name → value */
	json_t *artifacts;	  /* name → value */
	json_t *artifact_index;	  /* name → {"node","version"} */
	json_t *outputs;	  /* node → latest output */
	json_t *stored;		  /* the same for run.json, without large ones … */
	json_t *stored_refs;	  /* … whose files stand here */
	struct large *large;	  /* values that have a file */
	struct node_state *nodes; /* by dsl_node.index */
	struct loop_state *loops;
	size_t n_loops;

	struct branch *branches; /* all that live, oldest first */
	struct branch **branches_end;
	struct group *groups;
	struct backend_run *shared; /* what backends keep from node to node; NULL once it has stopped */
	struct activity *activities;
	unsigned n_activities, max_parallel;
	unsigned n_groups; /* made so far */
	unsigned handles;  /* of those below, not closed yet */

	struct budget budgets[N_BUDGETS];
	uv_timer_t timers[2]; /* BUDGET_DURATION, BUDGET_TIMEOUT */
	uv_idle_t idle;	      /* work that waits for its turn on the loop */
	uv_timer_t save_soon; /* until the next checkpoint is written */
	uv_work_t sync_work;  /* its fsync */
	struct store_sync sync;
	int sync_errnum;
	bool syncing; /* it is under way: its fields are the worker's */
	bool pumping;
	bool unsaved;	       /* something happened since the latest checkpoint */
	bool save_now;	       /* which events do not tell, or which somebody waits for */
	bool replaying;	       /* what the tail tells is being done again, so its events are not written again */
	const char *last_node; /* that finished; NULL: none yet, so there is no checkpoint */
	uint64_t started_ms;
	uint64_t saved_ms;	/* when the latest checkpoint was written */
	uint64_t save_after_ms; /* how old it must be for the next */
	uint64_t earlier_ms;	/* what the run took before it was resumed */

	/* Of a run that goes on. */
	char *was;		     /* its status before */
	json_t *tail;		     /* events behind its checkpoint */
	struct recovery *recoveries; /* under way */
	json_t *begun; /* nodes that began and did not finish: "node branch" → why not, null: they were under way */
};

/* --- engine.c --- */

/* Lets the pump and the ending have their turn, from the loop. */
void engine_wake(struct engine *en);
/* Makes the places and starts them: what is left to do once the workspace is there. */
void engine_go(struct engine *en);
/* What a new run was given is there: the workspace is next. */
void engine_go_on(struct engine *en);
/* Everything has stopped and is written: closes the handles, and then calls done. */
void engine_close(struct engine *en);

/* Appends an event and shows it; data is taken. A store that cannot be written ends the run. */
void engine_emit(struct engine *en, const char *type, const char *branch, const char *node, json_t *data);

/* --- branch.c --- */

/* The run's main line, at the entry. */
void branch_begin(struct engine *en);

/* --- end.c --- */

/* The run is to end so; the first call decides, later ones are ignored. node, borrowed, may be NULL. Nodes under way
 * are told to end; everything else happens later, from the loop. */
void engine_end(struct engine *en, enum run_status status, const struct err *e, const char *node);
/* Goes on with the ending when nothing is left to wait for; called whenever something ended. */
void engine_check_end(struct engine *en);

/* --- step.c --- */

/* Runs what can run. */
void engine_pump(struct engine *en);
/* A node of a branch ended: with its output (borrowed), or with an error. details may be NULL. */
void step_finished(struct engine *en, struct branch *b, const struct node_result *r, uint64_t duration_ms,
		   const struct err *e);

/* What the engine asks of a node's output. */
int step_check(const struct engine *en, const struct dsl_node *n, json_t *output, struct err *e)
	__attribute__((warn_unused_result));

/* --- activity.c: nodes under way in a backend --- */

/* The model that a node names; NULL: none. */
const char *activity_model(const struct dsl_node *n);
int activity_start(struct engine *en, struct branch *b, struct err *e) __attribute__((warn_unused_result));
void activity_cancel_all(struct engine *en, enum node_cancel how);

/* --- preflight.c --- */

/* Whether this program can run the workflow at all. */
int preflight_check(const struct engine_params *p, struct err *e) __attribute__((warn_unused_result));
/* The backend of a node, NULL in *ret when the engine carries it out by itself; -errno when this program has none. */
int preflight_backend(const struct engine_params *p, const struct dsl_node *n, const struct backend_ops **ret,
		      struct err *e) __attribute__((warn_unused_result));

/* --- vars.c --- */

int vars_resolve(const struct engine_params *p, json_t **ret, struct err *e) __attribute__((warn_unused_result));

/* --- env.c --- */

void env_build(const struct engine *en, const struct place *place, const char *node_id, struct strv *to);
