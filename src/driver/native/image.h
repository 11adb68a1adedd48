/* The image of a native sandbox: found in the store, or fetched into it first. */
#pragma once

#include "confine.h"

#include <base/str.h>
#include <image/store.h>
#include <image/user.h>
#include <uv.h>

struct err;
struct sandbox_callbacks;
struct sandbox_params;

/* What a sandbox has of its image. */
struct native_image {
	struct image image;
	struct image_user user; /* who its programs are */
	bool remapped;		/* the host's user, in place of the image's */
	char *passwd, *group;	/* the image's files, or NULL */
};
void native_image_done(struct native_image *i);

/* Finds it in the store and decides who its programs are. 0, -ENOENT (without an error) when it must be fetched, or
 * -errno. */
int native_image_find(const struct sandbox_params *p, struct native_image *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Which user inside is which outside. */
struct confine_ids native_image_ids(const struct native_image *i);

/* What it gives every program, with PATH and HOME as containers have them. */
void native_image_env(const struct native_image *i, struct strv *to);

/* What there is to say of it when the sandbox is up: sandbox_user_remap, sandbox_warning. Nothing without an image. */
void native_image_tell(const struct native_image *i, const struct sandbox_callbacks *cb);

/* Fetching, by another process. */
struct native_fetch;
struct native_fetch_callbacks {
	/* How far a layer is, at most twice a second. */
	void (*on_progress)(void *arg, const char *layer, unsigned long long current, unsigned long long total);
	/* Once; e is NULL when the image is in the store. The fetch is gone then. */
	void (*on_done)(void *arg, const struct err *e);
	void *arg;
};
int native_fetch_start(uv_loop_t *loop, const struct sandbox_params *p, const struct native_fetch_callbacks *cb,
		       struct native_fetch **ret, struct err *e) __attribute__((warn_unused_result));
/* Ends it; on_done follows. */
void native_fetch_kill(struct native_fetch *f);
