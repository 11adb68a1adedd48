/* Limits of a sandbox: which there are, who holds them, and whether one was reached. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct driver;
struct err;
struct exec_status;
struct sandbox_limits;

enum sandbox_limit { LIMIT_CPUS = 1, LIMIT_MEMORY = 2, LIMIT_PIDS = 4 };

/* How often the kernel ended a program because memory was out, and refused to make a process. */
struct limit_hits {
	uint64_t memory;
	uint64_t pids;
};

/* How this driver would hold these limits on this machine, found out without making anything:
 * [{"limit": "limits.memory", "by": a phrase, "note"?: how it is weaker than asked for}]. The caller's. */
json_t *driver_limits(const struct driver *d, const struct sandbox_limits *l);

/* "512 MiB": in the largest unit that leaves a whole number. */
void limits_memory_words(char *to, size_t size, uint64_t bytes);

/* When a limit of the sandbox was reached while the program ran that ended so, the error says so: its message and its
 * hint. To be called before other hints are given. */
void limits_explain(const struct exec_status *st, struct err *e);
