/* What a sandbox can be when its engine is on another machine. */
#pragma once

#include <stdbool.h>

struct container_engine;
struct err;
struct sandbox_params;

/* As driver.check. For an engine of this machine nothing is refused but settings that nobody understands. */
int remote_check(const struct container_engine *en, const struct sandbox_params *p, bool *ret_offered, struct err *e)
	__attribute__((warn_unused_result));
