/* The name of an image: of a registry, a folder in the OCI layout, or an archive. */
#pragma once

#include <stdbool.h>

struct err;

enum image_kind { IMAGE_REGISTRY, IMAGE_OCI_DIR, IMAGE_DOCKER_ARCHIVE };

/* Strings are owned; freed by image_ref_done. */
struct image_ref {
	enum image_kind kind;
	char *text;	  /* the whole name in its one canonical form */
	char *domain;	  /* registry: "docker.io", "localhost:5000" */
	char *repository; /* registry: "library/debian" */
	char *tag;	  /* NULL: none (registry: only with a digest) */
	char *digest;	  /* "sha256:…" or "sha512:…", NULL: none */
	char *path;	  /* folder or archive: absolute */
};
void image_ref_done(struct image_ref *r);
#define auto_image_ref __attribute__((cleanup(image_ref_done))) struct image_ref

/* Parses "debian:12", "ghcr.io/a/b@sha256:…", "oci:DIR[:TAG]", "docker-archive:FILE[:NAME]" (Docker's grammar of
 * references: docker.io and library/ are filled in, and the tag latest). base: the absolute folder that relative paths
 * start from. Pure. Returns 0, or -EINVAL with what is wrong and a name that is right. */
int image_ref_parse(const char *text, const char *base, struct image_ref *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Whether the registry is on this machine's loopback: only such a one may be asked without TLS. */
bool image_ref_is_loopback(const struct image_ref *r);

/* Whether it is "sha256:" or "sha512:" and lower-case hexadecimal digits, as many as it must have. */
bool image_digest_valid(const char *s);
