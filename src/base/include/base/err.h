/* Errors by value: what failed, why, and what to do about it. */
#pragma once

#include <stdarg.h>

/* X(name, text, exit code of a command that ends with it) */
#define ERR_KINDS(X)                                                                                                   \
	X(NONE, "no error", 0)                                                                                         \
	X(USAGE, "usage", 2)                                                                                           \
	X(INPUT, "bad input", 2)                                                                                       \
	X(PREFLIGHT, "preflight", 2)                                                                                   \
	X(SYSTEM, "system", 1)                                                                                         \
	X(PROTOCOL, "protocol", 1)                                                                                     \
	X(SANDBOX, "sandbox", 1)                                                                                       \
	X(NETWORK, "network", 1)                                                                                       \
	X(NODE, "node", 1)                                                                                             \
	X(BUDGET, "budget", 1)                                                                                         \
	X(UNSUPPORTED, "unsupported", 1)                                                                               \
	X(PAUSED, "paused", 3)                                                                                         \
	X(CANCELLED, "cancelled", 130)                                                                                 \
	X(TERMINATED, "terminated", 143)                                                                               \
	X(INTERNAL, "internal", 1)

enum err_kind {
#define ERR_ENUM(name, text, code) ERR_##name,
	ERR_KINDS(ERR_ENUM)
#undef ERR_ENUM
};

/* Lives on the caller's stack; small enough (under PIPE_BUF) for one atomic write, so a child can send its own.
 * Every function takes it as the last parameter and accepts NULL. msg reads "what failed: why", hint what to do. */
struct err {
	enum err_kind kind;
	int errnum; /* errno behind it, 0 when there is none */
	char msg[1024];
	char hint[512];
};

#define ERR_INIT                                                                                                       \
	(struct err)                                                                                                   \
	{                                                                                                              \
		.kind = ERR_NONE                                                                                       \
	}

/* Fills e (replacing what it held) and returns -errnum, or -EINVAL when errnum is 0. */
int err_set(struct err *e, enum err_kind kind, int errnum, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* As err_set with kind SYSTEM; appends ": " and the text of errnum. */
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "fmt: " before the message of e and returns r unchanged. */
int err_wrap(struct err *e, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Sets what to do, unless a deeper layer said it already. */
void err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Changes the kind and keeps the rest. */
void err_set_kind(struct err *e, enum err_kind kind);

/* Copies from src when it holds an error; either may be NULL. */
void err_copy(struct err *dst, const struct err *src);

/* The kind's short word, for events and JSON. */
const char *err_kind_name(enum err_kind kind);

/* The exit code of a command that ends with this kind. */
int err_exit_code(enum err_kind kind);
