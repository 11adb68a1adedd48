/* A server's life: idle, starting, ready, closing, and idle again.
 *
 * It starts when somebody wants it. Whoever waits while it starts shares that start's outcome; whoever comes while an
 * old link is being closed waits for the next start. When it goes down, calls under way are told that they were lost;
 * what to do about that is the caller's. A list of tools that the server said is stale is asked for again before the
 * next one who wants the server is told that it is ready. */
#include "server_priv.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <driver/session.h>

#include <errno.h>
#include <stdlib.h>

static void start(struct mcp_server *s);

/* Tells those who waited when this began; e NULL: it is ready. */
static void tell_waits(struct mcp_server *s, const struct err *e)
{
	struct server_wait *list = TAKE_PTR(s->waits), *in_order = NULL;

	while (list) {
		struct server_wait *w = list;
		list = w->next;
		w->next = in_order;
		in_order = w;
	}
	/* One who is told may unwant another: the list stays findable. */
	s->telling = in_order;
	while (s->telling) {
		struct server_wait *w = s->telling;
		s->telling = w->next;
		w->cb(w->arg, e);
	}
}

static void emit(struct mcp_server *s, const char *type, json_t *data)
{
	if (s->p.on_event)
		s->p.on_event(s->p.arg, type, data);
	else
		json_decref(data);
}

static const char *where(const struct mcp_server *s)
{
	return s->p.spec->transport != DSL_STDIO ? "remote" : s->p.session ? "sandbox" : "host";
}

static json_t *about(const struct mcp_server *s)
{
	static const char *const transports[] = {[DSL_STDIO] = "stdio", [DSL_HTTP] = "http", [DSL_SSE] = "sse"};
	json_t *d = json_object();

	json_put_str(d, "server", s->p.spec->name);
	json_put_str(d, "transport", transports[s->p.spec->transport]);
	json_put_str(d, "where", where(s));
	return d;
}

static void emit_failed(struct mcp_server *s, const struct err *e)
{
	json_t *d = about(s);

	json_put_str(d, "error", e->msg);
	json_put_str(d, "hint", e->hint[0] ? e->hint : NULL);
	emit(s, "mcp_server_failed", d);
}

static void emit_started(struct mcp_server *s)
{
	json_t *d = about(s);

	json_put_str(d, "name", s->title);
	json_put_str(d, "protocol", s->version);
	json_put_int(d, "tools", (long long)json_array_size(s->tools));
	emit(s, "mcp_server_started", d);
}

static void lose_calls(struct mcp_server *s, const struct err *e)
{
	/* One by one: an answer may abandon the next call. */
	while (s->calls) {
		struct server_call *c = s->calls;
		s->calls = c->next;
		c->on_answer(c->arg, NULL, e, true);
	}
}

static void forget_talk(struct mcp_server *s)
{
	s->step_id = 0;
	json_decref(TAKE_PTR(s->tools));
	json_decref(TAKE_PTR(s->listing));
	free(TAKE_PTR(s->cursor));
	s->stale = false;
	s->told = false;
}

void server_down(struct mcp_server *s, const struct err *e)
{
	if (s->state != SERVER_STARTING && s->state != SERVER_READY)
		return;
	struct err why = *e;
	bool started = s->told;
	s->state = SERVER_CLOSING;
	(void)uv_timer_stop(&s->timer);
	forget_talk(s);
	link_close(s->link);
	if (!s->stopping)
		emit_failed(s, &why);
	if (!started)
		tell_waits(s, &why);
	lose_calls(s, &why);
}

void server_ready(struct mcp_server *s)
{
	s->state = SERVER_READY;
	(void)uv_timer_stop(&s->timer);
	if (!s->told)
		emit_started(s);
	s->told = true;
	tell_waits(s, NULL);
}

static void on_message(void *arg, const char *text, size_t len)
{
	talk_message(arg, text, len);
}

static bool is_waiting(void *arg, int64_t id)
{
	return talk_is_waiting(arg, id);
}

static void on_failed(void *arg, int64_t id, const struct err *e)
{
	talk_failed(arg, id, e);
}

static void on_down(void *arg, const struct err *e)
{
	server_down(arg, e);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct mcp_server *s = h->data;

	if (--s->handles == 0)
		s->stopped(s->stopped_arg);
}

static void close_handles(struct mcp_server *s)
{
	uv_close((uv_handle_t *)&s->timer, on_handle_closed);
	uv_close((uv_handle_t *)&s->idle, on_handle_closed);
}

static void on_closed(void *arg)
{
	struct mcp_server *s = arg;

	s->link = NULL;
	mcp_spec_done(&s->spec);
	s->state = SERVER_IDLE;
	if (s->stopping)
		close_handles(s);
	else if (s->waits)
		start(s);
}

static void on_timeout(uv_timer_t *timer)
{
	struct mcp_server *s = timer->data;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_NODE, ETIMEDOUT, "MCP server %s: it did not get ready within %u s", s->p.spec->name,
		      s->p.start_timeout_ms / 1000);
	err_hint(&e, "run its command by hand; a program that is fetched first (npx) may need to be installed before");
	server_down(s, &e);
}

static int open_link(struct mcp_server *s, struct err *e)
{
	const struct link_params lp = {
		.loop = s->p.loop,
		.spec = &s->spec,
		.session = s->p.session,
		.env = &s->env,
		.cwd = s->p.cwd,
		.http = s->p.http,
		.events = {.on_message = on_message,
			   .on_failed = on_failed,
			   .is_waiting = is_waiting,
			   .on_down = on_down,
			   .on_closed = on_closed,
			   .arg = s},
	};

	if (s->spec.transport == DSL_STDIO)
		return link_stdio_new(&lp, &s->link, e);
	return s->spec.transport == DSL_HTTP ? link_http_new(&lp, &s->link, e) : link_sse_new(&lp, &s->link, e);
}

/* From the loop, or from within a link's last event. */
static void start(struct mcp_server *s)
{
	struct err e = ERR_INIT;
	int r = mcp_spec_settle(s->p.spec, &s->env, &s->spec, &e);

	if (r == 0) {
		r = open_link(s, &e);
		if (r < 0)
			mcp_spec_done(&s->spec);
	}
	if (r < 0) {
		emit_failed(s, &e);
		tell_waits(s, &e);
		return;
	}
	s->state = SERVER_STARTING;
	(void)uv_timer_start(&s->timer, on_timeout, s->p.start_timeout_ms, 0);
	if (talk_begin(s, &e) < 0)
		server_down(s, &e);
}

/* What was wanted, decided from the loop. */
static void on_idle(uv_idle_t *idle)
{
	struct mcp_server *s = idle->data;
	struct err e = ERR_INIT;

	uv_idle_stop(idle);
	if (!s->waits)
		return;
	if (s->state == SERVER_IDLE) {
		start(s);
	} else if (s->state == SERVER_READY && !s->stale) {
		tell_waits(s, NULL);
	} else if (s->state == SERVER_READY) {
		s->state = SERVER_STARTING;
		(void)uv_timer_start(&s->timer, on_timeout, s->p.start_timeout_ms, 0);
		if (talk_list(s, &e) < 0)
			server_down(s, &e);
	}
}

void server_want(struct mcp_server *s, struct server_wait *w)
{
	w->next = s->waits;
	s->waits = w;
	(void)uv_idle_start(&s->idle, on_idle);
}

static bool remove_wait(struct server_wait **p, const struct server_wait *w)
{
	while (*p && *p != w)
		p = &(*p)->next;
	if (!*p)
		return false;
	*p = w->next;
	return true;
}

void server_unwant(struct mcp_server *s, struct server_wait *w)
{
	if (!remove_wait(&s->waits, w))
		(void)remove_wait(&s->telling, w);
}

json_t *server_tools(const struct mcp_server *s)
{
	return s->tools;
}

const json_t *server_tool(const struct mcp_server *s, const char *name)
{
	size_t i;
	json_t *t;

	json_array_foreach(s->tools, i, t) if (str_eq(json_get_str(t, "name"), name)) return t;
	return NULL;
}

bool server_is(const struct mcp_server *s, const struct mcp_spec *spec, const struct session *session)
{
	return s->p.spec == spec && s->p.session == session;
}

const struct mcp_spec *server_spec(const struct mcp_server *s)
{
	return s->p.spec;
}

struct mcp_server *server_new(const struct server_params *p)
{
	struct mcp_server *s = xcalloc(1, sizeof *s);

	s->p = *p;
	for (size_t i = 0; i < p->env->n; i++)
		strv_add(&s->env, p->env->v[i]);
	(void)uv_timer_init(p->loop, &s->timer);
	(void)uv_idle_init(p->loop, &s->idle);
	s->timer.data = s->idle.data = s;
	s->handles = 2;
	return s;
}

void server_stop(struct mcp_server *s, void (*done)(void *arg), void *arg)
{
	struct err e = ERR_INIT;

	s->stopping = true;
	s->stopped = done;
	s->stopped_arg = arg;
	(void)err_set(&e, ERR_CANCELLED, ECANCELED, "MCP server %s: the run is ending", s->p.spec->name);
	if (s->state == SERVER_IDLE)
		close_handles(s);
	else
		server_down(s, &e);
}

void server_free(struct mcp_server *s)
{
	strv_done(&s->env);
	free(s->title);
	free(s);
}
