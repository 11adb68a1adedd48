/* Events as lines that people read.
 *
 * One table row a type: the function that prints it, and whether it is worth a line while a run goes on. An event of
 * an unknown type, or with data of another shape than expected (the file may be from another version, or damaged), is
 * printed as far as it can be read and never trusted: json_get_str and json_integer_value yield NULL and 0. */
#include "event_view.h"
#include "output.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PREVIEW = 72, CLOCK_AT = 11, CLOCK_LENGTH = 12 };

struct shown {
	struct event_view *v;
	const json_t *data;
	const char *type;
	const char *node; /* "" when it has none */
	uint64_t ms;
};

/* n decimal digits; -1 when there is anything else. */
static int digits(const char *s, size_t n)
{
	int v = 0;

	for (; n; n--, s++) {
		if (*s < '0' || *s > '9')
			return -1;
		v = v * 10 + (*s - '0');
	}
	return v;
}

uint64_t event_time_ms(const json_t *ev)
{
	static const char shape[] = "0000-00-00T00:00:00.000Z";
	const char *s = json_get_str(ev, "timestamp");

	if (!s || strlen(s) != strlen(shape))
		return 0;
	for (size_t i = 0; shape[i]; i++)
		if (shape[i] == '0' ? digits(s + i, 1) < 0 : s[i] != shape[i])
			return 0;
	struct tm tm = {
		.tm_year = digits(s, 4) - 1900,
		.tm_mon = digits(s + 5, 2) - 1,
		.tm_mday = digits(s + 8, 2),
		.tm_hour = digits(s + 11, 2),
		.tm_min = digits(s + 14, 2),
		.tm_sec = digits(s + 17, 2),
	};
	time_t t = timegm(&tm);
	return t < 0 ? 0 : (uint64_t)t * 1000 + (uint64_t)digits(s + 20, 3);
}

void duration_text(char ret[DURATION_TEXT_SIZE], uint64_t ms)
{
	if (ms < 1000)
		snprintf(ret, DURATION_TEXT_SIZE, "%llu ms", (unsigned long long)ms);
	else if (ms < 60000)
		snprintf(ret, DURATION_TEXT_SIZE, "%.2f s", (double)ms / 1000);
	else
		snprintf(ret, DURATION_TEXT_SIZE, "%llu min %llu s", (unsigned long long)(ms / 60000),
			 (unsigned long long)(ms / 1000 % 60));
}

bool event_fails_node(const json_t *ev)
{
	const char *type = json_get_str(ev, "type");

	return str_eq(type, "node_error") ||
	       (str_eq(type, "tool_error") && !json_object_get(json_object_get(ev, "data"), "tool"));
}

bool event_ends_run(const char *type)
{
	static const char *const ends[] = {"run_finished", "run_failed", "run_cancelled", "run_paused"};

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_eq(type, ends[i]))
			return true;
	return false;
}

/* A member as text: a string as it is, anything else as JSON. The caller frees. */
static char *member_text(const json_t *object, const char *key)
{
	const json_t *j = json_object_get(object, key);

	if (!j)
		return xstrdup("");
	return json_is_string(j) ? xstrdup(json_string_value(j)) : json_compact(j);
}

static void print_member(const struct shown *s, const char *key, size_t limit)
{
	auto_free char *text = member_text(s->data, key);

	out_value(text, limit);
}

static void print_node(const struct shown *s)
{
	out_printf("node ");
	out_style(STYLE_BOLD);
	out_value(s->node, 0);
	out_style(STYLE_PLAIN);
	out_printf(": ");
}

static char *node_key(const json_t *ev)
{
	const char *node = json_get_str(ev, "node_id"), *branch = json_get_str(ev, "branch_id");

	return xasprintf("%s\n%s", node ? node : "", branch ? branch : "");
}

static void node_begins(struct event_view *v, const json_t *ev, uint64_t ms)
{
	v->open = grow_array(v->open, v->n_open, &v->cap_open, sizeof *v->open);
	v->open[v->n_open].key = node_key(ev);
	v->open[v->n_open].begun_ms = ms;
	v->n_open++;
}

/* When the node that ends now began; 0: unknown. */
static uint64_t node_ends(struct event_view *v, const json_t *ev)
{
	auto_free char *key = node_key(ev);

	for (size_t i = v->n_open; i-- > 0;) {
		if (!str_eq(v->open[i].key, key))
			continue;
		uint64_t begun = v->open[i].begun_ms;
		free(v->open[i].key);
		v->open[i] = v->open[--v->n_open];
		return begun;
	}
	return 0;
}

static void since(const struct shown *s, uint64_t begun)
{
	char text[DURATION_TEXT_SIZE];

	if (!begun || s->ms < begun)
		return;
	duration_text(text, s->ms - begun);
	out_printf(" in %s", text);
}

static void run_started(const struct shown *s, const json_t *ev)
{
	const char *id = json_get_str(ev, "run_id"), *workflow = json_get_str(s->data, "workflow");

	s->v->begun_ms = s->ms;
	out_printf("run %s", id ? id : "");
	if (workflow)
		out_printf(": %s", workflow);
}

static void run_resumed(const struct shown *s, const json_t *ev)
{
	const char *id = json_get_str(ev, "run_id");

	s->v->begun_ms = s->ms;
	out_printf("run %s: resumed", id ? id : "");
}

static void run_ended(const struct shown *s, const json_t *ev)
{
	const char *word = strchr(s->type, '_');

	(void)ev;
	out_style(str_eq(s->type, "run_finished") ? STYLE_GREEN : STYLE_RED);
	out_printf("run %s", word ? word + 1 : s->type);
	out_style(STYLE_PLAIN);
	since(s, s->v->begun_ms);
	out_printf(", %zu node%s finished", s->v->n_nodes, s->v->n_nodes == 1 ? "" : "s");
	if (s->v->detailed && json_object_get(s->data, "error")) {
		out_printf(": ");
		print_member(s, "error", 0);
	}
}

/* Whose it is: the run's, or that of some nodes. */
static void sandbox_label(const struct shown *s)
{
	const json_t *nodes = json_object_get(s->data, "nodes"), *each;
	size_t i;

	out_printf("sandbox");
	if (*s->node) {
		out_printf(" of ");
		out_value(s->node, 0);
	}
	json_array_foreach(nodes, i, each)
	{
		const char *name = json_string_value(each);
		if (!name || str_eq(name, s->node))
			continue;
		out_printf(", ");
		out_value(name, 0);
	}
	out_printf(": ");
}

static void sandbox_started(const struct shown *s, const json_t *ev)
{
	const json_t *network = json_object_get(s->data, "network");
	const char *mode = json_get_str(network, "mode");
	size_t rules = json_array_size(json_object_get(network, "rules"));

	(void)ev;
	s->v->learning |= str_eq(mode, "learn");
	sandbox_label(s);
	print_member(s, "driver", 0);
	out_printf(", network %s", mode ? mode : "unknown");
	if (rules)
		out_printf(" with %zu rule%s", rules, rules == 1 ? "" : "s");
	const json_t *ready = json_object_get(json_object_get(s->data, "start_ms"), "ready");
	if (json_is_number(ready))
		out_printf(", ready in %.1f ms", json_number_value(ready));
}

static void sandbox_skipped(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_style(STYLE_YELLOW);
	sandbox_label(s);
	out_printf("none");
	out_style(STYLE_PLAIN);
	out_printf(" (");
	print_member(s, "reason", 0);
	out_printf(")");
}

static void sandbox_warning(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_style(STYLE_YELLOW);
	out_printf("warning: ");
	out_style(STYLE_PLAIN);
	print_member(s, json_object_get(s->data, "message") ? "message" : "error", 0);
}

static void sandbox_stopped(const struct shown *s, const json_t *ev)
{
	(void)ev;
	sandbox_label(s);
	out_printf("stopped (");
	print_member(s, "exit", 0);
	out_printf(")");
}

static void attachments_copying(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_printf("attachments: copying ");
	print_member(s, "files", 0);
	out_printf(" files, ");
	print_member(s, "bytes", 0);
	out_printf(" bytes");
}

static void worktree_created(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_printf("worktree: ");
	print_member(s, "path", 0);
	out_printf(" (branch ");
	print_member(s, "branch", 0);
	out_printf(")");
}

static void worktree_merged(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_printf("worktree: ");
	print_member(s, "branch", 0);
	out_printf(json_is_true(json_object_get(s->data, "up_to_date")) ? " has nothing new for " : " merged into ");
	print_member(s, "into", 0);
}

static void worktree_kept(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_printf("worktree: ");
	if (json_object_get(s->data, "path")) {
		print_member(s, "path", 0);
		out_printf(", ");
	}
	out_printf("branch ");
	print_member(s, "branch", 0);
	out_printf(": ");
	print_member(s, "reason", 0);
}

static void node_started(const struct shown *s, const json_t *ev)
{
	node_begins(s->v, ev, s->ms);
	print_node(s);
	out_printf("started (");
	print_member(s, "kind", 0);
	out_printf(")");
}

/* The one field that says most about an output: a tool's text, else all of it. */
static void preview(const struct shown *s)
{
	const json_t *output = json_object_get(s->data, "output");
	const char *text = json_get_str(output, "output");

	if (!json_is_object(output) || json_object_size(output) == 0 || (text && !*text))
		return;
	auto_free char *whole = text ? xstrdup(text) : json_compact(output);
	size_t len = strlen(whole);
	while (len && whole[len - 1] == '\n')
		whole[--len] = '\0';
	if (!len)
		return;
	out_printf(": ");
	out_value(whole, PREVIEW);
}

static void node_finished(const struct shown *s, const json_t *ev)
{
	uint64_t begun = node_ends(s->v, ev);
	const json_t *tokens = json_object_get(s->data, "_tokens");

	s->v->n_nodes++;
	print_node(s);
	out_style(STYLE_GREEN);
	out_printf("finished");
	out_style(STYLE_PLAIN);
	since(s, begun);
	if (json_is_integer(tokens))
		out_printf(", %lld tokens", (long long)json_integer_value(tokens));
	preview(s);
}

static void network_blocked(const struct shown *s, const json_t *ev)
{
	long long count = json_integer_value(json_object_get(s->data, "count"));

	(void)ev;
	out_style(STYLE_YELLOW);
	out_printf("blocked: ");
	out_style(STYLE_PLAIN);
	print_member(s, "host", 0);
	out_printf(":");
	print_member(s, "port", 0);
	out_printf(" (");
	print_member(s, "reason", 0);
	out_printf(", rule: ");
	print_member(s, "rule", 0);
	out_printf(")");
	if (count > 1)
		out_printf(" %lld times", count);
}

static void secret_blocked(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_style(STYLE_YELLOW);
	out_printf("secret not given: ");
	out_style(STYLE_PLAIN);
	print_member(s, "name", 0);
	out_printf(" was sent to ");
	print_member(s, "host", 0);
	out_printf(" as its placeholder");
}

/* In learn mode this is what the run was for: the rules that would let it through again. */
static void network_summary(const struct shown *s, const json_t *ev)
{
	const json_t *hosts = json_object_get(s->data, "hosts"), *h;
	size_t i;

	(void)ev;
	if (!s->v->learning) {
		out_printf("network: %zu host%s asked for", json_array_size(hosts),
			   json_array_size(hosts) == 1 ? " was" : "s were");
		return;
	}
	out_printf("network: this run needs these rules:\n    rules:");
	json_array_foreach(hosts, i, h)
	{
		const char *host = json_get_str(h, "host");
		out_printf("\n      - \"%s\"", host ? host : "");
	}
}

static void budget(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_style(STYLE_YELLOW);
	out_printf("%s: ", str_eq(s->type, "budget_warning") ? "budget nearly used up" : "budget exceeded");
	out_style(STYLE_PLAIN);
	print_member(s, "dimension", 0);
	out_printf(" ");
	print_member(s, "used", 0);
	out_printf(" of ");
	print_member(s, "limit", 0);
}

static void edge_selected(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_printf("edge: ");
	print_member(s, "from", 0);
	out_printf(" -> ");
	print_member(s, "to", 0);
	if (json_object_get(s->data, "loop")) {
		out_printf(" as ");
		print_member(s, "loop", 0);
		out_printf(" (");
		print_member(s, "iteration", 0);
		out_printf(")");
	}
}

static void node_trouble(const struct shown *s, const json_t *ev)
{
	print_node(s);
	out_style(STYLE_RED);
	out_printf("%s", !event_fails_node(ev) && str_eq(s->type, "tool_error") ? "a tool of it failed"
			 : str_eq(s->type, "tool_error")			? "the tool failed"
			 : str_eq(s->type, "node_error")			? "failed"
										: "recovering");
	out_style(STYLE_PLAIN);
	out_printf(": ");
	const char *error = json_get_str(s->data, "error");
	auto_free char *own = xasprintf("node %s: ", s->node);
	/* The engine's own words name the node too. */
	if (error)
		out_value(str_starts(error, own) ? error + strlen(own) : error, 0);
	else
		print_member(s, "reason", 0);
}

/* The model's provider did not answer, and is asked again. */
static void node_retries(const struct shown *s, const json_t *ev)
{
	const json_int_t status = json_integer_value(json_object_get(s->data, "status"));
	const double seconds = json_number_value(json_object_get(s->data, "delay_ms")) / 1000;

	(void)ev;
	print_node(s);
	out_style(STYLE_YELLOW);
	out_printf(status > 0 ? "the model's provider refuses" : "the model's provider does not answer");
	out_style(STYLE_PLAIN);
	if (status > 0)
		out_printf(" (HTTP %lld)", (long long)status);
	out_printf(", again in %.1f s", seconds);
}

static void node_waits(const struct shown *s, const json_t *ev)
{
	(void)ev;
	print_node(s);
	out_style(STYLE_YELLOW);
	out_printf("waits for an answer");
	out_style(STYLE_PLAIN);
}

/* What has no line of its own: the type, the node, and the data as it is. */
static void anything(const struct shown *s, const json_t *ev)
{
	(void)ev;
	out_value(s->type, 0);
	if (*s->node) {
		out_printf(" ");
		out_value(s->node, 0);
	}
	if (json_object_size(s->data) == 0)
		return;
	auto_free char *text = json_compact(s->data);
	out_printf(" ");
	out_value(text, 4 * PREVIEW);
}

static const struct {
	const char *type;
	bool always;
	void (*print)(const struct shown *s, const json_t *ev);
} rows[] = {
	{"run_started", true, run_started},
	{"run_resumed", true, run_resumed},
	{"run_finished", true, run_ended},
	{"run_failed", true, run_ended},
	{"run_cancelled", true, run_ended},
	{"run_paused", true, run_ended},
	{"run_interrupted", true, anything},
	{"sandbox_started", true, sandbox_started},
	{"sandbox_skipped", true, sandbox_skipped},
	{"sandbox_warning", true, sandbox_warning},
	{"sandbox_stopped", false, sandbox_stopped},
	{"node_started", true, node_started},
	{"node_finished", true, node_finished},
	{"node_recovery", true, node_trouble},
	{"delegate_warning", true, sandbox_warning},
	{"delegate_retry", true, node_retries},
	{"llm_retry", true, node_retries},
	{"human_input_requested", true, node_waits},
	{"tool_error", true, node_trouble},
	{"node_error", true, node_trouble},
	{"network_blocked", true, network_blocked},
	{"network_summary", false, network_summary},
	{"secret_blocked", true, secret_blocked},
	{"budget_warning", true, budget},
	{"mcp_server_failed", true, sandbox_warning},
	{"attachments_copying", true, attachments_copying},
	{"worktree_created", true, worktree_created},
	{"worktree_merged", true, worktree_merged},
	{"worktree_kept", true, worktree_kept},
	{"worktree_warning", true, sandbox_warning},
	{"budget_exceeded", true, budget},
	{"edge_selected", false, edge_selected},
};

void event_view_show(struct event_view *v, const json_t *ev)
{
	const char *type = json_get_str(ev, "type"), *node = json_get_str(ev, "node_id");
	const char *time = json_get_str(ev, "timestamp");
	const struct shown s = {
		.v = v,
		.data = json_object_get(ev, "data"),
		.type = type ? type : "?",
		.node = node ? node : "",
		.ms = event_time_ms(ev),
	};
	void (*print)(const struct shown *, const json_t *) = v->detailed ? anything : NULL;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eq(rows[i].type, s.type) && (v->detailed || rows[i].always))
			print = rows[i].print;
	if (v->learning && str_eq(s.type, "network_summary"))
		print = network_summary;
	if (print == node_trouble && !v->detailed && str_eq(s.type, "tool_error") && !event_fails_node(ev))
		print = NULL;
	if (!print)
		return;
	if (v->detailed) {
		out_style(STYLE_DIM);
		out_printf("%-*.*s", CLOCK_LENGTH, CLOCK_LENGTH,
			   time && strlen(time) > CLOCK_AT ? time + CLOCK_AT : "");
		out_style(STYLE_PLAIN);
		out_printf("  ");
	}
	print(&s, ev);
	out_printf("\n");
	out_flush();
}

void event_view_done(struct event_view *v)
{
	for (size_t i = 0; i < v->n_open; i++)
		free(v->open[i].key);
	free(v->open);
	*v = (struct event_view){0};
}
