/* Limits of a sandbox in words: who would hold them, and that one was reached. */
#include "ops.h"

#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <driver/limits.h>
#include <sandbox/spec.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

json_t *driver_limits(const struct driver *d, const struct sandbox_limits *l)
{
	const struct {
		const char *name;
		bool asked;
	} rows[] = {{"limits.cpus", l->cpus > 0}, {"limits.memory", l->memory != 0}, {"limits.pids", l->pids != 0}};

	if (d->limits)
		return d->limits(l);
	json_t *list = json_array();
	for (size_t i = 0; d->caps.limits && i < ARRAY_LEN(rows); i++) {
		if (!rows[i].asked)
			continue;
		json_t *one = json_object();
		json_put_str(one, "limit", rows[i].name);
		json_put_str(one, "by", d->name);
		(void)json_array_append_new(list, one);
	}
	return list;
}

void limits_memory_words(char *to, size_t size, uint64_t bytes)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	size_t unit = 0;

	while (unit + 1 < ARRAY_LEN(units) && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	(void)snprintf(to, size, "%" PRIu64 " %s", bytes, units[unit]);
}

static void append(struct err *e, const char *text)
{
	size_t len = strlen(e->msg);

	(void)snprintf(e->msg + len, sizeof e->msg - len, "%s", text);
}

void limits_explain(const struct exec_status *st, struct err *e)
{
	char size[32], text[128];

	if (!e)
		return;
	if (st->memory_limit) {
		limits_memory_words(size, sizeof size, st->memory_limit);
		(void)snprintf(text, sizeof text, "; the sandbox reached its memory limit of %s", size);
		append(e, text);
		err_hint(e, "raise limits.memory of the sandbox block, or let its programs take less; several nodes at "
			    "once share it");
	}
	if (st->pids_limit) {
		(void)snprintf(text, sizeof text, "; the sandbox reached its limit of %" PRIu64 " process%s",
			       st->pids_limit, st->pids_limit == 1 ? "" : "es");
		append(e, text);
		err_hint(e, "raise limits.pids of the sandbox block, which counts threads and iterion's init too, or "
			    "let its programs start fewer");
	}
}
