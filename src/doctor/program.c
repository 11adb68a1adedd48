/* A program of the host as a witness: found without trusting the current folder, read within bounds, and dead when the
 * process that asked is. */
#include "program.h"

#include <base/buf.h>
#include <base/cleanup.h>
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

enum { MAX_WORDS = 8 };

/* A relative entry of PATH would let the current folder name the program. */
char *program_find(const char *name)
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

int program_ask(const char *file, const char *const *words, struct buf *said)
{
	char *argv[MAX_WORDS + 1] = {NULL};
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	auto_fd from = fds[0];
	auto_fd to = fds[1];
	auto_strv copies = {0};
	for (size_t i = 0; i < MAX_WORDS && words[i]; i++) {
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
