/* Events of a command that has no run in the store. */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct err;

struct event_file {
	const char *path; /* NULL: closed, events go nowhere */
	const char *run_id;
	int fd;
	uint64_t seq;
	int failed; /* errno of the first write that failed */
};

/* Appends to path, which is made when missing (mode 0600). run_id NULL: the events have none. */
int event_file_open(const char *path, const char *run_id, struct event_file *ret, struct err *e)
	__attribute__((warn_unused_result));
/* One line in one write: seq, timestamp, type, run_id, data (borrowed). A failure is kept for event_file_close. */
void event_file_add(struct event_file *f, const char *type, json_t *data);
/* Closes it (again: nothing); -errno when an event did not arrive. */
int event_file_close(struct event_file *f, struct err *e);
