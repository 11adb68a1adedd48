/* `sandbox doctor`: what this machine can do for sandboxes, and what runs use when nothing is said. */
#include "commands.h"
#include "output.h"
#include "run_choice.h"
#include "sandbox_doctor.h"

#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <doctor/doctor.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TIMEOUT_MS = 5000, MAX_TIMEOUT_MS = 10 * 60 * 1000 };

static const char timeout_name[] = "ITERION_SANDBOX_DOCTOR_TIMEOUT";

int sandbox_doctor_timeout(unsigned *ret_ms, struct err *e)
{
	const char *text = getenv(timeout_name);
	unsigned long long ms = DEFAULT_TIMEOUT_MS;

	if (text && *text && (str_parse_duration(text, &ms) < 0 || ms == 0 || ms > MAX_TIMEOUT_MS)) {
		int r = err_set(e, ERR_USAGE, EINVAL, "%s: \"%.60s\" is no duration up to 10m", timeout_name, text);
		err_hint(e, "Write it such as 5s, 500ms or 1m30s, or unset it for 5s.");
		return r;
	}
	*ret_ms = (unsigned)ms;
	return 0;
}

static void add_default(json_t *to, const char *name, const char *value, const char *source)
{
	json_t *o = json_object();

	json_put(o, "value", value ? json_text(value, strlen(value)) : json_null());
	json_put_str(o, "source", source);
	json_put(to, name, o);
}

static json_t *defaults_json(const struct sandbox_resolved *d, unsigned timeout_ms)
{
	json_t *o = json_object();
	const char *given = getenv(timeout_name);
	char *seconds = xasprintf("%gs", timeout_ms / 1000.0);

	add_default(o, "mode", sandbox_mode_name(d->spec.mode), d->spec.mode_source);
	add_default(o, "host_state", host_state_name(d->spec.host_state), d->spec.host_state_source);
	add_default(o, "driver", d->driver, d->driver_source);
	add_default(o, "default_image", d->default_image, d->default_image_source);
	add_default(o, "timeout", seconds, given && *given ? timeout_name : "default");
	free(seconds);
	return o;
}

static void heading(const char *text)
{
	out_printf("\n");
	out_style(STYLE_BOLD);
	out_printf("%s\n", text);
	out_style(STYLE_PLAIN);
}

static void mark(const char *status)
{
	bool yes = str_eq(status, "yes");

	out_style(yes ? STYLE_GREEN : str_eq(status, "no") ? STYLE_RED : STYLE_YELLOW);
	out_printf("  %-8s", status);
	out_style(STYLE_PLAIN);
}

static void hint(const json_t *j)
{
	if (!json_get_str(j, "hint"))
		return;
	out_printf("          ");
	out_value(json_get_str(j, "hint"), 0);
	out_printf("\n");
}

static void show_findings(const json_t *doc, const char *key, const char *title)
{
	json_t *list = json_object_get(doc, key), *f;
	size_t i;

	heading(title);
	json_array_foreach(list, i, f)
	{
		mark(json_get_str(f, "status"));
		out_printf("%-27s ", json_get_str(f, "id"));
		out_value(json_get_str(f, "detail"), 0);
		out_printf("\n");
		hint(f);
	}
}

static void show_drivers(const json_t *doc)
{
	json_t *list = json_object_get(doc, "drivers"), *d, *cap;
	size_t i, k;

	heading("Drivers");
	json_array_foreach(list, i, d)
	{
		mark(json_is_true(json_object_get(d, "usable")) ? "yes" : "no");
		out_printf("%-8s", json_get_str(d, "name"));
		if (json_get_str(d, "reason")) {
			out_printf(" ");
			out_value(json_get_str(d, "reason"), 0);
		}
		out_printf("\n");
		hint(d);
		out_printf("          can:");
		json_array_foreach(json_object_get(d, "capabilities"), k, cap)
		{
			out_printf(" %s", json_string_value(cap));
		}
		out_printf("\n");
	}
}

static void show(const json_t *doc)
{
	const json_t *d = json_object_get(doc, "driver");
	json_t *defaults = json_object_get(doc, "defaults"), *one;
	const char *name = json_get_str(d, "name"), *key;

	out_printf("Driver: ");
	out_style(name ? STYLE_GREEN : STYLE_RED);
	out_printf("%s", name ? name : "none");
	out_style(STYLE_PLAIN);
	out_printf(" (%s)\n", json_get_str(d, "reason"));
	hint(d);
	show_drivers(doc);
	show_findings(doc, "host", "This machine");
	show_findings(doc, "versions", "Programs");
	heading("Defaults");
	json_object_foreach(defaults, key, one)
	{
		out_printf("  %-14s ", key);
		out_value(json_get_str(one, "value") ? json_get_str(one, "value") : "-", 0);
		out_printf("  (%s)\n", json_get_str(one, "source"));
	}
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct doctor_opts *o = inv->options;
	auto_sandbox_resolved defaults = {0};
	auto_json doc = NULL;
	unsigned timeout_ms = 0;

	int r = sandbox_doctor_timeout(&timeout_ms, e);
	if (r < 0)
		return r;
	if (o->strict)
		return sandbox_doctor_strict(o, inv->n_args ? inv->args[0] : NULL, timeout_ms, e);
	if (inv->n_args || o->target || o->workspace || o->store_dir) {
		r = err_set(e, ERR_USAGE, EINVAL,
			    "sandbox doctor: not without --strict: a file, --target, --workspace, --store-dir");
		err_hint(e, "Add --strict to check whether a run would work.");
		return r;
	}
	if (r == 0)
		r = sandbox_flags_defaults(&o->sandbox, &defaults, e);
	if (r < 0)
		return r;
	const struct doctor_params p = {
		.driver = defaults.driver, .driver_source = defaults.driver_source, .timeout_ms = timeout_ms};
	r = doctor_report(&p, &doc, e);
	if (r < 0)
		return r;
	json_put(doc, "defaults", defaults_json(&defaults, timeout_ms));
	if (o->json)
		out_json(doc);
	else
		show(doc);
	return 0;
}

static const struct option_row options[] = {
	{.name = "strict",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct doctor_opts, strict),
	 .help = "check whether a run of FILE, with these flags, would work; a check that fails is exit code 1"},
	{.name = "target",
	 .kind = OPTION_WORD,
	 .value = "WHERE",
	 .words = doctor_targets,
	 .offset = offsetof(struct doctor_opts, target),
	 .help = "for which kind of host to check: this one, a cluster, or a machine with docker (default: auto)"},
	SANDBOX_FLAG_ROWS(struct doctor_opts, sandbox),
	{.name = "workspace",
	 .kind = OPTION_STRING,
	 .value = "DIR",
	 .offset = offsetof(struct doctor_opts, workspace),
	 .help = "the folder that the workflow works in (default: the current one)"},
	STORE_DIR_ROW(struct doctor_opts, store_dir),
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct doctor_opts, json),
	 .help = "print one JSON document: driver, drivers, host, versions, defaults; with --strict target, driver, "
		 "checks, ok"},
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion sandbox doctor", "Which driver a run gets here, and why not another."},
	{"iterion sandbox doctor --strict main.bot", "Whether `iterion run main.bot` would work, check by check."},
	{"iterion sandbox doctor --json | jq -r '.drivers[] | select(.usable) | .name'", "The drivers that work here."},
	{NULL, NULL},
};

static const struct help_row exits[] = {
	{"0", "everything was asked; with --strict no check failed (warnings do not matter)"},
	{"1", "with --strict: a check failed"},
	{"2", "the file, a flag or a variable of the environment is wrong"},
	{NULL, NULL},
};

const struct command command_sandbox_doctor = {
	.name = "sandbox doctor",
	.operands = "[FILE]",
	.summary = "say what this machine can do for sandboxes",
	.about = "Asks every driver whether it can serve here, the kernel what it allows, and the programs around for "
		 "their versions, all at the same time, and shows what runs use when nothing is said, with where it "
		 "comes from. ITERION_SANDBOX_DOCTOR_TIMEOUT (default 5s) is the most that an answer may take.\n\n"
		 "With --strict it resolves the sandbox of FILE (or of none) as `run` does and checks whether a run "
		 "would "
		 "work, with what to do where not. Nothing is started.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct doctor_opts),
	.max_args = 1,
	.run = run,
};
