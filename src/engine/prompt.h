/* The texts that a node's backend is given, with the values of the run filled in. */
#pragma once

#include "engine_priv.h"

/* A text of the file. The caller frees *ret. 0 or -errno; so are the others. */
int prompt_text(const struct engine *en, const struct branch *b, const struct dsl_text *t, char **ret, struct err *e)
	__attribute__((warn_unused_result));
/* A prompt by its name; *ret stays as it is when there is none. */
int prompt_named(const struct engine *en, const struct branch *b, const struct dsl_str *name, char **ret, struct err *e)
	__attribute__((warn_unused_result));
/* All that belongs into the system prompt of the model at b's node; *ret stays as it is when that is nothing. */
int prompt_system(const struct engine *en, const struct branch *b, char **ret, struct err *e)
	__attribute__((warn_unused_result));
