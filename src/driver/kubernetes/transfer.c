/* Files into a pod and back.
 *
 * No file of this machine can be mounted there, so a folder is sent: the guest program packs it here as a child of
 * ours, and unpacks it inside as a program of the sandbox, with a pipe and the agent's connection in between; this
 * process only moves the bytes. On the way back it is the other way round, and the stream is hostile: the child that
 * unpacks it holds every path to its folder (guest/unpack.c). A transfer is over when both halves are. */
#include "kube_priv.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORDS_LIMIT = 16 * 1024 };

struct transfer {
	struct transfer *next;
	struct kube *kube;
	bool in;
	char *outside;
	transfer_cb done;
	struct cli *child;
	bool child_over, exec_over;
	bool child_ok, exec_ok;
	char *child_words; /* the summary, or why it failed */
	int words;	   /* the same of the program inside */
};

int kube_memory(size_t limit)
{
	auto_fd fd = memfd_create("iterion-kube", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* Its size is what may be written; nothing makes it larger. */
	if (fd < 0 || ftruncate(fd, (off_t)limit) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int kube_memory_rewind(int fd)
{
	off_t len = lseek(fd, 0, SEEK_CUR);

	if (len < 0 || ftruncate(fd, len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return 0;
}

/* The last line that the guest printed, without its own name in front; the caller frees. */
static char *last_line(const char *text)
{
	static const char name[] = "iterion-guest: ";
	size_t len = strlen(text);

	while (len && text[len - 1] == '\n')
		len--;
	size_t begin = len;
	while (begin && text[begin - 1] != '\n')
		begin--;
	char *line = xstrndup(text + begin, len - begin);
	if (str_starts(line, name))
		memmove(line, line + strlen(name), strlen(line + strlen(name)) + 1);
	return line;
}

static char *words_inside(const struct transfer *t)
{
	auto_buf b = BUF_INIT(WORDS_LIMIT);
	auto_buf safe = BUF_INIT(WORDS_LIMIT * 8);

	if (kube_memory_rewind(t->words) < 0 || fd_read_all(t->words, &b) < 0)
		return xstrdup("");
	auto_free char *line = last_line(buf_str(&b));
	(void)text_neutralise(&safe, line, strlen(line));
	return buf_steal(&safe);
}

/* When one half fails the other loses its stream: the reader then says only that it ended. */
static void explain(const struct transfer *t, struct err *e)
{
	auto_free char *inside = words_inside(t);
	bool outside_first = !t->child_ok && (t->in || t->exec_ok || !strstr(t->child_words, "too early"));
	const char *why = outside_first ? t->child_words : inside;

	(void)err_set(e, ERR_SANDBOX, EIO, "%s %s: %s", t->in ? "send to the sandbox" : "bring back from the sandbox",
		      t->outside, why && *why ? why : "it was cut off");
	err_hint(e, "%s",
		 t->in ? "The folder must be readable, and the node's disk have room for it."
		       : "The folder must be writable and its disk have room; what came before this stays.");
}

/* What the half inside left out. It is only shown. */
static unsigned long long skipped_inside(const struct transfer *t)
{
	auto_free char *words = words_inside(t);
	unsigned long long skipped = 0;

	return sscanf(words, "iterion-tree %*u %*u %*u %llu", &skipped) == 1 ? skipped : 0;
}

static void check_over(struct transfer *t)
{
	unsigned long long files = 0, bytes = 0, gone = 0, skipped = 0;
	struct kube *k = t->kube;
	struct err e = ERR_INIT;

	if (!t->child_over || !t->exec_over)
		return;
	for (struct transfer **p = &k->transfers; *p; p = &(*p)->next) {
		if (*p == t) {
			*p = t->next;
			break;
		}
	}
	bool ok = t->child_ok && t->exec_ok;
	if (ok)
		ok = sscanf(t->child_words, "iterion-tree %llu %llu %llu %llu", &files, &bytes, &gone, &skipped) == 4;
	if (ok)
		skipped += skipped_inside(t);
	else
		explain(t, &e);
	t->done(k, ok ? NULL : &e, files, bytes, gone, skipped);
	close_quietly(t->words);
	free(t->child_words);
	free(t->outside);
	free(t);
	kube_idle(k);
}

static void on_child(void *arg, const struct cli_result *r)
{
	struct transfer *t = arg;

	t->child = NULL;
	t->child_over = true;
	t->child_ok = cli_ok(r);
	t->child_words = last_line(r->err);
	check_over(t);
}

static void on_exec(void *arg, const struct exec_status *st)
{
	struct transfer *t = arg;

	t->exec_over = true;
	t->exec_ok = st->end == EXEC_EXITED && st->code == 0;
	check_over(t);
}

static int start_child(struct transfer *t, const struct transfer_opts *o, int in, int out, struct err *e)
{
	const char *argv[] = {t->kube->guest, t->in ? "pack" : "unpack",
			      o->outside,     o->without ? "--without" : NULL,
			      o->without,     NULL};
	const struct cli_opts co = {.argv = argv, .stdin_fd = in, .out_fd = out, .out_limit = 4096};

	return cli_start(t->kube->loop, &co, on_child, t, &t->child, e);
}

static int start_exec(struct transfer *t, const struct transfer_opts *o, int in, int out, struct err *e)
{
	static const char *const env[] = {NULL};
	const char *argv[8] = {GUEST_PATH, t->in ? "unpack" : "pack", o->within};
	size_t n = 3;
	struct exec *x;

	if (o->list >= 0)
		argv[n++] = t->in ? "--list" : "--since";
	if (o->without && !t->in) {
		argv[n++] = "--without";
		argv[n++] = o->without;
	}
	const struct exec_opts xo = {.argv = argv, .env = env, .cwd = "/", .stdio = {in, out, t->words}};
	return mux_exec(t->kube->mux, &xo, true, on_exec, t, &x, e);
}

static int start(struct kube *k, bool in, const struct transfer_opts *o, transfer_cb done, struct err *e)
{
	int fds[2];
	struct transfer *t = xcalloc(1, sizeof *t);

	*t = (struct transfer){.kube = k, .in = in, .done = done, .words = kube_memory(WORDS_LIMIT)};
	if (t->words < 0 || pipe2(fds, O_CLOEXEC) < 0) {
		int r = err_sys(e, t->words < 0 ? -t->words : errno, "make a pipe for the sandbox's files");
		close_quietly(t->words);
		free(t);
		return r;
	}
	auto_fd read_end = fds[0];
	auto_fd write_end = fds[1];
	t->outside = xstrdup(o->outside);
	int r = in ? start_exec(t, o, read_end, o->list, e) : start_exec(t, o, o->list, write_end, e);
	if (r < 0) {
		close_quietly(t->words);
		free(t->outside);
		free(t);
		return r;
	}
	t->next = k->transfers;
	k->transfers = t;
	k->busy++;
	r = in ? start_child(t, o, -1, write_end, e) : start_child(t, o, read_end, 0, e);
	if (r < 0) {
		/* The half that runs ends by itself, since its pipe closes. */
		t->child_over = true;
		t->child_words = xasprintf("%s", e->msg);
	}
	return 0;
}

int transfer_in(struct kube *k, const struct transfer_opts *o, transfer_cb done, struct err *e)
{
	return start(k, true, o, done, e);
}

int transfer_out(struct kube *k, const struct transfer_opts *o, transfer_cb done, struct err *e)
{
	return start(k, false, o, done, e);
}

void transfer_cancel_all(struct kube *k)
{
	for (struct transfer *t = k->transfers; t; t = t->next)
		if (t->child)
			cli_signal(t->child, SIGKILL);
}
