/* The state of the proxy process, shared by its parts. */
#pragma once

#include "proxy_report.h"
#include "proxy_totals.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct conn;
struct dns;
struct frame_conn;
struct policy;
struct proxy_listener;
struct proxy_params;
struct secrets;
struct tls;

enum {
	PROXY_MAX_CONNS = 1024,
	PROXY_SPARE_PIPES = 32,
	PROXY_HEAD_TIMEOUT_MS = 10000,
	PROXY_DIAL_TIMEOUT_MS = 10000,
	PROXY_IDLE_TIMEOUT_MS = 120000, /* between two requests of a client */
};

struct proxy_child {
	uv_loop_t loop;
	struct frame_conn *ctl;
	uv_poll_t ctl_poll;
	int ctl_want;
	uv_timer_t drain, resume;
	const struct policy *policy;
	const char *token; /* NULL: no authentication */
	size_t token_len;
	bool learn, strict_sni;
	struct tls *tls; /* NULL: TLS is not opened */
	const struct secrets *secrets;
	bool inspect_all;
	struct proxy_report *secret_report;
	struct dns *dns;
	struct proxy_totals *totals;
	struct proxy_report *report;
	struct proxy_listener *listeners;
	struct conn *conns;
	size_t n_conns, max_conns;
	bool paused;   /* accepting waits for descriptors */
	bool draining; /* no new work */
	bool ending;   /* the summary was sent */
	int spare_pipes[PROXY_SPARE_PIPES][2];
	size_t n_spare_pipes;
};

/* The child's main function; never returns. ctl is its end of the control socket. */
_Noreturn void proxy_child_main(const struct proxy_params *params, int ctl, int parent_pid);

/* Called when a connection ended: drained, or accepting can go on. */
void proxy_child_conn_ended(struct proxy_child *p);

/* proxy_listen.c. Takes fd; what is no listening stream socket is closed. */
void proxy_listener_add(struct proxy_child *p, int fd);
void proxy_listeners_close(struct proxy_child *p);
void proxy_listeners_resume(struct proxy_child *p);

/* A pipe from the pool (0 or -errno), and an empty one back into it. */
int proxy_pipe_take(struct proxy_child *p, int ret[2]);
void proxy_pipe_give(struct proxy_child *p, int pipe[2]);
