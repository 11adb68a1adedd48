/* The named rule lists that ship with the program. */
#pragma once

#include <stddef.h>

struct strv;

/* Appends the rules of the preset (its parts expanded, in order). Returns 0, or -ENOENT for an unknown name. */
int preset_expand(const char *name, struct strv *to);

/* Rules whose hosts are refused without an event; NULL-terminated, static. */
const char *const *preset_silent(void);
