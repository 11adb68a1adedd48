/* Fuzz target: expressions of any bytes. What compiles evaluates to a value or to an error, twice the same. */
#include <base/arena.h>
#include <base/err.h>
#include <base/json.h>
#include <dsl/expr.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *get(void *arg, enum dsl_ns ns, const char *name)
{
	(void)ns;
	return json_incref(name ? json_object_get(arg, name) : arg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char world[] =
		"{\"a\": 1, \"b\": [1, \"x\", {\"c\": null}], \"c\": \"t\", \"d\": 1.5, \"e\": {\"a\": [2]}}";
	auto_json values = json_loads(world, 0, NULL);
	struct dsl_scope scope = {.get = get, .arg = values};
	struct arena *a = arena_new();
	struct err e = ERR_INIT;
	const struct expr *x;
	size_t offset = 0;

	char *text = malloc(size ? size : 1);
	if (!text)
		abort();
	memcpy(text, data, size);
	int r = expr_compile(a, text, size, EXPR_BARE_NAMES, &x, &offset, &e);
	free(text);
	if (r < 0) {
		if (offset > size || !e.msg[0])
			abort();
	} else {
		auto_json v = NULL;
		auto_json w = NULL;
		int first = expr_eval(x, &scope, &v, &e), second = expr_eval(x, &scope, &w, &e);
		if (first != second || (first == 0 && !json_equal(v, w)) || (first < 0 && !e.msg[0]))
			abort();
	}
	arena_free(a);
	return 0;
}
