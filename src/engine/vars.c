/* The values of a run's variables: the default of the declaration, over it the preset, over it the command line. Each
 * is read by its declared type and checked before anything starts; a variable that nobody declared is an error, since
 * a misspelt name would otherwise run with the default. */
#include "engine_priv.h"
#include "value.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void hint_nearest(struct err *e, const struct dsl_file *f, const char *name)
{
	auto_free const char **names = xcalloc(f->n_vars + 1, sizeof *names);

	for (size_t i = 0; i < f->n_vars; i++)
		names[i] = f->vars[i]->name.s;
	const char *near = str_nearest(name, names, f->n_vars);
	if (near)
		err_hint(e, "did you mean %s?", near);
	else
		err_hint(e, "declare it in the vars: block of the file, or leave it out");
}

static int check_choice(const struct dsl_var *v, const json_t *value, struct err *e)
{
	if (value_is_choice(value, &v->choices))
		return 0;
	int r = err_set(e, ERR_USAGE, EINVAL, "variable %s: this value is none of its choices", v->name.s);
	err_hint(e, "one of them is %s", v->choices.v[0].s);
	return r;
}

static int set_from_text(const struct dsl_file *f, const char *text, json_t *to, struct err *e)
{
	const char *eq = strchr(text, '=');
	if (!eq || eq == text) {
		int r = err_set(e, ERR_USAGE, EINVAL, "variable \"%.80s\": no name=value", text);
		err_hint(e, "write --var name=value");
		return r;
	}
	auto_free char *name = xstrndup(text, (size_t)(eq - text));
	const struct dsl_var *v = dsl_find_var(f, name);
	if (!v) {
		int r = err_set(e, ERR_USAGE, EINVAL, "variable %.80s: the workflow declares no such variable", name);
		hint_nearest(e, f, name);
		return r;
	}
	json_t *value = value_parse(eq + 1, v->type);
	if (!value) {
		int r = err_set(e, ERR_USAGE, EINVAL, "variable %s: \"%.80s\" is no %s", name, eq + 1,
				value_type_name(v->type));
		err_hint(e, "%s",
			 v->type == DSL_BOOL	  ? "write true or false"
			 : v->type == DSL_STRINGS ? "write a,b,c or a JSON list of strings"
			 : v->type == DSL_JSON	  ? "write JSON; a string in double quotes"
						  : "write a number");
		return r;
	}
	json_put(to, name, value);
	return check_choice(v, value, e);
}

static int apply_preset(const struct dsl_file *f, const char *name, json_t *to, struct err *e)
{
	const struct dsl_preset *p = dsl_find_preset(f, name);

	if (!p) {
		int r = err_set(e, ERR_USAGE, EINVAL, "preset %.80s: the workflow declares no such preset", name);
		err_hint(e, "%s%s",
			 f->n_presets ? "one of its presets is " : "the file has no presets: leave out --preset",
			 f->n_presets ? f->presets[0]->name.s : "");
		return r;
	}
	for (size_t i = 0; i < p->n; i++)
		json_put(to, p->values[i].key.s, json_incref(p->values[i].value.v));
	return 0;
}

static int check_all_set(const struct dsl_file *f, const json_t *values, struct err *e)
{
	for (size_t i = 0; i < f->n_vars; i++) {
		if (json_object_get(values, f->vars[i]->name.s))
			continue;
		int r = err_set(e, ERR_USAGE, EINVAL, "variable %s: it has no default and no value was given",
				f->vars[i]->name.s);
		err_hint(e, "give it with --var %s=VALUE", f->vars[i]->name.s);
		return r;
	}
	return 0;
}

int vars_resolve(const struct engine_params *p, json_t **ret, struct err *e)
{
	auto_json values = json_object();
	int r = 0;

	for (size_t i = 0; i < p->file->n_vars; i++) {
		const struct dsl_var *v = p->file->vars[i];
		if (v->value.v)
			json_put(values, v->name.s, json_incref(v->value.v));
	}
	if (p->preset)
		r = apply_preset(p->file, p->preset, values, e);
	for (size_t i = 0; r == 0 && p->vars && p->vars[i]; i++)
		r = set_from_text(p->file, p->vars[i], values, e);
	if (r == 0)
		r = check_all_set(p->file, values, e);
	if (r == 0)
		*ret = TAKE_PTR(values);
	return r;
}
