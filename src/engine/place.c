/* Where nodes run: the run's own sandbox (or the host, when it has none), and the host for nodes that say `sandbox:
 * none`. Each place is a session of the driver layer, found by its spec; nodes with equal specs share one. The session
 * of the run is made first and early, because making it forks what it needs while this process is small. */
#include "branch.h"

#include <base/json.h>
#include <base/mem.h>
#include <driver/session.h>
#include <dsl/sandbox_block.h>
#include <sandbox/spec.h>

#include <stdlib.h>

enum { PLACES_MAX = 2 };

static const struct sandbox_spec *host_spec(void)
{
	static const struct sandbox_spec spec = {.mode = SANDBOX_NONE};

	return &spec;
}

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct place *pl = arg;
	struct engine *en = pl->en;

	if (en->early) {
		json_t *o = json_object();
		json_put_str(o, "type", type);
		json_put(o, "data", data ? json_incref(data) : json_object());
		(void)json_array_append_new(en->early, o);
		return;
	}
	/* With one node under way, it is the one whose connection was refused. */
	const struct branch *b = str_eq(type, "network_blocked") ? activity_only(en) : NULL;
	engine_emit(en, type, b ? b->id : NULL, b ? b->node->name.s : NULL, json_incref(data));
}

static void on_lost(void *arg, const struct err *e)
{
	const struct place *pl = arg;

	engine_end(pl->en, RUN_FAILED_RESUMABLE, e, NULL);
}

static const char *home_of(const struct engine_params *p)
{
	for (const char *const *v = p->host_env; v && *v; v++)
		if (str_starts(*v, "HOME=/"))
			return *v + 5;
	return NULL;
}

static int add(struct engine *en, const struct sandbox_spec *spec, struct err *e)
{
	struct place *pl = &en->places[en->n_places];
	const struct session_params sp = {
		.loop = en->p.loop,
		.spec = spec,
		.driver = en->p.driver,
		.workspace = en->p.workspace,
		.run_id = en->run_id,
		.run_name = en->p.run_name,
		.store_dir = en->p.store_dir,
		.artifact_files = store_run_artifact_files(en->run),
		.home = home_of(&en->p),
		.resolve = en->p.resolve,
		.on_event = on_event,
		.on_lost = on_lost,
		.arg = pl,
	};

	*pl = (struct place){.en = en, .spec = spec};
	int r = session_new(&sp, &pl->session, e);
	if (r < 0)
		return r;
	pl->isolated = spec->mode != SANDBOX_NONE;
	en->n_places++;
	return 0;
}

static bool on_host(const struct dsl_node *n)
{
	return n->sandbox && n->sandbox->mode.v == DSL_SANDBOX_NONE;
}

int places_new(struct engine *en, struct err *e)
{
	const struct dsl_file *f = en->p.file;
	bool host_needed = false;

	en->places = xcalloc(PLACES_MAX, sizeof *en->places);
	for (size_t i = 0; i < f->n_nodes; i++)
		host_needed |= on_host(f->nodes[i]);
	int r = add(en, en->p.sandbox, e);
	if (r == 0 && host_needed && en->places[0].isolated)
		r = add(en, host_spec(), e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n_nodes; i++)
		en->nodes[i].place = &en->places[on_host(f->nodes[i]) ? en->n_places - 1 : 0];
	return 0;
}

static void on_started(void *arg, const struct err *e)
{
	const struct place *pl = arg;
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

void places_start(struct engine *en)
{
	en->starting = (unsigned)en->n_places;
	for (size_t i = 0; i < en->n_places && en->phase == PHASE_STARTING; i++) {
		en->places[i].started = true;
		session_start(en->places[i].session, on_started, &en->places[i]);
	}
}

static void on_stopped(void *arg, const struct err *e)
{
	struct place *pl = arg;

	(void)e;
	pl->stopped = true;
	engine_check_end(pl->en);
}

void places_stop(struct engine *en)
{
	for (size_t i = 0; i < en->n_places; i++)
		if (en->places[i].started)
			session_stop(en->places[i].session, on_stopped, &en->places[i]);
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
	for (size_t i = 0; i < en->n_places; i++)
		session_free(en->places[i].session);
	free(en->places);
}
