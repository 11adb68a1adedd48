/* The set of secrets as the proxy sees it. */
#pragma once

#include <base/str.h>
#include <net/secret.h>

struct secret {
	char *name;
	char *placeholder;
	char *value; /* at the start of a mapping of its own; NULL once forgotten */
	size_t len;
	struct strv hosts; /* canonical */
	/* The value as hosts may write it (secret_forms.c), and the placeholder written so. */
	struct secret_form {
		const char *value; /* in forms_memory */
		char *placeholder;
		size_t len; /* of both */
	} * forms;
	size_t n_forms;
	char *forms_memory;
	size_t forms_used;
};

struct secrets {
	struct secret v[SECRETS_MAX];
	size_t n;
};

/* Whether the value may go to that host (canonical). */
bool secret_is_bound(const struct secret *s, const char *host);

/* Makes the forms of a value and its placeholder; wipes and frees them; keeps them from swap and cores, as the value.
 */
void secret_forms_make(struct secret *s);
void secret_forms_forget(struct secret *s);
void secret_forms_protect(const struct secret *s);

/* Adds one whose placeholder is known: for the process that was told it. 0 or -EPROTO for one that secrets_add could
 * not have made. */
int secrets_restore(struct secrets *s, const char *name, const char *placeholder, const char *value, size_t len,
		    const char *const *hosts) __attribute__((warn_unused_result));
