/* `version`: what this program is. Touches nothing else, so that it costs what starting a program costs. */
#include "commands.h"
#include "output.h"

#include <base/err.h>
#include <config.h>

struct version_opts {
	bool json;
};

static int run(const struct invocation *inv, struct err *e)
{
	const struct version_opts *o = inv->options;

	(void)e;
	if (o->json)
		out_printf("{\"version\":\"%s\"}\n", ITERION_VERSION);
	else
		out_printf("iterion %s\n", ITERION_VERSION);
	return 0;
}

static const struct option_row options[] = {
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct version_opts, json),
	 .help = "print one JSON document"},
	OPTIONS_END,
};

const struct command command_version = {
	.name = "version",
	.operands = "",
	.summary = "print the version",
	.about = "Prints the version of this program. `iterion --version` is the same.",
	.options = options,
	.options_size = sizeof(struct version_opts),
	.run = run,
};
