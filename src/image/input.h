/* Bytes that come one after the other: a file, a pipe, or what a decompressor makes of them. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct input_state;

struct input {
	/* Up to n bytes: how many (0: the end), or -errno. */
	ssize_t (*read)(void *arg, void *to, size_t n, struct err *e);
	void *arg;
};

/* Reads exactly n bytes: 1, 0 when there is not one byte more, -EPROTO when it ends in between, or -errno. */
int input_read(const struct input *in, void *to, size_t n, struct err *e) __attribute__((warn_unused_result));

/* Bytes of a descriptor; arg is a pointer to it. */
ssize_t input_read_fd(void *arg, void *to, size_t n, struct err *e);

/* The bytes behind a compression, known by its first bytes: gzip, zstd or none. Give it back with expand_free. */
struct expand;
struct expand *expand_new(const struct input *from) __attribute__((returns_nonnull));
void expand_free(struct expand *x);
ssize_t expand_read(void *arg, void *to, size_t n, struct err *e);
