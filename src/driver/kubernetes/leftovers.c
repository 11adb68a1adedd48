/* The sandboxes of ours that a cluster's namespace has.
 *
 * One question lists the pods with our labels, one command removes those whose owner is gone, their policies with them.
 * What a label says is a claim that anybody who may make pods can make: it is compared and shown. Only a pod whose
 * owner names this very machine and a process of it that is gone is removed; what other runners left is the cluster's
 * to collect, by the owner reference to their pods. */
#include "leftovers.h"
#include "../container/engine.h"
#include "../container/labels.h"
#include "kubectl.h"
#include "pod_spec.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_LIMIT = 32 * 1024 * 1024, LIST_MS = 30 * 1000 };

void kube_remove_words(struct strv *argv, const char *name)
{
	strv_take(argv, xasprintf("pod/%s", name));
	strv_take(argv, xasprintf("networkpolicy/%s", name));
}

static void begin_remove(struct strv *words)
{
	static const char *const begin[] = {"delete", "--wait=false", "--ignore-not-found", "--grace-period=1"};

	for (size_t i = 0; i < ARRAY_LEN(begin); i++)
		strv_add(words, begin[i]);
}

/* The pods of the answer, an array of theirs. */
static json_t *parse(const struct cli_result *r, struct err *e)
{
	json_t *doc = json_parse(r->out, r->out_len, e);
	json_t *items = json_incref(json_object_get(doc, "items"));

	json_decref(doc);
	return items ? items : json_array();
}

static const char *label(const json_t *pod, const char *key)
{
	const char *s = json_get_str(json_object_get(json_object_get(pod, "metadata"), "labels"), key);

	return s ? s : "";
}

static const char *note(const json_t *pod, const char *key)
{
	const char *s = json_get_str(json_object_get(json_object_get(pod, "metadata"), "annotations"), key);

	return s ? s : label(pod, key);
}

static const char *name_of(const json_t *pod)
{
	const char *s = json_get_str(json_object_get(pod, "metadata"), "name");

	/* Names of pods are DNS names, so none is an option. */
	return s && *s && *s != '-' ? s : NULL;
}

static enum owner_state state_of(const json_t *pod)
{
	auto_free char *owner = pod_owner(label(pod, LABEL_OWNER));
	char host[HOST_ID_SIZE];

	label_host_id(host);
	return label_owner_state(owner, host);
}

static int ask(uv_loop_t *loop, const char *program, cli_done_cb done, void *arg, struct err *e)
{
	static const char *const words[] = {"get", "pods",
					    "--selector=" LABEL_MANAGED "=true," LABEL_COMPONENT "=" COMPONENT,
					    "--output=json", NULL};
	const struct cli_opts o = {.stdin_fd = -1, .out_limit = LIST_LIMIT, .timeout_ms = LIST_MS};

	return kubectl_start(loop, program, words, &o, done, arg, NULL, e);
}

struct sweeping {
	uv_loop_t *loop;
	char *program;
	size_t n;
	kube_sweep_cb done;
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

	if (cli_ok(r)) {
		sweeping_end(s, s->n, NULL);
		return;
	}
	(void)kube_explain(r, &e);
	sweeping_end(s, 0, &e);
}

static void on_listed(void *arg, const struct cli_result *r)
{
	struct sweeping *s = arg;
	struct err e = ERR_INIT;
	auto_strv words = {0};
	const json_t *pod;
	size_t i;

	if (!cli_ok(r)) {
		(void)kube_explain(r, &e);
		sweeping_end(s, 0, &e);
		return;
	}
	auto_json pods = parse(r, NULL);
	begin_remove(&words);
	json_array_foreach(pods, i, pod)
	{
		if (!name_of(pod) || state_of(pod) != OWNER_DEAD)
			continue;
		kube_remove_words(&words, name_of(pod));
		s->n++;
	}
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = LIST_MS};
	if (s->n == 0)
		sweeping_end(s, 0, NULL);
	else if (kubectl_start(s->loop, s->program, (const char *const *)words.v, &o, on_removed, s, NULL, &e) < 0)
		sweeping_end(s, 0, &e);
}

int kube_leftovers_sweep(uv_loop_t *loop, const char *program, kube_sweep_cb done, void *arg, struct err *e)
{
	struct sweeping *s = xcalloc(1, sizeof *s);

	*s = (struct sweeping){.loop = loop, .program = xstrdup(program), .done = done, .arg = arg};
	int r = ask(loop, program, on_listed, s, e);
	if (r < 0) {
		free(s->program);
		free(s);
	}
	return r;
}

/* What the two below wait for. */
struct answer {
	json_t *rows;
	size_t n;
	int r;
	struct err *e;
};

static void on_swept_now(void *arg, size_t n, const struct err *e)
{
	struct answer *a = arg;

	a->n = n;
	if (e) {
		err_copy(a->e, e);
		a->r = -(e->errnum ? e->errnum : EIO);
	}
}

static void add_row(json_t *rows, const json_t *pod)
{
	static const char *const owners[] = {
		[OWNER_ALIVE] = "alive", [OWNER_DEAD] = "gone", [OWNER_FOREIGN] = "elsewhere"};
	const json_t *meta = json_object_get(pod, "metadata");
	const json_t *first = json_array_get(json_object_get(json_object_get(pod, "spec"), "containers"), 0);
	json_t *row = json_object();

	json_put_str(row, "driver", "kubernetes");
	json_put_str(row, "id", json_get_str(meta, "uid"));
	json_put_str(row, "name", json_get_str(meta, "name"));
	json_put_str(row, "image", json_get_str(first, "image"));
	json_put_str(row, "state", json_get_str(json_object_get(pod, "status"), "phase"));
	json_put_str(row, "created", json_get_str(meta, "creationTimestamp"));
	json_put_str(row, "run_id", note(pod, LABEL_RUN_ID));
	json_put_str(row, "run_name", note(pod, LABEL_RUN_NAME));
	json_put_str(row, "owner", owners[state_of(pod)]);
	(void)json_array_append_new(rows, row);
}

static void on_listed_now(void *arg, const struct cli_result *r)
{
	struct answer *a = arg;
	const json_t *pod;
	size_t i;

	if (!cli_ok(r)) {
		a->r = kube_explain(r, a->e);
		return;
	}
	auto_json pods = parse(r, NULL);
	json_array_foreach(pods, i, pod)
	{
		add_row(a->rows, pod);
	}
}

static int run_now(struct answer *a, bool sweep)
{
	auto_free char *program = NULL;
	uv_loop_t loop;

	if (!kubectl_has_cluster() || kubectl_find(&program, NULL) < 0 || kubectl_probe(NULL) < 0)
		return 0;
	int r = uv_loop_init(&loop);
	if (r < 0)
		return err_sys(a->e, -r, "make a loop for kubectl");
	r = sweep ? kube_leftovers_sweep(&loop, program, on_swept_now, a, a->e)
		  : ask(&loop, program, on_listed_now, a, a->e);
	if (r == 0) {
		(void)uv_run(&loop, UV_RUN_DEFAULT);
		r = a->r;
	}
	(void)uv_loop_close(&loop);
	return r;
}

int kube_leftovers_sweep_now(size_t *ret_n, struct err *e)
{
	struct answer a = {.e = e};
	int r = run_now(&a, true);

	*ret_n = a.n;
	return r;
}

int kube_leftovers_list_now(json_t *rows, struct err *e)
{
	struct answer a = {.rows = rows, .e = e};

	return run_now(&a, false);
}
