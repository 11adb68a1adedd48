/* Which programs are there, and of which version: each is asked itself. */
#include "question.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/spawn.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_LIMIT = 64 * 1024 };

struct program {
	const char *words[6];	  /* NULL-terminated */
	const char *otherwise[3]; /* asked when those fail, since a part of it may be missing; or empty */
};

/* By PATH, absolute entries only: a relative one would let the current folder name the program. */
static char *find(const char *name)
{
	const char *list = getenv("PATH");

	for (const char *p = list ? list : ""; *p;) {
		const char *end = strchrnul(p, ':');
		auto_free char *dir = xstrndup(p, (size_t)(end - p));
		auto_free char *file = path_join(dir, name);
		struct stat st;
		if (dir[0] == '/' && stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0)
			return TAKE_PTR(file);
		p = *end ? end + 1 : end;
	}
	return NULL;
}

/* Its exit code, with the first line of what it says; -errno when it cannot be asked. */
static int run(const char *file, const char *const *words, struct buf *said)
{
	char *argv[ARRAY_LEN(((struct program *)NULL)->words)] = {NULL};
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	auto_fd from = fds[0];
	auto_fd to = fds[1];
	auto_strv copies = {0};
	for (size_t i = 0; words[i]; i++) {
		strv_add(&copies, words[i]);
		argv[i] = copies.v[i];
	}
	const struct spawn_opts o = {
		.file = file, .argv = argv, .envp = environ, .stdio = {-1, to, to}, .death_signal = SIGKILL};
	int r = spawn_start(&o, &pid, NULL, NULL);
	if (r < 0)
		return r;
	close_quietly(TAKE_FD(to));
	(void)!fd_read_all(from, said);
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

static void version(const struct question *q, struct finding *f)
{
	const struct program *p = q->arg;
	auto_free char *file = find(p->words[0]);
	auto_buf said = BUF_INIT(ANSWER_LIMIT);

	if (!file) {
		finding_set(f, FINDING_NO, "not on PATH");
		return;
	}
	int r = run(file, p->words, &said);
	if (r != 0 && p->otherwise[0]) {
		buf_clear(&said);
		r = run(file, p->otherwise, &said);
	}
	auto_free char *line = xstrndup(buf_str(&said), strcspn(buf_str(&said), "\n"));
	if (r == 0)
		finding_set(f, FINDING_YES, "%.300s (%.300s)", line, file);
	else
		finding_set(f, FINDING_NO, "%.300s does not say: %.300s", file, *line ? line : "it failed");
}

static const struct program docker = {
	{"docker", "version", "--format", "client {{.Client.Version}}, server {{.Server.Version}}", NULL},
	{"docker", "--version", NULL},
};
static const struct program buildx = {{"docker", "buildx", "version", NULL}, {NULL}};
static const struct program podman = {{"podman", "--version", NULL}, {NULL}};
static const struct program kubectl = {{"kubectl", "version", "--client", NULL}, {NULL}};
static const struct program pasta = {{"pasta", "--version", NULL}, {NULL}};
static const struct program git = {{"git", "--version", NULL}, {NULL}};

const struct question version_questions[] = {
	{"docker", version, &docker},	{"docker_buildx", version, &buildx}, {"podman", version, &podman},
	{"kubectl", version, &kubectl}, {"pasta", version, &pasta},	     {"git", version, &git},
};
const size_t n_version_questions = ARRAY_LEN(version_questions);
