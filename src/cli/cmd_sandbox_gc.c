/* `sandbox gc`: removes what sandboxes left whose process is gone. */
#include "commands.h"
#include "output.h"
#include "place.h"
#include "run_choice.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <driver/driver.h>
#include <engine/worktree.h>

#include <string.h>
#include <unistd.h>

struct gc_opts {
	bool json;
	bool force;
	const char *store_dir;
};

struct trees {
	const struct gc_opts *o;
	json_t *list;
};

static void on_tree(void *arg, const struct worktree_left *left)
{
	const struct trees *t = arg;
	json_t *d = json_object();

	json_put_str(d, "run_id", left->run_id);
	json_put_str(d, "path", left->path);
	json_put_bool(d, "removed", left->removed);
	json_put(d, "reason", json_text(left->reason, strlen(left->reason)));
	(void)json_array_append_new(t->list, d);
	if (!t->o->json)
		out_printf("worktree %s: %s: %s\n", left->run_id, left->removed ? "removed" : "kept", left->reason);
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct gc_opts *o = inv->options;
	struct trees trees = {.o = o, .list = json_array()};
	auto_json list = trees.list;
	auto_free char *store = NULL;
	size_t n, n_trees = 0;
	int r = driver_sweep_all(&n, e);

	if (r == 0)
		r = place_store_here(o->store_dir, &store, e);
	if (r == 0)
		r = worktree_gc(store, (const char *const *)environ, o->force, on_tree, &trees, &n_trees, e);
	if (r < 0)
		return r;
	n += n_trees;
	if (o->json) {
		auto_json doc = json_object();
		json_put_int(doc, "removed", (long long)n);
		json_put(doc, "worktrees", json_incref(list));
		out_json(doc);
	} else if (n) {
		out_printf("removed %zu leftover%s\n", n, n == 1 ? "" : "s");
	} else if (json_array_size(list) == 0) {
		out_printf("nothing was left over\n");
	}
	return 0;
}

static const struct option_row options[] = {
	{.name = "force",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct gc_opts, force),
	 .help = "remove also worktrees with work that is on no branch"},
	STORE_DIR_ROW(struct gc_opts, store_dir),
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct gc_opts, json),
	 .help = "print one JSON document: how many things were removed, and the worktrees"},
	OPTIONS_END,
};

const struct command command_sandbox_gc = {
	.name = "sandbox gc",
	.operands = "",
	.summary = "remove what dead sandboxes left behind",
	.about = "Asks every driver for what belongs to runs whose process is gone, and removes it: containers of "
		 "docker and podman, worktrees that hold no work which is on no branch (branches stay), and empty "
		 "cgroups of native sandboxes with limits. Sandboxes of living runs, and those of other machines, are "
		 "not touched. A native sandbox itself leaves nothing: it dies with its run.",
	.options = options,
	.options_size = sizeof(struct gc_opts),
	.run = run,
};
