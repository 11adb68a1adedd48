/* Large values: each is written once, to a file of the run, and referred to from then on.
 *
 * Which values those are is remembered by the value itself, not by where it is used: an output that travels along an
 * edge unchanged is the same JSON value at both ends, and so has one file. Values that nobody else holds any more are
 * forgotten when the next one comes. */
#include "branch.h"
#include "values.h"
#include <store/run_files.h>

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

struct large {
	json_t *value;
	char *ref;
	struct large *next;
};

/* Writes text to a file of the run; its reference, or NULL when that failed (the run is ending then). */
static char *write_out(struct engine *en, const char *node, const char *text, size_t len)
{
	auto_free char *name = xasprintf("%s.json", node);
	struct err e = ERR_INIT;
	auto_free char *ref = NULL;
	auto_fd fd = store_run_output(en->run, name, &ref, &e);
	int r = fd < 0 ? fd : fd_write_all(fd, text, len);

	if (r == 0)
		return TAKE_PTR(ref);
	if (fd >= 0)
		(void)err_sys(&e, -r, "write %s/%s", store_run_dir(en->run), ref);
	err_hint(&e, "free some space on the file system of the store");
	engine_end(en, RUN_FAILED_RESUMABLE, &e, node);
	return NULL;
}

static void drop(struct large **p)
{
	struct large *l = *p;

	*p = l->next;
	json_decref(l->value);
	free(l->ref);
	free(l);
}

void large_forget(struct engine *en, bool all)
{
	for (struct large **p = &en->large; *p;) {
		if (all || (*p)->value->refcount == 1)
			drop(p);
		else
			p = &(*p)->next;
	}
}

static const struct large *find(const struct engine *en, const json_t *value)
{
	const struct large *l = en->large;

	while (l && l->value != value)
		l = l->next;
	return l;
}

const char *large_ref(const struct engine *en, const json_t *value)
{
	const struct large *l = find(en, value);

	return l ? l->ref : NULL;
}

void large_add(struct engine *en, json_t *value, char *ref)
{
	struct large *l = xcalloc(1, sizeof *l);

	large_forget(en, false);
	*l = (struct large){.value = json_incref(value), .ref = ref, .next = en->large};
	en->large = l;
}

void large_keep(struct engine *en, const char *node, json_t *value)
{
	if (!value || find(en, value) || json_dumpb(value, NULL, 0, JSON_REALS | JSON_COMPACT) <= LARGE_MIN)
		return;
	auto_free char *text = json_compact(value);
	size_t len = strlen(text);
	char *ref = write_out(en, node, text, len);
	if (ref)
		large_add(en, value, ref);
}

void large_put(const struct engine *en, json_t *to, const char *key, json_t *value)
{
	auto_free char *ref_key = xasprintf("%s_ref", key);
	const char *ref = large_ref(en, value);

	if (ref)
		json_put_str(to, ref_key, ref);
	else if (value)
		json_put(to, key, json_incref(value));
}

int large_get(struct engine *en, const json_t *from, const char *key, json_t **ret, struct err *e)
{
	auto_free char *ref_key = xasprintf("%s_ref", key);
	const char *ref = json_get_str(from, ref_key);

	if (!ref) {
		*ret = json_incref(json_object_get(from, key));
		return 0;
	}
	int r = store_run_load(en->run, ref, ret, e);
	if (r < 0)
		return r;
	large_add(en, *ret, xstrdup(ref));
	return 0;
}
