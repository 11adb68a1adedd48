/* A request to a model and what becomes of it.
 *
 * The answer streams through the reader. What a provider refuses for the moment (rate limits, overload, a server's own
 * failure) and what breaks off on the way is asked again, after the time that the provider names or by doubling
 * delays; connections that cannot even be made are tried less often, since a wrong address never gets better. A
 * provider's words go into errors, but never the key, which some of them repeat. */
#include "call.h"

#include "agent/retry.h"
#include <http/http.h>

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/id.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { REFUSAL_MAX = 64 * 1024, IDLE_MS = 10 * 60 * 1000, UNREACHABLE_ATTEMPTS = 3 };

struct llm_call {
	uv_loop_t *loop;
	struct http *http;
	const struct llm_target *target;
	struct llm_call_callbacks cb;
	json_t *tools;
	char *body;
	struct http_request *request;
	struct llm_reader *reader;
	uv_timer_t timer;
	unsigned attempt;
	int status;
	bool streams;		/* the answer is one of events */
	int64_t retry_after_ms; /* < 0: not told */
	struct buf refusal;
	struct err err; /* of the reader */
};

static int request(struct llm_call *c, struct err *e);
static void on_broken(uv_timer_t *timer);

static void on_timer_closed(uv_handle_t *h)
{
	struct llm_call *c = h->data;

	llm_reader_free(c->reader);
	buf_done(&c->refusal);
	json_decref(c->tools);
	free(c->body);
	free(c);
}

void llm_call_cancel(struct llm_call *c)
{
	if (c->request)
		http_cancel(TAKE_PTR(c->request));
	c->cb.on_text = NULL;
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

static void finish(struct llm_call *c, const struct llm_answer *a, const struct err *e)
{
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
	c->cb.on_done(c->cb.arg, a, c->status, e);
}

static void on_again(uv_timer_t *timer)
{
	struct llm_call *c = timer->data;
	struct err e = ERR_INIT;

	if (request(c, &e) < 0)
		finish(c, NULL, &e);
}

static unsigned most_attempts(const struct err *e)
{
	return e->errnum == ECONNREFUSED || e->errnum == EHOSTUNREACH ? UNREACHABLE_ATTEMPTS : RETRY_ATTEMPTS;
}

/* Whether the way there, and not what was asked, is what failed. */
static bool may_pass(const struct llm_call *c, const struct err *e)
{
	if (c->status >= 300)
		return retry_status(c->status);
	return e->errnum == ECONNRESET || e->errnum == ETIMEDOUT || e->errnum == ECONNREFUSED ||
	       e->errnum == EHOSTUNREACH;
}

static void failed(struct llm_call *c, struct err *e)
{
	uint32_t random;
	int status = c->status >= 300 ? c->status : 0;

	random_bytes(&random, sizeof random);
	int64_t delay = may_pass(c, e) && c->attempt < most_attempts(e)
				? retry_delay_ms(c->attempt, status, c->retry_after_ms, random)
				: -1;
	c->status = status;
	if (delay < 0) {
		if (c->attempt > 1)
			(void)err_wrap(e, 0, "after %u attempts", c->attempt);
		finish(c, NULL, e);
		return;
	}
	(void)uv_timer_start(&c->timer, on_again, (uint64_t)delay, 0);
	if (c->cb.on_retry)
		c->cb.on_retry(c->cb.arg, c->attempt, status, delay, e);
}

/* --- the answer --- */

static void on_head(void *arg, const struct http_head *h)
{
	struct llm_call *c = arg;
	const char *after = http_field(h, "retry-after"), *type = http_field(h, "content-type");

	c->status = h->status;
	c->retry_after_ms = after ? retry_after_parse(after) : -1;
	c->streams = h->status == 200 && (!type || strncasecmp(type, "application/json", 16) != 0);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct llm_call *c = arg;
	int status = 0;

	if (!c->streams) {
		(void)buf_add(&c->refusal, data, MIN(len, c->refusal.max - c->refusal.len));
		return;
	}
	if (c->err.kind != ERR_NONE || llm_reader_feed(c->reader, data, len, &status, &c->err) == 0)
		return;
	if (status)
		c->status = status;
	/* Nothing more is wanted of it; the end is told from the loop. */
	http_cancel(TAKE_PTR(c->request));
	(void)uv_timer_start(&c->timer, on_broken, 0, 0);
}

static void hide_key(const struct llm_call *c, char *text)
{
	const char *key = c->target->key;
	size_t len = key ? strlen(key) : 0;

	for (char *at = len ? strstr(text, key) : NULL; at; at = strstr(at + len, key))
		memset(at, '*', len);
}

static void hint_refused(const struct llm_call *c, struct err *e)
{
	const char *key = c->target->key_name ? c->target->key_name : "the provider's key";

	if (c->status == 401 || c->status == 403)
		err_hint(e, "look whether %s is right and may use this model", key);
	else if (c->status == 404)
		err_hint(e, "look whether the provider has this model, and whether its base URL is right");
	else if (c->status == 429)
		err_hint(e, "the account's limit is used up: wait, or run fewer nodes at once (max_parallel_branches)");
	else if (c->status == 400 || c->status == 413 || c->status == 422)
		err_hint(e, "the provider does not take the request as it is: look at model, max_tokens and "
			    "reasoning_effort of the node");
	else
		err_hint(e, "the provider has a problem of its own: try again later");
}

static void refused(struct llm_call *c, struct err *e)
{
	auto_free char *text = llm_error_text(buf_str(&c->refusal), c->refusal.len);

	hide_key(c, text);
	if (c->status == 200)
		(void)err_set(e, ERR_NETWORK, EPROTO, "%s answered without streaming: %s", c->target->provider, text);
	else
		(void)err_set(e, ERR_NETWORK, EREMOTEIO, "%s refused the request for %.100s (HTTP %d): %s",
			      c->target->provider, c->target->model, c->status, text);
	hint_refused(c, e);
}

static void on_broken(uv_timer_t *timer)
{
	struct llm_call *c = timer->data;
	struct err e = c->err;

	hide_key(c, e.msg);
	hint_refused(c, &e);
	failed(c, &e);
}

static void on_done(void *arg, const struct err *failure)
{
	struct llm_call *c = arg;
	struct err e = ERR_INIT;
	struct llm_answer a = {0};

	c->request = NULL;
	if (failure) {
		e = *failure;
		failed(c, &e);
	} else if (!c->streams) {
		refused(c, &e);
		failed(c, &e);
	} else if (llm_reader_end(c->reader, &a, &e) < 0) {
		failed(c, &e);
	} else {
		finish(c, &a, NULL);
		llm_answer_done(&a);
	}
}

static void on_text(void *arg, bool thinking, const char *text, size_t len)
{
	const struct llm_call *c = arg;

	if (c->cb.on_text)
		c->cb.on_text(c->cb.arg, thinking, text, len);
}

/* --- the request --- */

static int request(struct llm_call *c, struct err *e)
{
	const struct http_opts o = {
		.url = c->target->url,
		.headers = (const char *const *)c->target->headers.v,
		.body = c->body,
		.body_len = strlen(c->body),
		.idle_ms = IDLE_MS,
	};
	const struct http_callbacks cb = {.on_head = on_head, .on_data = on_data, .on_done = on_done, .arg = c};

	c->attempt++;
	c->status = 0;
	c->streams = false;
	c->retry_after_ms = -1;
	c->err = ERR_INIT;
	buf_clear(&c->refusal);
	llm_reader_free(c->reader);
	c->reader = llm_reader_new(c->target->api, c->tools, on_text, c);
	return http_start(c->http, &o, &cb, &c->request, e);
}

int llm_call_start(uv_loop_t *loop, struct http *http, const struct llm_target *target, const struct llm_ask *ask,
		   const struct llm_call_callbacks *cb, struct llm_call **ret, struct err *e)
{
	struct llm_call *c = xcalloc(1, sizeof *c);
	auto_json body = llm_body(target->api, ask);

	*c = (struct llm_call){
		.loop = loop,
		.http = http,
		.target = target,
		.cb = *cb,
		.tools = json_incref(ask->tools),
		.body = json_compact(body),
		.refusal = BUF_INIT(REFUSAL_MAX),
	};
	(void)uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	int r = request(c, e);
	if (r < 0) {
		uv_close((uv_handle_t *)&c->timer, on_timer_closed);
		return r;
	}
	*ret = c;
	return 0;
}
