/* Peak memory. The kernel forgets a process's peak with its memory, so iterion is traced and read in the moment before
 * it ends (PTRACE_EVENT_EXIT; a process that is traced for nothing else runs as ever). wait4's ru_maxrss would not do:
 * it counts the pages that the process had before its exec, which are ours. The guest is read by a node of the run
 * itself, which sees it as process 1. */
#include "bench.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* VmHWM in a status file's text, in KiB; -1 when there is none. */
static long peak_in(const char *status)
{
	const char *at = strstr(status, "VmHWM:");

	return at ? strtol(at + strlen("VmHWM:"), NULL, 10) : -1;
}

static long peak_of(pid_t pid)
{
	auto_free char *path = xasprintf("/proc/%d/status", (int)pid);
	auto_free char *text = NULL;

	return file_read(AT_FDCWD, path, 1 << 16, &text, NULL, NULL) < 0 ? -1 : peak_in(text);
}

static void child(const struct bench *b, const char *const *argv)
{
	union {
		const char *const *is;
		char *const *wanted;
	} words = {.is = argv};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	/* The parent sets the options while this waits. */
	raise(SIGSTOP);
	execve(argv[0], words.wanted, b->who->env);
	_exit(127);
}

/* Lets a traced process run to its end; its peak in KiB, or -1. Signals are passed on. */
static long follow(pid_t pid, int *ret_status)
{
	long peak = -1;

	for (;;) {
		int status, sig = 0;
		if (waitpid(pid, &status, 0) < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		if (!WIFSTOPPED(status)) {
			*ret_status = status;
			return peak;
		}
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
			peak = peak_of(pid);
		else if (WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP)
			sig = WSTOPSIG(status);
		(void)ptrace(PTRACE_CONT, pid, NULL, (void *)(uintptr_t)sig);
	}
}

void measure_host_memory(const struct bench *b, const char *command, struct result *ret)
{
	auto_free char *text = workflow_text(1, command, allowlist_block);
	auto_free char *file = workspace_file(b, "memory.bot", text, strlen(text));
	const char *const argv[] = {b->iterion,	       "run", "--quiet", "--sandbox-driver", "native", "--workspace",
				    b->who->workspace, file,  NULL};
	int status;

	if (!works(b, argv, ret))
		return;
	pid_t pid = fork();
	if (pid == 0)
		child(b, argv);
	if (pid < 0 || waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SEIZE, pid, NULL, (void *)(uintptr_t)PTRACE_O_TRACEEXIT) < 0 || kill(pid, SIGCONT) < 0) {
		miss(ret, "trace iterion: %s", strerror(errno));
		return;
	}
	long peak = follow(pid, &status);
	if (peak < 0 || status != 0) {
		miss(ret, "the traced run ended with status 0x%x", (unsigned)status);
		return;
	}
	(void)snprintf(ret->unit, sizeof ret->unit, "MiB");
	ret->ours = ret->figure = (double)peak / 1024;
	ret->verdict = SHOWN;
}

void measure_guest_memory(const struct bench *b, const char *command, struct result *ret)
{
	auto_free char *both = xasprintf("%s; grep VmHWM /proc/1/status >peak.txt", command);
	auto_free char *text = workflow_text(1, both, allowlist_block);
	auto_free char *file = workspace_file(b, "guest.bot", text, strlen(text));
	auto_free char *out = path_join(b->who->workspace, "peak.txt");
	auto_free char *status = NULL;
	const char *const argv[] = {b->iterion,	       "run", "--quiet", "--sandbox-driver", "native", "--workspace",
				    b->who->workspace, file,  NULL};

	if (!works(b, argv, ret))
		return;
	if (file_read(AT_FDCWD, out, 4096, &status, NULL, NULL) < 0 || peak_in(status) < 0) {
		miss(ret, "process 1 shows no VmHWM inside");
		return;
	}
	(void)snprintf(ret->unit, sizeof ret->unit, "MiB");
	ret->ours = ret->figure = (double)peak_in(status) / 1024;
	ret->verdict = SHOWN;
}
