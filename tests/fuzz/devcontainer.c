/* Fuzz target: any bytes as a devcontainer.json. What is taken is one document whose text parses again to the same
 * value, and the block that comes of it passes on nothing that the whitelist does not have; what is refused has a
 * message and a hint. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/str.h>
#include <sandbox/block.h>
#include <sandbox/devcontainer.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check_block(const struct sandbox_block *b)
{
	static const char *const taken[] = {"--cap-add=", "--cap-drop=", "--security-opt=", "--shm-size=",
					    "--ulimit=",  "--hostname=", "--add-host="};
	const struct sandbox_spec *s = &b->spec;

	for (size_t i = 0; i < s->run_args.n; i++) {
		bool known = str_eq(s->run_args.v[i], "--init");
		for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++)
			known = known || str_starts(s->run_args.v[i], taken[k]);
		require(known);
	}
	for (size_t i = 0; i < s->n_mounts; i++)
		require(s->mounts[i].target && s->mounts[i].target[0] == '/');
	for (size_t i = 0; i < s->warnings.n; i++)
		require(strchr(s->warnings.v[i], '=') != NULL);
	for (unsigned g = 0; g < STAGE_COUNT; g++)
		for (size_t i = 0; i < s->lifecycle.stages[g].n; i++)
			require(s->lifecycle.stages[g].v[i].argv.n > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const env[] = {"A=va\"l${localEnv:A}", "E=", "L=\n", NULL};
	const struct devcontainer_params p = {
		.workspace = "/w/ws",
		.path = "/w/ws/.devcontainer/devcontainer.json",
		.env = env,
		.default_folder = size % 2 ? "/w/ws" : NULL,
	};
	struct err e = ERR_INIT;
	struct sandbox_block b;
	auto_devcontainer d = NULL;

	/* A copy of its own, so that a read past its end is seen. */
	char *text = malloc(size ? size : 1);
	require(text != NULL);
	memcpy(text, data, size);
	int r = devcontainer_load(&p, text, size, &d, &e);
	free(text);
	if (r == 0) {
		auto_json conf = devcontainer_configuration(d);
		auto_json workspace = devcontainer_workspace(d);
		/* Numbers in full: json_compact writes them as people do. */
		auto_free char *words = json_dumps(conf, JSON_COMPACT | JSON_REAL_PRECISION(17));
		require(words != NULL);
		auto_json again = json_parse(words, strlen(words), NULL);
		require(again && json_equal(conf, again));
		require(json_get_str(workspace, "workspaceFolder") != NULL);
		r = devcontainer_to_block(d, &b, &e);
		if (r == 0) {
			check_block(&b);
			sandbox_block_done(&b);
		}
	}
	require(r == 0 || (e.kind == ERR_INPUT && *e.msg && *e.hint));
	return 0;
}
