/* A sandbox for the length of a run: driver, proxy, events. The engine and the commands know sandboxes only so. */
#pragma once

#include <driver/exec.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct sandbox_spec;
struct session;
struct strv;

struct session_params {
	uv_loop_t *loop;
	const struct sandbox_spec *spec; /* mode NONE: programs run on the host; copied */
	const char *driver;		 /* name, or NULL: chosen (ITERION_SANDBOX_DRIVER, then by host) */
	const char *workspace;		 /* absolute, resolved */
	const char *run_id;
	const char *run_name;
	const char *store_dir;	    /* the whole store, hidden inside; NULL: none */
	const char *artifact_files; /* a folder of the host that can be written inside; NULL: none */
	const char *attachments;    /* a folder of the host that can be read inside; NULL: none */
	const char *home;	    /* the user's HOME, which is empty and writable inside; NULL: none inside */
	const char *const *resolve; /* "HOST:IP" answers of the proxy that come before DNS; NULL: none */
	uint64_t deadline_s;	    /* a sandbox of a cluster ends by then, whoever is gone; 0: none */
	bool late;		    /* the sandbox itself is made by session_start, which may never be called */
	/* One sandbox event (docs/events.md); data is borrowed. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	/* network_blocked and secret_blocked, in place of on_event unless NULL, with the time (clock_ms) of the first
	 * and the last of the refusals that it tells of. */
	void (*on_blocked)(void *arg, const char *type, json_t *data, uint64_t first_ms, uint64_t last_ms);
	/* The sandbox or its proxy died by itself: execs under way end as EXEC_LOST right after. */
	void (*on_lost)(void *arg, const struct err *e);
	void *arg;
};

/* First part, before any loop runs and while the process is small: chooses the driver and forks what has to be
 * forked. Cheap, never waits. Returns 0 or -errno with all three parts of a message. */
int session_new(const struct session_params *p, struct session **ret, struct err *e)
	__attribute__((warn_unused_result));

/* What session_new would make of these parameters, without making anything (loop and callbacks are not used; the
 * folders artifact_files and attachments need not exist): driver, workspace_folder, home, artifact_files,
 * mounts [{type, source, target, readonly, origin}], skipped [{path, reason}], network {mode, enforcement, rules,
 * tls_inspect when it is on}, secrets [names] then, proxy_env [names], limits (driver/limits.h), warnings [{code,
 * message}]. Fails with what session_new would say. */
int session_plan(const struct session_params *p, json_t **ret, struct err *e) __attribute__((warn_unused_result));

/* Prepares and starts; done is called once, later, with NULL or why it failed (then nothing runs). */
typedef void (*session_done_cb)(void *arg, const struct err *e);
void session_start(struct session *s, session_done_cb done, void *arg);

/* Starts a program in it. Returns 0 (then done is called later, once), or -errno and done is never called. */
int session_exec(struct session *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		 struct err *e) __attribute__((warn_unused_result));

/* Makes a terminal for one program of a started session: *ret_outer is the caller's side (non-blocking), *ret_inner
 * the program's, for stdio with tty set. Both are the caller's. Returns 0 or -errno. */
int session_open_terminal(struct session *s, int *ret_outer, int *ret_inner, struct err *e)
	__attribute__((warn_unused_result));

/* Sends a signal to the program's session; a program that ended is no error. */
void exec_signal(struct exec *x, int sig);
/* Tells a tty exec its new size. */
void exec_resize(struct exec *x, unsigned rows, unsigned cols);

/* Where the workspace stands inside, and HOME inside (NULL: where the image has it). Valid once started. */
const char *session_workspace(const struct session *s);
const char *session_home(const struct session *s);
/* What its image gives every program ("NAME=value"; empty without an image): an exec's environment begins with it.
 * Valid once started. */
const struct strv *session_image_env(const struct session *s);
/* Where artifact_files stands inside; NULL: nowhere. */
const char *session_artifact_files(const struct session *s);
/* Where attachments stand inside; NULL: nowhere. */
const char *session_attachments(const struct session *s);
/* The driver's name ("native", "noop", …). */
const char *session_driver(const struct session *s);

/* Stops it from whatever state (also before or during start): network_summary and sandbox_stopped are emitted, then
 * done is called. Idempotent; every exec still running ends as EXEC_LOST first. */
void session_stop(struct session *s, session_done_cb done, void *arg);

/* Frees it; only after session_stop's done, or when session_start was never called. */
void session_free(struct session *s);
