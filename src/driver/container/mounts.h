/* What a container would mount. */
#pragma once

#include <jansson.h>

struct container_engine;
struct err;
struct sandbox_params;

/* Appends it to the list of a plan; nothing is made and no engine is asked. Returns 0, or -errno for what a container
 * cannot have. */
int container_list_mounts(const struct container_engine *en, const struct sandbox_params *p, json_t *list,
			  struct err *e) __attribute__((warn_unused_result));
