/* kubectl: where it is, whom it speaks to, and how it is run.
 *
 * It takes the cluster from KUBECONFIG or the service account's token as for everybody; only the namespace can be
 * named by a variable of ours. No word of a command line is secret: objects go in by stdin. */
#include "kubectl.h"
#include "../container/engine.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_LIMIT = 1024 * 1024 };

static const char token_file[] = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/* As engine_find looks for the engines' programs. */
static const struct container_engine kubectl_program = {.name = "kubernetes", .program = "kubectl"};

int kubectl_find(char **ret, struct err *e)
{
	int r = engine_find(&kubectl_program, ret, NULL);

	if (r < 0) {
		r = err_set(e, ERR_SANDBOX, ENOENT, "kubernetes: the program kubectl is not on PATH");
		err_hint(e,
			 "Install kubectl, or choose another driver with --sandbox-driver (native needs no cluster).");
	}
	return r;
}

bool kubectl_in_cluster(void)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");

	return host && *host && access(token_file, R_OK) == 0;
}

bool kubectl_has_cluster(void)
{
	const char *config = getenv("KUBECONFIG"), *home = getenv("HOME");

	if (kubectl_in_cluster() || (config && *config))
		return true;
	auto_free char *file = home && *home == '/' ? path_join(home, ".kube/config") : NULL;
	return file && access(file, R_OK) == 0;
}

void kubectl_begin(const char *program, struct strv *argv)
{
	const char *namespace = getenv("ITERION_KUBE_NAMESPACE");

	strv_add(argv, program);
	if (namespace && *namespace)
		strv_take(argv, xasprintf("--namespace=%s", namespace));
}

int kubectl_start(uv_loop_t *loop, const char *program, const char *const *words, const struct cli_opts *more,
		  cli_done_cb done, void *arg, struct cli **ret, struct err *e)
{
	auto_strv argv = {0};
	struct cli_opts o = *more;

	kubectl_begin(program, &argv);
	for (; *words; words++)
		strv_add(&argv, *words);
	o.argv = (const char *const *)argv.v;
	if (o.out_limit == 0)
		o.out_limit = ANSWER_LIMIT;
	return cli_start(loop, &o, done, arg, ret, e);
}

struct question {
	struct err *e;
	int answer;
};

static void on_answer(void *arg, const struct cli_result *r)
{
	struct question *q = arg;

	if (cli_ok(r)) {
		q->answer = 0;
	} else if (!r->timed_out && str_starts(r->out, "no")) {
		q->answer = err_set(q->e, ERR_SANDBOX, EACCES, "this account may not make pods in its namespace");
		err_hint(q->e, "Give the runner's service account the Role of examples/kubernetes/rbac.yaml.");
	} else {
		q->answer = kube_explain(r, q->e);
	}
}

int kubectl_probe(struct err *e)
{
	auto_free char *program = NULL;
	auto_strv argv = {0};
	struct question q = {.e = e};

	int r = kubectl_find(&program, e);
	if (r < 0)
		return r;
	kubectl_begin(program, &argv);
	strv_add(&argv, "auth");
	strv_add(&argv, "can-i");
	strv_add(&argv, "create");
	strv_add(&argv, "pods");
	const struct cli_opts o = {.argv = (const char *const *)argv.v,
				   .stdin_fd = -1,
				   .out_limit = ANSWER_LIMIT,
				   .timeout_ms = engine_timeout_ms()};
	r = cli_run(&o, on_answer, &q, e);
	if (r == 0)
		r = q.answer;
	return r < 0 ? err_wrap(e, r, "ask the cluster whether it takes sandboxes") : 0;
}
