/* Rebasing without a checkout.
 *
 * To take a commit over, its change against its parent is merged into what is there so far. merge-tree finds the base
 * of a merge in the history alone, so a stand-in is made first: the files so far, as a child of that parent. The base
 * of stand-in and commit is then the parent, which is what a cherry-pick needs. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_NEXT = 1, COMMITS_MAX = 10000 };

void rebase_clear(struct rebase *r)
{
	strv_done(&r->commits);
	free(r->author);
	free(r->email);
	free(r->date);
	free(r->message);
	*r = (struct rebase){0};
}

static void ask_list(struct worktree *w, struct git_command *c)
{
	auto_free char *range = xasprintf("%s..%s", w->old, w->tip);

	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "rev-list", "--reverse", "--topo-order", "--parents", range);
}

static int hear_list(struct worktree *w, const struct git_answer *a, struct err *e)
{
	rebase_clear(&w->rebase);
	if (a->code != 0)
		return git_failed(a, e, "list the branch's commits");
	for (const char *line = a->out; *line && w->rebase.commits.n < COMMITS_MAX;) {
		size_t n = strcspn(line, "\n");
		char *text = xstrndup(line, n);
		const char *space = strchr(text, ' ');
		strv_take(&w->rebase.commits, text);
		if (!space || strchr(space + 1, ' '))
			return keep_because(w, "use --merge-strategy merge or squash, or rebase it yourself",
					    "the branch has merges of its own, or a commit without a parent, which "
					    "cannot be rebased");
		line += n + (line[n] == '\n');
	}
	memcpy(w->result, w->old, sizeof w->result);
	return 0;
}

static int next_commit(struct worktree *w, const struct git_answer *a, struct err *e)
{
	struct rebase *r = &w->rebase;

	(void)a;
	if (r->next == r->commits.n)
		return CHAIN_END;
	const char *line = r->commits.v[r->next++];
	size_t n = strcspn(line, " ");
	if (line[n] != ' ' || n >= OID_SIZE || strlen(line + n + 1) >= OID_SIZE)
		return err_set(e, ERR_SYSTEM, EPROTO, "list the branch's commits: git did not answer with commits");
	memcpy(r->commit, line, n);
	r->commit[n] = '\0';
	(void)snprintf(r->parent, sizeof r->parent, "%s", line + n + 1);
	return 0;
}

static void ask_show(struct worktree *w, struct git_command *c)
{
	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "cat-file", "commit", w->rebase.commit);
}

/* "author Name <mail> seconds zone" */
static int read_author(struct rebase *r, const char *line, size_t len)
{
	auto_free char *text = xstrndup(line, len);
	char *open = strrchr(text, '<'), *close = strrchr(text, '>');

	if (!open || !close || close < open || open - text < 1)
		return -EPROTO;
	*close = '\0';
	r->email = xstrdup(open + 1);
	r->date = xasprintf("@%s", close + 1 + strspn(close + 1, " "));
	*open = '\0';
	for (char *p = open - 1; p >= text && *p == ' '; p--)
		*p = '\0';
	r->author = xstrdup(text);
	return 0;
}

static int hear_show(struct worktree *w, const struct git_answer *a, struct err *e)
{
	struct rebase *r = &w->rebase;
	const char *author = str_starts(a->out, "author ") ? a->out : strstr(a->out, "\nauthor ");
	const char *body = strstr(a->out, "\n\n");

	free(TAKE_PTR(r->author));
	free(TAKE_PTR(r->email));
	free(TAKE_PTR(r->date));
	free(TAKE_PTR(r->message));
	if (a->code != 0)
		return git_failed(a, e, "read a commit of the branch");
	if (!author || !body || author > body)
		return err_set(e, ERR_SYSTEM, EPROTO, "read the commit %s: it has no author", r->commit);
	author = strchr(author + 1, ' ') + 1;
	if (read_author(r, author, strcspn(author, "\n")) < 0)
		return err_set(e, ERR_SYSTEM, EPROTO, "read the commit %s: its author cannot be read", r->commit);
	r->message = xstrdup(body + 2);
	return 0;
}

static void ask_files(struct worktree *w, struct git_command *c)
{
	auto_free char *tree = xasprintf("%s^{tree}", w->result);

	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "rev-parse", "--verify", "--quiet", tree);
}

static int hear_files(struct worktree *w, const struct git_answer *a, struct err *e)
{
	return read_oid(a, w->rebase.tree, e, "read the files of a commit");
}

static void ask_stand_in(struct worktree *w, struct git_command *c)
{
	room_clean(w, c, NULL, NULL);
	room_identity(w, c);
	GIT_ARGS(c, "commit-tree", w->rebase.tree, "-p", w->rebase.parent);
	(void)buf_puts(&c->input, "stand-in\n");
}

static int hear_stand_in(struct worktree *w, const struct git_answer *a, struct err *e)
{
	return read_oid(a, w->rebase.before, e, "rebase a commit");
}

static void ask_merge(struct worktree *w, struct git_command *c)
{
	room_clean(w, c, NULL, NULL);
	GIT_ARGS(c, "merge-tree", "--write-tree", "--name-only", "--no-messages", w->rebase.before, w->rebase.commit);
}

static int hear_merge(struct worktree *w, const struct git_answer *a, struct err *e)
{
	if (a->code == 1)
		return merge_conflict(w, a);
	int r = read_oid(a, w->oid, e, "rebase a commit");
	/* The target has this change already. */
	if (r == 0 && str_eq(w->oid, w->rebase.tree))
		w->at = STEP_NEXT;
	return r;
}

static void ask_commit(struct worktree *w, struct git_command *c)
{
	const struct rebase *r = &w->rebase;

	room_clean(w, c, NULL, NULL);
	room_identity(w, c);
	strv_set_env(&c->env, "GIT_AUTHOR_NAME", r->author);
	strv_set_env(&c->env, "GIT_AUTHOR_EMAIL", r->email);
	strv_set_env(&c->env, "GIT_AUTHOR_DATE", r->date);
	GIT_ARGS(c, "commit-tree", w->oid, "-p", w->result);
	(void)buf_puts(&c->input, r->message);
}

static int hear_commit(struct worktree *w, const struct git_answer *a, struct err *e)
{
	w->at = STEP_NEXT;
	return read_oid(a, w->result, e, "rebase a commit");
}

const struct step worktree_rebase_steps[] = {
	{.ask = ask_list, .answer = hear_list},		[STEP_NEXT] = {.answer = next_commit},
	{.ask = ask_show, .answer = hear_show},		{.ask = ask_files, .answer = hear_files},
	{.ask = ask_stand_in, .answer = hear_stand_in}, {.ask = ask_merge, .answer = hear_merge},
	{.ask = ask_commit, .answer = hear_commit},
};
const size_t worktree_rebase_n = ARRAY_LEN(worktree_rebase_steps);
