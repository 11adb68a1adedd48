/* The writer of one run, shared by run.c (run.json) and write.c (everything that is added). */
#pragma once

#include <base/buf.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

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
};

void write_timestamp(json_t *object, const char *key);
