/* The texts of an agent: its prompts with the values filled in.
 *
 * What a model knows of itself is put together here: the system prompt, what the settings of its cursors mean, and, for
 * one that may ask a person or answers for one, the prompt about that. */
#include "prompt.h"
#include "branch.h"
#include "values.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/template.h>

#include <errno.h>

enum { TEXT_MAX = 4 * 1024 * 1024 };

static int add(const struct engine *en, const struct branch *b, const struct dsl_text *t, struct buf *to, struct err *e)
{
	struct node_scope s;

	scope_init(&s, en, b->input, NULL);
	s.place = en->nodes[b->node->index].place;
	int r = template_render(t->t, &s.scope, to, e);
	if (r == -ENOBUFS) {
		(void)err_set(e, ERR_NODE, E2BIG, "its text is longer than %d bytes with all values filled in",
			      TEXT_MAX);
		err_hint(e, "pass large values by files in $ITERION_ARTIFACT_FILES_DIR");
	}
	return r < 0 ? err_wrap(e, r, "node %s", b->node->name.s) : 0;
}

int prompt_text(const struct engine *en, const struct branch *b, const struct dsl_text *t, char **ret, struct err *e)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	int r = add(en, b, t, &text, e);

	if (r == 0)
		*ret = buf_steal(&text);
	return r;
}

static const struct dsl_prompt *prompt_of(const struct engine *en, const struct dsl_str *name)
{
	const struct dsl_prompt *p = name->s ? dsl_find_prompt(en->p.file, name->s) : NULL;

	return p && p->text.t ? p : NULL;
}

int prompt_named(const struct engine *en, const struct branch *b, const struct dsl_str *name, char **ret, struct err *e)
{
	const struct dsl_prompt *p = prompt_of(en, name);

	return p ? prompt_text(en, b, &p->text, ret, e) : 0;
}

/* `enabled: false` among the settings switches all of them off. */
static bool are_off(const struct dsl_node *n)
{
	for (size_t i = 0; i < n->n_cursors; i++)
		if (str_eq(n->cursors[i].key.s, "enabled") && json_is_false(n->cursors[i].value.v))
			return true;
	return false;
}

static void add_cursors(const struct engine *en, const struct dsl_node *n, struct buf *to)
{
	for (size_t i = 0; !are_off(n) && i < n->n_cursors; i++) {
		const struct dsl_setting *s = &n->cursors[i];
		const struct dsl_cursor *c = dsl_find_cursor(en->p.file, s->key.s);
		const char *meaning = c ? dsl_cursor_meaning(c, s->value.v) : NULL;
		if (!meaning)
			continue;
		auto_free char *value = json_is_string(s->value.v)
						? xstrdup(json_string_value(s->value.v))
						: json_dumps(s->value.v, JSON_REALS | JSON_ENCODE_ANY);
		const char *what = c->description.s;
		(void)buf_printf(to, "%s%s%s%s%s: %s.%s%s", to->len ? "\n\n" : "", c->name.s, what ? " (" : "",
				 what ? what : "", what ? ")" : "", value, *meaning ? " " : "", meaning);
	}
}

/* Whether a model asks a person at this node, or answers for one. */
static bool has_to_do_with_people(const struct engine *en, const struct dsl_node *n)
{
	int how = n->interaction.v ? n->interaction.v : en->workflow->interaction.v;
	const struct backend_ops *ops = en->nodes[n->index].ops;

	if (n->kind == DSL_HUMAN)
		return true;
	return ops && ops->asks && (how == DSL_INTERACT_HUMAN || how == DSL_INTERACT_LLM_OR_HUMAN);
}

int prompt_system(const struct engine *en, const struct branch *b, char **ret, struct err *e)
{
	const struct dsl_node *n = b->node;
	const struct dsl_prompt *system = prompt_of(en, &n->system), *asking = prompt_of(en, &n->interaction_prompt);
	auto_buf text = BUF_INIT(TEXT_MAX);
	int r = system ? add(en, b, &system->text, &text, e) : 0;

	add_cursors(en, n, &text);
	if (r == 0 && asking && has_to_do_with_people(en, n)) {
		if (text.len)
			(void)buf_puts(&text, "\n\n");
		r = add(en, b, &asking->text, &text, e);
	}
	if (r == 0 && (text.len || system))
		*ret = buf_steal(&text);
	return r;
}
