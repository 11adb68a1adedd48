/* One run of the git program, on the loop.
 *
 * Its standard streams are anonymous files of limited size, so that nothing has to be pumped and nothing can grow
 * without end: a write past the limit fails, and then git fails. The file's offset, which git shares, says how much was
 * written. The end is told by the pidfd. A repository can make git wait for ever (a FIFO where a file should be),
 * therefore there is a time limit. */
#include "worktree_git.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/spawn.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 64 * 1024, WORDS_SHOWN = 600 };

struct git_job {
	git_done_cb done;
	void *arg;
	pid_t pid;
	int pidfd, out, words;
	struct spawn_status status;
	bool killed;
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned handles;
};

void git_command_done(struct git_command *c)
{
	strv_done(&c->args);
	strv_done(&c->env);
	buf_done(&c->input);
}

/* An anonymous file that cannot become larger than max. */
static int limited_file(size_t max)
{
	auto_fd fd = memfd_create("git", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)max) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int input_file(const struct buf *b)
{
	auto_fd fd = memfd_create("git", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	int r = fd_write_all(fd, buf_str(b), b->len);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

/* What was written, up to the shared offset. */
static void take_written(int fd, struct buf *to)
{
	off_t end = lseek(fd, 0, SEEK_CUR);

	while (end > 0 && to->len < (size_t)end) {
		size_t want = MIN((size_t)end - to->len, to->max - to->len);
		if (want == 0 || buf_reserve(to, want) < 0)
			return;
		ssize_t n = pread(fd, to->data + to->len, want, (off_t)to->len);
		if (n <= 0)
			return;
		to->len += (size_t)n;
		to->data[to->len] = '\0';
	}
}

static void job_free(struct git_job *j)
{
	close_quietly(j->pidfd);
	close_quietly(j->out);
	close_quietly(j->words);
	free(j);
}

static void on_closed(uv_handle_t *h)
{
	struct git_job *j = h->data;
	auto_buf out = BUF_INIT(GIT_OUTPUT_MAX + 1);
	auto_buf words = BUF_INIT(WORDS_MAX + 1);
	auto_buf shown = BUF_INIT(4 * WORDS_SHOWN + 1);

	if (--j->handles > 0)
		return;
	take_written(j->out, &out);
	take_written(j->words, &words);
	while (words.len > 0 && words.data[words.len - 1] == '\n')
		words.data[--words.len] = '\0';
	(void)text_neutralise(&shown, buf_str(&words), MIN(words.len, (size_t)WORDS_SHOWN));
	const struct git_answer a = {
		.code = j->status.signaled || j->killed ? -1 : j->status.code,
		.out = buf_str(&out),
		.len = out.len,
		.said = j->killed ? "it took too long, or was told to end" : buf_str(&shown),
	};
	git_done_cb done = j->done;
	void *arg = j->arg;
	job_free(j);
	done(arg, &a);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
	struct git_job *j = poll->data;

	(void)status;
	(void)events;
	if (spawn_reap(j->pid, &j->status) == 0)
		return;
	uv_close((uv_handle_t *)&j->poll, on_closed);
	uv_close((uv_handle_t *)&j->timer, on_closed);
}

void git_kill(struct git_job *j)
{
	j->killed = true;
	(void)kill(-j->pid, SIGKILL);
}

static void on_time(uv_timer_t *t)
{
	git_kill(t->data);
}

/* Nobody hears of it any more: the job could not be watched. */
static int abandon(struct git_job *j, int r, struct err *e)
{
	(void)kill(-j->pid, SIGKILL);
	(void)waitpid(j->pid, NULL, 0);
	job_free(j);
	return err_sys(e, -r, "watch git");
}

int git_start(uv_loop_t *loop, const struct git_command *c, git_done_cb done, void *arg, struct git_job **ret,
	      struct err *e)
{
	auto_fd in = input_file(&c->input);
	auto_fd out = limited_file(GIT_OUTPUT_MAX), words = limited_file(WORDS_MAX);
	auto_free char **argv = xcalloc(c->args.n + 2, sizeof *argv);
	char name[] = "git";

	if (in < 0 || out < 0 || words < 0)
		return err_sys(e, EMFILE, "make files for the output of git");
	argv[0] = name;
	for (size_t i = 0; i < c->args.n; i++)
		argv[i + 1] = c->args.v[i];
	const struct spawn_opts so = {
		.file = c->file,
		.argv = argv,
		.envp = c->env.v,
		.stdio = {in, out, words},
		.cwd = c->cwd,
		.own_group = true,
	};
	struct git_job *j = xcalloc(1, sizeof *j);
	*j = (struct git_job){.done = done, .arg = arg, .pidfd = -1, .out = TAKE_FD(out), .words = TAKE_FD(words)};
	int r = spawn_start(&so, &j->pid, &j->pidfd, e);
	if (r < 0) {
		job_free(j);
		return err_wrap(e, r, "start git");
	}
	r = uv_poll_init(loop, &j->poll, j->pidfd);
	if (r < 0)
		return abandon(j, r, e);
	(void)uv_timer_init(loop, &j->timer);
	j->poll.data = j->timer.data = j;
	j->handles = 2;
	(void)uv_poll_start(&j->poll, UV_READABLE, on_ended);
	(void)uv_timer_start(&j->timer, on_time, GIT_TIME_LIMIT_MS, 0);
	*ret = j;
	return 0;
}

char *git_find(const char *const *env)
{
	const char *path = "/usr/local/bin:/usr/bin:/bin";

	for (; env && *env; env++)
		if (str_starts(*env, "PATH="))
			path = *env + 5;
	while (*path) {
		size_t n = strcspn(path, ":");
		auto_free char *dir = xstrndup(path, n);
		auto_free char *file = path_join(dir, "git");
		if (*file == '/' && access(file, X_OK) == 0)
			return TAKE_PTR(file);
		path += n + (path[n] == ':');
	}
	return NULL;
}
