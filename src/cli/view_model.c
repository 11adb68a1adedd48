/* The live view's memory of a run.
 *
 * Everything that an outsider names is bounded and made safe when it comes in: texts are cut and neutralised here, so
 * that what draws them can neither be steered nor flooded. A long run with fan-outs in loops starts ever new lines;
 * past a limit the oldest finished ones are dropped and only counted. */
#include "view_model.h"
#include "event_view.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>

#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 400, NODE_LIMIT = 1000, PULL_LIMIT = 64, BLOCK_LIMIT = 64, NOTE_LIMIT = 20, PLACE_LIMIT = 64 };

/* A copy on one line, cut to so many bytes. The caller frees. */
static char *safe_text(const char *s)
{
	auto_buf b = BUF_INIT(8 * (size_t)TEXT_LIMIT);
	size_t len = strnlen(s, TEXT_LIMIT + 1);

	if (len > TEXT_LIMIT)
		for (len = TEXT_LIMIT; len && ((unsigned char)s[len] & 0xc0) == 0x80;)
			len--;
	(void)text_neutralise(&b, s, len);
	if (s[len])
		(void)buf_puts(&b, "…");
	for (size_t i = 0; i < b.len; i++)
		if (b.data[i] == '\n' || b.data[i] == '\t')
			b.data[i] = ' ';
	return buf_steal(&b);
}

static char *safe_copy(const char *s)
{
	return s ? safe_text(s) : NULL;
}

static void replace(char **p, char *taken)
{
	free(*p);
	*p = taken;
}

static long long number(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

/* Bytes or counts of an outsider: never negative. */
static uint64_t amount(const json_t *object, const char *key)
{
	long long n = number(object, key);

	return n > 0 ? (uint64_t)n : 0;
}

void view_note(struct view *v, const char *text)
{
	char *safe = safe_text(text);

	if (v->notes.n && str_eq(v->notes.v[v->notes.n - 1], safe)) {
		free(safe);
		return;
	}
	if (v->notes.n == NOTE_LIMIT) {
		free(v->notes.v[0]);
		memmove(v->notes.v, v->notes.v + 1, v->notes.n * sizeof *v->notes.v);
		v->notes.n--;
	}
	strv_take(&v->notes, safe);
}

static void node_clear(struct view_node *n)
{
	free(n->name);
	free(n->branch);
	free(n->detail);
}

/* The line of the event's node and branch, or NULL. */
static struct view_node *find(const struct view *v, const char *name, const char *branch)
{
	for (size_t i = v->n_nodes; i-- > 0;)
		if (str_eq(v->nodes[i].name, name) && str_eq(v->nodes[i].branch, branch))
			return &v->nodes[i];
	return NULL;
}

static void make_room(struct view *v)
{
	for (size_t i = 0; v->n_nodes >= NODE_LIMIT && i < v->n_nodes; i++) {
		if (v->nodes[i].state != VIEW_FINISHED)
			continue;
		node_clear(&v->nodes[i]);
		v->n_nodes--;
		memmove(v->nodes + i, v->nodes + i + 1, (v->n_nodes - i) * sizeof *v->nodes);
		v->n_dropped++;
	}
}

static void node_started(struct view *v, const json_t *ev, struct view_node *n)
{
	if (!n) {
		make_room(v);
		v->nodes = grow_array(v->nodes, v->n_nodes, &v->cap_nodes, sizeof *v->nodes);
		n = &v->nodes[v->n_nodes++];
		*n = (struct view_node){
			.name = safe_copy(json_get_str(ev, "node_id")),
			.branch = safe_copy(json_get_str(ev, "branch_id")),
		};
	}
	n->state = VIEW_RUNNING;
	n->begun_ms = event_time_ms(ev);
	n->times++;
	replace(&n->detail, NULL);
}

static void node_stops(struct view_node *n, enum view_state state, uint64_t now_ms)
{
	if (n->state <= VIEW_WAITING && now_ms > n->begun_ms)
		n->took_ms += now_ms - n->begun_ms;
	n->state = state;
}

/* The one part of an output that says most about it, as event_view's preview. */
static char *output_text(const json_t *data)
{
	const json_t *output = json_object_get(data, "output");
	const char *text = json_get_str(output, "output");

	if (!json_is_object(output) || json_object_size(output) == 0 || (text && !*text))
		return NULL;
	auto_free char *whole = text ? xstrndup(text, 2 * (size_t)TEXT_LIMIT) : json_compact(output);
	size_t len = strlen(whole);
	while (len && (whole[len - 1] == '\n' || whole[len - 1] == ' '))
		whole[--len] = '\0';
	return len ? safe_text(whole) : NULL;
}

static void node_finished(struct view *v, const json_t *ev, struct view_node *n)
{
	const json_t *data = json_object_get(ev, "data"), *cost = json_object_get(data, "_cost_usd");
	long long tokens = (long long)amount(data, "_tokens");

	node_stops(n, VIEW_FINISHED, event_time_ms(ev));
	replace(&n->detail, output_text(data));
	n->tokens += tokens;
	n->cost_usd += json_number_value(cost);
	v->tokens += tokens;
	v->cost_usd += json_number_value(cost);
	v->n_done++;
}

static void node_failed(struct view *v, const json_t *ev, struct view_node *n)
{
	const char *error = json_get_str(json_object_get(ev, "data"), "error");
	auto_free char *own = xasprintf("node %s: ", n->name);

	(void)v;
	if (!event_fails_node(ev))
		return;
	node_stops(n, VIEW_FAILED, event_time_ms(ev));
	if (error)
		replace(&n->detail, safe_text(str_starts(error, own) ? error + strlen(own) : error));
}

static void node_recovers(struct view *v, const json_t *ev, struct view_node *n)
{
	const json_t *data = json_object_get(ev, "data");
	const char *reason = json_get_str(data, "reason"), *error = json_get_str(data, "error");

	(void)v;
	if (error || reason)
		replace(&n->detail, safe_text(error ? error : reason));
}

static void node_waits(struct view *v, const json_t *ev, struct view_node *n)
{
	(void)v;
	(void)ev;
	n->state = VIEW_WAITING;
}

void view_title(struct view *v, const char *title)
{
	replace(&v->title, safe_text(title));
}

static void run_started(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *name = json_get_str(data, "name"), *workflow = json_get_str(data, "workflow");

	if (name || workflow)
		view_title(v, name ? name : workflow);
	if (str_eq(json_get_str(data, "sandbox"), "none"))
		replace(&v->sandbox, xstrdup("none"));
	v->begun_ms = event_time_ms(ev);
}

static void run_ended(struct view *v, const json_t *ev)
{
	const char *word = strchr(json_get_str(ev, "type"), '_');

	replace(&v->end, safe_text(word ? word + 1 : "ended"));
	v->ended_ms = event_time_ms(ev);
	for (size_t i = 0; i < v->n_nodes; i++)
		if (v->nodes[i].state == VIEW_RUNNING)
			node_stops(&v->nodes[i], VIEW_STOPPED, v->ended_ms);
}

static void drop_pulls(struct view *v)
{
	for (; v->n_pulls; v->n_pulls--) {
		free(v->pulls[v->n_pulls - 1].image);
		free(v->pulls[v->n_pulls - 1].layer);
	}
}

/* What a sandbox is, in a few words. */
static char *sandbox_text(const json_t *data)
{
	const json_t *network = json_object_get(data, "network");
	const char *driver = json_get_str(data, "driver"), *mode = json_get_str(network, "mode");
	const char *image = json_get_str(data, "image");
	size_t rules = json_array_size(json_object_get(network, "rules"));

	auto_free char *with = rules ? xasprintf(" with %zu rule%s", rules, rules == 1 ? "" : "s") : xstrdup("");
	return xasprintf("%s%s%s, network %s%s", driver ? driver : "unknown driver", image ? ", " : "",
			 image ? image : "", mode ? mode : "unknown", with);
}

static char *names_text(const json_t *nodes, const char *node)
{
	auto_buf b = BUF_INIT(TEXT_LIMIT);
	size_t i;
	json_t *each;

	json_array_foreach(nodes, i, each)
	{
		const char *name = json_string_value(each);
		/* What goes past the limit is left out. */
		if (!name || buf_printf(&b, "%s%s", b.len ? ", " : "", name) < 0)
			break;
	}
	return safe_text(b.len ? buf_str(&b) : node);
}

/* The line of the sandbox that was started for a node: made when there is none yet. NULL: there are too many. */
static struct view_place *place_of(struct view *v, const json_t *ev)
{
	auto_free char *node = safe_copy(json_get_str(ev, "node_id"));
	const json_t *nodes = json_object_get(json_object_get(ev, "data"), "nodes");

	for (size_t i = 0; i < v->n_places; i++)
		if (str_eq(v->places[i].node, node))
			return &v->places[i];
	if (v->n_places == PLACE_LIMIT)
		return NULL;
	v->places = grow_array(v->places, v->n_places, &v->cap_places, sizeof *v->places);
	struct view_place *p = &v->places[v->n_places++];
	*p = (struct view_place){.nodes = names_text(nodes, node)};
	p->node = TAKE_PTR(node);
	return p;
}

/* One that some nodes have to themselves, or the run's. */
static void sandbox_is(struct view *v, const json_t *ev, const char *text)
{
	struct view_place *p = NULL;

	if (json_get_str(ev, "node_id")) {
		p = place_of(v, ev);
		if (p)
			replace(&p->text, safe_text(text));
	} else {
		replace(&v->sandbox, safe_text(text));
	}
}

static void sandbox_starting(struct view *v, const json_t *ev)
{
	sandbox_is(v, ev, "starting");
}

static void sandbox_started(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	auto_free char *text = sandbox_text(data);

	v->learning |= str_eq(json_get_str(json_object_get(data, "network"), "mode"), "learn");
	sandbox_is(v, ev, text);
	drop_pulls(v);
}

static void sandbox_skipped(struct view *v, const json_t *ev)
{
	const char *reason = json_get_str(json_object_get(ev, "data"), "reason");

	auto_free char *text = xasprintf("none%s%s%s", reason ? " (" : "", reason ? reason : "", reason ? ")" : "");
	sandbox_is(v, ev, text);
	drop_pulls(v);
}

static void worktree_created(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *path = json_get_str(data, "path"), *branch = json_get_str(data, "branch");

	auto_free char *text = xasprintf("%s (branch %s)", path ? path : "?", branch ? branch : "?");
	replace(&v->worktree, safe_text(text));
}

static void worktree_merged(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *branch = json_get_str(data, "branch"), *into = json_get_str(data, "into");
	bool same = json_is_true(json_object_get(data, "up_to_date"));

	auto_free char *text = xasprintf("%s %s %s", branch ? branch : "?",
					 same ? "has nothing new for" : "merged into", into ? into : "?");
	replace(&v->worktree, safe_text(text));
}

static void worktree_kept(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *path = json_get_str(data, "path"), *branch = json_get_str(data, "branch");
	const char *reason = json_get_str(data, "reason");

	auto_free char *text = xasprintf("%s%sbranch %s%s%s", path ? path : "", path ? ", " : "", branch ? branch : "?",
					 reason ? ": " : "", reason ? reason : "");
	replace(&v->worktree, safe_text(text));
}

static void pull_progress(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *image = json_get_str(data, "image"), *layer = json_get_str(data, "layer");
	auto_free char *safe_image = safe_text(image ? image : "image"), *safe_layer = safe_text(layer ? layer : "");
	size_t i = 0;

	while (i < v->n_pulls && !(str_eq(v->pulls[i].image, safe_image) && str_eq(v->pulls[i].layer, safe_layer)))
		i++;
	if (i == PULL_LIMIT)
		return;
	if (i == v->n_pulls) {
		v->pulls = grow_array(v->pulls, v->n_pulls, &v->cap_pulls, sizeof *v->pulls);
		v->pulls[v->n_pulls++] =
			(struct view_pull){.image = TAKE_PTR(safe_image), .layer = TAKE_PTR(safe_layer)};
	}
	v->pulls[i].current = amount(data, "current");
	v->pulls[i].total = amount(data, "total");
}

static void network_blocked(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *host = json_get_str(data, "host");
	uint64_t count = MAX(amount(data, "count"), 1U);
	long long port = number(data, "port");
	size_t i = 0;

	auto_free char *whole = port > 0 ? xasprintf("%s:%lld", host ? host : "?", port) : xstrdup(host ? host : "?");
	auto_free char *safe = safe_text(whole);
	while (i < v->n_blocks && !str_eq(v->blocks[i].host, safe))
		i++;
	if (i == BLOCK_LIMIT) {
		v->n_more_blocked += count;
		return;
	}
	if (i == v->n_blocks) {
		v->blocks = grow_array(v->blocks, v->n_blocks, &v->cap_blocks, sizeof *v->blocks);
		v->blocks[v->n_blocks++] = (struct view_block){.host = TAKE_PTR(safe)};
	}
	v->blocks[i].count += count;
}

static void warning(struct view *v, const json_t *ev)
{
	const char *message = json_get_str(json_object_get(ev, "data"), "message");

	if (message)
		view_note(v, message);
}

static void secret_blocked(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *name = json_get_str(data, "name"), *host = json_get_str(data, "host");

	auto_free char *text =
		xasprintf("secret %s was sent to %s as its placeholder", name ? name : "?", host ? host : "?");
	view_note(v, text);
}

static void budget(struct view *v, const json_t *ev)
{
	const json_t *data = json_object_get(ev, "data");
	const char *dimension = json_get_str(data, "dimension");
	bool warning = str_eq(json_get_str(ev, "type"), "budget_warning");

	auto_free char *text = xasprintf("budget %s: %s %.6g of %.6g", warning ? "nearly used up" : "exceeded",
					 dimension ? dimension : "?", json_number_value(json_object_get(data, "used")),
					 json_number_value(json_object_get(data, "limit")));
	view_note(v, text);
}

static const struct {
	const char *type;
	void (*of_run)(struct view *v, const json_t *ev);
	void (*of_node)(struct view *v, const json_t *ev, struct view_node *n);
} rows[] = {
	{"run_started", run_started, NULL},
	{"run_resumed", run_started, NULL},
	{"run_finished", run_ended, NULL},
	{"run_failed", run_ended, NULL},
	{"run_cancelled", run_ended, NULL},
	{"run_paused", run_ended, NULL},
	{"sandbox_starting", sandbox_starting, NULL},
	{"sandbox_started", sandbox_started, NULL},
	{"sandbox_skipped", sandbox_skipped, NULL},
	{"sandbox_pull_progress", pull_progress, NULL},
	{"sandbox_warning", warning, NULL},
	{"delegate_warning", warning, NULL},
	{"worktree_created", worktree_created, NULL},
	{"worktree_merged", worktree_merged, NULL},
	{"worktree_kept", worktree_kept, NULL},
	{"worktree_warning", warning, NULL},
	{"network_blocked", network_blocked, NULL},
	{"secret_blocked", secret_blocked, NULL},
	{"budget_warning", budget, NULL},
	{"budget_exceeded", budget, NULL},
	{"node_started", NULL, node_started},
	{"node_finished", NULL, node_finished},
	{"tool_error", NULL, node_failed},
	{"node_error", NULL, node_failed},
	{"node_recovery", NULL, node_recovers},
	{"human_input_requested", NULL, node_waits},
};

void view_add(struct view *v, const json_t *ev)
{
	const char *type = json_get_str(ev, "type");
	auto_free char *name = safe_copy(json_get_str(ev, "node_id"));
	auto_free char *branch = safe_copy(json_get_str(ev, "branch_id"));

	for (size_t i = 0; type && i < ARRAY_LEN(rows); i++) {
		if (!str_eq(rows[i].type, type))
			continue;
		struct view_node *n = rows[i].of_node && name ? find(v, name, branch) : NULL;
		if (rows[i].of_run)
			rows[i].of_run(v, ev);
		else if (name && (n || rows[i].of_node == node_started))
			rows[i].of_node(v, ev, n);
	}
}

void view_done(struct view *v)
{
	for (size_t i = 0; i < v->n_nodes; i++)
		node_clear(&v->nodes[i]);
	for (size_t i = 0; i < v->n_blocks; i++)
		free(v->blocks[i].host);
	drop_pulls(v);
	for (size_t i = 0; i < v->n_places; i++) {
		free(v->places[i].node);
		free(v->places[i].nodes);
		free(v->places[i].text);
	}
	free(v->places);
	free(v->nodes);
	free(v->pulls);
	free(v->blocks);
	free(v->title);
	free(v->sandbox);
	free(v->worktree);
	free(v->end);
	strv_done(&v->notes);
	*v = (struct view){0};
}
