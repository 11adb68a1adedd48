/* `sandbox gc`: removes what sandboxes left whose process is gone. */
#include "commands.h"
#include "output.h"

#include <base/err.h>
#include <base/json.h>
#include <driver/driver.h>

struct gc_opts {
	bool json;
};

static int run(const struct invocation *inv, struct err *e)
{
	const struct gc_opts *o = inv->options;
	size_t n;
	int r = driver_sweep_all(&n, e);

	if (r < 0)
		return r;
	if (o->json) {
		auto_json doc = json_object();
		json_put_int(doc, "removed", (long long)n);
		out_json(doc);
	} else if (n) {
		out_printf("removed %zu leftover%s\n", n, n == 1 ? "" : "s");
	} else {
		out_printf("nothing was left over\n");
	}
	return 0;
}

static const struct option_row options[] = {
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct gc_opts, json),
	 .help = "print one JSON document: how many things were removed"},
	OPTIONS_END,
};

const struct command command_sandbox_gc = {
	.name = "sandbox gc",
	.operands = "",
	.summary = "remove what dead sandboxes left behind",
	.about = "Asks every driver for what belongs to runs whose process is gone, and removes it. Sandboxes of "
		 "living runs are "
		 "not touched. A native sandbox leaves nothing: it dies with its run.",
	.options = options,
	.options_size = sizeof(struct gc_opts),
	.run = run,
};
