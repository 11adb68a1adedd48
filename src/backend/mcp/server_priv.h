/* The state of a server, shared by its life (server.c) and its conversation (talk.c). */
#pragma once

#include "config.h"
#include "link.h"
#include "server.h"

#include <base/str.h>

enum server_state {
	SERVER_IDLE,	 /* nothing of it runs */
	SERVER_STARTING, /* from the link's beginning until its tools are known */
	SERVER_READY,
	SERVER_CLOSING, /* its link is being closed */
};

struct mcp_server {
	struct server_params p;
	struct strv env;
	enum server_state state;
	struct mcp_spec spec; /* settled; while there is a link */
	struct mcp_link *link;
	int64_t last_id;
	int64_t step_id; /* of the request that the start waits for; 0: none */
	int (*step)(struct mcp_server *s, const json_t *result, struct err *e);
	struct server_call *calls;
	struct server_wait *waits;
	struct server_wait *telling; /* those that are being told right now, but for the first */
	json_t *tools;		     /* of a ready server */
	json_t *listing;	     /* being collected … */
	size_t listing_size;	     /* … in bytes */
	char *cursor;		     /* of the latest page */
	unsigned pages;
	bool has_tools; /* by its capabilities */
	bool stale;	/* it said that its tools changed */
	bool told;	/* that it runs */
	char *title;	/* its own name and version */
	const char *version;
	uv_timer_t timer; /* bounds the start */
	uv_idle_t idle;	  /* answers that must not come from within a call */
	unsigned handles;
	bool stopping;
	void (*stopped)(void *arg);
	void *stopped_arg;
};

/* --- server.c --- */

/* It is over with this link: everybody is told, and the link is closed. */
void server_down(struct mcp_server *s, const struct err *e);
/* Its tools are known. */
void server_ready(struct mcp_server *s);

/* --- talk.c --- */

/* Begins the hand-shake on a new link; server_ready or server_down follows. */
int talk_begin(struct mcp_server *s, struct err *e) __attribute__((warn_unused_result));
/* Asks for the tools again. */
int talk_list(struct mcp_server *s, struct err *e) __attribute__((warn_unused_result));
void talk_message(struct mcp_server *s, const char *text, size_t len);
/* Whether a request has not been answered, nor given up. */
bool talk_is_waiting(const struct mcp_server *s, int64_t id);
/* A request that gets no answer. */
void talk_failed(struct mcp_server *s, int64_t id, const struct err *e);
