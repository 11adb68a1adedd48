/* Files of a run beside its record and its events. */
#pragma once

#include <jansson.h>
#include <stddef.h>

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

/* Copies what the run was made for. begin opens the folder (v is borrowed until the end); work may take long and is
 * called once, in any thread; stop makes it end soon and may be called meanwhile; end, which is called in any case,
 * notes size and sum in run.json, or says why not all was copied. 0 or -errno. */
struct store_attach;
int store_attach_begin(struct store_run *r, const struct store_attachment *v, size_t n, struct store_attach **ret,
		       struct err *e) __attribute__((warn_unused_result));
void store_attach_work(struct store_attach *a);
void store_attach_stop(struct store_attach *a);
int store_attach_end(struct store_attach *a, struct err *e) __attribute__((warn_unused_result));

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
