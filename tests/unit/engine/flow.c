#include "flow.h"

#include "../store/tmp.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/check.h>
#include <dsl/diag.h>
#include <dsl/parse.h>
#include <signal.h>
#include <stdio.h>
#include <store/read.h>
#include <unistd.h>

static const char *const host_env[] = {
	"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/u", "USER=u", "SECRET=leak", "TZ=Europe/Paris", NULL};

struct live {
	struct flow *f;
	const struct flow_opts *o;
	struct engine *en;
	uv_timer_t timer;
	bool timer_open;
	unsigned interrupts;
	uv_timer_t asking;
	char *question;
};

static void on_asking(uv_timer_t *t)
{
	struct live *l = t->data;
	size_t at = l->f->asked < l->o->n_answers ? l->f->asked : l->o->n_answers - 1;

	l->f->asked++;
	if (engine_answer(l->en, l->question, l->o->answers[at], &l->f->answer_err) < 0)
		uv_timer_start(t, on_asking, 1, 0);
}

static void ask(void *arg, const struct engine_question *q)
{
	struct live *l = arg;

	free(l->question);
	l->question = xstrdup(q->id);
	l->asking.data = l;
	uv_timer_start(&l->asking, on_asking, 10, 0);
}

static void on_second(uv_timer_t *t)
{
	struct live *l = t->data;

	engine_interrupt(l->en, l->o->signal);
	l->timer_open = false;
	uv_close((uv_handle_t *)t, NULL);
}

static void on_event(void *arg, const struct store_event *ev)
{
	struct live *l = arg;
	const struct flow_opts *o = l->o;
	json_t *copy = json_parse(ev->line, ev->len, NULL);

	if (!json_equal(copy, ev->json))
		abort();
	(void)json_array_append_new(l->f->events, copy);
	if (l->interrupts || !o->interrupts || !str_eq(json_get_str(copy, "type"), o->interrupt_at) ||
	    (o->interrupt_node && !str_eq(json_get_str(copy, "node_id"), o->interrupt_node)))
		return;
	l->interrupts = 1;
	engine_interrupt(l->en, o->signal);
	if (o->interrupts > 1) {
		l->timer.data = l;
		l->timer_open = true;
		uv_timer_start(&l->timer, on_second, o->between_ms, 0);
	}
}

static void on_done(void *arg, const struct engine_result *r)
{
	struct live *l = arg;

	l->f->ends++;
	l->f->result = *r;
	l->f->result.failed_node = NULL;
	if (l->timer_open)
		uv_close((uv_handle_t *)&l->timer, NULL);
	if (l->o->n_answers)
		uv_close((uv_handle_t *)&l->asking, NULL);
}

static struct dsl_file *parse(const char *text)
{
	struct dsl_file *file = NULL;
	int r = dsl_parse("test.bot", text, strlen(text), NULL, &file);

	if (dsl_check(file, NULL) < 0 || r < 0) {
		auto_buf b = BUF_INIT(1 << 16);
		(void)dsl_diags_format(&b, file);
		fprintf(stderr, "%s\n", buf_str(&b));
		abort();
	}
	return file;
}

static void run_engine(struct live *l, uv_loop_t *loop)
{
	struct flow *f = l->f;

	/* The timer's handle must not be closed by anyone but us, and not at all when it was never needed. */
	if (l->o->interrupts > 1)
		uv_timer_init(loop, &l->timer);
	if (l->o->n_answers)
		uv_timer_init(loop, &l->asking);
	f->new_result = engine_run(l->en, on_done, l, &f->new_err);
	if (f->new_result < 0)
		return;
	if (f->ends)
		abort(); /* done comes from the loop */
	uv_run(loop, UV_RUN_DEFAULT);
	f->record = store_read_run(f->top, engine_run_id(l->en), NULL);
}

/* What the nodes in o->own run in; both are the caller's to free. */
static struct engine_sandbox *own_sandboxes(const struct dsl_file *file, const struct flow_opts *o,
					    struct sandbox_spec **ret_specs)
{
	struct engine_sandbox *v = xcalloc(file->n_nodes + 1, sizeof *v);
	struct sandbox_spec *specs = xcalloc(file->n_nodes + 1, sizeof *specs);

	for (const char *const *own = o->own; own && *own; own++) {
		const char *eq = strchr(*own, '=');
		auto_free char *name = xstrndup(*own, (size_t)(eq - *own));
		size_t at = dsl_find_node(file, name)->index;
		specs[at].mode = SANDBOX_INLINE;
		strv_set_env(&specs[at].env, "OWN", eq + 1);
		v[at].spec = &specs[at];
	}
	*ret_specs = specs;
	return v;
}

void flow_run(struct flow *f, const char *text, const struct flow_opts *o)
{
	*f = (struct flow){.top = tmp_dir(), .events = json_array()};
	struct live l = {.f = f, .o = o};
	struct dsl_file *file = parse(text);
	struct sandbox_spec spec = {.mode = o->mode == SANDBOX_INHERIT ? SANDBOX_NONE : o->mode};
	uv_loop_t loop;
	uint64_t begin = clock_ms();

	struct sandbox_spec *specs;
	struct engine_sandbox *own = own_sandboxes(file, o, &specs);
	strv_add(&spec.env, "FROM_SPEC=yes");
	if (uv_loop_init(&loop) < 0)
		abort();
	const struct engine_params p = {
		.loop = &loop,
		.file = file,
		.file_path = "test.bot",
		.source = text,
		.source_len = strlen(text),
		.sandbox = &spec,
		.node_sandboxes = own,
		.workspace = o->workspace ? o->workspace : f->top,
		.store_dir = f->top,
		.run_id = o->run_id,
		.run_name = "test",
		.vars = o->vars,
		.preset = o->preset,
		.attachments = o->attachments,
		.host_env = host_env,
		.timeout_ms = o->timeout_ms,
		.ask = o->n_answers ? ask : NULL,
		.on_event = on_event,
		.arg = &l,
	};
	f->new_result = engine_new(&p, &l.en, &f->new_err);
	if (f->new_result == 0)
		run_engine(&l, &loop);
	f->took_ms = clock_ms() - begin;
	engine_free(l.en);
	free(l.question);
	for (size_t i = 0; i < file->n_nodes; i++)
		sandbox_spec_done(&specs[i]);
	free(specs);
	free(own);
	dsl_file_free(file);
	strv_done(&spec.env);
	/* Nothing of the run may be left in it. */
	if (uv_loop_close(&loop) < 0)
		abort();
}

void flow_done(struct flow *f)
{
	json_decref(f->events);
	json_decref(f->record);
	tmp_remove(f->top);
}

char *flow_trace(const struct flow *f)
{
	auto_buf b = BUF_INIT(1 << 20);
	size_t i;
	json_t *ev;

	json_array_foreach(f->events, i, ev)
	{
		const char *node = json_get_str(ev, "node_id");
		(void)buf_printf(&b, "%s%s%s%s", i ? " " : "", json_get_str(ev, "type"), node ? ":" : "",
				 node ? node : "");
	}
	return buf_steal(&b);
}

char *flow_nodes(const struct flow *f, const char *type)
{
	auto_buf b = BUF_INIT(1 << 20);
	size_t i;
	json_t *ev;

	json_array_foreach(f->events, i, ev)
	{
		if (!str_eq(json_get_str(ev, "type"), type))
			continue;
		(void)buf_printf(&b, "%s%s", b.len ? " " : "", json_get_str(ev, "node_id"));
	}
	return buf_steal(&b);
}

json_t *flow_event(const struct flow *f, const char *type, const char *node)
{
	size_t i;
	json_t *ev;

	json_array_foreach(f->events, i, ev) if (str_eq(json_get_str(ev, "type"), type) &&
						 (!node || str_eq(json_get_str(ev, "node_id"), node))) return ev;
	return NULL;
}

unsigned flow_count(const struct flow *f, const char *type)
{
	unsigned n = 0;
	size_t i;
	json_t *ev;

	json_array_foreach(f->events, i, ev) n += str_eq(json_get_str(ev, "type"), type);
	return n;
}

json_t *flow_output(const struct flow *f, const char *node)
{
	json_t *found = NULL;
	size_t i;
	json_t *ev;

	json_array_foreach(f->events, i, ev) if (str_eq(json_get_str(ev, "type"), "node_finished") &&
						 str_eq(json_get_str(ev, "node_id"), node)) found =
		json_object_get(json_object_get(ev, "data"), "output");
	return found;
}
