/* What an agent is asked to give back, in the words that models know: a JSON Schema, and a sentence of a prompt. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct agent_task;
struct buf;

/* The JSON Schema (an object's) of what the node gives: a field for each of its schema's, all required; of an llm
 * router {"target"} or {"targets"}. A new reference; NULL: free text. */
json_t *agent_schema(const struct agent_task *a);

/* Whether providers that take only closed schemas (each value typed, no open objects) take it; NULL does. */
bool agent_schema_is_closed(const json_t *schema);

/* Appends the instruction to end with such an object, for an agent that cannot be given the schema otherwise. Returns
 * 0 or -ENOBUFS. */
int agent_schema_instruct(const json_t *schema, struct buf *to);
