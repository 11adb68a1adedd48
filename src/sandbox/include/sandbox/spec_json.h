/* A resolved spec as JSON, for people and programs that ask what a sandbox would be. */
#pragma once

#include <jansson.h>

struct sandbox_spec;

/* Everything that the spec says, with the source of each value that was given ("sources": {FIELD: phrase}). Mounts and
 * warnings are left out: what becomes of them is not known to the spec. A new reference. */
json_t *sandbox_spec_json(const struct sandbox_spec *s);

/* [{code, message}]; a new reference. */
json_t *sandbox_warnings_json(const struct sandbox_spec *s);
