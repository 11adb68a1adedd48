/* Files of a run beside its record and its events. */
#pragma once

#include <jansson.h>

struct err;
struct store_run;

/* A file that the run is given; its bytes, from fd's position on, become attachments/<file>. */
struct store_attachment {
	const char *name;
	const char *file; /* a plain file name, different for each */
	const char *mime;
	int fd; /* stays the caller's */
};
#define STORE_ATTACHMENT_MAX (4ULL << 30) /* bytes of one */

/* Writes artifacts/<node>/<version>.json in one step. */
int store_run_artifact(struct store_run *r, const char *node, unsigned version, const json_t *value, struct err *e)
	__attribute__((warn_unused_result));

/* Writes interactions/<id>.json in one step. */
int store_run_interaction(struct store_run *r, const char *id, const json_t *value, struct err *e)
	__attribute__((warn_unused_result));

/* Writes recoveries/<name>.json in one step. */
int store_run_recovery(struct store_run *r, const char *name, const json_t *value, struct err *e)
	__attribute__((warn_unused_result));

/* Creates output/<name> for writing, exclusively; name is made unique. *ret_ref, which the caller frees, is the path
 * relative to the run's folder. Returns the descriptor or -errno. */
int store_run_output(struct store_run *r, const char *name, char **ret_ref, struct err *e)
	__attribute__((warn_unused_result));

/* Appends "timestamp level text" to run.log; best effort. */
void store_run_log(struct store_run *r, const char *level, const char *text);
