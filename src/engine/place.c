/* Where nodes run: the run's own sandbox (or the host, when it has none), the host for nodes that say `sandbox: none`,
 * and a sandbox for each different description that nodes have of their own.
 *
 * Each place is a session of the driver layer, found by its spec; nodes with equal specs share one. They are planned
 * with everything else that is checked before the run exists. All sessions are made at once and early, while this
 * process is small, because making one forks its proxy, and so that what is wrong with any of them is known before a
 * node has run. The run's own place starts before the first node; a node's is only started when the first of its nodes
 * is next, and that node waits for it. All live until the run ends. */
#include "place.h"
#include "branch.h"
#include "worktree_run.h"

#include <backend/share.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <driver/driver.h>
#include <driver/session.h>
#include <dsl/sandbox_block.h>

#include <errno.h>
#include <stdlib.h>

enum { PLACES_MAX = 64 };

static const struct engine_sandbox host = {.spec = &(const struct sandbox_spec){.mode = SANDBOX_NONE}};

static struct engine_sandbox sandbox_of(const struct engine *en, const struct dsl_node *n)
{
	const struct engine_params *p = &en->p;

	if (p->node_sandboxes && p->node_sandboxes[n->index].spec)
		return p->node_sandboxes[n->index];
	const struct backend_ops *ops = en->nodes[n->index].ops;
	if ((n->sandbox && n->sandbox->mode.v == DSL_SANDBOX_NONE) ||
	    (ops && ops->on_host && ops->on_host(p->host_env)))
		return host;
	return (struct engine_sandbox){.spec = p->sandbox, .driver = p->driver};
}

/* On the host there is nothing that could differ. */
static bool is_same(const struct place *pl, const struct engine_sandbox *s)
{
	if (!pl->isolated || s->spec->mode == SANDBOX_NONE)
		return !pl->isolated && s->spec->mode == SANDBOX_NONE;
	return str_eq(pl->driver, s->driver) && sandbox_spec_equal(&pl->spec, s->spec);
}

static struct place *find_or_add(struct engine *en, const struct engine_sandbox *s, struct err *e)
{
	for (size_t i = 0; i < en->n_places; i++)
		if (is_same(&en->places[i], s))
			return &en->places[i];
	if (en->n_places == PLACES_MAX) {
		(void)err_set(e, ERR_PREFLIGHT, E2BIG, "sandboxes: the workflow has more than %d different ones",
			      PLACES_MAX);
		err_hint(e, "let nodes share one: equal sandbox blocks do");
		return NULL;
	}
	struct place *pl = &en->places[en->n_places++];
	*pl = (struct place){.en = en, .driver = s->driver, .isolated = s->spec->mode != SANDBOX_NONE};
	sandbox_spec_copy(&pl->spec, s->spec);
	return pl;
}

int places_plan(struct engine *en, struct err *e)
{
	const struct dsl_file *f = en->p.file;
	const struct engine_sandbox own = {.spec = en->p.sandbox, .driver = en->p.driver};

	en->places = xcalloc(MIN(f->n_nodes + 1, (size_t)PLACES_MAX), sizeof *en->places);
	if (!find_or_add(en, &own, e))
		return -E2BIG;
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct engine_sandbox s = sandbox_of(en, f->nodes[i]);
		en->nodes[i].place = find_or_add(en, &s, e);
		if (!en->nodes[i].place)
			return -E2BIG;
	}
	/* Only now: equal specs are one place, whatever their nodes need. */
	for (size_t i = 0; i < f->n_nodes; i++)
		if (en->nodes[i].ops && str_eq(en->nodes[i].place->driver, "native"))
			backend_share_program(en->nodes[i].ops, en->p.host_env, en->p.workspace,
					      &en->nodes[i].place->spec);
	return 0;
}

/* Whether it is for some nodes only, and waits for the first of them. */
static bool is_late(const struct place *pl)
{
	return pl->isolated && pl != pl->en->places;
}

/* The name of the node that it was started for, or would be: NULL for those that every node may be in. */
static const char *owner(const struct place *pl)
{
	const struct engine *en = pl->en;

	if (!is_late(pl))
		return NULL;
	if (pl->first)
		return pl->first->name.s;
	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		if (en->nodes[i].place == pl)
			return en->p.file->nodes[i]->name.s;
	return NULL;
}

/* A sandbox that several nodes share says so once. */
static void add_nodes(const struct place *pl, json_t *data)
{
	const struct engine *en = pl->en;
	json_t *list = json_array();

	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		if (en->nodes[i].place == pl)
			(void)json_array_append_new(list, json_string(en->p.file->nodes[i]->name.s));
	json_put(data, "nodes", list);
}

/* The node alone that was under way there is the one whose connections were refused. */
static void on_blocked(void *arg, const char *type, json_t *data, uint64_t first_ms, uint64_t last_ms)
{
	const struct place *pl = arg;
	const struct stay *s = stay_only(&pl->stays, first_ms, last_ms);

	engine_emit(pl->en, type, s ? s->branch : NULL, s ? s->node : owner(pl), json_copy(data));
}

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct place *pl = arg;
	struct engine *en = pl->en;
	auto_json shown = data ? json_copy(data) : json_object();

	if (is_late(pl) && str_eq(type, "sandbox_started"))
		add_nodes(pl, shown);
	if (en->early) {
		json_t *o = json_object();
		json_put_str(o, "type", type);
		json_put_str(o, "node", owner(pl));
		json_put(o, "data", TAKE_PTR(shown));
		(void)json_array_append_new(en->early, o);
		return;
	}
	engine_emit(en, type, NULL, owner(pl), TAKE_PTR(shown));
}

static int name_owner(const struct place *pl, int r, struct err *e)
{
	const char *node = owner(pl);

	return node ? err_wrap(e, r, "node %s: its sandbox", node) : r;
}

static void on_lost(void *arg, const struct err *e)
{
	struct place *pl = arg;
	struct err why = *e;

	(void)name_owner(pl, 0, &why);
	engine_end(pl->en, RUN_FAILED_RESUMABLE, &why, owner(pl));
}

static const char *home_of(const struct engine_params *p)
{
	for (const char *const *v = p->host_env; v && *v; v++)
		if (str_starts(*v, "HOME=/"))
			return *v + 5;
	return NULL;
}

/* When everything of a cluster's sandbox may be gone: some time after the run's own budgets are over, which are the
 * engine's to keep, so that it has the time to bring the work back. 0: never. */
static uint64_t deadline(const struct engine *en)
{
	static const uint64_t more_s = 15 * 60;
	double ms = 0;

	for (enum budget_dimension d = BUDGET_DURATION; d <= BUDGET_TIMEOUT; d++)
		if (en->budgets[d].limit > 0 && (ms <= 0 || en->budgets[d].limit < ms))
			ms = en->budgets[d].limit;
	return ms > 0 ? (uint64_t)(ms / 1000) + more_s : 0;
}

static int make(struct engine *en, struct place *pl, const char *attachments, struct err *e)
{
	const struct session_params sp = {
		.loop = en->p.loop,
		.spec = &pl->spec,
		.driver = pl->driver,
		.workspace = en->p.workspace,
		.run_id = en->run_id,
		.run_name = en->p.run_name,
		.store_dir = en->p.store_dir,
		.artifact_files = store_run_artifact_files(en->run),
		.attachments = attachments,
		.home = home_of(&en->p),
		.resolve = en->p.resolve,
		.deadline_s = deadline(en),
		.late = is_late(pl),
		.on_event = on_event,
		.on_blocked = on_blocked,
		.on_lost = on_lost,
		.arg = pl,
	};

	if (pl->isolated)
		run_tree_fill(en, pl->driver, &pl->spec);
	int r = session_new(&sp, &pl->session, e);
	return r < 0 ? name_owner(pl, r, e) : 0;
}

int places_new(struct engine *en, struct err *e)
{
	int r = 0;

	en->attachments_dir = attachments_folder(en);
	for (size_t i = 0; r == 0 && i < en->n_places; i++)
		r = make(en, &en->places[i], en->attachments_dir, e);
	return r;
}

static void on_own_started(struct place *pl, const struct err *e)
{
	struct engine *en = pl->en;

	en->starting--;
	if (e) {
		engine_end(en, en->last_node ? RUN_FAILED_RESUMABLE : RUN_FAILED, e, NULL);
		return;
	}
	if (en->starting == 0 && en->phase == PHASE_STARTING) {
		en->phase = PHASE_RUNNING;
		engine_pump(en);
	}
}

static void on_started(void *arg, const struct err *e)
{
	struct place *pl = arg;

	pl->state = e ? PLACE_FAILED : PLACE_UP;
	if (e) {
		pl->err = *e;
		(void)name_owner(pl, 0, &pl->err);
	}
	if (!is_late(pl))
		on_own_started(pl, e);
	else
		engine_wake(pl->en);
}

/* It may take long (an image is pulled), and whoever watches is to know what is waited for. */
static void tell_starting(const struct place *pl)
{
	json_t *d = json_object();

	json_put_str(d, "driver", session_driver(pl->session));
	add_nodes(pl, d);
	engine_emit(pl->en, "sandbox_starting", NULL, owner(pl), d);
}

static void start(struct place *pl)
{
	pl->state = PLACE_STARTING;
	pl->started = true;
	if (is_late(pl))
		tell_starting(pl);
	session_start(pl->session, on_started, pl);
}

void places_start(struct engine *en)
{
	for (size_t i = 0; i < en->n_places; i++)
		en->starting += !is_late(&en->places[i]);
	for (size_t i = 0; i < en->n_places && en->phase == PHASE_STARTING; i++)
		if (!is_late(&en->places[i]))
			start(&en->places[i]);
}

bool place_is_starting(const struct place *pl)
{
	return pl->state == PLACE_STARTING;
}

int place_need(struct place *pl, const struct dsl_node *n, struct err *e)
{
	if (pl->state == PLACE_NEW) {
		pl->first = n;
		start(pl);
	}
	if (pl->state == PLACE_FAILED) {
		err_copy(e, &pl->err);
		return pl->err.errnum ? -pl->err.errnum : -EINVAL;
	}
	return pl->state == PLACE_UP;
}

const char *place_attachments(const struct place *pl)
{
	const struct driver *d;
	const char *reason;

	if (pl->session)
		return session_attachments(pl->session);
	if (!pl->isolated || !pl->driver || driver_choose(pl->driver, false, &d, &reason, NULL) < 0)
		return NULL;
	return driver_attachments(d);
}

static void on_stopped(void *arg, const struct err *e)
{
	struct place *pl = arg;

	(void)e;
	pl->stopped = true;
	engine_check_end(pl->en);
}

static void stop(struct place *pl)
{
	if (!pl->started || pl->stopping)
		return;
	pl->stopping = true;
	session_stop(pl->session, on_stopped, pl);
}

void places_stop(struct engine *en)
{
	for (size_t i = 0; i < en->n_places; i++)
		stop(&en->places[i]);
}

void places_stop_failed(struct engine *en)
{
	for (size_t i = 0; i < en->n_places; i++)
		if (en->places[i].state == PLACE_FAILED)
			stop(&en->places[i]);
}

bool places_stopped(const struct engine *en)
{
	for (size_t i = 0; i < en->n_places; i++)
		if (en->places[i].started && !en->places[i].stopped)
			return false;
	return true;
}

void places_free(struct engine *en)
{
	for (size_t i = 0; i < en->n_places; i++) {
		session_free(en->places[i].session);
		sandbox_spec_done(&en->places[i].spec);
		stays_done(&en->places[i].stays);
	}
	free(en->places);
	free(en->attachments_dir);
}
