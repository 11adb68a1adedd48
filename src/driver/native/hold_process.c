/* Limits that a process has of its own, for where no cgroup can be had.
 *
 * Memory: RLIMIT_DATA, not RLIMIT_AS. The address space is no memory: runtimes reserve gigabytes of it that they never
 * touch (V8's cage, Go's arenas, a sanitizer's shadow) and do not start with less, while what is private and writable
 * is close to what a program really takes (setrlimit(2)). It is each process's own, so the sandbox as a whole may take
 * more. Processes: RLIMIT_NPROC is counted in each user namespace since Linux 5.14, and ours has one user in one
 * sandbox, so there it is as good as a cgroup. Before that, or without a user namespace, it counts everything that the
 * user runs on the machine: it is not set then. Root of the machine is not bound by it at all. Processors: an affinity
 * with as many as were asked for, rounded up. */
#include "hold_process.h"

#include <base/clock.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

static bool kernel_counts_by_namespace(void)
{
	struct utsname u;
	int major = 0, minor = 0;

	return uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 14));
}

static bool holds_pids(bool user_namespace)
{
	return user_namespace && kernel_counts_by_namespace();
}

static int rounded_up(double cpus)
{
	int whole = (int)cpus;

	return (double)whole < cpus ? whole + 1 : whole;
}

static int processors(cpu_set_t *ret)
{
	return sched_getaffinity(0, sizeof *ret, ret) < 0 ? 0 : CPU_COUNT(ret);
}

/* Some of the processors this process may use; where they begin differs, so that sandboxes side by side spread. */
static int limit_cpus(double cpus)
{
	cpu_set_t all, some;
	int n = processors(&all), want = rounded_up(cpus);

	if (n == 0 || want >= n)
		return 0;
	size_t skip = clock_ns() / 1000 % (unsigned)n;
	CPU_ZERO(&some);
	for (size_t i = 0, seen = 0; CPU_COUNT(&some) < want; i = (i + 1) % CPU_SETSIZE)
		if (CPU_ISSET(i, &all) && seen++ >= skip)
			CPU_SET(i, &some);
	return sched_setaffinity(0, sizeof some, &some) < 0 ? -errno : 0;
}

/* Never above what holds already: a hard limit cannot be raised. */
static int lower(__rlimit_resource_t resource, uint64_t value)
{
	struct rlimit l;

	if (getrlimit(resource, &l) < 0)
		return -errno;
	if (l.rlim_max == RLIM_INFINITY || value < l.rlim_max)
		l.rlim_max = value;
	l.rlim_cur = l.rlim_max;
	return setrlimit(resource, &l) < 0 ? -errno : 0;
}

int process_limit(const struct sandbox_limits *l, unsigned which, bool user_namespace, struct err *e)
{
	int r = which & LIMIT_CPUS ? limit_cpus(l->cpus) : 0;

	if (r < 0)
		return err_sys(e, -r, "put the sandbox on some of the processors (limits.cpus)");
	r = which & LIMIT_MEMORY ? lower(RLIMIT_DATA, l->memory) : 0;
	if (r < 0)
		return err_sys(e, -r, "limit the sandbox's memory (limits.memory)");
	r = which & LIMIT_PIDS && holds_pids(user_namespace) ? lower(RLIMIT_NPROC, l->pids) : 0;
	return r < 0 ? err_sys(e, -r, "limit the sandbox's processes (limits.pids)") : 0;
}

const char *process_holder(enum sandbox_limit which, bool user_namespace)
{
	switch (which) {
	case LIMIT_CPUS:
		return "the programs' affinity";
	case LIMIT_MEMORY:
		return "RLIMIT_DATA of each process";
	case LIMIT_PIDS:
		break;
	}
	return holds_pids(user_namespace) ? "RLIMIT_NPROC of the sandbox's user namespace" : "nothing";
}

static char *cpus_weaker(double cpus, const char *why)
{
	cpu_set_t all;
	int n = processors(&all), want = rounded_up(cpus);

	if (n > 0 && cpus >= n)
		return NULL;
	if (want >= n)
		return xasprintf("limits.cpus: %g is not held: a share of a processor needs a cgroup, and none can be "
				 "made here (%s)",
				 cpus, why);
	return xasprintf("limits.cpus: programs are put on %d of %d processors, which they can change, instead of "
			 "being held to %g: no cgroup can be made here (%s)",
			 want, n, cpus, why);
}

char *process_weaker(enum sandbox_limit which, const struct sandbox_limits *l, bool user_namespace, const char *why)
{
	char size[32];

	switch (which) {
	case LIMIT_CPUS:
		return cpus_weaker(l->cpus, why);
	case LIMIT_MEMORY:
		limits_memory_words(size, sizeof size, l->memory);
		return xasprintf("limits.memory: %s hold for each process by itself and not for the sandbox, and files "
				 "in memory (/tmp, /dev/shm, what changes in an image) do not count: no cgroup can be "
				 "made here (%s)",
				 size, why);
	case LIMIT_PIDS:
		break;
	}
	if (holds_pids(user_namespace))
		return NULL;
	return xasprintf("limits.pids: the number of processes is not limited: no cgroup can be made here (%s)", why);
}
