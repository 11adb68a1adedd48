/* One statement laid over another. */
#pragma once

#include <sandbox/block.h>

/* Lays over on to: what it gives replaces or adds, the rest stays. Returns 0, or -EINVAL when their networks cannot be
 * one. */
int sandbox_overlay(struct sandbox_block *to, const struct sandbox_block *over, struct err *e)
	__attribute__((warn_unused_result));

/* Takes out what belongs to an image: env, mounts, user, folders, commands. Network, secrets, limits and host state
 * stay: they are what the sandbox is allowed, not what is in it. */
void sandbox_overlay_drop_content(struct sandbox_block *b);
