/* The way to one server, whatever it is made of: messages as text in both directions. All is asynchronous on the loop,
 * and no event comes from within a call of these. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct http;
struct mcp_link;
struct mcp_spec;
struct session;
struct strv;

struct link_events {
	/* One message (or, over HTTP, one batch); any bytes. */
	void (*on_message)(void *arg, const char *text, size_t len);
	/* A request will get no answer; one that got it already is named too. */
	void (*on_failed)(void *arg, int64_t id, const struct err *e);
	/* Whether a request still waits for its answer. */
	bool (*is_waiting)(void *arg, int64_t id);
	/* It is over: once, the last but on_closed. It must still be closed. */
	void (*on_down)(void *arg, const struct err *e);
	/* After link_close: nothing of it is left. */
	void (*on_closed)(void *arg);
	void *arg;
};

struct link_ops {
	int (*send)(struct mcp_link *l, const char *text, size_t len, int64_t id, struct err *e);
	void (*forget)(struct mcp_link *l, int64_t id);		/* NULL: nothing to do */
	void (*agree)(struct mcp_link *l, const char *version); /* NULL: the same */
	void (*close)(struct mcp_link *l);
};

struct mcp_link {
	const struct link_ops *ops;
	struct link_events ev;
};

struct link_params {
	uv_loop_t *loop;
	const struct mcp_spec *spec; /* settled; outlives the link */
	struct session *session;     /* stdio: where it runs; NULL: on the host */
	const struct strv *env;	     /* stdio: the whole environment but the server's own */
	const char *cwd;	     /* stdio: NULL: the session's workspace */
	struct http *http;	     /* http, sse */
	struct link_events events;
};

/* 0, or -errno and no event ever comes. A program that cannot be executed is told by on_down. */
int link_stdio_new(const struct link_params *p, struct mcp_link **ret, struct err *e)
	__attribute__((warn_unused_result));
int link_http_new(const struct link_params *p, struct mcp_link **ret, struct err *e)
	__attribute__((warn_unused_result));
int link_sse_new(const struct link_params *p, struct mcp_link **ret, struct err *e) __attribute__((warn_unused_result));

/* Sends a message (copied). id: of a request, or 0. -errno: the link is going down. */
static inline int link_send(struct mcp_link *l, const char *text, size_t len, int64_t id, struct err *e)
{
	return l->ops->send(l, text, len, id, e);
}

/* The answer to a request is not wanted any more. */
static inline void link_forget(struct mcp_link *l, int64_t id)
{
	if (l->ops->forget)
		l->ops->forget(l, id);
}

/* The version that both sides speak from now on. */
static inline void link_agree(struct mcp_link *l, const char *version)
{
	if (l->ops->agree)
		l->ops->agree(l, version);
}

/* Ends it, from whatever state, once; on_closed follows and no other event. */
static inline void link_close(struct mcp_link *l)
{
	l->ops->close(l);
}
