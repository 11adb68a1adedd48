/* A pod's state, shared by its life (kubernetes.c), its start (start.c), what happens inside before it is ready
 * (inside.c) and its workspace's ways in and out (transfer.c). */
#pragma once

#include "../container/cli.h"
#include "../ops.h"
#include "mux.h"
#include "pod_state.h"

#include <base/err.h>

struct transfer;

struct kube {
	struct sandbox base;
	const struct sandbox_params *p;
	struct sandbox_callbacks cb;
	uv_loop_t *loop;
	char *program; /* kubectl's path */
	char *guest;   /* of this host */
	char *name;    /* of the pod and of its network policy */
	int listener;  /* where the proxy will listen; -1: no network policy */
	uint16_t port;
	struct cli *step;   /* makes the objects; must not be cut off */
	struct cli *events; /* tells of what befalls it, until it runs */
	struct cli *watch;  /* tells of the pod's state */
	struct cli *agent;  /* carries the agent's connection */
	struct pod_stream stream, event_stream;
	char waits[256];   /* what the pod waited for when it was last heard of */
	struct mux *mux;   /* from the agent's start on */
	char *agent_words; /* what kubectl said at the connection's end */
	uv_timer_t patience;
	bool patience_open;
	unsigned watch_failures, agent_failures;
	unsigned busy;	    /* programs and handles that the loop has not let go of */
	unsigned tasks;	    /* of inside.c, before ready or after stop */
	struct err failure; /* of the first of them that failed */
	int env_fd;
	int ready_fd; /* the relay's first words */
	uv_poll_t relay_poll;
	bool relay_open, relay_ready;
	int list_fd; /* what the workspace was after it was sent */
	struct transfer *transfers;
	bool made;    /* there may be objects */
	bool hung_up; /* the connection ended; why is still awaited */
	bool inside;  /* the guest stands, the way back can be gone */
	bool ready, over, removing, killed;
	void (*stopped)(void *arg, bool killed);
	void *stopped_arg;
};

/* --- kubernetes.c --- */
/* It failed or died: the last word to the session. */
void kube_lost(struct kube *k, const struct err *e);
/* Something that was counted in busy is gone. */
void kube_idle(struct kube *k);
void kube_warn(const struct kube *k, const char *code, const char *message);
/* Everything that has to be inside is. */
void kube_ready(struct kube *k);
/* Everything that has to be outside is, or cannot be had: the objects are removed. */
void kube_remove(struct kube *k);

/* --- start.c --- */
int kube_start(struct kube *k, struct err *e) __attribute__((warn_unused_result));
/* Waits at most so long for why the pod ended. */
void kube_await_reason(struct kube *k);

/* --- inside.c --- */
/* Begins what precedes ready: the image's environment, the relay, the files. kube_ready or kube_lost follows. */
void kube_enter(struct kube *k);
/* Begins to bring back what changed; kube_remove follows. */
void kube_leave(struct kube *k);
/* What the kernel holds for it. */
void kube_inside_done(struct kube *k);
/* A sealed file in memory of at most limit bytes: the descriptor or -errno. */
int kube_memory(size_t limit) __attribute__((warn_unused_result));
/* Cuts it to what was written and goes back to its start. */
int kube_memory_rewind(int fd) __attribute__((warn_unused_result));

/* --- transfer.c --- */
typedef void (*transfer_cb)(struct kube *k, const struct err *e, unsigned long long files, unsigned long long bytes,
			    unsigned long long gone, unsigned long long skipped);
struct transfer_opts {
	const char *outside, *within; /* the folders */
	const char *without;	      /* below them, left alone; NULL: nothing */
	int list; /* in: takes the list, out: what is the same is left; -1: none. Stays the caller's */
};
/* done is called once, later. */
int transfer_in(struct kube *k, const struct transfer_opts *o, transfer_cb done, struct err *e)
	__attribute__((warn_unused_result));
int transfer_out(struct kube *k, const struct transfer_opts *o, transfer_cb done, struct err *e)
	__attribute__((warn_unused_result));
/* Ends the host's half of each. */
void transfer_cancel_all(struct kube *k);
