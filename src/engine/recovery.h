/* Records of nodes that begin again in a run that goes on (recoveries/ of its folder). One that cannot be written ends
 * the run. */
#pragma once

#include <jansson.h>

struct branch;
struct engine;
struct err;

/* The node where a branch stands had begun before, and does so again; error (NULL: none) is what it failed with. */
void recovery_begin(struct engine *en, const struct branch *b, const char *reason, const char *error);
/* An event of the node: it may name the conversation that the agent goes on from. */
void recovery_note(struct engine *en, const struct branch *b, const char *type, const json_t *data);
/* The node ended, or asks a person; status is a word of docs/store.md. Nothing when it did not recover. */
void recovery_close(struct engine *en, const struct branch *b, const char *status, const struct err *e);
/* The run ends while they are under way. */
void recovery_stop_all(struct engine *en);
void recovery_free_all(struct engine *en);
