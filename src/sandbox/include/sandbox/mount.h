/* Mounts: how they are written, and which folders of the host no sandbox may have. */
#pragma once

#include <stdbool.h>

struct err;
struct sandbox_mount;
struct sandbox_sensitive;

/* Reads "type=bind,source=/a,target=/b,readonly" (docker --mount: CSV, keys type, source or src, target, destination or
 * dst, readonly or ro; key of a configmap or secret) or "/a:/b:ro" (docker -v). Variables are expanded before. Fills
 * ret but its origin; the strings are the caller's. Returns 0, or -EINVAL with the mount, what is wrong and how to
 * write it. */
int sandbox_mount_parse(const char *text, struct sandbox_mount *ret, struct err *e) __attribute__((warn_unused_result));

/* Whether type, source and target go together: what sandbox_mount_parse checks, for a mount that came otherwise. */
int sandbox_mount_check(const struct sandbox_mount *m, struct err *e) __attribute__((warn_unused_result));

/* What the list of sensitive places is made from; any member may be NULL. */
struct sandbox_host_facts {
	const char *home;	    /* the user's HOME */
	const char *const *homes;   /* other users' (the password file's), NULL-terminated */
	const char *docker_host;    /* DOCKER_HOST: unix://PATH, or a remote engine */
	const char *container_host; /* CONTAINER_HOST: the same for podman */
	const char *ssh_auth_sock;
	const char *xdg_runtime_dir;
	const char *runs_dir; /* runs/ of the store: no other run may be seen */
	const char *own_run;  /* this run's folder below it, which is the exception */
};

/* Collects the places: those that every Linux host has, and the facts'. Symlinks on the way to each are resolved as
 * they are now, and both spellings are kept. Free with sandbox_sensitive_free. */
struct sandbox_sensitive *sandbox_sensitive_new(const struct sandbox_host_facts *f);
void sandbox_sensitive_free(struct sandbox_sensitive *s);

/* Whether a bind of the path (absolute, without symlinks) may be had: 0, or -EPERM when it is one of the sensitive
 * places, lies below one, or contains one, with which and why. */
int sandbox_mount_check_source(const struct sandbox_sensitive *s, const char *path, struct err *e)
	__attribute__((warn_unused_result));

/* As above for a path as it was written, which must lead to a folder, a regular file or a safe device: resolves its
 * symlinks first; *ret_resolved (may be NULL) is the path that was
 * checked, which the caller frees. The caller mounts that very path without following symlinks again. -ENOENT and other
 * errors of the file system with a hint. */
int sandbox_mount_resolve_source(const struct sandbox_sensitive *s, const char *source, char **ret_resolved,
				 struct err *e) __attribute__((warn_unused_result));
