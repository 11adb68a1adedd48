/* What is to be done with git, as a table of steps.
 *
 * Each step asks git one thing and hears the answer before the next one asks; the loop is never blocked. A step may set
 * w->at to go on elsewhere in its table (w->at is the step that comes next). */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void git_args(struct git_command *c, const char *const *words)
{
	for (; *words; words++)
		strv_add(&c->args, *words);
}

int git_failed(const struct git_answer *a, struct err *e, const char *what)
{
	if (*a->said)
		return err_set(e, ERR_SYSTEM, EIO, "%s: git says: %s", what, a->said);
	return err_set(e, ERR_SYSTEM, EIO, "%s: git ended with code %d", what, a->code);
}

int read_oid(const struct git_answer *a, char ret[OID_SIZE], struct err *e, const char *what)
{
	size_t n = strspn(a->out, "0123456789abcdef");

	if (a->code != 0)
		return git_failed(a, e, what);
	if ((n != 40 && n != 64) || (a->out[n] != '\n' && a->out[n] != '\0'))
		return err_set(e, ERR_SYSTEM, EPROTO, "%s: git did not answer with a commit", what);
	memcpy(ret, a->out, n);
	ret[n] = '\0';
	return 0;
}

int keep_because(struct worktree *w, const char *advice, const char *reason, ...)
{
	va_list ap;

	va_start(ap, reason);
	free(w->reason);
	w->reason = xvasprintf(reason, ap);
	va_end(ap);
	free(w->advice);
	w->advice = xstrdup(advice);
	return CHAIN_END;
}

void worktree_emit(const struct worktree *w, const char *type, json_t *data)
{
	if (w->p.on_event)
		w->p.on_event(w->p.arg, type, data);
	else
		json_decref(data);
}

static void go_on(struct worktree *w);

static void finish(struct worktree *w, int r, const struct err *e)
{
	chain_done_cb done = w->chain_done;

	w->steps = NULL;
	done(w, r < 0 ? r : 0, r < 0 ? e : NULL);
}

static int hear(struct worktree *w, const struct step *s, const struct git_answer *a, struct err *e)
{
	if (s->answer)
		return s->answer(w, a, e);
	return !a || a->code == 0 ? 0 : git_failed(a, e, s->what);
}

static void on_answer(void *arg, const struct git_answer *a)
{
	struct worktree *w = arg;
	struct err e = ERR_INIT;

	w->job = NULL;
	int r = hear(w, &w->steps[w->at - 1], a, &e);
	if (r != 0)
		finish(w, r, &e);
	else
		go_on(w);
}

static void on_work(uv_work_t *work)
{
	struct worktree *w = work->data;

	w->steps[w->at - 1].work(w);
}

static void on_worked(uv_work_t *work, int status)
{
	(void)status;
	go_on(work->data);
}

/* 1: it is under way and will be heard of; 0: it is over; -errno. */
static int take(struct worktree *w, const struct step *s, struct err *e)
{
	__attribute__((cleanup(git_command_done))) struct git_command c = {
		.input = BUF_INIT(GIT_OUTPUT_MAX),
		.file = w->git,
		.cwd = "/",
	};

	if (s->work) {
		w->work.data = w;
		return uv_queue_work(w->loop, &w->work, on_work, on_worked) < 0 ? 0 : 1;
	}
	if (s->ask)
		s->ask(w, &c);
	if (c.args.n == 0)
		return s->answer ? s->answer(w, NULL, e) : 0;
	int r = git_start(w->loop, &c, on_answer, w, &w->job, e);
	return r < 0 ? r : 2;
}

static void go_on(struct worktree *w)
{
	struct err e = ERR_INIT;

	while (w->at < w->n_steps) {
		const struct step *s = &w->steps[w->at++];
		int r = take(w, s, &e);
		bool under_way = s->work ? r == 1 : r == 2;
		if (under_way)
			return;
		if (r != 0) {
			finish(w, r, &e);
			return;
		}
	}
	finish(w, 0, NULL);
}

void chain_run(struct worktree *w, const struct step *steps, size_t n, chain_done_cb done)
{
	w->steps = steps;
	w->n_steps = n;
	w->at = 0;
	w->chain_done = done;
	go_on(w);
}

void worktree_interrupt(struct worktree *w)
{
	if (w->job)
		git_kill(w->job);
}
