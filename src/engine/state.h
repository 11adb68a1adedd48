/* What is kept of a run so that it can go on: checkpoints, resuming, replaying. */
#pragma once

#include "engine_priv.h"

/* --- resume.c: a run that goes on --- */

/* Opens the run and takes its state over; the engine is as after engine_new of a new one, with its lock held. 0, or
 * -errno when it cannot go on (nothing was changed). */
int resume_load(struct engine *en, struct err *e) __attribute__((warn_unused_result));
/* Records that the run goes on, and does again what its events tell beyond its checkpoint. */
void resume_begin(struct engine *en);

/* --- replay.c --- */

/* Reads the run's events: those up to the checkpoint give histories, the others the tail. 0 or -errno. */
int replay_read(struct engine *en, uint64_t checkpoint_seq, struct err *e) __attribute__((warn_unused_result));
/* Tells which nodes begin again that had begun before. */
void replay_recoveries(struct engine *en);
/* Whether the tail has an event of a type. */
bool replay_has(const struct engine *en, const char *type);
/* Takes nodes that the tail says have finished as finished. */
void replay_run(struct engine *en);
/* Whether an event stands in the tail already, and is not to be written again. */
bool replay_knows(struct engine *en, const char *type, const char *branch, const char *node);

/* --- checkpoint.c --- */

/* What an event shows of a value, as a new object: {"output"}, or for a large one, which is written to a file of the
 * run, {"output_ref","output_bytes","preview"}. */
json_t *checkpoint_show(struct engine *en, const char *node, json_t *value);
/* What resume needs; a new object. */
json_t *checkpoint_build(const struct engine *en);
/* Writes run.json with a checkpoint, which a kill cannot take away any more; a failure to do so ends the run. */
void checkpoint_write(struct engine *en);
/* Sees to it that what has happened is in a checkpoint: at once, or when the latest is only milliseconds old, soon. And
 * that it is safe across a power loss soon after that; as above. */
void checkpoint_soon(struct engine *en);
