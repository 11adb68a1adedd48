/* What is particular to some kinds of nodes: published output, routers that a model answers for, people. */
#pragma once

#include "engine_priv.h"

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
/* Records b's answers; the node has ended, or, when an agent asked, is ready to go on. */
void human_finish(struct engine *en, struct branch *b);
/* An agent of the branch asks a person: {"question", "options"?}. */
void human_ask_for(struct engine *en, struct branch *b, const json_t *asked);
/* The same when the run goes on in another process: whether the branch has a question, which is then asked again, or
 * its answer taken. */
bool human_resume_for(struct engine *en, struct branch *b);
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
