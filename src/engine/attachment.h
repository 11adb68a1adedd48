/* Files that a run is given (`run --attachment`). */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <store/run_files.h>

struct engine;
struct engine_params;
struct err;
struct place;

/* Files that were opened and found to be what the workflow wants, until they are copied. */
struct attachments {
	struct store_attachment *v;
	size_t n, cap;
};

/* Opens what the user gave and checks it against the declarations: 0, or -errno with what is wrong. ret is the caller's
 * to end in any case. */
int attachments_open(const struct engine_params *p, struct attachments *ret, struct err *e)
	__attribute__((warn_unused_result));
void attachments_done(struct attachments *a);

/* Copies them into the run's folder while the loop goes on, and calls engine_go_on from it then; when they cannot be
 * copied the run ends. There is at least one. */
void attachments_copy(struct engine *en);

/* For a run that goes on: whether it still has what it was given, and what the workflow wants. 0 or -errno. */
int attachments_resume(const struct engine *en, struct err *e) __attribute__((warn_unused_result));

/* The folder of the run's attachments on this host, or NULL when it has none; the caller frees. */
char *attachments_folder(const struct engine *en);

/* What {{attachments.NAME}} is for a node in a place: {path, url, mime, size, sha256}, or NULL when the run was not
 * given one of that name; all of them by name when name is NULL. A new reference. */
json_t *attachments_value(const struct engine *en, const struct place *place, const char *name);
