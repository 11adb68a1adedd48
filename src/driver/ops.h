/* The interface between a session and a driver. All of it is asynchronous on the session's loop: what takes time
 * answers later, by callback. */
#pragma once

#include <driver/driver.h>
#include <base/str.h>
#include <driver/exec.h>
#include <jansson.h>
#include <uv.h>

struct host_state_plan;
struct sandbox;
struct sandbox_limits;
struct sandbox_spec;

/* What programs inside are to trust, as PEM. Both NULL in a plan, where they do not exist yet. */
struct certificates {
	char *authority; /* of the proxy that inspects TLS */
	char *bundle;	 /* the host's own store, and the authority */
};

/* What a sandbox is made from; everything is borrowed until its free. */
struct sandbox_params {
	const struct sandbox_spec *spec;
	const char *workspace;			  /* absolute, resolved, checked */
	const char *workspace_target;		  /* where it stands inside */
	const char *home;			  /* inside; NULL: none */
	const char *hidden;			  /* the run store within the workspace, or NULL */
	const struct host_state_plan *host_state; /* empty: none */
	const char *artifact_files;		  /* on the host; NULL: none */
	const char *attachments;		  /* on the host, to be read only; NULL: none */
	const char *run_id;
	const char *run_name;
	const struct certificates *certificates; /* NULL: TLS is not inspected */
	bool enforce_network;			 /* no network but the listening sockets */
	uint64_t deadline_s; /* after it nothing of it may be left, whoever is gone by then; 0: none */
};

/* How it speaks to the session; each may come at any time after start. */
struct sandbox_callbacks {
	/* Once: everything stands. The listening sockets inside, n of them, are the callee's from here on. */
	void (*on_ready)(void *arg, const int *listeners, size_t n);
	/* Start failed, or it died later by itself: once, the last word. */
	void (*on_lost)(void *arg, const struct err *e);
	/* One event of its own (docs/events.md); data is borrowed. May be NULL. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	void *arg;
};

struct exec_ops {
	void (*signal)(struct exec *x, int sig);
	void (*resize)(struct exec *x, unsigned rows, unsigned cols);
};

/* The part of an exec that every driver's has at its start. */
struct exec {
	const struct exec_ops *ops;
	exec_done_cb done;
	void *arg;
};

struct driver {
	const char *name;
	bool mounts_by_path; /* its engine looks sources of mounts up again, later */
	struct driver_caps caps;
	/* Where a sandbox has its artifact files and its attachments; NULL: at the host's path. */
	const char *artifact_files;
	const char *attachments;
	int (*probe)(struct err *e);
	/* Whether it is one to be chosen on this host; NULL: whenever it can serve. */
	bool (*wanted)(void);
	/* Whether it can ever make what the spec asks for, beyond its caps; asks nobody. NULL: the caps say all. */
	int (*check_spec)(const struct sandbox_spec *spec, struct err *e);
	/* Whether there is a reason to think that it cannot serve here, by a glance; NULL: the probe is cheap. */
	bool (*doubtful)(void);
	/* Begins at once what needs no loop (forks); never waits. */
	int (*sandbox_new)(const struct sandbox_params *p, struct sandbox **ret, struct err *e);
	int (*sweep)(size_t *ret_n, struct err *e); /* NULL: leaves nothing behind */
	/* Appends one object for each sandbox of ours that there is, anybody's (docs/cli.md). NULL: they die with their
	 * runs, and nobody else knows of them. */
	int (*list)(json_t *rows, struct err *e);
	/* What it cannot do here, beyond caps: 0, or -errno before anything is made. *ret_offered: whether a network
	 * policy can only be offered. NULL: nothing. */
	int (*check)(const struct sandbox_params *p, bool *ret_offered, struct err *e);
	/* Appends what it would mount, by mount_list_add, and makes nothing. NULL: what the params say and no more. */
	int (*list_mounts)(const struct sandbox_params *p, json_t *list, struct err *e);
	/* As driver_limits. NULL: whoever makes the sandboxes holds them. */
	json_t *(*limits)(const struct sandbox_limits *l);
};

struct sandbox_ops {
	/* on_ready or on_lost follows. */
	int (*start)(struct sandbox *s, uv_loop_t *loop, const struct sandbox_callbacks *cb, struct err *e);
	/* env is complete. done is never called from within. */
	int (*exec)(struct sandbox *s, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		    struct err *e);
	/* Opens the outer side of a new terminal of the sandbox, non-blocking: the descriptor or -errno. */
	int (*open_terminal)(struct sandbox *s);
	/* Ends everything inside; every exec ends as EXEC_LOST, then done (killed: some still ran). From any state, at
	 * most once. */
	void (*stop)(struct sandbox *s, void (*done)(void *arg, bool killed), void *arg);
	/* After stop's done, or when start was never called: then it ends what sandbox_new began. */
	void (*free)(struct sandbox *s);
};

struct sandbox {
	const struct sandbox_ops *ops;
	char *image_digest; /* "sha256:…", once it is ready; NULL: it has no image, or one without */
	struct strv env;    /* what its image gives every program in it; once it is ready */
	/* How programs inside reach the proxy when it is not on their own loopback, once it is ready; NULL: it is. Then
	 * the policy is offered by variables and not enforced. */
	char *proxy_host;
	uint16_t proxy_port;
	bool without_guest; /* once it is ready */
};

/* Where systems keep the file of the certificates that they trust; NULL-terminated. */
extern const char *const certificate_places[];

/* One mount of a plan: type bind, tmpfs, cover (an empty folder that hides what is there) or the file system's name. */
void mount_list_add(json_t *list, const char *type, const char *source, const char *target, bool readonly);

extern const struct driver driver_docker;
extern const struct driver driver_kubernetes;
extern const struct driver driver_podman;
extern const struct driver driver_native;
extern const struct driver driver_noop;
