/* The documents of an image: index, manifest, configuration. Pure: text in, facts out; all of it is bounded, since
 * whoever made the image wrote it. */
#pragma once

#include <base/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum {
	MANIFEST_MAX_BYTES = 4 * 1024 * 1024, /* of each document (the distribution specification's own limit) */
	IMAGE_MAX_LAYERS = 200,		      /* fewer than the kernel's overlay takes in one mount */
};

/* What a registry is asked for: all forms of a manifest that are understood. */
extern const char manifest_accept[];

/* What an index or a manifest points to. */
struct blob_ref {
	char *digest;
	uint64_t size;
};

struct manifest {
	struct blob_ref config;
	struct blob_ref *layers; /* from the lowest to the topmost */
	size_t n_layers;
};
void manifest_done(struct manifest *m);

/* Where an image runs, in Go's words ("linux", "amd64"). */
struct platform {
	const char *os;
	const char *architecture;
};
/* This machine's. */
struct platform platform_here(void);

/* Whether the document lists images for several platforms. */
bool manifest_is_index(const char *text, size_t len);

/* Picks one of an index: by the name of a tag (org.opencontainers.image.ref.name; NULL: any), then by platform. Entries
 * without a platform serve when nothing else does. Returns 0, or -errno naming what there is. */
int index_choose(const char *text, size_t len, const char *tag, const struct platform *p, struct blob_ref *ret,
		 struct err *e) __attribute__((warn_unused_result));

/* Reads an OCI manifest or Docker's of schema 2. */
int manifest_parse(const char *text, size_t len, struct manifest *ret, struct err *e)
	__attribute__((warn_unused_result));

/* What is used of an image's configuration; its entry point and command are not. Strings are owned. */
struct image_config {
	char *architecture;
	struct strv env; /* "NAME=value" */
	char *user;	 /* NULL: root */
	char *workdir;	 /* NULL: none */
	struct strv diff_ids;
};
void image_config_done(struct image_config *c);

int image_config_parse(const char *text, size_t len, struct image_config *ret, struct err *e)
	__attribute__((warn_unused_result));
