/* Programs in a sandbox with limits: whether one was reached while they ran. */
#pragma once

#include <driver/exec.h>
#include <driver/limits.h>
#include <sandbox/spec.h>
#include <stddef.h>
#include <sys/types.h>

struct channel;
struct err;

/* The folders of a sandbox's cgroups. */
struct limit_counters {
	int dirs[4]; /* borrowed by who fills it in itself */
	size_t n;
};

/* Those of a process on this machine; none when it cannot be told. Closed by _close. */
void limit_counters_open(pid_t pid, struct limit_counters *ret);
void limit_counters_close(struct limit_counters *c);

struct limit_hits limit_counters_read(const struct limit_counters *c);

/* As channel_exec; its done is told what of the limits was reached meanwhile. Both are borrowed until then. */
int limited_exec(struct channel *c, const struct limit_counters *counters, const struct sandbox_limits *limits,
		 const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret, struct err *e)
	__attribute__((warn_unused_result));

/* Memory that was out explains the end of a whole sandbox better than what was seen of it: then e says so. */
void limited_explain_end(const struct limit_counters *counters, const struct sandbox_limits *limits, struct err *e);
