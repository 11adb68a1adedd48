/* A run from parameters to the caller's answer.
 *
 * engine_new checks everything that needs no store. engine_run makes the run's folder first, because a sandbox covers
 * the store and shows a part of it, so both must be there; then the sessions, which fork what they need while this
 * process is small; while they set themselves up, run_started is recorded, and what the run is given is copied. The
 * first node runs when the last sandbox is up. Everything after that happens in callbacks on the caller's loop: nodes
 * in step.c, the way between them in edge.c, branch.c and group.c, the end in end.c. */
#include "branch.h"
#include "budget.h"
#include "place.h"
#include "recovery.h"
#include "worktree_run.h"
#include "state.h"
#include "values.h"

#include <backend/run.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/id.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/ast.h>
#include <sandbox/spec.h>

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PARALLEL = 4 };

static void make_loops(struct engine *en)
{
	const struct dsl_workflow *w = en->workflow;

	en->loops = xcalloc(w->n_edges + 1, sizeof *en->loops);
	for (size_t i = 0; i < w->n_edges; i++) {
		const struct dsl_edge *edge = w->edges[i];
		size_t k = 0;
		if (!edge->loop.s)
			continue;
		while (k < en->n_loops && !str_eq(en->loops[k].name, edge->loop.s))
			k++;
		if (k == en->n_loops)
			en->loops[en->n_loops++] = (struct loop_state){.name = edge->loop.s, .max = edge->loop_max.v};
	}
}

int engine_new(const struct engine_params *p, struct engine **ret, struct err *e)
{
	json_t *vars = NULL;
	int r = preflight_check(p, e);

	if (r == 0 && !p->resume)
		r = vars_resolve(p, &vars, e);
	if (r < 0)
		return r;
	struct engine *en = xcalloc(1, sizeof *en);
	char uuid[UUID_SIZE];
	id_uuid7(uuid, clock_wall_ms());
	*en = (struct engine){
		.p = *p,
		.workflow = p->file->workflow,
		.run_id = xstrdup(p->run_id ? p->run_id : uuid),
		.vars = vars,
		.artifacts = json_object(),
		.artifact_index = json_object(),
		.outputs = json_object(),
		.stored = json_object(),
		.stored_refs = json_object(),
		.early = json_array(),
		.nodes = xcalloc(p->file->n_nodes + 1, sizeof *en->nodes),
		.max_parallel = DEFAULT_PARALLEL,
	};
	en->branches_end = &en->branches;
	store_sha256(en->sha256, p->source, p->source_len);
	make_loops(en);
	scope_prepare_history(en);
	budget_init(en);
	for (size_t i = 0; r == 0 && i < p->file->n_nodes; i++)
		r = preflight_backend(p, p->file->nodes[i], &en->nodes[i].ops, e);
	if (r == 0)
		r = places_plan(en, e);
	if (r == 0)
		r = p->resume ? resume_load(en, e) : attachments_open(p, &en->given, e);
	if (r == 0)
		r = run_tree_plan(en, e);
	if (r < 0) {
		engine_free(en);
		return r;
	}
	*ret = en;
	return 0;
}

void engine_emit(struct engine *en, const char *type, const char *branch, const char *node, json_t *data)
{
	struct store_event ev;
	struct err e = ERR_INIT;

	if (en->replaying && replay_knows(en, type, branch, node)) {
		json_decref(data);
		return;
	}
	if (store_run_event(en->run, type, branch, node, data, &ev, &e) < 0)
		engine_end(en, RUN_FAILED_RESUMABLE, &e, node);
	else if (en->p.on_event)
		en->p.on_event(en->p.arg, &ev);
}

static void emit_run_started(struct engine *en)
{
	json_t *d = json_object();

	json_put_str(d, "workflow", en->workflow->name.s);
	json_put_str(d, "name", en->p.run_name);
	json_put_str(d, "file", en->p.file_path);
	json_put_str(d, "workspace", en->p.workspace);
	json_put_str(d, "sandbox", sandbox_mode_name(en->p.sandbox->mode));
	json_put_str(d, "source", en->p.sandbox->mode_source);
	json_put(d, "inputs", json_incref(en->vars));
	engine_emit(en, "run_started", NULL, NULL, d);
}

/* Sandbox events that came while there was no run to record them in. */
static void flush_early(struct engine *en)
{
	json_t *early = TAKE_PTR(en->early);
	size_t i;
	json_t *item;

	json_array_foreach(early, i, item) engine_emit(en, json_get_str(item, "type"), NULL, json_get_str(item, "node"),
						       json_incref(json_object_get(item, "data")));
	json_decref(early);
}

static void on_idle(uv_idle_t *idle)
{
	struct engine *en = idle->data;

	uv_idle_stop(idle);
	places_stop_failed(en);
	engine_pump(en);
	engine_check_end(en);
}

void engine_wake(struct engine *en)
{
	(void)uv_idle_start(&en->idle, on_idle);
}

static void open_handles(struct engine *en)
{
	(void)uv_idle_init(en->p.loop, &en->idle);
	en->idle.data = en;
	for (size_t i = 0; i < ARRAY_LEN(en->timers); i++) {
		(void)uv_timer_init(en->p.loop, &en->timers[i]);
		en->timers[i].data = en;
	}
	(void)uv_timer_init(en->p.loop, &en->save_soon);
	en->save_soon.data = en;
	en->handles = 2 + ARRAY_LEN(en->timers);
}

static int exit_code_of(const struct engine *en)
{
	if (en->outcome.status == RUN_FINISHED)
		return 0;
	if (en->outcome.status == RUN_CANCELLED || en->outcome.status == RUN_PAUSED)
		return err_exit_code(en->outcome.err.kind);
	return 1;
}

static void on_closed(uv_handle_t *h)
{
	struct engine *en = h->data;

	if (--en->handles > 0)
		return;
	const struct engine_result result = {
		.status = en->outcome.status,
		.exit_code = exit_code_of(en),
		.err = en->outcome.err,
		.failed_node = en->outcome.node,
	};
	en->done(en->done_arg, &result);
}

void engine_close(struct engine *en)
{
	uv_close((uv_handle_t *)&en->idle, on_closed);
	uv_close((uv_handle_t *)&en->save_soon, on_closed);
	for (size_t i = 0; i < ARRAY_LEN(en->timers); i++)
		uv_close((uv_handle_t *)&en->timers[i], on_closed);
}

/* The drivers of nodes' own sandboxes; who runs unsandboxed has none. */
static json_t *node_drivers(const struct engine *en)
{
	json_t *o = json_object();

	for (size_t i = 0; en->p.node_sandboxes && i < en->p.file->n_nodes; i++) {
		const struct engine_sandbox *s = &en->p.node_sandboxes[i];
		if (s->spec && s->spec->mode != SANDBOX_NONE && !str_eq(s->driver, "noop"))
			json_put_str(o, en->p.file->nodes[i]->name.s, s->driver);
	}
	return o;
}

/* What resume must know to run the same nodes in the same kind of place. */
static json_t *sandbox_note(const struct engine *en)
{
	json_t *o = json_object();

	json_put_str(o, "mode", sandbox_mode_name(en->p.sandbox->mode));
	json_put_str(o, "source", en->p.sandbox->mode_source);
	json_put_str(o, "driver", en->p.driver);
	json_put(o, "nodes", node_drivers(en));
	return o;
}

static int create_run(struct engine *en, struct err *e)
{
	auto_free char *path = realpath(en->p.file_path, NULL);
	auto_json sandbox = sandbox_note(en);
	const struct store_run_params sp = {
		.store_dir = en->p.store_dir,
		.run_id = en->run_id,
		.run_name = en->p.run_name,
		.workflow = en->workflow->name.s,
		.file = en->p.file_path,
		.file_path = path,
		.file_sha256 = en->sha256,
		.workspace = en->p.workspace,
		.inputs = en->vars,
		.sandbox = sandbox,
		.options = en->p.options,
		.attachments = en->given.v,
		.n_attachments = en->given.n,
	};

	return store_run_create(&sp, &en->run, e);
}

static void on_shared_event(void *arg, const char *type, json_t *data)
{
	engine_emit(arg, type, NULL, NULL, data);
}

/* What backends share: not before it is known where nodes work. */
static void share(struct engine *en)
{
	struct backend_run_params shared = {
		.loop = en->p.loop,
		.file = en->p.file,
		.host_env = en->p.host_env,
		.workspace = en->p.workspace,
		.on_event = on_shared_event,
		.arg = en,
	};

	for (size_t i = 0; i < en->n_places; i++)
		shared.sandboxed |= en->places[i].isolated;
	en->shared = backend_run_new(&shared);
}

static void go(struct engine *en, int r, const struct err *failed)
{
	share(en);
	if (r < 0) {
		engine_end(en, en->last_node ? RUN_FAILED_RESUMABLE : RUN_FAILED, failed, NULL);
		return;
	}
	budget_start_timers(en);
	if (!en->p.resume)
		branch_begin(en);
	places_start(en);
}

void engine_go(struct engine *en)
{
	struct err failed = ERR_INIT;
	int r = places_new(en, &failed);

	go(en, r, &failed);
}

void engine_go_on(struct engine *en)
{
	if (en->tree)
		run_tree_begin(en);
	else
		go(en, 0, NULL);
}

int engine_run(struct engine *en, engine_done_cb done, void *arg, struct err *e)
{
	struct err failed = ERR_INIT;
	int r = en->p.resume ? 0 : create_run(en, e);

	if (r < 0)
		return r;
	en->done = done;
	en->done_arg = arg;
	en->started_ms = clock_ms();
	en->phase = PHASE_STARTING;
	r = en->tree ? 0 : places_new(en, &failed);
	open_handles(en);
	/* A run that was killed right after it was made has no event yet. */
	if (!en->p.resume || store_run_seq(en->run) == 0)
		emit_run_started(en);
	if (en->p.resume)
		resume_begin(en);
	flush_early(en);
	if (r < 0)
		go(en, r, &failed);
	else if (en->given.n)
		attachments_copy(en);
	else
		engine_go_on(en);
	return 0;
}

const char *engine_run_id(const struct engine *en)
{
	return en->run_id;
}

const char *engine_run_dir(const struct engine *en)
{
	return en->run ? store_run_dir(en->run) : NULL;
}

void engine_free(struct engine *en)
{
	if (!en)
		return;
	places_free(en);
	attachments_done(&en->given);
	run_tree_free(en);
	while (en->branches)
		branch_remove(en, en->branches);
	groups_free(en);
	recovery_free_all(en);
	store_run_free(en->run);
	for (size_t i = 0; i < en->p.file->n_nodes; i++) {
		json_decref(en->nodes[i].history);
		free(en->nodes[i].joins);
	}
	for (size_t i = 0; i < en->n_loops; i++)
		json_decref(en->loops[i].previous_output);
	free(en->nodes);
	free(en->loops);
	free(en->run_id);
	json_decref(en->vars);
	json_decref(en->artifacts);
	json_decref(en->artifact_index);
	json_decref(en->outputs);
	json_decref(en->stored);
	json_decref(en->stored_refs);
	large_forget(en, true);
	json_decref(en->tail);
	json_decref(en->begun);
	free(en->was);
	json_decref(en->early);
	free(en);
}
