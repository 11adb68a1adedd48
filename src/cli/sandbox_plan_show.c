/* The plan for people: the same document that --json prints, one section after the other. */
#include "output.h"
#include "sandbox_plan.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <string.h>

static void heading(const char *text)
{
	out_printf("\n");
	out_style(STYLE_BOLD);
	out_printf("%s", text);
	out_style(STYLE_PLAIN);
	out_printf("\n");
}

/* A string as it is, anything else as JSON. */
static void value(const json_t *v)
{
	if (json_is_string(v)) {
		out_value(json_string_value(v), 0);
		return;
	}
	auto_free char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REALS);
	out_value(text ? text : "", 0);
}

static void dim(const char *text)
{
	if (!text)
		return;
	out_style(STYLE_DIM);
	out_printf("  (");
	out_value(text, 0);
	out_printf(")");
	out_style(STYLE_PLAIN);
}

static bool is_empty(const json_t *v)
{
	return !v || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0) ||
	       (json_is_object(v) && json_object_size(v) == 0);
}

static void row(const char *name, const json_t *v, const char *source)
{
	out_printf("  %-18s ", name);
	value(v);
	dim(source);
	out_printf("\n");
}

/* The first source of the field itself or of one of its members. */
static const char *source_of(const json_t *spec, const char *field)
{
	json_t *sources = json_object_get(spec, "sources"), *v;
	const char *exact = json_get_str(sources, field), *key;
	size_t len = strlen(field);

	if (exact)
		return exact;
	json_object_foreach(sources, key, v)
	{
		if (strncmp(key, field, len) == 0 && key[len] == '.')
			return json_string_value(v);
	}
	return NULL;
}

static void show_head(const json_t *doc)
{
	row("driver", json_object_get(doc, "driver"), json_get_str(doc, "driver_reason"));
	row("mode", json_object_get(doc, "mode"), json_get_str(doc, "source"));
}

/* What has a section of its own, and what is never empty. */
static void show_spec(const json_t *spec)
{
	static const char *const fields[] = {"image",  "build",	  "user",     "workspace_folder", "host_state",
					     "limits", "secrets", "run_args", "post_create"};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const json_t *v = json_object_get(spec, fields[i]);
		const char *source = source_of(spec, fields[i]);
		if (!is_empty(v) && !(str_eq(fields[i], "limits") && !source))
			row(fields[i], v, source);
		else if (str_eq(fields[i], "image") && source)
			out_printf("  %-18s %s\n", "image", source);
	}
}

static void show_commands(const json_t *spec)
{
	json_t *list = json_object_get(spec, "lifecycle"), *c;
	size_t i;

	if (is_empty(list))
		return;
	heading("Commands before the first node");
	json_array_foreach(list, i, c)
	{
		out_printf("  %-24s ", json_get_str(c, "name"));
		value(json_object_get(c, "argv"));
		out_printf("\n");
	}
}

static void show_mount(const json_t *m)
{
	const char *source = json_get_str(m, "source");

	out_printf("  %s  %-7s", json_is_true(json_object_get(m, "readonly")) ? "ro" : "rw", json_get_str(m, "type"));
	out_value(json_get_str(m, "target"), 0);
	if (source && !str_eq(source, json_get_str(m, "target"))) {
		out_printf(" <- ");
		out_value(source, 0);
	}
	dim(json_get_str(m, "origin"));
	out_printf("\n");
}

/* The driver's own last: they are the same for every sandbox. */
static void show_mounts(const json_t *doc)
{
	json_t *list = json_object_get(doc, "mounts"), *skipped = json_object_get(doc, "skipped"), *m;
	size_t i;

	if (!is_empty(list))
		heading("Mounts");
	for (int own = 0; own < 2; own++) {
		json_array_foreach(list, i, m)
		{
			if (str_eq(json_get_str(m, "origin"), "driver") == (own == 1))
				show_mount(m);
		}
	}
	if (!is_empty(skipped))
		heading("Not mounted");
	json_array_foreach(skipped, i, m)
	{
		out_printf("  ");
		out_value(json_get_str(m, "path"), 0);
		dim(json_get_str(m, "reason"));
		out_printf("\n");
	}
}

static void show_env(const json_t *doc)
{
	json_t *env = json_object_get(doc, "env"), *v;
	const char *name;

	heading("Environment");
	json_object_foreach(env, name, v)
	{
		out_printf("  ");
		out_value(name, 0);
		if (json_is_string(v)) {
			auto_free char *field = xasprintf("env.%s", name);
			out_printf("=");
			value(v);
			dim(json_get_str(json_object_get(json_object_get(doc, "spec"), "sources"), field));
		}
		out_printf("\n");
	}
}

static void show_network(const json_t *doc)
{
	const json_t *n = json_object_get(doc, "network"), *spec = json_object_get(doc, "spec");
	json_t *rules = json_object_get(n, "rules"), *rule;
	size_t i;

	heading("Network");
	row("mode", json_object_get(n, "mode"), source_of(spec, "network"));
	row("enforcement", json_object_get(n, "enforcement"), NULL);
	row("presets", json_object_get(json_object_get(spec, "network"), "presets"), NULL);
	json_array_foreach(rules, i, rule)
	{
		row(i ? "" : "rules", rule, NULL);
	}
}

/* Who holds which, and what that is worth. */
static void show_limits(const json_t *doc)
{
	json_t *list = json_object_get(doc, "limits"), *l;
	size_t i;

	if (!is_empty(list))
		heading("Limits");
	json_array_foreach(list, i, l)
	{
		row(json_get_str(l, "limit"), json_object_get(l, "by"), json_get_str(l, "note"));
	}
}

static void show_warnings(const json_t *doc)
{
	json_t *list = json_object_get(doc, "warnings"), *w;
	size_t i;

	if (!is_empty(list))
		heading("Warnings");
	json_array_foreach(list, i, w)
	{
		out_style(STYLE_YELLOW);
		out_printf("  %s", json_get_str(w, "code"));
		out_style(STYLE_PLAIN);
		out_printf(": ");
		out_value(json_get_str(w, "message"), 0);
		out_printf("\n");
	}
}

static void show_one(const json_t *doc)
{
	const json_t *spec = json_object_get(doc, "spec"), *dc = json_object_get(doc, "devcontainer");

	show_head(doc);
	show_spec(spec);
	if (dc)
		row("devcontainer.json", json_object_get(dc, "path"), NULL);
	show_commands(spec);
	show_mounts(doc);
	show_env(doc);
	show_network(doc);
	show_limits(doc);
	show_warnings(doc);
}

void sandbox_plan_show(const json_t *doc)
{
	json_t *nodes = json_object_get(doc, "nodes"), *node;
	const char *name;

	out_style(STYLE_BOLD);
	out_printf("Sandbox\n");
	out_style(STYLE_PLAIN);
	show_one(doc);
	json_object_foreach(nodes, name, node)
	{
		auto_free char *title = xasprintf("Node %s", name);
		heading(title);
		show_one(node);
	}
}
