/* What an engine's program said, as an error that people can act on. */
#pragma once

#include <stdbool.h>

struct cli_result;
struct container_engine;
struct err;

enum words_kind {
	WORDS_OTHER,
	WORDS_DAEMON_DOWN,
	WORDS_NO_PERMISSION,
	WORDS_IMAGE_NOT_FOUND,
	WORDS_UNAUTHORIZED,
	WORDS_NO_REGISTRY, /* it cannot be reached */
	WORDS_DISK_FULL,
	WORDS_BAD_NAME,
	WORDS_NAME_IN_USE,
	WORDS_NO_CONTAINER,  /* there is none of the name, or it is being removed */
	WORDS_GUEST_REFUSED, /* the guest's file cannot be executed in there */
	WORDS_MOUNT_REFUSED,
	WORDS_IMAGE_IN_THE_WAY, /* nothing can be mounted where the image has something else */
	WORDS_NO_USER,		/* the image does not know the user's name */
	WORDS_LIMITS,		/* a limit that this machine cannot set */
};

/* What kind of failure the text, an engine's stderr, tells of. */
enum words_kind words_classify(const char *text);

/* Makes the whole error of a program that failed: its own last words, and what to do; image may be NULL. Returns
 * -errno of e. */
int words_explain(const struct container_engine *en, const struct cli_result *r, const char *image, struct err *e);

/* The same when the daemon's socket could not be connected to. */
int words_no_socket(const struct container_engine *en, const char *path, int errnum, struct err *e);
