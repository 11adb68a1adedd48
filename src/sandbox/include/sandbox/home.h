/* HOME inside a sandbox: which parts of it are empty and writable. */
#pragma once

#include <stddef.h>

struct err;
struct strv;

/* The tmpfs to lay, parents before children, for a writable HOME with these bind targets over it: HOME itself and every
 * folder between it and a bind, but nothing that lies inside a bind. A container engine would make the missing parents
 * of a bind root's own, and with them everything beside it unwritable. home empty: none. Returns 0, or -EINVAL when
 * home is "/" or not absolute. */
int sandbox_home_tmpfs(const char *home, const char *const *binds, size_t n, struct strv *ret, struct err *e)
	__attribute__((warn_unused_result));
