/* The agent loop: how long until it asks the model for the first time, and what it holds then. It is the guest program
 * by another name, fed with a task over its standard input, exactly as the launcher does it. */
#include "bench.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/spawn.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 101, ANSWER_MAX = 65536, TEXT_MAX = 1 << 16 };

static const char task[] = "{\"type\":\"task\",\"data\":{\"user_prompt\":\"x\"}}\n";

struct first {
	double ms;     /* from before its start to the whole line */
	long peak_kib; /* then */
	bool asked;    /* the line is a question to the model */
};

/* Reads until a newline; false when there is none. */
static bool read_line(int fd, char *to, size_t size)
{
	size_t len = 0;

	while (len < size - 1) {
		ssize_t n = read(fd, to + len, size - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		len += (size_t)n;
		to[len] = '\0';
		if (memchr(to, '\n', len))
			return true;
	}
	return false;
}

static long peak_of(pid_t pid)
{
	auto_free char *path = xasprintf("/proc/%d/status", (int)pid);
	auto_free char *text = NULL;

	if (file_read(AT_FDCWD, path, TEXT_MAX, &text, NULL, NULL) < 0)
		return -1;
	const char *at = strstr(text, "VmHWM:");
	return at ? strtol(at + strlen("VmHWM:"), NULL, 10) : -1;
}

static int start_once(const struct bench *b, struct first *ret, struct err *e)
{
	char guest[] = "iterion-guest", word[] = "__claw-runner";
	char *argv[] = {guest, word, NULL};
	int in[2], out[2];
	char answer[ANSWER_MAX];
	pid_t pid = -1;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make the runner's pipes");
	auto_fd in_far = in[0], in_near = in[1], out_near = out[0], out_far = out[1];
	const struct spawn_opts o = {
		.file = b->guest, .argv = argv, .envp = b->who->env, .stdio = {in_far, out_far, -1}};
	uint64_t begin = clock_ns();
	int r = fd_write_all(in_near, task, sizeof task - 1);
	if (r == 0)
		r = spawn_start(&o, &pid, NULL, e);
	if (r < 0)
		return r;
	close_quietly(TAKE_FD(out_far));
	ret->asked = read_line(out_near, answer, sizeof answer) && strstr(answer, "\"llm_request\"");
	ret->ms = (double)(clock_ns() - begin) / 1e6;
	ret->peak_kib = peak_of(pid);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

static bool first_line(const struct bench *b, struct first *ret, struct result *why)
{
	struct err e = ERR_INIT;

	if (start_once(b, ret, &e) < 0)
		miss(why, "%s", e.msg);
	else if (!ret->asked)
		miss(why, "the runner's first line is no question to the model");
	else
		return true;
	return false;
}

void measure_runner_start(const struct bench *b, const char *arg, struct result *ret)
{
	double ms[ROUNDS];
	struct first first;

	(void)arg;
	for (size_t i = 0; i < ROUNDS; i++) {
		if (!first_line(b, &first, ret))
			return;
		ms[i] = first.ms;
	}
	(void)snprintf(ret->unit, sizeof ret->unit, "ms");
	ret->ours = ret->figure = median(ms, ROUNDS);
	ret->verdict = SHOWN;
}

void measure_runner_memory(const struct bench *b, const char *arg, struct result *ret)
{
	struct first first;

	(void)arg;
	if (!first_line(b, &first, ret))
		return;
	if (first.peak_kib < 0) {
		miss(ret, "the runner's memory cannot be read");
		return;
	}
	(void)snprintf(ret->unit, sizeof ret->unit, "MiB");
	ret->ours = ret->figure = (double)first.peak_kib / 1024;
	ret->verdict = SHOWN;
}
