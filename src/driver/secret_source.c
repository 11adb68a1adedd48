/* Reading secrets on the host.
 *
 * This happens while the sandbox is prepared, before the run's loop turns: the proxy must be told all values when it
 * starts, so there is nothing else to do until a command has ended. The command runs once, in a session of its own,
 * with the user's environment and nothing on its standard input; past its time the whole session is killed. What it
 * says on standard error is not shown, since it may be the secret. */
#include "secret_source.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/spawn.h>
#include <base/str.h>
#include <net/secret.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A value that is too long is told apart from one that fits. */
enum { READ_MAX = SECRET_MAX + 2, PIECE = 1024 };

static int missing_variable(const char *name, struct err *e)
{
	int r = err_set(e, ERR_INPUT, ENOENT, "the variable %.100s is not set", name);

	err_hint(e, "export it before the run, or name another source");
	return r;
}

int secret_source_check(const struct sandbox_secret *s, struct err *e)
{
	const char *what = strchr(s->from, ':') + 1;
	int r = 0;

	if (str_starts(s->from, "env:") && !getenv(what))
		r = missing_variable(what, e);
	if (str_starts(s->from, "file:") && access(what, R_OK) < 0) {
		r = err_sys(e, errno, "read the file %.300s", what);
		err_hint(e, "create it, readable for this user, or name another source");
	}
	return r < 0 ? err_wrap(e, r, "sandbox secrets.%.60s", s->name) : 0;
}

static int read_variable(const char *name, struct buf *to, struct err *e)
{
	const char *value = getenv(name);

	return value ? buf_add(to, value, strlen(value)) : missing_variable(name, e);
}

static int read_file(const char *path, struct buf *to, struct err *e)
{
	char *data = NULL;
	size_t len = 0;
	int r = file_read(AT_FDCWD, path, READ_MAX, &data, &len, e);

	if (r < 0) {
		err_hint(e, "name a regular file of at most %d bytes that this user can read", SECRET_MAX);
		return r;
	}
	r = buf_add(to, data, len);
	explicit_bzero(data, len);
	free(data);
	return r;
}

/* Until the end of what the command prints: 0, -ETIMEDOUT, -EFBIG or another -errno. */
static int read_output(int fd, struct buf *to)
{
	uint64_t end = clock_ms() + SECRET_COMMAND_MS;

	for (;;) {
		uint64_t now = clock_ms();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (now >= end)
			return -ETIMEDOUT;
		int n = poll(&p, 1, (int)(end - now));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		if (buf_reserve(to, PIECE) < 0)
			return -EFBIG;
		ssize_t got = read(fd, to->data + to->len, PIECE);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			return 0;
		to->len += got > 0 ? (size_t)got : 0;
		to->data[to->len] = '\0';
	}
}

static int how_it_ended(int read_result, const struct spawn_status *st, struct err *e)
{
	int r = read_result;

	if (r == -ETIMEDOUT)
		(void)err_set(e, ERR_INPUT, ETIMEDOUT, "its command took longer than %d seconds",
			      SECRET_COMMAND_MS / 1000);
	else if (r == -EFBIG)
		(void)err_set(e, ERR_INPUT, EFBIG, "its command printed more than %d bytes", SECRET_MAX);
	else if (r < 0)
		(void)err_sys(e, -r, "read what its command prints");
	else if (st->signaled)
		r = err_set(e, ERR_INPUT, EIO, "its command was ended by signal %d", st->code);
	else if (st->code)
		r = err_set(e, ERR_INPUT, EIO, "its command ended with code %d", st->code);
	if (r < 0)
		err_hint(e, "run the command in a shell to see why; it gets no input and must print the value only");
	return r;
}

static int run_command(const char *command, struct buf *to, struct err *e)
{
	char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, xstrdup(command), NULL};
	auto_free char *copy = argv[2];
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for its command");
	auto_fd out = pair[0], in = pair[1];
	const struct spawn_opts o = {.file = "/bin/sh",
				     .argv = argv,
				     .envp = environ,
				     .stdio = {-1, in, -1},
				     .own_group = true,
				     .death_signal = SIGKILL};
	int r = spawn_start(&o, &pid, NULL, e);
	if (r < 0)
		return err_wrap(e, r, "run its command");
	close_quietly(TAKE_FD(in));
	r = read_output(out, to);
	if (r < 0)
		(void)kill(-pid, SIGKILL);
	siginfo_t si = {0};
	while (waitid(P_PID, (id_t)pid, &si, WEXITED) < 0 && errno == EINTR)
		;
	const struct spawn_status st = {.signaled = si.si_code != CLD_EXITED, .code = si.si_status};
	return how_it_ended(r, &st, e);
}

static void trim_newline(struct buf *b)
{
	if (b->len && b->data[b->len - 1] == '\n')
		b->data[--b->len] = '\0';
	if (b->len && b->data[b->len - 1] == '\r')
		b->data[--b->len] = '\0';
}

int secret_source_read(const struct sandbox_secret *s, struct buf *ret, struct err *e)
{
	const char *what = strchr(s->from, ':') + 1;
	int r;

	/* At once: a buffer that grows leaves copies of what it held. */
	if (buf_reserve(ret, READ_MAX) < 0)
		return err_set(e, ERR_INTERNAL, ENOBUFS, "secrets.%.60s: no room for its value", s->name);
	if (str_starts(s->from, "env:"))
		r = read_variable(what, ret, e);
	else if (str_starts(s->from, "file:"))
		r = read_file(what, ret, e);
	else
		r = run_command(what, ret, e);
	if (r == -ENOBUFS)
		r = err_set(e, ERR_INPUT, EFBIG, "its value has more than %d characters", SECRET_MAX);
	trim_newline(ret);
	return r < 0 ? err_wrap(e, r, "sandbox secrets.%.60s", s->name) : 0;
}
