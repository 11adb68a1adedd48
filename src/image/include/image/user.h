/* Who an image's programs run as, by its own files of accounts. Pure. */
#pragma once

#include <sys/types.h>

struct err;

struct image_user {
	uid_t uid;
	gid_t gid;
	char *home; /* NULL: its files do not say */
};

/* user: "NAME", "UID", either with ":GROUP" or ":GID"; NULL or "": root. passwd and group are the files' texts, or
 * NULL. A number needs no entry. Returns 0, or -ENOENT naming what is in neither file. The caller frees home. */
int image_user_find(const char *user, const char *passwd, const char *group, struct image_user *ret, struct err *e)
	__attribute__((warn_unused_result));
