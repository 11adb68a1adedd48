/* What an agent is given besides its command: a folder with files where it runs, and an end for all that it starts. */
#pragma once

#include <base/err.h>
#include <base/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct agent_child;
struct session;

struct agent_file {
	const char *name; /* letters, digits, '.', '-' and '_' */
	const char *text;
	size_t len;
};

enum { ROOM_FILES_MAX = 4 };

struct agent_room {
	uv_loop_t *loop;
	struct session *session;
	const char *const *env; /* without the mark */
	char *dir;		/* where it runs; made only when there are files */
	char *mark;		/* NAME=value for the environment of everything that the agent starts */
	struct agent_file files[ROOM_FILES_MAX];
	size_t n, written;
	bool made; /* something of the folder may be there */
	struct agent_child *child;
	struct err err;
	/* NULL or what went wrong; from the loop. */
	void (*done)(void *arg, const struct err *e);
	void *arg;
};

/* Everything is borrowed until room_done. */
void room_init(struct agent_room *r, uv_loop_t *loop, struct session *session, const char *const *env);
/* Plans a file; its text is borrowed until room_enter's done. Its path where the agent runs; the caller frees. */
char *room_add(struct agent_room *r, const char *name, const char *text) __attribute__((returns_nonnull));

/* Writes the files, readable by their owner only: 0 and done will be called (only when there are any: *ret_wait), or
 * -errno. */
int room_enter(struct agent_room *r, void (*done)(void *arg, const struct err *e), void *arg, bool *ret_wait,
	       struct err *e) __attribute__((warn_unused_result));

/* Removes the folder, and with sweep kills every process that has the mark. Returns whether done will be called; there
 * may be nothing to do, and a sandbox that is gone needs no cleaning. */
bool room_leave(struct agent_room *r, bool sweep, void (*done)(void *arg, const struct err *e), void *arg);
void room_signal(struct agent_room *r, int sig);
void room_free(struct agent_room *r);
