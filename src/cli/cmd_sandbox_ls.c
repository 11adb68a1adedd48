/* `sandbox ls`: the sandboxes that container engines have, also those of other runs and those that were left over. */
#include "commands.h"
#include "output.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/driver.h>

#include <string.h>

struct ls_opts {
	bool json;
};

static const char *word(const json_t *row, const char *key)
{
	const char *s = json_get_str(row, key);

	return s && *s ? s : "-";
}

/* The run's name when it has one. */
static const char *run_of(const json_t *row)
{
	const char *name = json_get_str(row, "run_name");

	return name && *name ? name : word(row, "run_id");
}

static const char *owner_of(const json_t *row)
{
	const char *owner = word(row, "owner");

	return str_eq(owner, "gone") ? "gone (left over)" : owner;
}

/* Widths fit the longest of each column, within reason: what is longer moves its own line only. */
static void print_rows(const json_t *rows)
{
	static const char *const heads[] = {"DRIVER", "NAME", "STATE", "OWNER", "RUN", "IMAGE"};
	enum { COLUMNS = ARRAY_LEN(heads), MAX_WIDTH = 48 };
	int width[COLUMNS];
	const json_t *row;
	size_t i;

	for (size_t k = 0; k < COLUMNS; k++)
		width[k] = (int)strlen(heads[k]);
	for (int pass = 0; pass < 2; pass++) {
		if (pass == 1)
			out_printf("%-*s  %-*s  %-*s  %-*s  %-*s  %s\n", width[0], heads[0], width[1], heads[1],
				   width[2], heads[2], width[3], heads[3], width[4], heads[4], heads[5]);
		json_array_foreach(rows, i, row)
		{
			const char *const cells[COLUMNS] = {word(row, "driver"), word(row, "name"), word(row, "state"),
							    owner_of(row),	 run_of(row),	    word(row, "image")};
			for (size_t k = 0; pass == 0 && k < COLUMNS; k++)
				width[k] = MAX(width[k], (int)MIN(strlen(cells[k]), (size_t)MAX_WIDTH));
			if (pass == 1)
				out_printf("%-*s  %-*s  %-*s  %-*s  %-*s  %s\n", width[0], cells[0], width[1], cells[1],
					   width[2], cells[2], width[3], cells[3], width[4], cells[4], cells[5]);
		}
	}
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct ls_opts *o = inv->options;
	auto_json rows = json_array();

	int r = driver_list_all(rows, e);
	if (r < 0)
		return r;
	if (o->json) {
		auto_json doc = json_object();
		json_put(doc, "sandboxes", json_incref(rows));
		out_json(doc);
	} else if (json_array_size(rows) == 0) {
		out_printf("no container engine here has a sandbox of iterion\n");
	} else {
		print_rows(rows);
	}
	return 0;
}

static const struct option_row options[] = {
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct ls_opts, json),
	 .help = "print one JSON document: {sandboxes: [{driver, id, name, image, state, created, run_id, run_name, "
		 "owner}]}"},
	OPTIONS_END,
};

const struct command command_sandbox_ls = {
	.name = "sandbox ls",
	.operands = "",
	.summary = "list the sandboxes of container engines",
	.about =
		"Asks docker and podman, when they answer, for the containers that iterion made, of all runs. OWNER is "
		"alive, gone (its run was killed; `iterion sandbox gc` or the next run removes it), or elsewhere (it "
		"belongs to another machine or container, and is never touched). A native sandbox is not listed: it is "
		"part of its run's process and dies with it.",
	.options = options,
	.options_size = sizeof(struct ls_opts),
	.run = run,
};
