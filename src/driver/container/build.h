/* Making a sandbox's image from a Dockerfile of the workspace. */
#pragma once

#include <base/str.h>
#include <jansson.h>
#include <uv.h>

struct build;
struct build_context;
struct container_engine;
struct err;
struct sandbox_build;

/* Everything is borrowed until done was called. */
struct build_params {
	uv_loop_t *loop;
	const struct container_engine *engine;
	const char *program; /* the engine's, its path */
	const struct sandbox_build *spec;
	const char *workspace; /* absolute, resolved */
	const char *hidden;    /* the run store within the workspace, which no image may hold; NULL: none */
	/* sandbox_build_started, _finished and _failed; data is borrowed. NULL: nobody listens. */
	void (*on_event)(void *arg, const char *type, json_t *data);
	/* Called once, never from within build_start: the image's name, or NULL and why. Both are borrowed; the object
	 * is gone when it returns. */
	void (*done)(void *arg, const char *image, const struct err *e);
	void *arg;
};

/* Builds it unless the engine has the image of just these files already; then nothing is built and no event comes.
 * Returns 0, or -errno and done is never called. */
int build_start(const struct build_params *p, struct build **ret, struct err *e) __attribute__((warn_unused_result));

/* Ends it early: done follows with ERR_CANCELLED. */
void build_cancel(struct build *b);

/* Appends the words behind the engine's program that build it. buildx: the engine has that; mixes_args: see engine.h.
 */
void build_words(struct strv *argv, const struct sandbox_build *spec, const struct build_context *c, const char *image,
		 bool buildx, bool mixes_args);
