/* Where an image comes from: a registry, a folder, an archive. Everything waits: it runs in a process of its own. */
#pragma once

#include "manifest.h"

#include <base/buf.h>
#include <image/reference.h>

struct err;
struct source;

/* Takes a piece of a blob; -errno ends the reading with it. */
typedef int (*source_take)(void *arg, const void *data, size_t len);

struct source_ops {
	/* A manifest or index: by its digest, or (NULL) what the reference leads to. Its bytes, not checked. */
	int (*manifest)(struct source *s, const char *digest, struct buf *to, struct err *e);
	/* All of a blob in pieces, not checked; -errno with e, or take's own -errno without. */
	int (*blob)(struct source *s, const struct blob_ref *b, source_take take, void *arg, struct err *e);
	void (*free)(struct source *s);
};

struct source {
	const struct source_ops *ops;
	const char *index_tag; /* the tag by which an index is searched; NULL: by platform alone */
};

int registry_open(const struct image_ref *ref, struct source **ret, struct err *e) __attribute__((warn_unused_result));
int oci_dir_open(const struct image_ref *ref, struct source **ret, struct err *e) __attribute__((warn_unused_result));
int archive_open(const struct image_ref *ref, struct source **ret, struct err *e) __attribute__((warn_unused_result));

/* A whole blob of at most MANIFEST_MAX_BYTES, checked against its digest and size. */
int source_document(struct source *s, const struct blob_ref *b, struct buf *to, struct err *e)
	__attribute__((warn_unused_result));
