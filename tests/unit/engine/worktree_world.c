#include "worktree_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../store/tmp.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/run.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_env(const struct world *x)
{
	setenv("REPO", x->repo, 1);
	setenv("STORE", x->store, 1);
	setenv("TOP", x->top, 1);
	setenv("HOME", x->top, 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	if (x->w)
		setenv("TREE", worktree_path(x->w), 1);
}

void sh(const struct world *x, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *text = xvasprintf(fmt, ap);
	va_end(ap);
	char *whole = xasprintf("set -e; cd \"$REPO\" 2>/dev/null || cd \"$TOP\"; %s", text);
	set_env(x);
	int st = system(whole);
	if (st != 0)
		fail_msg("%s: %d", text, st);
	free(whole);
	free(text);
}

int sh_code(const struct world *x, const char *script)
{
	char *whole = xasprintf("cd \"$REPO\"; %s", script);

	set_env(x);
	int st = system(whole);
	free(whole);
	return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

char *sh_out(const struct world *x, const char *script)
{
	char *whole = xasprintf("cd \"$REPO\"; %s", script);
	struct buf b = BUF_INIT(1 << 20);
	char part[4096];
	size_t n;

	set_env(x);
	FILE *f = popen(whole, "re");
	assert_non_null(f);
	while ((n = fread(part, 1, sizeof part, f)) > 0)
		(void)buf_add(&b, part, n);
	(void)pclose(f);
	free(whole);
	while (b.len && b.data[b.len - 1] == '\n')
		b.data[--b.len] = '\0';
	return buf_steal(&b);
}

bool sh_says(const struct world *x, const char *script, const char *want)
{
	char *said = sh_out(x, script);
	bool same = str_eq(said, want);

	if (!same)
		print_message("%s\n  says \"%s\"\n  not  \"%s\"\n", script, said, want);
	free(said);
	return same;
}

static void on_event(void *arg, const char *type, json_t *data)
{
	struct world *x = arg;

	json_put_str(data, "type", type);
	(void)json_array_append_new(x->events, data);
}

json_t *world_event(const struct world *x, const char *type)
{
	size_t i;
	json_t *ev;

	json_array_foreach(x->events, i, ev) if (str_eq(json_get_str(ev, "type"), type)) return ev;
	return NULL;
}

const char *world_said(const struct world *x, const char *type, const char *key)
{
	const json_t *ev = world_event(x, type);
	const char *s = ev ? json_get_str(ev, key) : NULL;

	return s ? s : "";
}

void world_new(struct world *x)
{
	*x = (struct world){.top = tmp_dir(), .events = json_array()};
	x->repo = xasprintf("%s/repo", x->top);
	x->store = xasprintf("%s/store", x->top);
	x->run_dir = xasprintf("%s/runs/run1", x->store);
	assert_return_code(dir_make(AT_FDCWD, x->run_dir, 0700, NULL), 0);
	sh(x, "git init -q -b main \"$REPO\"; cd \"$REPO\"; git config --global user.name Ann; "
	      "git config --global user.email ann@example.org; mkdir sub; seq 1 20 >a.txt; echo b >b.txt; "
	      "echo c >sub/c.txt; printf '*.o\\n' >.gitignore; git add .; git commit -qm first");
	x->env[0] = "PATH=/usr/local/bin:/usr/bin:/bin";
	x->env[1] = xasprintf("HOME=%s", x->top);
	x->env[2] = "GIT_CONFIG_NOSYSTEM=1";
	x->p = (struct worktree_params){
		.workspace = x->repo,
		.store_dir = x->store,
		.run_id = "run1",
		.run_name = "nightly",
		.host_env = x->env,
		.on_event = on_event,
		.arg = x,
	};
}

void world_done(struct world *x)
{
	union {
		const char *is;
		char *owned;
	} home = {.is = x->env[1]};

	worktree_free(x->w);
	json_decref(x->events);
	free(home.owned);
	free(x->repo);
	free(x->store);
	free(x->run_dir);
	unsetenv("TREE");
	tmp_remove(x->top);
}

static void on_done(void *arg, const struct err *e)
{
	struct world *x = arg;

	x->result = e ? -1 : 0;
	x->err = e ? *e : ERR_INIT;
}

void world_create(struct world *x)
{
	uv_loop_t loop;

	x->result = worktree_plan(&x->p, &x->w, &x->err);
	if (x->result < 0)
		fail_msg("plan: %s (%s)", x->err.msg, x->err.hint);
	assert_return_code(uv_loop_init(&loop), 0);
	x->result = 1;
	worktree_create(x->w, &loop, on_done, x);
	assert_int_equal(x->result, 1); /* done comes from the loop */
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_return_code(uv_loop_close(&loop), 0);
	if (x->result < 0)
		fail_msg("create: %s (%s)", x->err.msg, x->err.hint);
}

void world_finish(struct world *x, enum worktree_end how)
{
	uv_loop_t loop;

	assert_return_code(uv_loop_init(&loop), 0);
	x->result = 1;
	worktree_finish(x->w, how, &loop, on_done, x);
	assert_int_equal(x->result, 1);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_return_code(uv_loop_close(&loop), 0);
	assert_int_equal(x->result, 0);
}
