/* The containers of ours that an engine has.
 *
 * Listing is two questions: the numbers of all containers with our label, then their labels, since docker and podman
 * print a list in different shapes but `inspect` alike. A container that goes between the two is no error. Sweeping is
 * a third: one `rm` for all whose owner is gone. */
#include "leftovers.h"
#include "build_copy.h"
#include "cli.h"
#include "control.h"
#include "engine.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONTAINERS = 4096, LIST_LIMIT = 8 * 1024 * 1024, NEVER_SHORTER_MS = 10 * 1000 };

struct listing {
	uv_loop_t *loop;
	const struct container_engine *en;
	char *program;
	leftovers_list_cb done;
	void *arg;
};

static void listing_end(struct listing *l, const struct contained_list *list, const struct err *e)
{
	static const struct contained_list none = {0};

	l->done(l->arg, list ? list : &none, e);
	free(l->program);
	free(l);
}

static void on_inspected(void *arg, const struct cli_result *r)
{
	struct contained_list list = {0};

	contained_parse(r->out, r->out_len, &list);
	listing_end(arg, &list, NULL);
	contained_list_done(&list);
}

static int ask(uv_loop_t *loop, const struct strv *argv, cli_done_cb done, void *arg, struct err *e)
{
	const struct cli_opts o = {
		.argv = (const char *const *)argv->v,
		.stdin_fd = -1,
		.out_limit = LIST_LIMIT,
		.timeout_ms = MAX(engine_timeout_ms(), (unsigned)NEVER_SHORTER_MS),
	};

	return cli_start(loop, &o, done, arg, NULL, e);
}

static void on_listed(void *arg, const struct cli_result *r)
{
	struct listing *l = arg;
	struct err e = ERR_INIT;
	auto_strv argv = {0};
	auto_free char *ids = xstrdup(r->out);
	char *save = NULL;
	size_t n = 0;

	if (!cli_ok(r)) {
		(void)words_explain(l->en, r, NULL, &e);
		listing_end(l, NULL, &e);
		return;
	}
	strv_add(&argv, l->program);
	strv_add(&argv, "inspect");
	strv_add(&argv, "--type=container");
	strv_add(&argv, "--format");
	strv_add(&argv, contained_format);
	for (char *id = strtok_r(ids, "\r\n", &save); id && n < MAX_CONTAINERS; id = strtok_r(NULL, "\r\n", &save)) {
		if (!label_is_id(id))
			continue;
		strv_add(&argv, id);
		n++;
	}
	if (n == 0)
		listing_end(l, NULL, NULL);
	else if (ask(l->loop, &argv, on_inspected, l, &e) < 0)
		listing_end(l, NULL, &e);
}

int leftovers_list(uv_loop_t *loop, const struct container_engine *en, const char *program, leftovers_list_cb done,
		   void *arg, struct err *e)
{
	static const char managed_filter[] = "label=" LABEL_MANAGED "=true";
	static const char *const words[] = {"ps", "--all", "--quiet", "--no-trunc", "--filter", managed_filter};
	struct listing *l = xcalloc(1, sizeof *l);
	auto_strv argv = {0};

	*l = (struct listing){.loop = loop, .en = en, .program = xstrdup(program), .done = done, .arg = arg};
	strv_add(&argv, program);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		strv_add(&argv, words[i]);
	int r = ask(loop, &argv, on_listed, l, e);
	if (r < 0) {
		free(l->program);
		free(l);
	}
	return r;
}

struct sweeping {
	uv_loop_t *loop;
	const struct container_engine *en;
	char *program;
	size_t n;
	leftovers_sweep_cb done;
	void *arg;
};

static void sweeping_end(struct sweeping *s, size_t n, const struct err *e)
{
	s->done(s->arg, n, e);
	free(s->program);
	free(s);
}

static void on_removed(void *arg, const struct cli_result *r)
{
	struct sweeping *s = arg;
	struct err e = ERR_INIT;

	/* Somebody else's sweep may have been faster. */
	if (cli_ok(r) || words_classify(r->err) == WORDS_NO_CONTAINER) {
		sweeping_end(s, s->n, NULL);
		return;
	}
	(void)words_explain(s->en, r, NULL, &e);
	sweeping_end(s, 0, &e);
}

static void on_list(void *arg, const struct contained_list *list, const struct err *why)
{
	struct sweeping *s = arg;
	char host[HOST_ID_SIZE];
	struct err e = ERR_INIT;
	auto_strv argv = {0};

	label_host_id(host);
	strv_add(&argv, s->program);
	for (size_t i = 0; i < ARRAY_LEN(s->en->remove) && s->en->remove[i]; i++)
		strv_add(&argv, s->en->remove[i]);
	for (size_t i = 0; i < list->n; i++) {
		if (label_owner_state(list->v[i].owner, host) != OWNER_DEAD)
			continue;
		strv_add(&argv, list->v[i].id);
		s->n++;
	}
	if (why || s->n == 0)
		sweeping_end(s, 0, why);
	else if (ask(s->loop, &argv, on_removed, s, &e) < 0)
		sweeping_end(s, 0, &e);
}

int leftovers_sweep(uv_loop_t *loop, const struct container_engine *en, const char *program, leftovers_sweep_cb done,
		    void *arg, struct err *e)
{
	struct sweeping *s = xcalloc(1, sizeof *s);

	*s = (struct sweeping){.loop = loop, .en = en, .program = xstrdup(program), .done = done, .arg = arg};
	int r = leftovers_list(loop, en, program, on_list, s, e);
	if (r < 0) {
		free(s->program);
		free(s);
	}
	return r;
}

/* What the two below wait for. */
struct answer {
	const struct container_engine *en;
	json_t *rows;
	size_t n;
	int r;
	struct err *e;
};

static void take_error(struct answer *a, const struct err *e)
{
	if (!e)
		return;
	err_copy(a->e, e);
	a->r = -(e->errnum ? e->errnum : EIO);
}

static void on_list_now(void *arg, const struct contained_list *list, const struct err *e)
{
	static const char *const owners[] = {
		[OWNER_ALIVE] = "alive", [OWNER_DEAD] = "gone", [OWNER_FOREIGN] = "elsewhere"};
	struct answer *a = arg;
	char host[HOST_ID_SIZE];

	label_host_id(host);
	take_error(a, e);
	for (size_t i = 0; i < list->n; i++) {
		const struct contained *c = &list->v[i];
		json_t *row = json_object();
		json_put_str(row, "driver", a->en->name);
		json_put_str(row, "id", c->id);
		json_put_str(row, "name", c->name);
		json_put_str(row, "image", c->image);
		json_put_str(row, "state", c->state);
		json_put_str(row, "created", c->created);
		json_put_str(row, "run_id", c->run_id);
		json_put_str(row, "run_name", c->run_name);
		json_put_str(row, "owner", owners[label_owner_state(c->owner, host)]);
		(void)json_array_append_new(a->rows, row);
	}
}

static void on_swept_now(void *arg, size_t n, const struct err *e)
{
	struct answer *a = arg;

	a->n = n;
	take_error(a, e);
}

static int run_now(struct answer *a, bool sweep)
{
	auto_free char *program = NULL;
	uv_loop_t loop;

	if (engine_probe(a->en, NULL) < 0 || engine_find(a->en, &program, NULL) < 0)
		return 0;
	int r = uv_loop_init(&loop);
	if (r < 0)
		return err_sys(a->e, -r, "make a loop for %s", a->en->program);
	r = sweep ? leftovers_sweep(&loop, a->en, program, on_swept_now, a, a->e)
		  : leftovers_list(&loop, a->en, program, on_list_now, a, a->e);
	if (r == 0) {
		(void)uv_run(&loop, UV_RUN_DEFAULT);
		r = a->r;
	}
	(void)uv_loop_close(&loop);
	return r;
}

int leftovers_list_now(const struct container_engine *en, json_t *rows, struct err *e)
{
	struct answer a = {.en = en, .rows = rows, .e = e};

	return run_now(&a, false);
}

int leftovers_sweep_now(const struct container_engine *en, size_t *ret_n, struct err *e)
{
	struct answer a = {.en = en, .e = e};

	control_sweep();
	build_copy_sweep();
	int r = run_now(&a, true);
	*ret_n = a.n;
	return r;
}
