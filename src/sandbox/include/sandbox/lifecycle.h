/* The commands that a fresh sandbox runs before anything else, as devcontainer.json has them. */
#pragma once

#include <base/str.h>
#include <stdbool.h>
#include <stddef.h>

enum sandbox_stage { STAGE_ON_CREATE, STAGE_UPDATE_CONTENT, STAGE_POST_CREATE, STAGE_POST_START, STAGE_COUNT };

struct sandbox_command {
	char *name;	  /* "postCreateCommand", or "postCreateCommand.NAME" for a member of an object */
	struct strv argv; /* not empty; variables of the container's environment are still in it */
};

/* What runs at one stage: all of them at once; the next stage waits for the last. */
struct sandbox_hook {
	struct sandbox_command *v;
	size_t n, cap;
};

/* Owns its strings. */
struct sandbox_lifecycle {
	struct sandbox_hook stages[STAGE_COUNT];
};

/* Appends a command without arguments and returns it; the caller adds them. */
struct sandbox_command *lifecycle_add(struct sandbox_lifecycle *l, enum sandbox_stage stage, const char *name)
	__attribute__((returns_nonnull));

/* Appends copies of the commands of every stage. */
void lifecycle_append(struct sandbox_lifecycle *to, const struct sandbox_lifecycle *from);
bool lifecycle_equal(const struct sandbox_lifecycle *a, const struct sandbox_lifecycle *b);
bool lifecycle_empty(const struct sandbox_lifecycle *l);
void lifecycle_done(struct sandbox_lifecycle *l);
