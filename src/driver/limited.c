/* Whether a limit was reached while a program ran.
 *
 * The kernel counts in the cgroup how often it ended a program because memory was out, and how often it refused to make
 * a process. What was counted between a program's start and its end is told with its end. Programs that ran beside it
 * are told the same: they shared the memory. Anybody may read the counters, so this serves for a container's cgroup,
 * which an engine made, as for our own. */
#include "limited.h"
#include "channel.h"
#include "native/cgroup.h"
#include "native/cgroup_find.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

void limit_counters_open(pid_t pid, struct limit_counters *ret)
{
	static const char *const hierarchies[] = {NULL, "memory", "pids"};

	*ret = (struct limit_counters){0};
	for (size_t i = 0; pid > 0 && i < ARRAY_LEN(hierarchies); i++) {
		auto_cgroup_at at = {0};
		if (cgroup_find_of(pid, hierarchies[i], &at) < 0)
			continue;
		int fd = open(at.own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			ret->dirs[ret->n++] = fd;
	}
}

void limit_counters_close(struct limit_counters *c)
{
	while (c->n)
		close_quietly(c->dirs[--c->n]);
}

struct limit_hits limit_counters_read(const struct limit_counters *c)
{
	struct limit_hits hits = {0};

	for (size_t i = 0; i < c->n; i++)
		cgroup_hits(c->dirs[i], &hits);
	return hits;
}

struct limited {
	const struct limit_counters *counters;
	const struct sandbox_limits *limits;
	struct limit_hits before;
	exec_done_cb done;
	void *arg;
};

static void on_done(void *arg, const struct exec_status *st)
{
	auto_free struct limited *l = arg;
	struct exec_status told = *st;

	/* A sandbox that is lost tells by itself, and may have no cgroup any more. */
	if (st->end != EXEC_LOST) {
		struct limit_hits now = limit_counters_read(l->counters);
		told.memory_limit = now.memory > l->before.memory ? l->limits->memory : 0;
		told.pids_limit = now.pids > l->before.pids ? l->limits->pids : 0;
	}
	/* What counts without a cgroup leaves no trace but this. */
	if (st->end == EXEC_NOT_FOUND && st->code == EAGAIN)
		told.pids_limit = l->limits->pids;
	l->done(l->arg, &told);
}

int limited_exec(struct channel *c, const struct limit_counters *counters, const struct sandbox_limits *limits,
		 const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret, struct err *e)
{
	struct limited *l = xmalloc(sizeof *l);

	*l = (struct limited){
		.counters = counters,
		.limits = limits,
		.before = limit_counters_read(counters),
		.done = done,
		.arg = arg,
	};
	int r = channel_exec(c, o, on_done, l, ret, e);
	if (r < 0)
		free(l);
	return r;
}

void limited_explain_end(const struct limit_counters *counters, const struct sandbox_limits *limits, struct err *e)
{
	if (!limits->memory || limit_counters_read(counters).memory == 0)
		return;
	(void)err_set(e, ERR_SANDBOX, ENOMEM, "the sandbox's init was killed");
	limits_explain(&(struct exec_status){.end = EXEC_LOST, .memory_limit = limits->memory}, e);
}
