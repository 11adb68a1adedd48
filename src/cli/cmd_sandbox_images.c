/* `sandbox images`, `sandbox images pull` and `sandbox images prune`: the images that native sandboxes are made of. */
#include "commands.h"
#include "output.h"
#include "place.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <image/store.h>
#include <image/worker.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct list_opts {
	bool json;
};

struct pull_opts {
	bool json;
};

struct prune_opts {
	bool json;
	bool all;
	unsigned long long unused_ms;
};

static int find_store(char **ret, struct err *e)
{
	*ret = image_store_dir(getenv("ITERION_HOME"), getenv("HOME"));
	if (*ret)
		return 0;
	int r = err_set(e, ERR_INPUT, ENOENT, "find the image store: neither HOME nor ITERION_HOME is set");
	err_hint(e, "Set ITERION_HOME to a folder.");
	return r;
}

/* "12.3 MB", as container engines show sizes. */
static char *size_text(unsigned long long bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	double v = (double)bytes;
	size_t u = 0;

	for (; v >= 1000 && u + 1 < ARRAY_LEN(units); u++)
		v /= 1000;
	return u ? xasprintf("%.1f %s", v, units[u]) : xasprintf("%llu B", bytes);
}

static void print_rows(const json_t *rows)
{
	const json_t *row;
	size_t i;
	int width = (int)strlen("IMAGE");

	json_array_foreach(rows, i, row)
	{
		const char *name = json_get_str(row, "reference");
		width = MAX(width, (int)MIN(strlen(name ? name : "-"), (size_t)70));
	}
	out_printf("%-*s  %-19s  %9s  %6s  %-16s  %s\n", width, "IMAGE", "DIGEST", "SIZE", "LAYERS", "USED", "STATE");
	json_array_foreach(rows, i, row)
	{
		const char *name = json_get_str(row, "reference"), *digest = json_get_str(row, "digest");
		auto_free char *size = size_text((unsigned long long)json_integer_value(json_object_get(row, "size")));
		out_printf("%-*s  %-19.19s  %9s  %6lld  %-16.16s  %s\n", width, name ? name : "-",
			   digest ? digest : "-", size, (long long)json_integer_value(json_object_get(row, "layers")),
			   json_get_str(row, "used"), json_is_true(json_object_get(row, "in_use")) ? "in use" : "-");
	}
}

static int run_list(const struct invocation *inv, struct err *e)
{
	const struct list_opts *o = inv->options;
	auto_free char *dir = NULL;
	auto_json rows = json_array();

	int r = find_store(&dir, e);
	if (r == 0)
		r = image_store_list(dir, rows, e);
	if (r < 0)
		return r;
	if (o->json) {
		auto_json doc = json_object();
		json_put(doc, "images", json_incref(rows));
		out_json(doc);
	} else if (json_array_size(rows) == 0) {
		out_printf("no image is kept in %s\n", dir);
	} else {
		print_rows(rows);
	}
	return 0;
}

static void on_progress(void *arg, const char *layer, uint64_t current, uint64_t total)
{
	const struct pull_opts *o = arg;
	auto_free char *have = size_text(current);
	auto_free char *all = size_text(total);

	if (!o->json)
		out_printf("%.19s: %s of %s\n", layer, have, all);
}

static int run_pull(const struct invocation *inv, struct err *e)
{
	struct pull_opts o = *(const struct pull_opts *)inv->options;
	auto_free char *dir = NULL;
	auto_free char *here = NULL;

	int r = find_store(&dir, e);
	if (r == 0)
		r = place_workspace(NULL, &here, e);
	if (r < 0)
		return r;
	const struct image_request request = {.store = dir, .reference = inv->args[0], .base = here};
	r = image_pull(&request, on_progress, &o, e);
	if (r < 0)
		return r;
	if (o.json) {
		auto_json doc = json_object();
		json_put_str(doc, "pulled", inv->args[0]);
		out_json(doc);
	} else {
		out_printf("pulled %s\n", inv->args[0]);
	}
	return 0;
}

static int run_prune(const struct invocation *inv, struct err *e)
{
	const struct prune_opts *o = inv->options;
	const struct image_prune what = {.all = o->all, .unused_ms = o->unused_ms};
	struct image_pruned done = {0};
	auto_free char *dir = NULL;

	int r = find_store(&dir, e);
	if (r == 0)
		r = image_store_prune(dir, &what, &done, e);
	if (r < 0)
		return r;
	if (o->json) {
		auto_json doc = json_object();
		json_put_int(doc, "images", (long long)done.images);
		json_put_int(doc, "layers", (long long)done.layers);
		json_put_int(doc, "bytes", (long long)done.bytes);
		out_json(doc);
	} else {
		auto_free char *size = size_text(done.bytes);
		out_printf("removed %zu image%s and %zu layer%s, %s\n", done.images, done.images == 1 ? "" : "s",
			   done.layers, done.layers == 1 ? "" : "s", size);
	}
	return 0;
}

static const struct option_row list_options[] = {
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct list_opts, json),
	 .help = "print one JSON document: {images: [{reference, digest, size, layers, used, in_use}]}"},
	OPTIONS_END,
};

const struct command command_sandbox_images = {
	.name = "sandbox images",
	.operands = "",
	.summary = "list the images of native sandboxes",
	.about =
		"Lists what is kept in $ITERION_HOME/images (~/.iterion/images): the images that native sandboxes were "
		"made of, with the size of their files and when they were used last. Layers that several images share "
		"are kept once. Images of docker and podman are theirs, and not listed.",
	.options = list_options,
	.options_size = sizeof(struct list_opts),
	.run = run_list,
};

static const struct option_row pull_options[] = {
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct pull_opts, json),
	 .help = "print one JSON document instead of the progress: {pulled}"},
	OPTIONS_END,
};

static const struct help_row pull_examples[] = {
	{"iterion sandbox images pull debian:12", "from Docker's registry"},
	{"iterion sandbox images pull docker-archive:image.tar", "from a file that docker save wrote"},
	{NULL, NULL},
};

const struct command command_sandbox_images_pull = {
	.name = "sandbox images pull",
	.operands = "IMAGE",
	.summary = "fetch an image for native sandboxes, also when it is there",
	.about = "A run fetches an image that is not there; this fetches it now, and anew when its name leads to "
		 "another "
		 "one by now. IMAGE is a name as docker takes it (with a tag or a digest), oci:FOLDER[:TAG] or "
		 "docker-archive:FILE[:NAME]. Credentials come from the files that `docker login` and `podman login` "
		 "write.",
	.examples = pull_examples,
	.options = pull_options,
	.options_size = sizeof(struct pull_opts),
	.min_args = 1,
	.max_args = 1,
	.run = run_pull,
};

static const struct option_row prune_options[] = {
	{.name = "all",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct prune_opts, all),
	 .help = "remove every image that no sandbox uses now"},
	{.name = "unused-for",
	 .kind = OPTION_DURATION,
	 .offset = offsetof(struct prune_opts, unused_ms),
	 .value = "DURATION",
	 .help = "remove also images that were not used for so long, such as 720h"},
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct prune_opts, json),
	 .help = "print one JSON document: {images, layers, bytes}"},
	OPTIONS_END,
};

const struct command command_sandbox_images_prune = {
	.name = "sandbox images prune",
	.operands = "",
	.summary = "free the room of images that are not needed",
	.about = "Removes images that no name leads to any more (their tag was pulled anew), layers that no image has, "
		 "and what pulls that were killed left. What a sandbox uses stays.",
	.options = prune_options,
	.options_size = sizeof(struct prune_opts),
	.run = run_prune,
};
