/* A question as text, and lines as answers. Nothing here reads or writes a terminal.
 *
 * The fields are asked for one after the other, each with its type. As many as the node needs must be answered; an
 * empty line leaves a field out as long as that many can still be reached, and is asked about again otherwise, because
 * somebody who only pressed Enter has not approved anything. Empty text on purpose is two quotes. */
#include "question.h"

#include <base/buf.h>
#include <base/mem.h>
#include <dsl/ast.h>
#include <engine/engine.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct question_field {
	char *name;
	enum dsl_type type;
	struct strv choices;
};

static void add_field(struct question *q, const char *name, enum dsl_type type, const struct dsl_list *choices)
{
	struct question_field *f = &q->fields[q->n++];

	*f = (struct question_field){.name = xstrdup(name), .type = type};
	for (size_t i = 0; choices && i < choices->n; i++)
		strv_add(&f->choices, choices->v[i].s);
}

struct question *question_new(const struct engine_question *from)
{
	const struct dsl_schema *s = from->schema;
	struct question *q = xcalloc(1, sizeof *q);

	*q = (struct question){
		.id = xstrdup(from->id),
		.node = xstrdup(from->node_id),
		.instructions = from->instructions ? xstrdup(from->instructions) : NULL,
		.fields = xcalloc(s ? s->n + 1 : 1, sizeof *q->fields),
		.need = from->min_answers,
	};
	for (size_t i = 0; s && i < s->n; i++)
		add_field(q, s->fields[i].name.s, s->fields[i].type, &s->fields[i].choices);
	if (!s)
		add_field(q, "answer", DSL_STRING, NULL);
	return q;
}

void question_free(struct question *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->n; i++) {
		free(q->fields[i].name);
		strv_done(&q->fields[i].choices);
	}
	free(q->fields);
	free(q->id);
	free(q->node);
	free(q->instructions);
	strv_done(&q->answers);
	free(q);
}

static bool may_leave_out(const struct question *q)
{
	return q->answers.n + (q->n - q->at - 1) >= q->need;
}

void question_head(const struct question *q, struct buf *to)
{
	(void)buf_printf(to, "\nnode %s asks", q->node);
	if (q->need < q->n)
		(void)buf_printf(to, " (%zu of %zu answers are needed)", q->need, q->n);
	(void)buf_puts(to, ":\n");
	for (const char *line = q->instructions; line && *line;) {
		size_t len = strcspn(line, "\n");
		(void)buf_printf(to, "%s%.*s\n", len ? "  " : "", (int)MIN(len, (size_t)INT32_MAX), line);
		line += len + (line[len] == '\n');
	}
	(void)buf_puts(to, "  (Ctrl-D: answer later, the run pauses; Ctrl-C: cancel the run)\n");
}

static const char *type_text(enum dsl_type t)
{
	static const char *const texts[] = {
		[DSL_TYPE_NONE] = "JSON",	[DSL_STRING] = "text",	[DSL_BOOL] = "y or n",
		[DSL_INT] = "whole number",	[DSL_FLOAT] = "number", [DSL_JSON] = "JSON",
		[DSL_STRINGS] = "texts: a,b,c",
	};

	return texts[t];
}

void question_prompt(const struct question *q, struct buf *to)
{
	const struct question_field *f = &q->fields[q->at];

	(void)buf_printf(to, "%s [", f->name);
	for (size_t i = 0; i < f->choices.n; i++)
		(void)buf_printf(to, "%s%s", i ? ", " : "", f->choices.v[i]);
	(void)buf_printf(to, "%s%s]: ", f->choices.n ? "" : type_text(f->type),
			 may_leave_out(q) ? "; empty: left out" : "");
}

static bool is_text(const struct question_field *f)
{
	return f->type == DSL_STRING && f->choices.n == 0;
}

/* What people write for true and false. */
static const char *as_bool(const char *word)
{
	static const char *const words[][2] = {{"y", "true"},  {"yes", "true"}, {"true", "true"},
					       {"n", "false"}, {"no", "false"}, {"false", "false"}};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(words[i][0], word) == 0)
			return words[i][1];
	return NULL;
}

char *question_line(const struct question *q, const char *line, size_t len, const char **ret_why)
{
	const struct question_field *f = &q->fields[q->at];

	*ret_why = NULL;
	if (memchr(line, '\0', len)) {
		*ret_why = "a NUL cannot be part of an answer";
		return NULL;
	}
	while (len && (line[len - 1] == '\r' || line[len - 1] == ' '))
		len--;
	while (len && *line == ' ') {
		line++;
		len--;
	}
	if (len == 0) {
		if (!may_leave_out(q))
			*ret_why = is_text(f) ? "an answer is needed; \"\" is an empty one" : "an answer is needed";
		return NULL;
	}
	if (is_text(f) && len == 2 && strncmp(line, "\"\"", 2) == 0)
		return xasprintf("%s=", f->name);
	char *value = xstrndup(line, len);
	const char *truth = f->type == DSL_BOOL ? as_bool(value) : value;
	char *answer = truth ? xasprintf("%s=%s", f->name, truth) : NULL;
	if (!truth)
		*ret_why = "write y or n";
	free(value);
	return answer;
}

bool question_take(struct question *q, char *answer)
{
	if (answer)
		strv_take(&q->answers, answer);
	return ++q->at < q->n;
}

void question_again(struct question *q)
{
	strv_done(&q->answers);
	q->at = 0;
}
