/* The egress proxy: a confined process of its own, seen from the run's loop. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct err;
struct policy;
struct proxy;
struct secrets;

enum { PROXY_TOKEN_SIZE = 65 }; /* 64 hex digits (256 bits) and a NUL */

/* TLS inspection. */
struct proxy_inspect {
	bool all;		       /* every host; else those that a secret is bound to */
	const struct secrets *secrets; /* borrowed during the call; may be empty */
	const char *program;	       /* the file of iterion-proxy */
	const char *trust;	       /* a file of certificates (PEM): whom the proxy believes */
};

struct proxy_params {
	const struct policy *policy; /* borrowed during the call: the child has its own copy of the memory */
	const char *token;	     /* what clients must present; NULL: no authentication */
	/* "HOST:IP" answers that come before any look-up (tests, split DNS); NULL-terminated or NULL. Addresses given
	 * so are checked like resolved ones. */
	const char *const *resolve;
	bool learn;	 /* record every host, block nothing but malformed requests */
	bool strict_sni; /* close TLS tunnels whose ClientHello has no server name or hides it (ECH) */
	const struct proxy_inspect *inspect; /* NULL: TLS is not opened */
};

/* One refused connection; count > 1 when equal ones within a second were folded. */
struct proxy_blocked {
	const char *host;
	unsigned port;
	const char *reason; /* "policy denial", "resolved address", "sni mismatch", … */
	const char *rule;   /* what decided, or "default" */
	unsigned count;
	uint64_t first_ms, last_ms; /* clock_ms of the first and the last of them */
};

/* A placeholder that was sent to a host to which its secret is not bound. */
struct proxy_secret_blocked {
	const char *name; /* the secret's */
	const char *host;
	unsigned port;
	unsigned count;
	uint64_t first_ms, last_ms; /* as of a refusal */
};

/* Totals for one host at the end. */
struct proxy_host_total {
	const char *host;
	uint64_t allowed; /* connections or forwarded requests */
	uint64_t blocked;
	uint64_t bytes_up;   /* from the sandbox */
	uint64_t bytes_down; /* to the sandbox */
};

struct proxy_callbacks {
	void (*on_blocked)(void *arg, const struct proxy_blocked *b);
	/* May be NULL. */
	void (*on_secret_blocked)(void *arg, const struct proxy_secret_blocked *b);
	/* Once, between proxy_stop and its done; n may be 0. */
	void (*on_summary)(void *arg, const struct proxy_host_total *t, size_t n);
	/* The process died by itself (not after proxy_stop): all egress is closed from this moment on. */
	void (*on_lost)(void *arg, const struct err *e);
	/* What a hook of proxy_test_hook gave: 0 when the forbidden thing worked, else the errno. May be NULL. */
	void (*on_test_hook)(void *arg, int what, int errnum);
	void *arg;
};

/* Forks the proxy process (with inspection, starts its program): it confines itself at once and waits for listeners.
 * Call while the process is small and has one thread. Does not block, but with inspection it waits some milliseconds
 * for the certificate of the proxy's authority. */
int proxy_new(const struct proxy_params *p, struct proxy **ret, struct err *e) __attribute__((warn_unused_result));

/* With inspection: the certificate (PEM) that programs inside must trust. NULL without. Borrowed. */
const char *proxy_certificate(const struct proxy *p);

/* Begins to watch it on the loop. ready is called once with NULL when its confinement was proven from within, or with
 * what could not be locked down (then it has ended). */
int proxy_attach(struct proxy *p, uv_loop_t *loop, const struct proxy_callbacks *cb,
		 void (*ready)(void *arg, const struct err *e), void *ready_arg, struct err *e)
	__attribute__((warn_unused_result));

/* Hands it a listening stream socket; the descriptor is the proxy's from here on, in this process it is closed. */
int proxy_add_listener(struct proxy *p, int fd) __attribute__((warn_unused_result));

/* Drains for at most drain_ms, reports the summary, ends the process; done is called once. */
void proxy_stop(struct proxy *p, unsigned drain_ms, void (*done)(void *arg), void *arg);

/* Frees it and kills the process when it still runs. After proxy_attach only after proxy_stop's done. */
void proxy_free(struct proxy *p);

pid_t proxy_pid(const struct proxy *p);

/* For tests, with the build option test_hooks only (else -ENOSYS): makes the process crash or try what it must not be
 * able to do. PROXY_HOOK_EXEC ends it when the confinement holds. */
enum { PROXY_HOOK_ABORT, PROXY_HOOK_TRAP, PROXY_HOOK_OPEN, PROXY_HOOK_EXEC, PROXY_HOOK_UNIX_SOCKET, PROXY_HOOK_MAX };
int proxy_test_hook(struct proxy *p, int what) __attribute__((warn_unused_result));
