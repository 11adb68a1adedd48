/* What holds one sandbox to its limits.
 *
 * The parent chooses and makes the cgroups; the sandbox's process enters them as the first thing it does, or is born in
 * there. A unit of systemd is asked for by the process itself (systemd.c), which then writes one record into a pipe:
 * which limits the unit really holds, read back from the kernel, where it is, and why not when it is not. What no
 * cgroup holds is set on the process. The cgroup namespace is made after entering, so that inside the sandbox's own
 * cgroup is the top and the host's names are not seen. Nothing in a sandbox can write to a cgroup: no file system of
 * cgroups is mounted there and none can be. An end for want of memory is one program's, not the sandbox's (no
 * memory.oom.group): it shall not take the other nodes with it. */
#include "hold.h"
#include "../limited.h"
#include "cgroup.h"
#include "cgroup_find.h"
#include "hold_choose.h"
#include "hold_process.h"
#include "systemd.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = 128, RUN_ID_MOST = 64, RANDOM_BYTES = 4 };

/* What the sandbox's process says of its unit; one atomic write. */
struct report {
	unsigned held;
	char path[1024];
	char why[HOLD_WHY];
};

_Static_assert(sizeof(struct report) <= PIPE_BUF, "a report is one atomic write");

struct hold {
	struct sandbox_limits want;
	unsigned wanted;
	unsigned held; /* by a cgroup */
	bool user_namespace;
	uid_t uid;
	struct hold_choice choice;
	struct cgroup groups[HOLD_GROUPS];
	size_t n;
	int unit_dir;  /* the unit's cgroup, to count in; -1: none */
	int report[2]; /* of a unit: from the process, to us */
	char name[NAME_SIZE];
	char *run_id;
};

/* "iterion-RUN-1a2b3c4d"; a run's id is its owner's choice, so what is no plain character becomes one. */
static void make_name(struct hold *h)
{
	char random[2 * RANDOM_BYTES + 1];
	size_t n = 0;

	id_hex(random, RANDOM_BYTES);
	auto_free char *id = xstrndup(h->run_id, RUN_ID_MOST);
	for (; id[n]; n++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", id[n]))
			id[n] = '_';
	(void)snprintf(h->name, sizeof h->name, "iterion-%s-%s", id, random);
}

static int make_group(struct hold *h, size_t i)
{
	const char *parent = h->choice.at[i].parent;
	unsigned which = h->choice.at[i].which;
	struct cgroup *g = &h->groups[h->n];
	bool v2 = h->choice.way == HOLD_V2;

	(void)cgroup_sweep(parent);
	int r = v2 ? cgroup_v2_hand_down(parent, which) : 0;
	if (r == 0)
		r = cgroup_make(parent, h->name, g);
	if (r < 0)
		return r;
	r = v2 ? cgroup_v2_limit(g->dir, &h->want, which) : cgroup_v1_limit(g->dir, &h->want, which);
	if (r < 0) {
		cgroup_remove(g);
		return r;
	}
	h->n++;
	h->held |= which;
	return 0;
}

static void set_why(struct hold *h, const char *text)
{
	(void)snprintf(h->choice.why, sizeof h->choice.why, "%s", text);
}

struct hold *hold_new(const struct sandbox_limits *l, const char *run_id, bool user_namespace)
{
	unsigned wanted = limits_wanted(l);

	if (!wanted)
		return NULL;
	struct hold *h = xcalloc(1, sizeof *h);
	*h = (struct hold){.want = *l,
			   .wanted = wanted,
			   .user_namespace = user_namespace,
			   .uid = geteuid(),
			   .unit_dir = -1,
			   .report = {-1, -1},
			   .run_id = xstrdup(run_id ? run_id : "none")};
	make_name(h);
	hold_choose(wanted, &h->choice);
	for (size_t i = 0; i < h->choice.n; i++) {
		int r = make_group(h, i);
		if (r < 0) {
			auto_free char *why = xasprintf("a cgroup below %s: %s", h->choice.at[i].parent, strerror(-r));
			set_why(h, why);
		}
	}
	/* Without the pipe nothing could be known of a unit. */
	if (h->choice.way == HOLD_UNIT && pipe2(h->report, O_CLOEXEC | O_NONBLOCK) < 0) {
		h->choice.way = HOLD_PROCESS;
		set_why(h, strerror(errno));
	}
	return h;
}

int hold_birth(const struct hold *h)
{
	return h && h->choice.way == HOLD_V2 && h->n ? h->groups[0].dir : -1;
}

static int join(const struct cgroup *g)
{
	auto_fd fd = openat(g->dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, "0", 1) < 0 ? -errno : 0;
}

/* This process's number as the host's proc file system has it: it is 1 for itself. */
static pid_t outer_pid(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof text - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return (pid_t)strtol(text, NULL, 10);
}

/* Returns the limits that the unit holds. */
static unsigned enter_unit(const struct hold *h, struct report *said)
{
	auto_free char *name = xasprintf("%s.scope", h->name);
	const struct unit_params p = {.name = name,
				      .run_id = h->run_id,
				      .pid = outer_pid(),
				      .uid = h->uid,
				      .limits = h->want,
				      .which = h->wanted};
	auto_cgroup_at at = {0};
	struct err e = ERR_INIT;

	if (unit_start(h->choice.bus, &p, &e) < 0) {
		(void)snprintf(said->why, sizeof said->why, "%.*s", (int)sizeof said->why - 1, e.msg);
		return 0;
	}
	auto_fd dir = cgroup_find(NULL, &at) < 0 || !str_eq(path_base(at.own), name)
			      ? -1
			      : open(at.own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned held = dir < 0 ? 0 : cgroup_v2_held(dir, &h->want);
	(void)snprintf(said->path, sizeof said->path, "%s", dir < 0 ? "" : at.own);
	if (held != h->wanted)
		(void)snprintf(said->why, sizeof said->why,
			       "systemd made the unit %.100s without it: it was not given the controller", name);
	return held;
}

int hold_enter(struct hold *h, bool born, struct err *e)
{
	struct report said = {0};

	for (size_t i = born ? 1 : 0; i < h->n; i++) {
		int r = join(&h->groups[i]);
		if (r == 0)
			continue;
		r = err_sys(e, -r, "enter the sandbox's cgroup %s", h->groups[i].path);
		err_hint(e, "Take limits: out of the sandbox block, or run where this user may make cgroups.");
		return r;
	}
	if (h->choice.way == HOLD_UNIT) {
		said.held = h->held = enter_unit(h, &said);
		(void)!write(h->report[1], &said, sizeof said);
	}
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(e, errno, "make the sandbox's cgroup namespace");
	return process_limit(&h->want, h->wanted & ~h->held, h->user_namespace, e);
}

void hold_entered(struct hold *h)
{
	struct report said;

	if (h->choice.way != HOLD_UNIT)
		return;
	if (read(h->report[0], &said, sizeof said) != (ssize_t)sizeof said) {
		set_why(h, "the sandbox's process did not say");
		return;
	}
	said.path[sizeof said.path - 1] = said.why[sizeof said.why - 1] = '\0';
	h->held = said.held & h->wanted;
	set_why(h, said.why);
	if (said.path[0])
		h->unit_dir = open(said.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void hold_warnings(const struct hold *h, void (*warn)(void *arg, const char *message), void *arg)
{
	static const enum sandbox_limit all[] = {LIMIT_CPUS, LIMIT_MEMORY, LIMIT_PIDS};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (!(h->wanted & ~h->held & all[i]))
			continue;
		auto_free char *message = process_weaker(all[i], &h->want, h->user_namespace, h->choice.why);
		if (message)
			warn(arg, message);
	}
}

void hold_counters(const struct hold *h, struct limit_counters *ret)
{
	*ret = (struct limit_counters){0};
	for (size_t i = 0; i < h->n; i++)
		ret->dirs[ret->n++] = h->groups[i].dir;
	if (h->unit_dir >= 0)
		ret->dirs[ret->n++] = h->unit_dir;
}

void hold_free(struct hold *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++)
		cgroup_remove(&h->groups[i]);
	close_quietly(h->unit_dir);
	close_quietly(h->report[0]);
	close_quietly(h->report[1]);
	hold_choice_done(&h->choice);
	free(h->run_id);
	free(h);
}

size_t hold_sweep(void)
{
	static const char *const hierarchies[] = {NULL, "memory", "pids", "cpu"};
	auto_strv swept = {0};
	size_t most = 0;

	for (size_t i = 0; i < ARRAY_LEN(hierarchies); i++) {
		auto_cgroup_at at = {0};
		if (cgroup_find(hierarchies[i], &at) < 0 || strv_has(&swept, at.top))
			continue;
		strv_add(&swept, at.top);
		/* A sandbox has one folder in each hierarchy of version 1. */
		size_t n = cgroup_sweep_tree(at.top);
		most = MAX(most, n);
	}
	return most;
}
