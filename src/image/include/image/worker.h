/* Fetching an image in a process of its own: how it is started, and what it says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The word by which this program does that. */
#define IMAGE_WORKER "__image-fetch"

struct image_request {
	const char *store;     /* the store's folder */
	const char *reference; /* as the user wrote it */
	const char *base;      /* absolute: where relative paths of it start */
	bool look;	       /* only whether it can be had */
};

/* The request as the worker reads it from its input; the caller frees. */
char *image_request_text(const struct image_request *r);

/* The worker itself: reads the request from a descriptor, and writes one line for each step to another. Returns the
 * exit code. */
int image_worker(int in, int out);

/* One line of the worker. */
enum image_word { IMAGE_WORD_OTHER, IMAGE_WORD_PROGRESS, IMAGE_WORD_DONE, IMAGE_WORD_FAILED };
struct image_line {
	enum image_word word;
	char layer[80];
	uint64_t current, total;
};
/* Takes it apart; e is set when it is the worker's error. */
void image_line_parse(const char *line, struct image_line *ret, struct err *e);

/* Fetches an image in this process, and waits. on_progress (may be NULL) as struct image_line has it. */
typedef void (*image_progress)(void *arg, const char *layer, uint64_t current, uint64_t total);
int image_pull(const struct image_request *r, image_progress on_progress, void *arg, struct err *e)
	__attribute__((warn_unused_result));

/* Asks for an image without fetching it, and waits; for a process of its own. 0, -ENOENT, -EACCES or another -errno. */
int image_look(const struct image_request *r, struct err *e) __attribute__((warn_unused_result));
