/* Reading runs back: inspect, logs, report, resume. Works while the run is being written. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct store_entry {
	char *id;
	char *name; /* NULL: none */
	char *workflow;
	char *status;	   /* as written, or "interrupted": running, but its process is gone */
	char *created_at;  /* RFC 3339 */
	char *finished_at; /* NULL: not ended */
};

/* All runs of a store, newest first. A store that does not exist has none; a run.json that cannot be read gives an
 * entry with status "unreadable". Free with store_list_free. */
int store_list(const char *store_dir, struct store_entry **ret, size_t *ret_n, struct err *e)
	__attribute__((warn_unused_result));
void store_list_free(struct store_entry *v, size_t n);

/* The one run whose id is, or begins with, prefix, or whose name is prefix (the newest of them); the caller frees.
 * -ENOENT, or -EINVAL when several ids begin so. */
int store_find_run(const char *store_dir, const char *prefix, char **ret_id, struct err *e)
	__attribute__((warn_unused_result));

/* run.json as it stands; its "status" is "interrupted" when it says running and its process is gone. NULL on error. */
json_t *store_read_run(const char *store_dir, const char *run_id, struct err *e) __attribute__((warn_unused_result));

/* What is kept of nodes that began again (recoveries/), in the order of their beginnings: a new array, empty when there
 * is nothing. What cannot be read is left out. */
json_t *store_read_recoveries(const char *store_dir, const char *run_id) __attribute__((returns_nonnull));

/* Whether a living process writes this run. */
bool store_run_alive(const char *store_dir, const char *run_id);

struct event_reader;

int event_reader_open(const char *store_dir, const char *run_id, struct event_reader **ret, struct err *e)
	__attribute__((warn_unused_result));
void event_reader_free(struct event_reader *r);

/* The next event: 1 with *ret (the caller decrefs) and, when ret_line is not NULL, its line (borrowed until the next
 * call); 0 at the end of what is complete now: a half line at the end is held back, and a later call goes on when the
 * file has grown (watch event_reader_path for --follow). A line that is no JSON object is skipped and counted. -errno
 * when reading fails. */
int event_reader_next(struct event_reader *r, json_t **ret, const char **ret_line, struct err *e)
	__attribute__((warn_unused_result));
const char *event_reader_path(const struct event_reader *r);
/* Bytes of the file up to the end of the last event that was given out. */
uint64_t event_reader_offset(const struct event_reader *r);
/* Lines that were skipped because they were damaged. */
uint64_t event_reader_damaged(const struct event_reader *r);
