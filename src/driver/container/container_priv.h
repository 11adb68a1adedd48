/* A container's state, shared by its life (container.c), its start (start.c, make.c) and the programs in one that has
 * no guest (engine_exec.c). */
#pragma once

#include "../channel.h"
#include "../limited.h"
#include "../ops.h"
#include "cli.h"
#include "engine.h"
#include "image.h"
#include "proxy_place.h"

#include <base/err.h>

enum { PROXY_PORT = 47128 }; /* on the loopback inside, as in native sandboxes */

struct build;
struct control;
struct engine_exec;
struct reach;

struct container {
	struct sandbox base;
	const struct container_engine *engine;
	const struct sandbox_params *p;
	struct sandbox_callbacks cb;
	uv_loop_t *loop;
	char *program; /* the engine's, its path */
	char *guest;   /* of this host; NULL: the guest is not used, the engine itself starts programs */
	char *name;
	char *image;
	struct build *build;	  /* while it runs */
	struct cli *step;	  /* the program of the start that runs now */
	struct cli *look;	  /* the one that looks at the image meanwhile */
	struct control *control;  /* until the guest has connected */
	struct channel *channel;  /* from then on */
	bool enters;		  /* there is no guest, and its network is entered from outside */
	bool advisory;		  /* or a policy is only offered */
	struct proxy_place place; /* with it: where the proxy is to listen */
	struct reach *reach;	  /* while a container without guest is asked what it has */
	int env_fd;
	int terminals;			/* the container's /dev/pts, -1: none yet */
	struct limit_counters counters; /* with limits: of the container's cgroup, when it can be read */
	unsigned busy;			/* programs and sockets that the loop has not let go of */
	bool step_makes;		/* the step is the one that makes the container: it must not be cut off */
	bool made;			/* there may be a container */
	bool removing;
	bool pulled;	  /* or built: what the engine does not have now cannot be had */
	bool looked;	  /* all is known of the image */
	bool guest_ready; /* waits for that, with these */
	int listeners[FRAME_MAX_FDS];
	size_t n_listeners;
	bool swept; /* for a name that was in use: at most once */
	bool ready;
	bool over;   /* lost or stopped: nothing more is started */
	bool killed; /* programs still ran when it was stopped */
	struct pull_count pull;
	uint64_t pull_told_ms;
	struct engine_exec *execs; /* of a container without guest */
	unsigned last_exec;
	void (*stopped)(void *arg, bool killed);
	void *stopped_arg;
};

/* Gives it a name that no other container of this process has: a run may have several, and the engine frees the name of
 * one that ended a little later. */
void container_name(struct container *c);

/* Goes on without the guest: PID 1 will be sleep, and the engine starts the programs, which a warning says. A policy is
 * offered from then on. Returns 0, or -errno when it may not be. */
int container_without_guest(struct container *c, const char *why, struct err *e) __attribute__((warn_unused_result));

/* Makes the container again, with a policy that is only offered, since its network cannot be entered. */
void container_offer(struct container *c, const char *why);

/* Begins the steps that end in on_ready or on_lost. */
int container_start(struct container *c, struct err *e) __attribute__((warn_unused_result));

/* Runs the engine's program as the next step of the start; argv holds the program, words do not. What more says of
 * argv and stdout's limit does not count. */
int container_step(struct container *c, const struct strv *argv, const struct cli_opts *more, cli_done_cb done,
		   struct err *e) __attribute__((warn_unused_result));
int container_step_words(struct container *c, const char *const *words, const struct cli_opts *more, cli_done_cb done,
			 struct err *e) __attribute__((warn_unused_result));
/* First in every step's callback; false when the start is over and nothing is to be done with the answer. */
bool container_step_ended(struct container *c);
/* Ends the start with the words of a step that failed. */
void container_fail(struct container *c, const struct cli_result *r, const char *what);

/* Makes the container of c->image. */
int container_make(struct container *c, struct err *e) __attribute__((warn_unused_result));

/* Pulls the image and makes the container again. */
void container_pull(struct container *c);

/* The guest, or without one the container, stands; listeners as in sandbox_callbacks. */
void container_ready(struct container *c, const int *listeners, size_t n);

/* The last word: at most once, and not for an end that was asked for. */
void container_lost(struct container *c, const struct err *e);

/* One thing that the loop has let go of; ends a stop when it was the last. */
void container_idle(struct container *c);

/* Takes the control socket away. Not while the container is being made: it mounts the socket's file, and dockerd can
 * hang over one that went away meanwhile. Nor before it is removed: a guest that cannot connect any more ends, and its
 * engine then removes the container by itself, some time after we said that it is gone. */
void container_close_control(struct container *c);

/* Ends and removes the container, once it may exist and no step makes it. */
void container_remove(struct container *c);

void container_emit(const struct container *c, const char *type, json_t *data);
void container_warn(const struct container *c, const char *code, const char *message);

/* Programs by the engine's own exec, for a container whose PID 1 is no guest; as sandbox_ops.exec. */
int engine_exec_start(struct container *c, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		      struct err *e) __attribute__((warn_unused_result));
/* Every one ends as EXEC_LOST. */
void engine_exec_lose_all(struct container *c);
