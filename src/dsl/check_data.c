/* What a run is given: attachments (C051, C052) and presets (C070, C071). */
#include "checks.h"

#include <base/err.h>
#include <base/mem.h>
#include <dsl/vars.h>

#include <string.h>

static bool is_mime_part(const char *s, size_t len)
{
	if (len == 1 && *s == '*')
		return true;
	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= 'A' && s[i] <= 'Z') && !(s[i] >= '0' && s[i] <= '9') &&
		    !strchr("!#$&-^_.+", s[i]))
			return false;
	return len > 0;
}

static bool is_mime(const char *s)
{
	const char *slash = strchr(s, '/');

	return slash && *s != '*' && is_mime_part(s, (size_t)(slash - s)) && is_mime_part(slash + 1, strlen(slash + 1));
}

static void check_attachment(struct check *c, const struct dsl_attachment *a)
{
	const struct dsl_var *var = dsl_find_var(c->f, a->name.s);

	if (var)
		diag_error(c->f, "C051", a->name.pos, "rename one of them",
			   "\"%s\" is the name of an attachment and of a var (line %u)", a->name.s, var->name.pos.line);
	for (size_t i = 0; i < a->accept_mime.n; i++)
		if (!is_mime(a->accept_mime.v[i].s))
			diag_error(c->f, "C052", a->accept_mime.v[i].pos,
				   "write type/subtype, such as image/png or text/*", "\"%.100s\" is no MIME type",
				   a->accept_mime.v[i].s);
}

static void check_preset_value(struct check *c, const struct dsl_preset *p, struct dsl_setting *s)
{
	const struct dsl_var *var = dsl_find_var(c->f, s->key.s);
	struct err e = ERR_INIT;
	json_t *typed;

	if (!var) {
		diag_error(c->f, "C070", s->key.pos,
			   hint_nearest_name(c->f, s->key.s, &c->f->state->vars, "declare it under vars:"),
			   "the preset \"%s\" sets the unknown var \"%s\"", p->name.s, s->key.s);
		return;
	}
	if (!s->value.v || var->type == DSL_TYPE_NONE)
		return;
	bool loose = var->type == DSL_JSON || var->type == DSL_STRINGS;
	if (loose && json_is_string(s->value.v) &&
	    dsl_type_parse(var->type, json_string_value(s->value.v), json_string_length(s->value.v), &typed, &e) == 0 &&
	    json_array_append_new(c->f->state->literals, typed) == 0)
		s->value.v = typed;
	if (dsl_var_check(var, s->value.v, &e) < 0)
		diag_error(c->f, "C071", s->value.pos, "write a value of that type",
			   "the preset \"%s\" sets \"%s\": %s", p->name.s, s->key.s, e.msg);
}

void check_data(struct check *c)
{
	for (size_t i = 0; i < c->f->n_attachments; i++)
		check_attachment(c, c->f->attachments[i]);
	for (size_t i = 0; i < c->f->n_presets; i++)
		for (size_t k = 0; k < c->f->presets[i]->n; k++)
			check_preset_value(c, c->f->presets[i], &c->f->presets[i]->values[k]);
}
