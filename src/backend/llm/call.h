/* One request to a model, with its retries, on the run's loop. */
#pragma once

#include "llm.h"
#include "target.h"

#include <uv.h>

struct http;
struct llm_call;

struct llm_call_callbacks {
	llm_text_cb on_text; /* as it streams; a retry says its own from the start */
	/* The request was refused or broke off, and is made again in delay_ms; status 0: no HTTP status. */
	void (*on_retry)(void *arg, unsigned attempt, int status, int64_t delay_ms, const struct err *why);
	/* Once, unless it is cancelled: the answer (borrowed), or e and the HTTP status (0: none) behind it. The call
	 * is gone when it returns. */
	void (*on_done)(void *arg, const struct llm_answer *a, int status, const struct err *e);
	void *arg;
};

/* target is borrowed until the end; what ask holds only during this call. Returns 0, or -errno and nobody is called. */
int llm_call_start(uv_loop_t *loop, struct http *http, const struct llm_target *target, const struct llm_ask *ask,
		   const struct llm_call_callbacks *cb, struct llm_call **ret, struct err *e)
	__attribute__((warn_unused_result));

/* No callback comes any more; not from on_done. */
void llm_call_cancel(struct llm_call *c);
