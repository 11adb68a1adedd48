/* The run's servers, shared by their life (manager.c) and the two things that nodes do (list.c, call.c). */
#pragma once

#include "config.h"
#include "life.h"
#include "mcp.h"
#include "server.h"

#include <base/err.h>
#include <base/str.h>

struct mcp {
	struct mcp_params p;
	struct mcp_specs specs;
	struct err failure;   /* why nothing of it can be used: .mcp.json, a variable */
	bool *complained;     /* by spec: its failure to be used at all was told */
	bool told_project;    /* the complaints about .mcp.json were */
	struct strv host_env; /* what a server on the host gets beside its own env */
	unsigned start_timeout_ms, call_timeout_ms;
	struct http *http; /* made when it is needed */
	struct mcp_server **servers;
	size_t n_servers, cap_servers;
	unsigned stopping; /* what has not stopped yet */
	uv_idle_t idle;	   /* of mcp_stop */
	void (*stopped)(void *arg);
	void *stopped_arg;
};

/* A variable of the user's, or NULL. */
const char *mcp_host_value(const struct mcp_params *p, const char *name);
/* Fills m->host_env. */
void mcp_host_env(struct mcp *m);

/* The servers of the run of a node; NULL: none. */
struct mcp *mcp_of(const struct node_task *t);

/* Where a server serves this node, or why it may not: 0, or -EPERM. */
struct mcp_site {
	struct session *session; /* NULL: the host, or a remote server */
	const char *cwd;	 /* NULL: the session's workspace */
	const struct strv *env;
	struct strv own; /* that env may point to; free with mcp_site_done */
};
int mcp_site_of(const struct mcp *m, const struct node_task *t, const struct mcp_spec *spec, struct mcp_site *ret,
		struct err *e) __attribute__((warn_unused_result));
void mcp_site_done(struct mcp_site *site);

/* The server for this node, made when there is none yet; NULL with e: it may not serve it. */
struct mcp_server *mcp_server_for(struct mcp *m, const struct node_task *t, const struct mcp_spec *spec, struct err *e);

/* Tells once that a server of .mcp.json is left out. */
void mcp_left_out(struct mcp *m, const struct mcp_spec *spec, const struct err *e);
/* The same for what was wrong with that file. */
void mcp_tell_complaints(struct mcp *m);

/* A list or a call: both begin with one, and are freed by op->free once their timer is closed. */
struct mcp_op {
	void (*cancel)(struct mcp_op *op);
	void (*free)(struct mcp_op *op);
	struct mcp *m;
	const struct node_task *t;
	uv_timer_t timer;
};
void mcp_op_init(struct mcp_op *op, const struct node_task *t);
/* Frees it, later. */
void mcp_op_end(struct mcp_op *op);
