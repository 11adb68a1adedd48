/* Artifacts: outputs that nodes publish under a name.
 *
 * Each is a file of the run, artifacts/NODE/VERSION.json, and versions of a node count from 1. A name means what was
 * published under it last, by whichever node. run.json's artifact_index says for each name which node and version that
 * is; it is written together with the checkpoint, so both always speak of the same moment. */
#include "engine_priv.h"
#include <store/run_files.h>
#include "kinds.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>

void artifact_publish(struct engine *en, const char *branch, const struct dsl_node *n, json_t *value)
{
	unsigned version = ++en->nodes[n->index].version;
	struct err e = ERR_INIT;

	if (store_run_artifact(en->run, n->name.s, version, value, &e) < 0) {
		err_hint(&e, "free some space on the file system of the store");
		engine_end(en, RUN_FAILED_RESUMABLE, &e, n->name.s);
		return;
	}
	json_put(en->artifacts, n->publish.s, json_incref(value));
	json_t *entry = json_object();
	json_put_str(entry, "node", n->name.s);
	json_put_int(entry, "version", version);
	json_put(en->artifact_index, n->publish.s, entry);
	json_t *d = json_object();
	json_put_str(d, "publish", n->publish.s);
	json_put_int(d, "version", version);
	engine_emit(en, "artifact_written", branch, n->name.s, d);
}

json_t *artifact_versions(const struct engine *en)
{
	json_t *o = json_object();

	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		if (en->nodes[i].version)
			json_put_int(o, en->p.file->nodes[i]->name.s, en->nodes[i].version);
	return o;
}

int artifact_load(struct engine *en, json_t *index, const json_t *versions, struct err *e)
{
	const char *name;
	json_t *entry;

	for (size_t i = 0; i < en->p.file->n_nodes; i++)
		en->nodes[i].version =
			(unsigned)json_integer_value(json_object_get(versions, en->p.file->nodes[i]->name.s));
	json_object_foreach(index, name, entry)
	{
		const char *node = json_get_str(entry, "node");
		json_int_t version = json_integer_value(json_object_get(entry, "version"));
		json_t *value = NULL;
		if (!node || version <= 0)
			return err_set(e, ERR_INPUT, EPROTO, "artifact %s: its index is damaged", name);
		auto_free char *ref = xasprintf("artifacts/%s/%lld.json", node, (long long)version);
		int r = store_run_load(en->run, ref, &value, e);
		if (r < 0)
			return r;
		json_put(en->artifacts, name, value);
		json_put(en->artifact_index, name, json_incref(entry));
	}
	return 0;
}
