/* The state of one run, and what the engine's parts offer each other. */
#pragma once

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
struct branch;
struct group;
struct large;
struct session;

enum phase {
	PHASE_NEW,	/* nothing was started */
	PHASE_STARTING, /* sandboxes start */
	PHASE_RUNNING,
	PHASE_ENDING,	/* the outcome is known; nodes under way are being stopped */
	PHASE_STOPPING, /* sandboxes stop */
	PHASE_ENDED,
};

/* A place that nodes run in: one session, by the spec it was made from. */
struct place {
	struct engine *en;
	const struct sandbox_spec *spec;
	struct session *session;
	bool isolated; /* a real sandbox: the spec's environment applies */
	bool started;  /* session_start was called */
	bool stopped;
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
	int signal; /* that ended the run, or 0 */
	engine_done_cb done;
	void *done_arg;

	struct place *places; /* the run's own first */
	size_t n_places;
	unsigned starting; /* places whose start has not been answered */
	json_t *early;	   /* sandbox events that came before run_started */

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
	unsigned n_groups; /* made so far */
	struct activity *activities;
	unsigned n_activities, max_parallel;

	struct budget budgets[N_BUDGETS];
	uv_timer_t timers[2]; /* BUDGET_DURATION, BUDGET_TIMEOUT */
	uv_idle_t idle;	      /* work that waits for its turn on the loop */
	unsigned handles;     /* of these, not closed yet */
	bool pumping;
	bool unsaved;	     /* a node ended since the latest checkpoint */
	uv_work_t sync_work; /* the fsync of a checkpoint */
	bool syncing;	     /* it is under way: its fields are the worker's */
	int sync_fd, sync_errnum;
	const char *last_node; /* that finished; NULL: none yet, so there is no checkpoint */
	uint64_t started_ms;
	uint64_t earlier_ms; /* what the run took before it was resumed */

	/* Of a run that goes on. */
	char *was;	/* its status before */
	json_t *tail;	/* events behind its checkpoint */
	size_t tail_at; /* the next of them to be looked at */
	bool replaying; /* what they tell is being done again, so they are not written again */
};

/* --- engine.c --- */

/* Lets the pump and the ending have their turn, from the loop. */
void engine_wake(struct engine *en);
/* Everything has stopped and is written: closes the handles, and then calls done. */
void engine_close(struct engine *en);

/* Appends an event and shows it; data is taken. A store that cannot be written ends the run. */
void engine_emit(struct engine *en, const char *type, const char *branch, const char *node, json_t *data);

/* --- branch.c --- */

/* The run's main line, at the entry. */
void branch_begin(struct engine *en);

/* --- end.c --- */

/* The run is to end so; the first call decides, later ones are ignored. node may be NULL. Nodes under way are told to
 * end; everything else happens later, from the loop. */
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

int activity_start(struct engine *en, struct branch *b, struct err *e) __attribute__((warn_unused_result));
/* The branch of the only node under way; NULL when there is none, or more than one. */
const struct branch *activity_only(const struct engine *en);
void activity_cancel_all(struct engine *en, enum node_cancel how);

/* --- place.c --- */

int places_new(struct engine *en, struct err *e) __attribute__((warn_unused_result));
void places_start(struct engine *en);
/* Stops all; engine_check_end is called after each. */
void places_stop(struct engine *en);
bool places_stopped(const struct engine *en);
void places_free(struct engine *en);

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

/* --- artifact.c --- */

/* Publishes a node's output under the name that it has. A store that cannot be written ends the run. */
void artifact_publish(struct engine *en, const char *branch, const struct dsl_node *n, json_t *value);
/* For the checkpoint: node → version. */
json_t *artifact_versions(const struct engine *en);
/* The reverse: 0 or -errno. index is run.json's artifact_index. */
int artifact_load(struct engine *en, json_t *index, const json_t *versions, struct err *e)
	__attribute__((warn_unused_result));

/* --- route.c: llm routers --- */

bool route_is_llm(const struct dsl_node *n);
/* Whether a router's output names targets of its edges: 0, or -EINVAL with what is wrong. */
int route_check(const struct dsl_node *n, const json_t *output, struct err *e) __attribute__((warn_unused_result));
/* Whether it names this edge's. */
bool route_names(const json_t *output, const struct dsl_edge *edge);
/* The names of the targets, NULL-terminated; the caller frees the list. */
const char **route_targets(const struct dsl_node *n) __attribute__((returns_nonnull));

/* --- human.c --- */

/* Whether a person is asked, and nobody else. */
bool human_is_asked(const struct dsl_file *f, const struct dsl_node *n);

/* The node of a branch asks, or takes the answers that are there. 0 or -errno. */
int human_start(struct engine *en, struct branch *b, struct err *e) __attribute__((warn_unused_result));
/* Records b's answers; the node has ended. */
void human_finish(struct engine *en, struct branch *b);
/* Adds "field=value" to the answers for a node; complete, they are checked, and what may be missing is null. */
int human_add_answer(const struct engine *en, const struct dsl_node *n, const char *text, json_t *to, struct err *e)
	__attribute__((warn_unused_result));
int human_check_answers(const struct engine *en, const struct dsl_node *n, json_t *answers, struct err *e)
	__attribute__((warn_unused_result));
/* Ends the run as paused when only answers are left to wait for, and nobody is being asked. */
bool human_pause(struct engine *en);
/* The questions that wait, for the last event. */
json_t *human_waiting(const struct engine *en);
/* Gives the answers of a resume to the branches that wait. 0 or -errno. */
int human_take_answers(struct engine *en, struct err *e) __attribute__((warn_unused_result));

/* --- large.c --- */

enum { LARGE_MIN = 16 * 1024 }; /* values of more bytes than this are large */

/* Writes a value to a file of its own when it is large; a failure to do so ends the run. */
void large_keep(struct engine *en, const char *node, json_t *value);
/* The file of a value, or NULL when it is not large. */
const char *large_ref(const struct engine *en, const json_t *value);
/* Remembers the file (taken) of a value. */
void large_add(struct engine *en, json_t *value, char *ref);
/* Sets key to a value, or key_ref to its file; a value that is NULL sets nothing. */
void large_put(const struct engine *en, json_t *to, const char *key, json_t *value);
/* Reads back what large_put set: a new reference, NULL when there is none. 0 or -errno. */
int large_get(struct engine *en, const json_t *from, const char *key, json_t **ret, struct err *e)
	__attribute__((warn_unused_result));
/* Forgets those that nobody else holds, or all. */
void large_forget(struct engine *en, bool all);

/* --- resume.c: a run that goes on --- */

/* Opens the run and takes its state over; the engine is as after engine_new of a new one, with its lock held. 0, or
 * -errno when it cannot go on (nothing was changed). */
int resume_load(struct engine *en, struct err *e) __attribute__((warn_unused_result));
/* Records that the run goes on, and does again what its events tell beyond its checkpoint. */
void resume_begin(struct engine *en);

/* --- replay.c --- */

/* Reads the run's events: those up to the checkpoint give histories, the others the tail. 0 or -errno. */
int replay_read(struct engine *en, uint64_t checkpoint_seq, struct err *e) __attribute__((warn_unused_result));
/* Whether the tail has an event of a type. */
bool replay_has(const struct engine *en, const char *type);
/* Takes nodes that the tail says have finished as finished. */
void replay_run(struct engine *en);
/* Whether an event stands in the tail already, and is not to be written again. */
bool replay_knows(struct engine *en, const char *type, const char *branch, const char *node);

/* --- scope.c --- */

struct node_scope {
	const struct engine *en;
	const json_t *input;  /* of the node that asks */
	const json_t *output; /* of the source of an edge; NULL otherwise */
	struct dsl_scope scope;
};
/* Fills s, which may not be copied afterwards; everything is borrowed. */
void scope_init(struct node_scope *s, const struct engine *en, const json_t *input, const json_t *output);
/* Finds the nodes whose history is asked for, and gives them an array. */
void scope_prepare_history(struct engine *en);

/* --- budget.c --- */

void budget_init(struct engine *en);
/* Counts one node: 0, or -errno when a limit is reached (the run is being ended then). */
int budget_enter(struct engine *en, const struct branch *b);
void budget_spend(struct engine *en, int64_t tokens, double cost_usd);
void budget_start_timers(struct engine *en);

/* --- checkpoint.c --- */

/* What an event shows of a value, as a new object: {"output"}, or for a large one, which is written to a file of the
 * run, {"output_ref","output_bytes","preview"}. */
json_t *checkpoint_show(struct engine *en, const char *node, json_t *value);
/* What resume needs; a new object. */
json_t *checkpoint_build(const struct engine *en);
/* Writes run.json with a checkpoint, which a kill cannot take away any more; a failure to do so ends the run. */
void checkpoint_write(struct engine *en);
/* Begins to make that safe across a power loss, beside the nodes that run; as above. */
void checkpoint_sync(struct engine *en);
