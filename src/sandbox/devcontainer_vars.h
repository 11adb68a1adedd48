/* ${NAME:ARGUMENT…} in text, for both stages of devcontainer.json. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct buf;

struct var {
	const char *name; /* not terminated */
	size_t name_len;
	const char *arg; /* up to the next colon; NULL: none */
	size_t arg_len;
	const char *fallback; /* behind that colon, up to the next; NULL: none */
	size_t fallback_len;
};

/* Appends what stands for a variable: 1; 0 when it is not known here and stays as text; -errno ends it all. */
typedef int (*var_value_fn)(void *arg, const struct var *v, struct buf *to);

bool var_is(const struct var *v, const char *name);

/* Appends the value of the environment variable that v names, or its fallback, or nothing. 1, -EINVAL when it names
 * none, -ENOBUFS past the buffer's limit. */
int var_add_env(const struct var *v, const char *const *env, struct buf *to);

/* Appends len bytes of text with its variables replaced, once: values are not looked at again. Linear in len. */
int vars_replace(const char *text, size_t len, var_value_fn value, void *arg, struct buf *to)
	__attribute__((warn_unused_result));
