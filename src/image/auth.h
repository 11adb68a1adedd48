/* Who the user is to a registry: Docker's and Podman's files of credentials, and credential helpers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;

/* Owned; credentials_done wipes and frees. */
struct credentials {
	char *user; /* NULL: none are known */
	char *secret;
	bool is_token; /* secret is an identity token, to be changed for others */
};
void credentials_done(struct credentials *c);

/* What a file says, before any helper is asked. */
struct credentials_entry {
	struct credentials found;
	char *helper; /* the helper's name, asked instead; NULL: none */
	char *server; /* what it is asked for */
};
void credentials_entry_done(struct credentials_entry *e);

/* Reads a config.json or auth.json for a registry ("docker.io") and repository. Pure. Returns 0, or -EINVAL when the
 * file is none. */
int credentials_parse(const char *text, size_t len, const char *domain, const char *repository,
		      struct credentials_entry *ret, struct err *e) __attribute__((warn_unused_result));

/* A helper's answer. Pure. */
int credentials_parse_helper(const char *text, size_t len, struct credentials *ret) __attribute__((warn_unused_result));

/* From $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json, ~/.docker/config.json or Podman's auth.json, the first that
 * has any. None are no error. Waits for a helper, at most a minute. */
int credentials_find(const char *domain, const char *repository, struct credentials *ret, struct err *e)
	__attribute__((warn_unused_result));
