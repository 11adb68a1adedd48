/* Write, Edit and MultiEdit. MultiEdit is one file and all of its edits or none. */
#include "args.h"
#include "edit.h"
#include "seen.h"
#include "textfile.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_EDITS = 1000 };

static void write_run(struct tools *t, struct jv input, struct tool_result *r)
{
	struct jv content = jv_get(input, "content");
	char *got = NULL, *old = NULL;
	struct stat st;
	size_t len;

	bool good = arg_path(t, input, "file_path", &got, r);
	auto_free char *path = got;
	if (good && jv_type(content) != J_STRING)
		good = tool_fail(r, "content must be a string.");
	if (!good)
		return;
	bool exists = stat(path, &st) == 0;
	if (exists && S_ISREG(st.st_mode) && !text_load(t, path, &old, &len, r))
		return;
	free(old);
	auto_free char *data = jv_text(content, &len);
	if (text_store(t, path, data, len, r))
		(void)buf_printf(&r->text, "%s is %s (%zu bytes).", path, exists ? "replaced" : "written", len);
}

static void edit_run(struct tools *t, struct jv input, struct tool_result *r)
{
	char *got = NULL, *data = NULL;
	struct edit x = {0};
	size_t len = 0;

	bool good = arg_path(t, input, "file_path", &got, r) && edit_parse(input, &x, r) &&
		    text_load(t, got, &data, &len, r) && edit_apply(&data, &len, &x, r) &&
		    text_store(t, got, data, len, r);
	if (good)
		(void)buf_printf(&r->text, "%s is edited.", got);
	edit_done(&x);
	free(data);
	free(got);
}

static bool apply_all(struct jv edits, char **data, size_t *len, size_t *ret_n, struct tool_result *r)
{
	size_t n = 0;

	for (struct jv v = jv_first(edits); v.doc; v = jv_next(v)) {
		struct edit x = {0};
		if (++n > MAX_EDITS)
			return tool_fail(r, "edits has more than %d entries.", MAX_EDITS);
		bool good = edit_parse(v, &x, r) && edit_apply(data, len, &x, r);
		edit_done(&x);
		if (!good) {
			auto_free char *why = xstrdup(buf_str(&r->text));
			return tool_fail(r, "Edit %zu: %s Nothing was changed.", n, why);
		}
	}
	*ret_n = n;
	return n > 0 || tool_fail(r, "edits is empty.");
}

static void multi_edit_run(struct tools *t, struct jv input, struct tool_result *r)
{
	char *got = NULL, *data = NULL;
	size_t len = 0, n = 0;
	struct jv edits;

	bool good = arg_path(t, input, "file_path", &got, r) && arg_list(input, "edits", &edits, r) &&
		    text_load(t, got, &data, &len, r) && apply_all(edits, &data, &len, &n, r) &&
		    text_store(t, got, data, len, r);
	if (good)
		(void)buf_printf(&r->text, "%s is edited: %zu edits.", got, n);
	free(data);
	free(got);
}

#define PATH_SCHEMA "\"file_path\":{\"type\":\"string\",\"description\":\"absolute path\"}"
#define EDIT_SCHEMA                                                                                                    \
	"\"old_string\":{\"type\":\"string\"},\"new_string\":{\"type\":\"string\"},"                                   \
	"\"replace_all\":{\"type\":\"boolean\",\"description\":\"every place; false when absent\"}"

const struct tool tool_write = {
	.name = "Write",
	.description = "Writes a file, whole; folders that are missing are made. One that exists must have been read.",
	.schema =
		"{\"type\":\"object\",\"properties\":{" PATH_SCHEMA ",\"content\":{\"type\":\"string\"}},\"required\":"
		"[\"file_path\",\"content\"]}",
	.run = write_run,
};

const struct tool tool_edit = {
	.name = "Edit",
	.description = "Replaces old_string by new_string in a file that was read. old_string must be in the file "
		       "exactly, without Read's line numbers, and once, unless replace_all is set.",
	.schema = "{\"type\":\"object\",\"properties\":{" PATH_SCHEMA "," EDIT_SCHEMA
		  "},\"required\":[\"file_path\",\"old_string\",\"new_string\"]}",
	.run = edit_run,
};

const struct tool tool_multi_edit = {
	.name = "MultiEdit",
	.description = "Makes several edits of one file, one after the other, each as Edit does; all of them or none.",
	.schema = "{\"type\":\"object\",\"properties\":{" PATH_SCHEMA
		  ",\"edits\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"properties\":"
		  "{" EDIT_SCHEMA "},\"required\":[\"old_string\",\"new_string\"]}}},\"required\":[\"file_path\","
		  "\"edits\"]}",
	.run = multi_edit_run,
};
