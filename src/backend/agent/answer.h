/* What an agent said, as a node's output. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* The last JSON object of a text: the whole of it, the last fenced block that is one, or the last that stands at the
 * text's end. A new reference, NULL when there is none. */
json_t *answer_last_json(const char *text, size_t len);

/* {"output": text}, for a node without a schema. */
json_t *answer_text(const char *text, size_t len) __attribute__((returns_nonnull));
