/* Nodes that a person answers.
 *
 * Such a node asks once: the question is written to interactions/, and its id stays with the branch through checkpoints
 * and resumes. Whoever watches the run may answer at once (the ask callback); other branches go on meanwhile. When
 * nothing else is left to run and nobody is being asked, the run pauses, and `resume` brings the answers.
 *
 * An answer is "field=value", read by the type that the output schema gives the field. So many fields must be answered
 * as min_answers says, all of them when it says nothing; the others are null. Without a schema every answer is text.
 *
 * An agent may ask too, in the middle of its work: it then ends for the moment, and its node is started again with the
 * answer, which stays with the branch until the node has really ended. */
#include "branch.h"
#include <store/run_files.h>
#include "value.h"
#include "kinds.h"
#include "values.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/template.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { INSTRUCTIONS_MAX = 4 * 1024 * 1024, QUESTION_MAX = 32 * 1024 };

bool human_is_asked(const struct dsl_file *f, const struct dsl_node *n)
{
	int how = n->interaction.v ? n->interaction.v : f->workflow->interaction.v;

	return n->kind == DSL_HUMAN && (how == DSL_INTERACTION_UNSET || how == DSL_INTERACT_HUMAN);
}

static const struct dsl_schema *schema_of(const struct engine *en, const struct dsl_node *n)
{
	/* What an agent asks has nothing to do with what it gives in the end. */
	return n->output.s && human_is_asked(en->p.file, n) ? dsl_find_schema(en->p.file, n->output.s) : NULL;
}

static size_t needed(const struct engine *en, const struct dsl_node *n)
{
	const struct dsl_schema *s = schema_of(en, n);
	size_t all = s ? s->n : 1;

	return n->min_answers.set ? MIN((size_t)MAX(n->min_answers.v, 0), all) : all;
}

static int instructions_of(const struct engine *en, const struct branch *b, struct buf *to, struct err *e)
{
	const char *name = b->node->instructions.s;
	const struct dsl_prompt *p = name ? dsl_find_prompt(en->p.file, name) : NULL;
	struct node_scope s;

	if (!p || !p->text.t)
		return 0;
	scope_init(&s, en, b->input, NULL);
	int r = template_render(p->text.t, &s.scope, to, e);
	return r < 0 ? err_wrap(e, r, "node %s: its instructions", b->node->name.s) : 0;
}

static json_t *fields_of(const struct dsl_schema *s)
{
	json_t *list = json_array();

	for (size_t i = 0; s && i < s->n; i++) {
		json_t *f = json_object();
		json_put_str(f, "name", s->fields[i].name.s);
		json_put_str(f, "type", value_type_name(s->fields[i].type));
		if (s->fields[i].choices.n) {
			json_t *choices = json_array();
			for (size_t k = 0; k < s->fields[i].choices.n; k++)
				(void)json_array_append_new(choices, json_string(s->fields[i].choices.v[k].s));
			json_put(f, "choices", choices);
		}
		(void)json_array_append_new(list, f);
	}
	return list;
}

static json_t *question(const struct engine *en, const struct branch *b, const char *instructions)
{
	json_t *q = json_object();

	json_put_str(q, "interaction_id", b->interaction);
	json_put_str(q, "instructions", *instructions ? instructions : NULL);
	json_put(q, "fields", fields_of(schema_of(en, b->node)));
	json_put_int(q, "min_answers", (long long)needed(en, b->node));
	return q;
}

/* What stands in interactions/. */
static int write_interaction(struct engine *en, const struct branch *b, json_t *q, json_t *answers)
{
	char now[TIMESTAMP_SIZE];
	struct err e = ERR_INIT;

	clock_format(now, clock_wall_ms());
	json_put_str(q, "node_id", b->node->name.s);
	json_put_str(q, "branch_id", b->id);
	json_put_str(q, "status", answers ? "answered" : "pending");
	json_put_str(q, answers ? "answered_at" : "created_at", now);
	if (answers)
		json_put(q, "answers", json_incref(answers));
	if (store_run_interaction(en->run, b->interaction, q, &e) == 0)
		return 0;
	err_hint(&e, "free some space on the file system of the store");
	engine_end(en, RUN_FAILED_RESUMABLE, &e, b->node->name.s);
	return -EIO;
}

static void ask(struct engine *en, struct branch *b, const char *instructions)
{
	const struct engine_question q = {
		.id = b->interaction,
		.node_id = b->node->name.s,
		.instructions = *instructions ? instructions : NULL,
		.schema = schema_of(en, b->node),
		.min_answers = needed(en, b->node),
	};

	b->state = BRANCH_WAITING;
	b->asked = en->p.ask != NULL;
	if (en->p.ask)
		en->p.ask(en->p.arg, &q);
}

/* A new question: into interactions/, into the events, to whoever is there. */
static void ask_first(struct engine *en, struct branch *b, const char *instructions)
{
	b->interaction = xasprintf("%s-%" PRIu64, b->node->name.s, store_run_seq(en->run));
	auto_json q = question(en, b, instructions);
	auto_json file = json_copy(q);
	if (write_interaction(en, b, file, NULL) < 0)
		return;
	engine_emit(en, "human_input_requested", b->id, b->node->name.s, json_incref(q));
	en->unsaved = en->save_now = true;
	ask(en, b, instructions);
}

void human_ask_for(struct engine *en, struct branch *b, const json_t *asked)
{
	auto_buf text = BUF_INIT(QUESTION_MAX);
	const json_t *options = json_object_get(asked, "options"), *option;
	const char *words = json_get_str(asked, "question");
	size_t i;

	if (en->phase != PHASE_RUNNING)
		return;
	words = words ? words : "";
	(void)buf_add(&text, words, strnlen(words, QUESTION_MAX / 2));
	json_array_foreach(options, i, option) if (json_is_string(option))(void)
		buf_printf(&text, "\n- %.500s", json_string_value(option));
	/* What was answered before is part of its conversation by now. */
	json_decref(TAKE_PTR(b->answers));
	ask_first(en, b, buf_str(&text));
}

bool human_resume_for(struct engine *en, struct branch *b)
{
	if (!b->interaction)
		return false;
	if (b->answers) {
		human_finish(en, b);
		return true;
	}
	auto_free char *ref = xasprintf("interactions/%s.json", b->interaction);
	json_t *q = NULL;
	const char *words = store_run_load(en->run, ref, &q, NULL) == 0 ? json_get_str(q, "instructions") : NULL;
	ask(en, b, words ? words : "");
	json_decref(q);
	return true;
}

int human_start(struct engine *en, struct branch *b, struct err *e)
{
	auto_buf instructions = BUF_INIT(INSTRUCTIONS_MAX);
	int r = instructions_of(en, b, &instructions, e);

	if (r < 0)
		return r;
	if (b->answers) {
		human_finish(en, b);
		return 0;
	}
	if (b->interaction)
		ask(en, b, buf_str(&instructions));
	else
		ask_first(en, b, buf_str(&instructions));
	return 0;
}

void human_finish(struct engine *en, struct branch *b)
{
	auto_json answers = json_incref(b->answers);
	auto_json q = question(en, b, "");
	const struct node_result r = {.output = answers, .tokens = -1, .cost_usd = -1};
	json_t *d = json_object();

	if (write_interaction(en, b, q, answers) < 0) {
		json_decref(d);
		return;
	}
	json_put_str(d, "interaction_id", b->interaction);
	json_put(d, "answers", json_incref(answers));
	engine_emit(en, "human_answers_recorded", b->id, b->node->name.s, d);
	free(TAKE_PTR(b->interaction));
	b->asked = false;
	if (!human_is_asked(en->p.file, b->node)) {
		b->state = BRANCH_READY;
		en->unsaved = en->save_now = true;
		return;
	}
	json_decref(TAKE_PTR(b->answers));
	b->state = BRANCH_ACTIVE;
	step_finished(en, b, &r, 0, NULL);
}

static int bad_answer(struct err *e, const struct dsl_node *n, const char *name, const char *why)
{
	return err_set(e, ERR_USAGE, EINVAL, "answer %.80s of node %s: %s", name, n->name.s, why);
}

static int unknown_field(const struct dsl_schema *s, const struct dsl_node *n, const char *name, struct err *e)
{
	auto_free const char **names = xcalloc(s->n + 1, sizeof *names);

	for (size_t i = 0; i < s->n; i++)
		names[i] = s->fields[i].name.s;
	int r = bad_answer(e, n, name, "it asks for no such field");
	const char *near = str_nearest(name, names, s->n);
	err_hint(e, "%s %s", near ? "did you mean" : "one of its fields is", near ? near : s->fields[0].name.s);
	return r;
}

static int typed_answer(const struct dsl_schema *s, const struct dsl_node *n, const char *name, const char *text,
			json_t **ret, struct err *e)
{
	const struct dsl_field *f = dsl_schema_field(s, name);

	if (!f)
		return unknown_field(s, n, name, e);
	auto_json v = value_parse(text, f->type);
	if (!v) {
		int r = bad_answer(e, n, name, "it does not fit the field's type");
		err_hint(e, "the field is of type %s", value_type_name(f->type));
		return r;
	}
	if (!value_is_choice(v, &f->choices)) {
		int r = bad_answer(e, n, name, "this value is none of its choices");
		err_hint(e, "one of them is %s", f->choices.v[0].s);
		return r;
	}
	*ret = TAKE_PTR(v);
	return 0;
}

int human_add_answer(const struct engine *en, const struct dsl_node *n, const char *text, json_t *to, struct err *e)
{
	const struct dsl_schema *s = schema_of(en, n);
	const char *eq = strchr(text, '=');
	json_t *v = NULL;

	if (!eq || eq == text) {
		int r = bad_answer(e, n, text, "no field=value");
		err_hint(e, "write --answer %s=VALUE", s && s->n ? s->fields[0].name.s : "answer");
		return r;
	}
	auto_free char *name = xstrndup(text, (size_t)(eq - text));
	if (!s)
		v = json_text(eq + 1, strlen(eq + 1));
	int r = s ? typed_answer(s, n, name, eq + 1, &v, e) : 0;
	if (r == 0)
		json_put(to, name, v);
	return r;
}

int human_check_answers(const struct engine *en, const struct dsl_node *n, json_t *answers, struct err *e)
{
	const struct dsl_schema *s = schema_of(en, n);
	size_t have = json_object_size(answers), need = needed(en, n);
	auto_buf missing = BUF_INIT(400);

	for (size_t i = 0; s && i < s->n; i++) {
		if (json_object_get(answers, s->fields[i].name.s))
			continue;
		if (have >= need)
			json_put(answers, s->fields[i].name.s, json_null());
		else
			(void)buf_printf(&missing, " %s", s->fields[i].name.s);
	}
	if (have >= need)
		return 0;
	int r = err_set(e, ERR_USAGE, EINVAL, "node %s: %zu of %zu answers are given%s%s", n->name.s, have, need,
			missing.len ? "; missing:" : "", buf_str(&missing));
	err_hint(e, "give each with --answer FIELD=VALUE");
	return r;
}

static struct branch *find(const struct engine *en, const char *id)
{
	for (struct branch *b = en->branches; b; b = b->next)
		if (b->interaction && str_eq(b->interaction, id))
			return b;
	return NULL;
}

int engine_check_answer(const struct engine *en, const char *id, const char *answer, struct err *e)
{
	const struct branch *b = find(en, id);
	auto_json to = json_object();

	if (!b || en->phase != PHASE_RUNNING)
		return err_set(e, ERR_USAGE, ENOENT, "answer %s: the run does not wait for it any more", id);
	return human_add_answer(en, b->node, answer, to, e);
}

int engine_answer(struct engine *en, const char *id, const char *const *answers, struct err *e)
{
	struct branch *b = find(en, id);

	if (!b || en->phase != PHASE_RUNNING)
		return err_set(e, ERR_USAGE, ENOENT, "answer %s: the run does not wait for it any more", id);
	if (answers) {
		auto_json given = json_object();
		int r = 0;
		for (size_t i = 0; r == 0 && answers[i]; i++)
			r = human_add_answer(en, b->node, answers[i], given, e);
		if (r == 0)
			r = human_check_answers(en, b->node, given, e);
		if (r < 0)
			return r;
		b->answers = TAKE_PTR(given);
		human_finish(en, b);
	} else {
		b->asked = false;
	}
	engine_wake(en);
	return 0;
}

bool human_pause(struct engine *en)
{
	const struct branch *first = NULL;
	struct err e = ERR_INIT;

	for (const struct branch *b = en->branches; b; b = b->next) {
		if (b->state == BRANCH_READY || b->state == BRANCH_ACTIVE || b->asked)
			return false;
		if (!first && b->state == BRANCH_WAITING)
			first = b;
	}
	if (!first)
		return false;
	(void)err_set(&e, ERR_PAUSED, EINPROGRESS, "the run is paused: node %s waits for a person's answer",
		      first->node->name.s);
	err_hint(&e,
		 "`iterion resume --run-id %s --answer FIELD=VALUE` goes on; runs/%s/interactions/%s.json holds the "
		 "question",
		 en->run_id, en->run_id, first->interaction);
	engine_end(en, RUN_PAUSED, &e, NULL);
	return true;
}

json_t *human_waiting(const struct engine *en)
{
	json_t *list = json_array();

	for (const struct branch *b = en->branches; b; b = b->next) {
		if (!b->interaction)
			continue;
		json_t *o = json_object();
		json_put_str(o, "interaction_id", b->interaction);
		json_put_str(o, "node_id", b->node->name.s);
		json_put_str(o, "branch_id", b->id);
		(void)json_array_append_new(list, o);
	}
	return list;
}

/* The waiting branch that an answer is for: NODE.field=value names it, else it is the first. *ret_text: without the
 * node. */
static struct branch *addressee(const struct engine *en, const char *text, const char **ret_text)
{
	size_t len = strcspn(text, ".=");
	struct branch *first = NULL;

	*ret_text = text;
	for (struct branch *b = en->branches; b; b = b->next) {
		if (!b->interaction)
			continue;
		if (text[len] == '.' && strlen(b->node->name.s) == len && strncmp(text, b->node->name.s, len) == 0) {
			*ret_text = text + len + 1;
			return b;
		}
		if (!first)
			first = b;
	}
	return first;
}

int human_take_answers(struct engine *en, struct err *e)
{
	int r = 0;

	for (const char *const *a = en->p.answers; r == 0 && a && *a; a++) {
		const char *text;
		struct branch *b = addressee(en, *a, &text);
		if (!b) {
			r = err_set(e, ERR_USAGE, EINVAL, "answer %.80s: the run does not wait for an answer", *a);
			err_hint(e, "leave out --answer");
			return r;
		}
		if (!b->answers)
			b->answers = json_object();
		r = human_add_answer(en, b->node, text, b->answers, e);
	}
	const struct branch *unanswered = NULL;
	bool any = false;
	for (const struct branch *b = en->branches; r == 0 && b; b = b->next) {
		any |= b->answers != NULL;
		if (b->answers)
			r = human_check_answers(en, b->node, b->answers, e);
		else if (b->interaction)
			unanswered = b;
	}
	if (r == 0 && unanswered && !any && !en->p.ask && str_eq(en->was, run_status_name(RUN_PAUSED))) {
		auto_json none = json_object();
		r = human_check_answers(en, unanswered->node, none, e);
	}
	return r;
}
