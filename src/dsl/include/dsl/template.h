/* Text with {{references}}: parsed once, rendered often. */
#pragma once

#include <dsl/scope.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct buf;
struct err;
struct template;

/* What the text is, hence how a value is put into it so that it stays a value. */
enum template_lang {
	TEMPLATE_TEXT,	 /* prompts, with: as it is */
	TEMPLATE_SHELL,	 /* command:, sh and bash scripts: quoted as one word, a list of strings as one word each */
	TEMPLATE_JS,	 /* a literal, or escaped where it stands inside a string */
	TEMPLATE_PYTHON, /* the same */
};

/* *ret lives in the arena. Returns 0, or -EINVAL with the reason in e and the offset in *ret_offset (may be NULL):
 * a bad reference, or one at a place of the command or script where no value can be put safely. */
int template_parse(struct arena *a, const char *text, size_t len, enum template_lang lang, const struct template **ret,
		   size_t *ret_offset, struct err *e) __attribute__((warn_unused_result));

/* Appends the text with every value in place. Returns 0, -ENOBUFS past the buffer's limit, or -EINVAL for a value that
 * cannot be passed (a NUL in a command). */
int template_render(const struct template *t, const struct dsl_scope *scope, struct buf *to, struct err *e)
	__attribute__((warn_unused_result));

/* The typed value when the text is one whole reference, else a JSON string. *ret is a new reference. */
int template_value(const struct template *t, const struct dsl_scope *scope, json_t **ret, struct err *e)
	__attribute__((warn_unused_result));

bool template_is_constant(const struct template *t);

/* The references in it. */
size_t template_refs(const struct template *t, const struct dsl_ref *const **ret);
