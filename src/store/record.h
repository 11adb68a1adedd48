/* The shape of a run's folder and of run.json, shared by writer and readers. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum {
	RUN_JSON_MAX = 256 * 1024 * 1024, /* bytes of a run.json that are read */
	EVENT_LINE_MAX = 16 * 1024 * 1024,
};

#define RUN_JSON "run.json"
/* The last run.json that was safe, while a newer one is not yet (save.c). */
#define RUN_JSON_PREVIOUS "run.json.previous"
#define EVENTS_FILE "events.jsonl"

/* Who writes the run: {"pid","start_time","locked"}. start_time is field 22 of /proc/PID/stat (proc(5)), which tells a
 * process from a later one of the same number. */
json_t *record_owner(bool locked);

/* Whether the writer of a run lives: the lock on its events decides; where locks do not work, the owner does. */
bool record_alive(int run_dirfd, const json_t *record);

/* Whether the process that run.json names as the writer is there, as far as this process can see. */
bool record_owner_alive(const json_t *record);

/* Takes the writer's lock: 0, -EBUSY when another has it, -ENOTSUP when the file system has no locks. */
int record_lock(int events_fd);

/* Opens store_dir/runs/run_id; -ENOENT with a message that names the run. Returns the descriptor or -errno. */
int record_open_dir(const char *store_dir, const char *run_id, struct err *e) __attribute__((warn_unused_result));

/* run.json of an open run folder, or the one before it when a power loss destroyed the latest; NULL on error. */
json_t *record_read(int run_dirfd, const char *run_id, struct err *e);
