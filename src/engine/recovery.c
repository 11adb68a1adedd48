/* What the run's folder keeps about nodes that had to begin again, in recoveries/: why, the conversation that an agent
 * went on from, and what became of it.
 *
 * A record is written when the run goes on and the node is found to be one that had begun, and again when that is
 * known which it was written for. A kill between the two leaves it "running"; the next life finds it when it recovers
 * the node once more, and says that it was interrupted. It is for people: nothing is decided by what stands there. */
#include "recovery.h"
#include "branch.h"

#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/run_files.h>

#include <stdlib.h>

enum { ATTEMPTS_MAX = 9999 };

struct recovery {
	struct recovery *next;
	char *name; /* of the file */
	const char *node;
	char *branch;
	json_t *record;
};

static void put_time(json_t *o, const char *key)
{
	char text[TIMESTAMP_SIZE];

	clock_format(text, clock_wall_ms());
	json_put_str(o, key, text);
}

/* node is of the workflow's file: it is the run's last word when the run ends by this. */
static void write_record(struct engine *en, const char *name, const char *node, const json_t *record)
{
	struct err e = ERR_INIT;

	if (store_run_recovery(en->run, name, record, &e) == 0)
		return;
	err_hint(&e, "free some space on the file system of the store");
	engine_end(en, RUN_FAILED_RESUMABLE, &e, node);
}

static char *file_name(const char *node, unsigned attempt)
{
	return xasprintf("%s-%u", node, attempt);
}

/* What an earlier life wrote; NULL: nothing. */
static json_t *earlier(const struct engine *en, const char *name)
{
	auto_free char *ref = xasprintf("recoveries/%s.json", name);
	json_t *v = NULL;

	if (store_run_load(en->run, ref, &v, NULL) < 0)
		return NULL;
	return v;
}

static void settle_earlier(struct engine *en, const char *name, const struct branch *b, json_t *record)
{
	if (!str_eq(json_get_str(record, "status"), "running") || !str_eq(json_get_str(record, "branch_id"), b->id))
		return;
	json_put_str(record, "status", "interrupted");
	write_record(en, name, b->node->name.s, record);
}

/* The next number of this node; records of the same branch that a kill left open are closed on the way. */
static unsigned next_attempt(struct engine *en, const struct branch *b)
{
	unsigned n = 1;

	for (; n < ATTEMPTS_MAX; n++) {
		auto_free char *name = file_name(b->node->name.s, n);
		auto_json record = earlier(en, name);
		if (!record)
			break;
		settle_earlier(en, name, b, record);
	}
	return n;
}

void recovery_begin(struct engine *en, const struct branch *b, const char *reason, const char *error)
{
	struct recovery *r = xcalloc(1, sizeof *r);
	unsigned n = next_attempt(en, b);

	*r = (struct recovery){
		.next = en->recoveries,
		.name = file_name(b->node->name.s, n),
		.node = b->node->name.s,
		.branch = b->id ? xstrdup(b->id) : NULL,
		.record = json_object(),
	};
	en->recoveries = r;
	json_put_str(r->record, "node_id", r->node);
	json_put_str(r->record, "branch_id", r->branch);
	json_put_int(r->record, "attempt", n);
	json_put_str(r->record, "reason", reason);
	json_put_str(r->record, "error", error);
	put_time(r->record, "began_at");
	json_put_str(r->record, "status", "running");
	write_record(en, r->name, r->node, r->record);
}

static struct recovery *find(const struct engine *en, const struct branch *b)
{
	struct recovery *r = en->recoveries;

	while (r && !(str_eq(r->node, b->node->name.s) && str_eq(r->branch, b->id)))
		r = r->next;
	return r;
}

void recovery_note(struct engine *en, const struct branch *b, const char *type, const json_t *data)
{
	struct recovery *r = find(en, b);
	bool own = str_eq(type, "claw_resumed");
	const char *id = json_get_str(data, "session_id"), *backend = own ? "claw" : json_get_str(data, "backend");

	if (!r || !id || !(own || str_eq(type, "delegate_started")) || json_object_get(r->record, "conversation"))
		return;
	json_t *c = json_object();
	json_put_str(c, "backend", backend);
	json_put_str(c, "session_id", id);
	if (json_is_integer(json_object_get(data, "step")))
		json_put(c, "step", json_incref(json_object_get(data, "step")));
	json_put(r->record, "conversation", c);
	write_record(en, r->name, r->node, r->record);
}

static void free_one(struct recovery *r)
{
	free(r->name);
	free(r->branch);
	json_decref(r->record);
	free(r);
}

static void close_one(struct engine *en, struct recovery *r, const char *status, const struct err *e)
{
	struct recovery **p = &en->recoveries;

	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	json_put_str(r->record, "status", status);
	if (e)
		json_put_str(r->record, "outcome_error", e->msg);
	put_time(r->record, "ended_at");
	write_record(en, r->name, r->node, r->record);
	free_one(r);
}

void recovery_close(struct engine *en, const struct branch *b, const char *status, const struct err *e)
{
	struct recovery *r = find(en, b);

	if (r)
		close_one(en, r, status, e);
}

void recovery_stop_all(struct engine *en)
{
	while (en->recoveries)
		close_one(en, en->recoveries, "stopped", NULL);
}

void recovery_free_all(struct engine *en)
{
	struct recovery *r;

	while ((r = en->recoveries)) {
		en->recoveries = r->next;
		free_one(r);
	}
}
