/* The doctor's report: every driver, the kernel and the programs are asked at the same time, and the choice of a driver
 * follows from the answers by the rule that runs have (driver_choose): the first that isolates and can serve. */
#include "question.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <doctor/doctor.h>
#include <driver/driver.h>

#include <errno.h>
#include <string.h>

static void ask_driver(const struct question *q, struct finding *f)
{
	struct err e = ERR_INIT;

	if (driver_probe(q->arg, &e) == 0) {
		finding_set(f, FINDING_YES, "%s", "it can serve here");
		return;
	}
	finding_set(f, FINDING_NO, "%s", e.msg);
	finding_hint(f, "%s", e.hint);
}

static json_t *finding_json(const char *id, const struct finding *f)
{
	json_t *o = json_object();

	json_put_str(o, "id", id);
	json_put_str(o, "status", finding_status_name(f->status));
	json_put_str(o, "detail", f->detail);
	if (*f->hint)
		json_put_str(o, "hint", f->hint);
	return o;
}

static json_t *findings_json(const struct question *v, size_t n, const struct finding *f)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(a, finding_json(v[i].id, &f[i]));
	return a;
}

static json_t *caps_json(const struct driver_caps *c)
{
	const struct {
		const char *name;
		bool has;
	} rows[] = {
		{"image", c->image},	       {"build", c->build},	{"mounts", c->mounts},
		{"host_state", c->host_state}, {"user", c->user},	{"network_policy", c->network_policy},
		{"limits", c->limits},	       {"secrets", c->secrets}, {"host_toolchain", c->host_toolchain},
	};
	json_t *a = json_array();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].has)
			(void)json_array_append_new(a, json_string(rows[i].name));
	return a;
}

static json_t *drivers_json(const struct driver *const *d, size_t n, const struct finding *f)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *o = json_object();
		json_put_str(o, "name", driver_name(d[i]));
		json_put_bool(o, "usable", f[i].status == FINDING_YES);
		if (f[i].status != FINDING_YES)
			json_put_str(o, "reason", f[i].detail);
		if (*f[i].hint)
			json_put_str(o, "hint", f[i].hint);
		json_put(o, "capabilities", caps_json(driver_caps(d[i])));
		(void)json_array_append_new(a, o);
	}
	return a;
}

/* Which one a run in mode auto would get. */
static json_t *choice_json(const struct doctor_params *p, const struct driver *const *d, size_t n,
			   const struct finding *f)
{
	json_t *o = json_object();
	const struct finding *why = NULL;

	for (size_t i = 0; i < n; i++) {
		bool asked = p->driver && str_eq(p->driver, driver_name(d[i]));
		if (p->driver ? !asked : !driver_wanted(d[i]))
			continue;
		why = &f[i];
		if (!asked && f[i].status != FINDING_YES)
			continue;
		json_put_str(o, "name", driver_name(d[i]));
		json_put_str(o, "reason", asked ? p->driver_source : "the first that can serve here");
		return o;
	}
	json_put(o, "name", json_null());
	json_put_str(o, "reason", "no driver can serve here; each says why below");
	if (why && *why->hint)
		json_put_str(o, "hint", why->hint);
	return o;
}

/* The questions of all three kinds in one list, so that they are asked at once. */
static size_t collect(const struct driver *const *d, size_t n_drivers, struct question *to)
{
	size_t n = 0;

	for (size_t i = 0; i < n_drivers; i++)
		to[n++] = (struct question){driver_name(d[i]), ask_driver, d[i]};
	for (size_t i = 0; i < n_host_questions; i++)
		to[n++] = host_questions[i];
	for (size_t i = 0; i < n_version_questions; i++)
		to[n++] = version_questions[i];
	return n;
}

int doctor_report(const struct doctor_params *p, json_t **ret, struct err *e)
{
	size_t n_drivers;
	const struct driver *const *drivers = driver_list(&n_drivers), *known;
	size_t room = n_drivers + n_host_questions + n_version_questions;
	auto_free struct question *questions = xcalloc(room, sizeof *questions);
	auto_free struct finding *f = xcalloc(room, sizeof *f);
	const char *reason;

	int r = p->driver ? driver_choose(p->driver, false, &known, &reason, e) : 0;
	if (r < 0)
		return r;
	size_t n = collect(drivers, n_drivers, questions);
	r = questions_ask(questions, n, p->timeout_ms, f, e);
	if (r < 0)
		return r;
	json_t *out = json_object();
	json_put(out, "driver", choice_json(p, drivers, n_drivers, f));
	json_put(out, "drivers", drivers_json(drivers, n_drivers, f));
	json_put(out, "host", findings_json(questions + n_drivers, n_host_questions, f + n_drivers));
	json_put(out, "versions",
		 findings_json(questions + n_drivers + n_host_questions, n_version_questions,
			       f + n_drivers + n_host_questions));
	*ret = out;
	return 0;
}
