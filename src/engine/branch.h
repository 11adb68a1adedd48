/* Branches of a run, and the groups that a fan-out makes of them. */
#pragma once

#include "engine_priv.h"

enum branch_state {
	BRANCH_READY,	/* its node is to be started */
	BRANCH_ACTIVE,	/* its node is under way */
	BRANCH_FORKED,	/* its node is a router whose branches are under way */
	BRANCH_WAITING, /* its node waits for a person */
};

struct branch {
	char *id;	     /* NULL: the run's main line */
	struct group *group; /* NULL: the main line */
	enum branch_state state;
	const struct dsl_node *node;
	json_t *input;
	char *interaction;    /* the question that waits for a person; NULL: none */
	bool asked;	      /* somebody is being asked right now */
	json_t *answers;      /* a person's, an object that was checked; of an agent's question until its node ends */
	int64_t spent_tokens; /* by its node under way, and counted in the budgets already */
	double spent_usd;
	json_t *conversation; /* that its latest agent left (conversation.c); NULL: none */
	struct branch *next;
};

/* --- branch.c --- */

/* A new branch that is ready to run node; id (NULL or allocated) and input are taken. */
struct branch *branch_new(struct engine *en, char *id, struct group *g, const struct dsl_node *node, json_t *input);
/* The same without an event, for a branch that was there before; it has no group yet. */
struct branch *branch_add(struct engine *en, char *id, const struct dsl_node *node, json_t *input);
/* Takes it out of the run and frees it. */
void branch_remove(struct engine *en, struct branch *b);
/* Goes on at a node with an input (taken): becomes ready there, or arrives at its group's join and is gone. */
void branch_go(struct engine *en, struct branch *b, const struct dsl_node *node, json_t *input);
/* It reached done, and is gone. */
void branch_done(struct engine *en, struct branch *b);
/* Its node failed: a best_effort join takes note of it (then it is gone), else the run ends. */
void branch_failed(struct engine *en, struct branch *b, const struct err *e, bool resumable);

/* --- group.c --- */

/* The router of b has output: one branch for each of its edges that holds. 0 or -errno. */
int group_fork(struct engine *en, struct branch *b, json_t *output, struct err *e) __attribute__((warn_unused_result));
bool group_is_join(struct engine *en, struct group *g, const struct dsl_node *node);
/* Whether a branch of g that fails at node may be done without. */
bool group_tolerates(struct engine *en, struct group *g, const struct dsl_node *node);
/* A branch of g, which is gone by now, arrived at a join (node, input taken), failed (e), or reached done (neither). */
void group_branch_ended(struct engine *en, struct group *g, const char *branch_id, const struct dsl_node *node,
			json_t *input, const struct err *e);
const struct dsl_node *group_router(const struct group *g);
/* The group that b's router made, or NULL. */
struct group *group_of_parent(const struct engine *en, const struct branch *b);
long long group_number(const struct group *g);
/* For the checkpoint; position gives the place of a branch in the run's list. */
json_t *groups_save(const struct engine *en, long long (*position)(const struct engine *en, const struct branch *of));
/* The reverse, in two steps: first the groups, then, when every branch is there (in the order of before), what ties
 * them together. A branch says which group it is of by group_by_number. 0 or -errno. */
int groups_load(struct engine *en, const json_t *list, struct err *e) __attribute__((warn_unused_result));
struct group *group_by_number(const struct engine *en, long long number);
int groups_tie(struct engine *en, const json_t *list, struct err *e) __attribute__((warn_unused_result));
/* Frees the groups of a run that has ended. */
void groups_free(struct engine *en);

/* --- graph.c --- */

/* Marks (1, by node index) everything that can be reached from a node, itself included, without passing through
 * avoid (NULL: none). What is marked already is not walked again. */
void graph_mark(const struct dsl_node *from, const struct dsl_node *avoid, unsigned char *marks);

/* --- edge.c --- */

/* Chooses the edge to follow from b's node: 0 with *ret (NULL: the node has none, an end like done), or -errno. Counts
 * its loop and emits edge_selected. */
int edge_choose(struct engine *en, const struct branch *b, json_t *output, const struct dsl_edge **ret, struct err *e)
	__attribute__((warn_unused_result));
/* Whether one edge of a fan_out_all router is to be followed: 1 or 0; counts and emits as above. */
int edge_holds(struct engine *en, const struct branch *b, json_t *output, const struct dsl_edge *edge, struct err *e)
	__attribute__((warn_unused_result));
/* The input that it carries: its with map, or the output. A new reference. */
int edge_input(const struct engine *en, const struct branch *b, const struct dsl_edge *edge, json_t *output,
	       json_t **ret, struct err *e) __attribute__((warn_unused_result));
