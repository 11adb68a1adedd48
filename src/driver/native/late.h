/* A native sandbox that has an image: made at once when the image is in the store, else when it has been fetched. */
#pragma once

struct err;
struct native_image;
struct sandbox;
struct sandbox_params;

int late_new(const struct sandbox_params *p, struct sandbox **ret, struct err *e) __attribute__((warn_unused_result));

/* native.c's: makes the sandbox itself. image: what it has of one, taken on success; NULL: it has none. */
int native_new(const struct sandbox_params *p, struct native_image *image, struct sandbox **ret, struct err *e)
	__attribute__((warn_unused_result));
