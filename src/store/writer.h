/* The writer of one run, shared by run.c (the folder), save.c (run.json) and write.c (everything that is added). */
#pragma once

#include <base/buf.h>
#include <base/err.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <store/run.h>

struct store_run {
	int dirfd;
	int events_fd;
	int log_fd; /* -1 until the first line */
	char *id;
	char *dir;
	char *artifact_files;
	json_t *record;	     /* run.json */
	uint64_t seq;	     /* of the next event */
	uint64_t events_len; /* bytes of whole lines in events.jsonl */
	int broken;	     /* -errno of the first event that could not be written */
	struct buf line;
	json_t *event; /* the last one, lent to the caller */
	unsigned n_outputs;
	struct buf text; /* run.json as it is written, kept for its memory */
	int unsynced_fd; /* run.json, while a power loss could take it away and nobody syncs it; else -1 */
	int syncing_fd;	 /* the one that is being synced; -1: none */
	int safe_fd;	 /* the newest that is safe, once it was synced in this way; else -1 */
	int dead[STORE_SYNC_DEAD];
	size_t n_dead;	  /* files without a name, which the next sync closes */
	bool displaced;	  /* that one is not run.json any more */
	bool written;	  /* there is a run.json */
	bool no_exchange; /* the file system cannot exchange two names */
};

void write_timestamp(json_t *object, const char *key);

struct sha256_ctx;
/* The hex digits of a sum that is complete. */
void record_digest(char ret[SHA256_HEX_SIZE], struct sha256_ctx *sum);

/* --- attach.c --- */

/* Makes the folder for what the run is given, and notes in the record what that is. 0 or -errno. */
int record_attach(struct store_run *r, const struct store_attachment *v, size_t count, struct err *e)
	__attribute__((warn_unused_result));

/* --- save.c --- */

enum save_how {
	SAVE_NOW,  /* readers see it; syncing it makes it safe across a power loss */
	SAVE_SAFE, /* both before it returns */
};
int save_record(struct store_run *r, enum save_how how, struct err *e) __attribute__((warn_unused_result));
/* After the record was read: what a power loss or a kill left of an earlier save is cleared away. */
int save_repair(struct store_run *r, struct err *e) __attribute__((warn_unused_result));
