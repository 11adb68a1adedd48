/* Writing one run's folder: run.json, events.jsonl, artifacts, large outputs, the log. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct store_attachment;
struct store_run;

/* X(name, word in run.json) */
#define RUN_STATUSES(X)                                                                                                \
	X(QUEUED, "queued")                                                                                            \
	X(RUNNING, "running")                                                                                          \
	X(PAUSED, "paused_waiting_human")                                                                              \
	X(FINISHED, "finished")                                                                                        \
	X(FAILED, "failed")                                                                                            \
	X(FAILED_RESUMABLE, "failed_resumable")                                                                        \
	X(CANCELLED, "cancelled")
enum run_status {
#define RUN_STATUS_ENUM(name, word) RUN_##name,
	RUN_STATUSES(RUN_STATUS_ENUM)
#undef RUN_STATUS_ENUM
};
const char *run_status_name(enum run_status s);

struct store_run_params {
	const char *store_dir; /* absolute; made when it does not exist */
	const char *run_id;    /* store_run_id_check */
	const char *run_name;  /* NULL: none */
	const char *workflow;
	const char *file;
	const char *file_sha256; /* 64 hex digits */
	const char *file_path;	 /* the same, absolute; NULL: not known */
	const char *workspace;
	json_t *inputs;	 /* borrowed: the values of the vars */
	json_t *sandbox; /* borrowed: what resume must know of the sandbox; NULL: nothing */
	json_t *options; /* borrowed: and of the command line; NULL: nothing */
	/* run.json's "attachments": {name: {file, mime, size, sha256}}; store_attach_begin (run_files.h) copies them */
	const struct store_attachment *attachments;
	size_t n_attachments;
};

/* Letters, digits, '.', '_' and '-', at most 64, the first a letter or digit: 0, or -EINVAL with what is wrong. */
int store_run_id_check(const char *run_id, struct err *e) __attribute__((warn_unused_result));

/* Makes runs/<id> with run.json (status running, this process as owner), an empty events.jsonl that is locked for as
 * long as the object lives, and artifact-files/. -EEXIST when the id is taken. On failure nothing stays behind. */
int store_run_create(const struct store_run_params *p, struct store_run **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Opens an existing run to go on with it: repairs a torn last line of events.jsonl, continues its seq, takes the lock
 * (-EBUSY when a living process has it) and becomes the owner. */
int store_run_reopen(const char *store_dir, const char *run_id, struct store_run **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Closes it without writing anything; NULL is accepted. */
void store_run_free(struct store_run *r);

const char *store_run_id(const struct store_run *r);
/* Absolute: the run's folder, and its artifact-files/. */
const char *store_run_dir(const struct store_run *r);
const char *store_run_artifact_files(const struct store_run *r);

/* The seq that the next event will have. */
uint64_t store_run_seq(const struct store_run *r);

/* A value that was written to a file of the run (store_run_output), by its reference. *ret is new. Never leaves the
 * run's folder. 0 or -errno. */
int store_run_load(const struct store_run *r, const char *ref, json_t **ret, struct err *e)
	__attribute__((warn_unused_result));

/* run.json as it was last written or read; borrowed. */
const json_t *store_run_record(const struct store_run *r);

/* An event as it was appended: the line without its newline, and the same as an object. Borrowed. */
struct store_event {
	const json_t *json;
	const char *line;
	size_t len;
};

/* Appends one event with one write. branch_id and node_id may be NULL; data (NULL: none) is taken. *ret may be NULL
 * and is valid until the next call. The first failure to write (a full disk) is kept: later calls fail the same way
 * without writing, so that what is on disk has no gap. */
int store_run_event(struct store_run *r, const char *type, const char *branch_id, const char *node_id, json_t *data,
		    struct store_event *ret, struct err *e);

/* Writes run.json anew. checkpoint and artifact_index are borrowed and kept for later writes (NULL: as before);
 * failure is put into "error" (NULL: none). What is written can be seen, and survives a kill, when this returns. sync:
 * it is safe across a power loss too, which costs one fsync; without it, store_run_sync_begin is the way to that. */
struct store_run_state {
	enum run_status status;
	json_t *checkpoint;
	json_t *artifact_index;
	const struct err *failure;
	const char *file_sha256; /* the run goes on with another content of its file; NULL: as before */
	bool ended;		 /* sets finished_at */
	bool sync;
};
int store_run_save(struct store_run *r, const struct store_run_state *s, struct err *e)
	__attribute__((warn_unused_result));

/* Syncing the latest save, while more is saved. begin: false when nothing is to be done or a sync is under way. work
 * may wait for the disk and may be called in any thread, once: 0 or an errno, which end takes; end comes before the
 * next save with sync. */
enum { STORE_SYNC_DEAD = 4 };
struct store_sync {
	int fd;
	int dead[STORE_SYNC_DEAD]; /* files that were removed, to be closed */
	size_t n_dead;
};
bool store_run_sync_begin(struct store_run *r, struct store_sync *ret);
int store_sync_work(const struct store_sync *s);
int store_run_sync_end(struct store_run *r, int errnum, struct err *e) __attribute__((warn_unused_result));

enum { SHA256_HEX_SIZE = 65 };
void store_sha256(char ret[SHA256_HEX_SIZE], const void *data, size_t len);
