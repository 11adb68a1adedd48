/* Secrets that a sandbox uses without having them: a value, the placeholder that stands for it inside, and the hosts
 * that may get the value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct secrets;
struct strv;

enum {
	SECRET_MIN = 8, /* a shorter value stands in texts by chance, and its placeholder can be guessed */
	SECRET_MAX = 4096,
	SECRETS_MAX = 64,
};

/* Whether a value can be sent in a header and replaced by a placeholder: 0, or -EINVAL with why not. */
int secret_check_value(const char *value, size_t len, struct err *e) __attribute__((warn_unused_result));

/* Writes len random characters of the value's own kind and a NUL: prefixes by which tools know a token stay, letters
 * and digits are drawn from the kinds that the value has, everything else stays where it is. Returns 0, or -EINVAL when
 * too little of the value is letters and digits. */
int secret_placeholder(const char *value, size_t len, char *ret, struct err *e) __attribute__((warn_unused_result));

struct secrets *secrets_new(void) __attribute__((returns_nonnull));
/* Wipes what is left of the values. NULL is accepted. */
void secrets_free(struct secrets *s);
static inline void cleanup_secrets(struct secrets **s)
{
	secrets_free(*s);
}
#define auto_secrets __attribute__((cleanup(cleanup_secrets))) struct secrets *

/* Adds one: the value is copied into memory of its own that is locked and never part of a core; hosts are copied in
 * canonical form. Returns 0, or -EINVAL for a value or a host that cannot be, -E2BIG past SECRETS_MAX. */
int secrets_add(struct secrets *s, const char *name, const char *value, size_t len, const struct strv *hosts,
		struct err *e) __attribute__((warn_unused_result));

size_t secrets_count(const struct secrets *s);
const char *secrets_name(const struct secrets *s, size_t i);
/* What stands for the value inside; NULL by a name that is none. Borrowed. */
const char *secrets_placeholder_at(const struct secrets *s, size_t i);
const char *secrets_placeholder_of(const struct secrets *s, const char *name);

/* Adds the hosts that any of them is bound to, each once. */
void secrets_hosts(const struct secrets *s, struct strv *to);

/* Wipes the values and keeps the rest: for the process that gave them to its proxy. */
void secrets_forget(struct secrets *s);
/* Locks the values in memory again: a fork does not inherit that. */
void secrets_lock(const struct secrets *s);
