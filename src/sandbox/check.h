/* The validity of single values, for the check of a whole spec and for a block that knows where each was written. */
#pragma once

#include <sandbox/spec.h>

/* Each returns 0, or -EINVAL with what is wrong (without the field's name in front, except where it adds to it) and a
 * hint. */
int check_image(const char *image, struct err *e);
int check_user(const char *user, struct err *e);
int check_workspace_folder(const char *path, struct err *e);
int check_env_name(const char *name, size_t len, struct err *e);
int check_env_value(const char *value, struct err *e);
/* A path below the workspace, as build.dockerfile and build.context are. */
int check_build_path(const char *path, struct err *e);
int check_build_target(const char *target, struct err *e);
int check_secret_from(const char *from, struct err *e);
int check_secret_host(const char *host, struct err *e);
int check_cpus(double cpus, struct err *e);
int check_memory(uint64_t bytes, struct err *e);
int check_pids(uint64_t pids, struct err *e);

/* "2g", "512m", "1.5GiB", "1073741824" → bytes; units are powers of 1024. -EINVAL with a hint. */
int parse_memory(const char *text, uint64_t *ret, struct err *e);
