/* Timing of whole programs. What is compared runs in turn within the same rounds, so that whatever else the machine
 * does falls on both, and medians are taken, so that a round in which it did much counts no more than any other. */
#include "bench.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { WARM_UP = 3 };

const char allowlist_block[] = "  sandbox:\n"
			       "    mode: inline\n"
			       "    network:\n"
			       "      mode: allowlist\n"
			       "      rules: [\"*.example.org\"]\n";

void miss(struct result *ret, const char *fmt, ...)
{
	va_list ap;

	ret->verdict = MISSING;
	va_start(ap, fmt);
	(void)vsnprintf(ret->note, sizeof ret->note, fmt, ap);
	va_end(ap);
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

double median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, by_size);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* posix_spawn's interface is not const, and does not write. */
static char *const *writable(const char *const *argv)
{
	union {
		const char *const *is;
		char *const *wanted;
	} words = {.is = argv};

	return words.wanted;
}

/* Starts argv with stderr on err_fd (-1: /dev/null); its process id, or -errno. */
static pid_t start(const struct bench *b, const char *const *argv, int err_fd)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&actions, 0, 1);
	posix_spawn_file_actions_adddup2(&actions, err_fd < 0 ? 0 : err_fd, 2);
	int r = posix_spawnp(&pid, argv[0], &actions, NULL, writable(argv), b->who->env);
	posix_spawn_file_actions_destroy(&actions);
	return r ? -r : pid;
}

static int end_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

double time_command(const struct bench *b, const char *const *argv)
{
	uint64_t begin = clock_ns();
	pid_t pid = start(b, argv, -1);

	if (pid < 0 || end_of(pid) != 0)
		return -1;
	return (double)(clock_ns() - begin) / 1e3;
}

/* The first line that says what is wrong. */
static void first_line(char *to, size_t size, const char *text)
{
	const char *error = strstr(text, "error: ");

	text = error ? error : text;
	(void)snprintf(to, size, "%.*s", (int)MIN(strcspn(text, "\n"), size - 1), text);
}

bool works(const struct bench *b, const char *const *argv, struct result *ret)
{
	int p[2];
	auto_buf said = BUF_INIT(64 * 1024);

	if (pipe2(p, O_CLOEXEC) < 0) {
		miss(ret, "pipe: %s", strerror(errno));
		return false;
	}
	pid_t pid = start(b, argv, p[1]);
	close_quietly(p[1]);
	auto_fd from = p[0];
	if (pid < 0) {
		miss(ret, "%s cannot be started: %s", argv[0], strerror(-pid));
		return false;
	}
	int r = fd_read_all(from, &said), status = end_of(pid);
	if (status == 0 && r == 0)
		return true;
	char line[200];
	first_line(line, sizeof line, buf_str(&said));
	miss(ret, "%s %s: status 0x%x %s", path_base(argv[0]), argv[1] ? argv[1] : "", (unsigned)status, line);
	return false;
}

void compare(const struct bench *b, const char *const *ours, const char *const *peer, size_t rounds, struct result *ret)
{
	double a[MAX_ROUNDS], z[MAX_ROUNDS];

	if (!works(b, ours, ret) || !works(b, peer, ret))
		return;
	for (int i = 0; i < WARM_UP; i++) {
		(void)time_command(b, ours);
		(void)time_command(b, peer);
	}
	for (size_t i = 0; i < rounds; i++) {
		a[i] = time_command(b, ours);
		z[i] = time_command(b, peer);
		if (a[i] < 0 || z[i] < 0) {
			miss(ret, "%s failed in round %zu", path_base((a[i] < 0 ? ours : peer)[0]), i + 1);
			return;
		}
	}
	ret->ours = median(a, rounds);
	ret->peer = median(z, rounds);
	ret->figure = ret->ours / ret->peer;
	ret->verdict = SHOWN;
}

const char *store_folder(const struct bench *b, const char *where, struct result *ret)
{
	if (strcmp(where, STORE_IN_MEMORY) != 0)
		return b->who->store;
	if (!b->who->memory_store)
		miss(ret, "no folder can be made below /dev/shm");
	return b->who->memory_store;
}

char *workspace_file(const struct bench *b, const char *name, const char *text, size_t len)
{
	char *path = path_join(b->who->workspace, name);

	if (file_replace(AT_FDCWD, path, text, len, 0644, FILE_NO_SYNC, NULL) < 0)
		path[0] = '\0';
	return path;
}

char *workflow_text(size_t n, const char *command, const char *sandbox_block)
{
	struct buf b = BUF_INIT(16 * 1024 * 1024);

	for (size_t i = 0; i < n; i++)
		(void)buf_printf(&b, "tool t%zu:\n  command: `%s`\n\n", i, command);
	(void)buf_printf(&b, "workflow w:\n  entry: t0\n%s", sandbox_block);
	for (size_t i = 0; i + 1 < n; i++)
		(void)buf_printf(&b, "  t%zu -> t%zu\n", i, i + 1);
	(void)buf_printf(&b, "  t%zu -> done\n", n - 1);
	return buf_steal(&b);
}
