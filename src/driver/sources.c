/* What was mounted, held against what was checked.
 *
 * native mounts by descriptor; an engine is told a path and looks it up again, some time later and as root. Who can
 * write in the workspace could put a symlink there in between. So each source is held open from before the engine is
 * asked, and when the container stands, and nothing but the guest runs in it, the guest says which files its mount
 * points are. A bind mount has its source's device and inode number. When they differ the container is taken down; no
 * program has seen it.
 *
 * The guest's answers pass through a pipe that is read when its program has ended, so it is asked for so many at a time
 * as fit. */
#include "sources.h"
#include "session_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lines of at most 42 bytes in a pipe of 64 KiB. */
enum { AT_ONCE = 1000, ANSWER_LIMIT = 64 * 1024, NOT_EXECUTABLE = 126 };

struct source {
	char *path, *target;
	int fd;
};

struct sources {
	struct source *v;
	size_t n, cap;
	size_t n_shared; /* the first ones: the workspace and the shared state, which nobody but the user chose */
	size_t at;	 /* the first that was not asked for */
	size_t asked;
	int out;
	struct session *session;
	void (*done)(void *arg, const struct err *e);
	void *arg;
};

static int hold(struct sources *l, const char *path, const char *target, struct err *e)
{
	int fd = file_open_resolve(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS);

	if (fd < 0) {
		(void)err_sys(e, -fd, "mount %s at %s in the sandbox", path, target);
		err_hint(e, "Somebody changed the path while the sandbox started: mount a folder that stays as it is.");
		return fd;
	}
	l->v = grow_array(l->v, l->n, &l->cap, sizeof *l->v);
	l->v[l->n++] = (struct source){.path = xstrdup(path), .target = xstrdup(target), .fd = fd};
	return 0;
}

int sources_open(const struct session *s, struct sources **ret, struct err *e)
{
	struct sources *l = xcalloc(1, sizeof *l);
	const struct host_state_plan *h = &s->host_state;

	l->out = -1;
	int r = hold(l, s->p.workspace, s->workspace_target, e);
	for (size_t i = 0; r == 0 && i < h->mounts.n; i++)
		r = hold(l, h->sources.v[i], h->mounts.v[i], e);
	l->n_shared = l->n;
	for (size_t i = 0; r == 0 && i < s->spec.n_mounts; i++)
		if (s->spec.mounts[i].type == MOUNT_BIND)
			r = hold(l, s->spec.mounts[i].source, s->spec.mounts[i].target, e);
	if (r < 0)
		sources_free(l);
	else
		*ret = l;
	return r;
}

void sources_free(struct sources *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].path);
		free(l->v[i].target);
		close_quietly(l->v[i].fd);
	}
	close_quietly(l->out);
	free(l->v);
	free(l);
}

static int differs(const struct source *x, struct err *e)
{
	int r = err_set(e, ERR_SANDBOX, ESTALE, "mount %s at %s in the sandbox: something else stands there by now",
			x->path, x->target);

	err_hint(e, "Somebody changed the path while the sandbox started: mount a folder that stays as it is.");
	return r;
}

/* One line of the answer; it comes from the sandbox, but nothing of it is used beyond this. */
static int compare(const struct source *x, const char *line, size_t len, struct err *e)
{
	char want[64];
	struct stat st;

	if (fstat(x->fd, &st) < 0)
		return err_sys(e, errno, "look at %s", x->path);
	int n = snprintf(want, sizeof want, "%llu %llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	bool same = len == (size_t)n && memcmp(line, want, len) == 0;
	/* Where this user cannot go, none of the sandbox's programs can. */
	bool denied = len == strlen("denied") && memcmp(line, "denied", len) == 0;
	return same || denied ? 0 : differs(x, e);
}

static int compare_all(const struct sources *l, const char *text, struct err *e)
{
	for (size_t i = l->at; i < l->at + l->asked; i++) {
		size_t len = strcspn(text, "\n");
		int r = text[len] ? compare(&l->v[i], text, len, e) : differs(&l->v[i], e);
		if (r < 0)
			return r;
		text += len + 1;
	}
	return 0;
}

static void ask(struct sources *l);

static void answer(struct sources *l, const struct err *e)
{
	void (*done)(void *arg, const struct err *e) = l->done;

	l->done = NULL;
	done(l->arg, e);
}

/* Without the guest there is no witness. What the user's own account chose may stay. */
static int no_witness(const struct sources *l, struct err *e)
{
	if (l->n == l->n_shared)
		return 0;
	int r = err_set(e, ERR_SANDBOX, ENOTSUP,
			"mount %s at %s in the sandbox: what was mounted cannot be checked, since iterion-guest cannot "
			"run in this container",
			l->v[l->n_shared].path, l->v[l->n_shared].target);
	err_hint(e, "Take the mounts out of the sandbox, or use an image in which iterion-guest can run.");
	return r;
}

static void on_ended(void *arg, const struct exec_status *st)
{
	struct sources *l = arg;
	struct err e = ERR_INIT;
	auto_buf text = BUF_INIT(ANSWER_LIMIT);
	auto_fd out = TAKE_FD(l->out);
	int r;

	if (st->end == EXEC_EXITED && st->code == 0) {
		(void)!fd_read_all(out, &text);
		r = compare_all(l, buf_str(&text), &e);
		l->at += l->asked;
	} else if (st->end == EXEC_NOT_FOUND || (st->end == EXEC_EXITED && st->code >= NOT_EXECUTABLE)) {
		r = no_witness(l, &e);
		l->at = l->n;
	} else {
		r = err_set(&e, ERR_SANDBOX, ECHILD, "check the sandbox's mounts: its guest did not answer");
	}
	if (r < 0)
		answer(l, &e);
	else
		ask(l);
}

static int start(struct sources *l, struct err *e)
{
	static const char *const env[] = {NULL};
	struct session *s = l->session;
	const char *argv[AT_ONCE + 3] = {GUEST_PATH, "identify"};
	struct exec *x;
	int fds[2];

	l->asked = MIN(l->n - l->at, (size_t)AT_ONCE);
	for (size_t i = 0; i < l->asked; i++)
		argv[i + 2] = l->v[l->at + i].target;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe for the check of mounts");
	l->out = fds[0];
	auto_fd write_end = fds[1];
	/* What a program of the sandbox holds open is not waited for. */
	int r = fd_set_nonblock(l->out, true);
	if (r < 0)
		return err_sys(e, -r, "make a pipe for the check of mounts");
	const struct exec_opts o = {.argv = argv, .env = env, .cwd = "/", .stdio = {-1, write_end, -1}};
	return s->sandbox->ops->exec(s->sandbox, &o, on_ended, l, &x, e);
}

static void ask(struct sources *l)
{
	struct err e = ERR_INIT;

	if (l->at == l->n)
		answer(l, NULL);
	else if (start(l, &e) < 0)
		answer(l, &e);
}

void sources_verify(struct sources *l, struct session *s, void (*done)(void *arg, const struct err *e), void *arg)
{
	l->session = s;
	l->done = done;
	l->arg = arg;
	ask(l);
}
