/* What a container of ours says about itself: whose it is, and whether its owner still lives. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define LABEL_MANAGED "iterion.io/managed"
#define LABEL_RUN_ID "iterion.io/run-id"
#define LABEL_RUN_NAME "iterion.io/run-name"
#define LABEL_OWNER "iterion.io/owner"

enum { HOST_ID_SIZE = 17, OWNER_SIZE = 64 };

/* This host as its process numbers see it: the same for all processes of one PID namespace of one machine, and another
 * one elsewhere, where the same number is another process. */
void label_host_id(char ret[HOST_ID_SIZE]);

/* "<host id>:<pid>:<start time>" of this process (start time: field 22 of /proc/PID/stat, proc(5)). */
void label_owner(char ret[OWNER_SIZE]);

/* What can be known about an owner from here; FOREIGN: it belongs to another host, or the text says nothing. */
enum owner_state { OWNER_ALIVE, OWNER_DEAD, OWNER_FOREIGN };
enum owner_state label_owner_state(const char *owner, const char *host_id);

/* Whether the text is a container's number: only such go into a command line. */
bool label_is_id(const char *text);

/* One container of ours, as its engine lists it. Strings are owned. */
struct contained {
	char *id;
	char *name;
	char *image;
	char *state; /* the engine's word: running, created, exited, … */
	char *created;
	char *run_id;
	char *run_name;
	char *owner;
};
struct contained_list {
	struct contained *v;
	size_t n, cap;
};
void contained_list_done(struct contained_list *l);

/* The --format of `inspect` that contained_parse reads. */
extern const char contained_format[];

/* Reads what `inspect` printed: one JSON array a container, one after the other. Those that do not carry our label are
 * left out; a text that is malformed counts up to there. */
void contained_parse(const char *text, size_t len, struct contained_list *ret);

/* Removes the folders and files of ours in base that are called PREFIX OWNER "." and anything, when their owner is
 * gone. */
void labels_sweep(const char *base, const char *prefix);
