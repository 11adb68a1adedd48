/* WebFetch: a page, for an agent that has no network of its own. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <uv.h>

struct err;
struct fetch;
struct http;
struct session;

/* The tool as models are told of it: name, description, input_schema. A new object. */
json_t *fetch_tool(void) __attribute__((returns_nonnull));

/* Called once: the text (borrowed), or why there is none. The fetch is gone when it returns. */
typedef void (*fetch_cb)(void *arg, const char *text, size_t len, const struct err *e);

/* Gets input's url under the session's network policy, following redirects under the same. Returns 0, or -errno and cb
 * is never called. */
int fetch_start(struct http *http, const struct session *session, const json_t *input, fetch_cb cb, void *arg,
		struct fetch **ret, struct err *e) __attribute__((warn_unused_result));
void fetch_cancel(struct fetch *f);
