/* `sandbox doctor --strict`: whether a run would work, checked without running it.
 *
 * The spec is resolved by the code and the flags of `run`. A target other than auto says for which kind of host it is
 * checked: then the driver of that kind stands for the one that this machine would choose. */
#include "sandbox_doctor.h"
#include "output.h"
#include "place.h"
#include "workflow.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <doctor/strict.h>
#include <dsl/ast.h>
#include <dsl/node.h>

#include <errno.h>
#include <stdlib.h>

static const char preflight_name[] = "ITERION_SANDBOX_PREFLIGHT";
const char *const doctor_targets[] = {"auto", "cloud", "local", NULL};

static void show_check(const json_t *c)
{
	const char *status = json_get_str(c, "status");

	out_style(str_eq(status, "pass") ? STYLE_GREEN : str_eq(status, "fail") ? STYLE_RED : STYLE_YELLOW);
	out_printf("%s", status);
	out_style(STYLE_PLAIN);
	out_printf("  %-20s ", json_get_str(c, "id"));
	out_value(json_get_str(c, "detail"), 0);
	out_printf("\n");
	if (json_get_str(c, "remedy")) {
		out_printf("      ");
		out_value(json_get_str(c, "remedy"), 0);
		out_printf("\n");
	}
}

static void show(const json_t *doc)
{
	json_t *c;
	size_t i;

	json_array_foreach(json_object_get(doc, "checks"), i, c)
	{
		show_check(c);
	}
}

/* In a cluster runs are pods. */
static bool is_cluster(void)
{
	const char *mode = getenv("ITERION_MODE");

	return mode && str_eq(mode, "cloud");
}

/* How bad it is. */
static unsigned weight(const json_t *check)
{
	const char *status = json_get_str(check, "status");

	return str_eq(status, "fail") ? 2 : str_eq(status, "warn") ? 1 : 0;
}

static json_t *check_by_id(const json_t *list, const char *id)
{
	json_t *c;
	size_t i;

	json_array_foreach(list, i, c)
	{
		if (str_eq(json_get_str(c, "id"), id))
			return c;
	}
	return NULL;
}

/* A node's answers take the place of milder ones. */
static void merge(json_t *to, const json_t *from, const char *node)
{
	json_t *c;
	size_t i;

	json_array_foreach(from, i, c)
	{
		json_t *own = check_by_id(to, json_get_str(c, "id"));
		if (own && weight(c) <= weight(own))
			continue;
		auto_free char *detail = xasprintf("node %s: %s", node, json_get_str(c, "detail"));
		json_put_str(c, "detail", detail);
		if (own)
			(void)json_object_clear(own);
		else
			(void)json_array_append_new(to, own = json_object());
		(void)json_object_update(own, c);
	}
}

static int check_node(const struct sandbox_flags *flags, const struct strict_params *run, const struct dsl_file *f,
		      const struct dsl_node *n, json_t *checks, bool *ok, struct err *e)
{
	struct strict_params p = *run;
	auto_sandbox_choice c = {0};
	auto_json own = NULL;
	struct err why = ERR_INIT;
	bool node_ok;

	bool resolved = sandbox_flags_resolve_node(flags, f, n, p.workspace, &c, &why) == 0;
	p.spec = resolved ? &c.resolved.spec : NULL;
	p.why = &why;
	p.driver = p.cloud ? p.driver : c.driver;
	/* On the host by its own word: nothing to check. */
	if (resolved && p.spec->mode == SANDBOX_NONE)
		return 0;
	int r = doctor_strict(&p, &own, &node_ok, e);
	if (r < 0)
		return r;
	merge(checks, own, n->name.s);
	*ok = *ok && node_ok;
	return 0;
}

/* The run's sandbox, and that of each node with a block. */
static int check_all(const struct sandbox_flags *flags, const struct dsl_file *f, const struct strict_params *p,
		     json_t **ret, bool *ret_ok, struct err *e)
{
	int r = doctor_strict(p, ret, ret_ok, e);

	for (size_t i = 0; r == 0 && f && i < f->n_nodes; i++)
		if (f->nodes[i]->sandbox)
			r = check_node(flags, p, f, f->nodes[i], *ret, ret_ok, e);
	return r;
}

static int check(const struct doctor_opts *o, const struct sandbox_flags *flags, const struct dsl_file *f,
		 struct strict_params *p, const struct sandbox_choice *c, struct err *e)
{
	auto_json doc = json_object();
	auto_json checks = NULL;
	bool ok;

	p->driver = p->cloud ? "kubernetes" : c->driver;
	int r = check_all(flags, f, p, &checks, &ok, e);
	if (r < 0)
		return r;
	json_put_str(doc, "target", o->target ? o->target : "auto");
	json_put(doc, "driver", p->driver ? json_string(p->driver) : json_null());
	json_put(doc, "checks", json_incref(checks));
	json_put_bool(doc, "ok", ok);
	if (o->json)
		out_json(doc);
	else
		show(doc);
	return ok ? 0 : 1;
}

int sandbox_doctor_strict(const struct doctor_opts *o, const char *file, unsigned timeout_ms, struct err *e)
{
	struct sandbox_flags flags = o->sandbox;
	const char *target = o->target ? o->target : "auto";
	auto_free char *workspace = NULL, *store = NULL;
	auto_workflow w = {0};
	auto_sandbox_choice choice = {0};
	struct err why = ERR_INIT;
	struct strict_params p = {
		.cloud = str_eq(target, "cloud") || (str_eq(target, "auto") && is_cluster()),
		.other_host = !str_eq(target, "auto"),
		.timeout_ms = timeout_ms,
		.why = &why,
	};

	if (!file && !flags.mode)
		flags.mode = "auto";
	/* Named, it is not looked for. docker's needs of a spec are those of every container. */
	if ((p.cloud || p.other_host) && !flags.driver)
		flags.driver = "docker";
	int r = place_workspace(o->workspace, &workspace, e);
	if (r == 0 && file)
		r = workflow_load(file, workspace, &w, e);
	if (r == 0)
		r = place_store(o->store_dir, workspace, &store, e);
	if (r < 0)
		return r;
	r = sandbox_flags_resolve(&flags, NULL, w.file, workspace, &choice, &why);
	/* A flag, or a variable of the environment: nothing that a check could say better. */
	if (r < 0 && why.kind == ERR_USAGE) {
		err_copy(e, &why);
		return r;
	}
	p.spec = r == 0 ? &choice.resolved.spec : NULL;
	p.workspace = workspace;
	p.store_dir = store;
	return check(o, &flags, w.file, &p, &choice, e);
}

/* The first that failed becomes the error; what is not right beside it is told. */
static int judge(const json_t *checks, struct err *e)
{
	const json_t *failed = NULL;
	json_t *c;
	size_t i;

	json_array_foreach(checks, i, c)
	{
		const char *remedy = json_get_str(c, "remedy");
		if (!failed && weight(c) == 2)
			failed = c;
		else if (weight(c) > 0)
			show_warning("%s: %s%s%s", json_get_str(c, "id"), json_get_str(c, "detail"), remedy ? ". " : "",
				     remedy ? remedy : "");
	}
	if (!failed)
		return 0;
	int r = err_set(e, ERR_PREFLIGHT, EINVAL, "check before the run: %s: %s", json_get_str(failed, "id"),
			json_get_str(failed, "detail"));
	err_hint(e, "%s", json_get_str(failed, "remedy"));
	return r;
}

int sandbox_preflight(const struct preflight_request *q, struct err *e)
{
	const char *word = getenv(preflight_name);
	unsigned timeout_ms = 0;
	auto_json checks = NULL;
	bool ok;

	if (!word || !*word || str_eq(word, "0"))
		return 0;
	if (!str_eq(word, "1") && !str_eq(word, "session")) {
		int r = err_set(e, ERR_USAGE, EINVAL, "%s: \"%.60s\" is none of its values", preflight_name, word);
		err_hint(e, "Set it to 1 to check before each run, to session for once a process, or unset it.");
		return r;
	}
	int r = sandbox_doctor_timeout(&timeout_ms, e);
	if (r < 0)
		return r;
	const struct strict_params p = {
		.spec = &q->choice->resolved.spec,
		.driver = q->choice->driver,
		.workspace = q->workspace,
		.store_dir = q->store_dir,
		.timeout_ms = timeout_ms,
	};
	r = check_all(q->flags, q->file, &p, &checks, &ok, e);
	return r < 0 ? r : judge(checks, e);
}
