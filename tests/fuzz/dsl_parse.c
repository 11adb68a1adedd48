/* Fuzz target: a workflow file of any bytes is parsed, checked, and its findings and diagram are written. Errors are
 * counted exactly when something is said, and every finding stands somewhere in the file. */
#include <base/buf.h>
#include <base/json.h>
#include <dsl/check.h>
#include <dsl/diag.h>
#include <dsl/diagram.h>
#include <dsl/parse.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *lookup(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "A") == 0 ? "va\"l{{ue" : NULL;
}

static void require(bool what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct dsl_env env = {.get = lookup, .project_dir = "/p"};
	auto_buf out = BUF_INIT((size_t)64 << 20);
	struct dsl_file *f;
	uint32_t lines = 1;

	/* A copy of its own, so that a read past its end is seen. */
	char *text = malloc(size ? size : 1);
	require(text != NULL);
	memcpy(text, data, size);
	int r = dsl_parse("fuzz.bot", text, size, &env, &f);
	free(text);
	require((r < 0) == (f->n_errors > 0));
	require((dsl_check(f, NULL) < 0) == (f->n_errors > 0));
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	for (size_t i = 0; i < f->n_diags; i++)
		require(f->diags[i].pos.line >= 1 && f->diags[i].pos.line <= lines && f->diags[i].pos.column >= 1);
	require(dsl_diags_format(&out, f) == 0);
	if (f->workflow)
		require(dsl_diagram(f, DSL_DIAGRAM_FULL, &out) == 0);
	json_decref(dsl_diags_json(f));
	dsl_file_free(f);
	return 0;
}
