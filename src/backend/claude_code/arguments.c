/* claude's arguments. The prompt is not among them: it goes to its input, the system prompt into a file, since argv is
 * short and everybody can read it.
 *
 * Which tools it has. `tools:` names the built-in ones that are offered (--tools) and allows them without asking, as it
 * allows those of MCP servers. `readonly: true` takes away what writes files, and Bash unless a policy names it.
 * `tool_policy:` has patterns in claude's own form ("Bash(git *)"), a refused one with '!' before it. In a sandbox
 * nothing else is asked for, because the sandbox is the boundary. A policy that allows patterns would be without effect
 * then, so with one everything that is not allowed is refused, silently (dontAsk): there is nobody to ask. */
#include "claude_code.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <dsl/ast.h>

#include <string.h>

static const char *const writing[] = {"Write", "Edit", "MultiEdit", "NotebookEdit"};
/* What a policy leaves alone: they neither write nor start anything. */
static const char *const harmless[] = {"Read", "Glob", "Grep", "LS", "TodoWrite", "StructuredOutput"};

static bool is_about(const char *pattern, const char *tool)
{
	size_t n = strlen(tool);

	return strncmp(pattern, tool, n) == 0 && (pattern[n] == '\0' || pattern[n] == '(');
}

/* The patterns of the workflow, then of the node. */
static void collect(const struct claude_wish *w, bool refused, struct strv *to)
{
	const struct dsl_list *const lists[] = {w->workflow ? &w->workflow->tool_policy : NULL, &w->node->tool_policy};

	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; lists[k] && i < lists[k]->n; i++) {
			const char *s = lists[k]->v[i].s;
			if (s && *s && (*s == '!') == refused)
				strv_add(to, s + refused);
		}
}

static bool names(const struct strv *patterns, const char *tool)
{
	for (size_t i = 0; i < patterns->n; i++)
		if (is_about(patterns->v[i], tool))
			return true;
	return false;
}

/* "mcp.SERVER.TOOL" is claude's "mcp__SERVER__TOOL". */
static char *claude_name(const char *tool)
{
	if (!str_starts(tool, "mcp."))
		return xstrdup(tool);
	const char *dot = strchr(tool + 4, '.');
	return dot ? xasprintf("mcp__%.*s__%s", (int)(dot - tool - 4), tool + 4, dot + 1)
		   : xasprintf("mcp__%s", tool + 4);
}

static void add_list(struct strv *argv, const char *option, const struct strv *values)
{
	auto_free char *joined = NULL;

	if (values->n == 0)
		return;
	for (size_t i = 0; i < values->n; i++) {
		char *longer = joined ? xasprintf("%s,%s", joined, values->v[i]) : xstrdup(values->v[i]);
		free(joined);
		joined = longer;
	}
	strv_add(argv, option);
	strv_add(argv, joined);
}

static void add_pair(struct strv *argv, const char *option, const char *value)
{
	if (!value)
		return;
	strv_add(argv, option);
	strv_add(argv, value);
}

static void offered_tools(const struct claude_wish *w, struct strv *built_in, struct strv *allowed)
{
	const struct dsl_list *l = &w->node->tools;

	for (size_t i = 0; i < l->n; i++) {
		auto_free char *name = claude_name(l->v[i].s);
		if (!str_starts(name, "mcp__"))
			strv_add(built_in, name);
		strv_add(allowed, name);
	}
	for (size_t i = 0; w->mcp_tools && i < w->mcp_tools->n; i++)
		strv_add(allowed, w->mcp_tools->v[i]);
}

static void add_tools(const struct claude_wish *w, struct strv *argv)
{
	auto_strv built_in = {0}, allowed = {0}, policy = {0}, refused = {0};

	offered_tools(w, &built_in, &allowed);
	collect(w, false, &policy);
	collect(w, true, &refused);
	if (w->node->readonly.v) {
		for (size_t i = 0; i < ARRAY_LEN(writing); i++)
			strv_add(&refused, writing[i]);
		if (!names(&policy, "Bash"))
			strv_add(&refused, "Bash");
	}
	/* A pattern narrows its tool, which must not be allowed as a whole beside it. */
	auto_strv all = {0};
	for (size_t i = 0; i < allowed.n; i++)
		if (!names(&policy, allowed.v[i]))
			strv_add(&all, allowed.v[i]);
	for (size_t i = 0; i < policy.n; i++)
		strv_take(&all, claude_name(policy.v[i]));
	for (size_t i = 0; policy.n && i < ARRAY_LEN(harmless); i++)
		if (!names(&policy, harmless[i]) && !strv_has(&all, harmless[i]))
			strv_add(&all, harmless[i]);
	/* An empty list is a list: none. */
	if (w->node->tools.pos.line && built_in.n == 0)
		strv_add(&built_in, "");
	add_list(argv, "--tools", &built_in);
	add_list(argv, "--allowedTools", &all);
	add_list(argv, "--disallowedTools", &refused);
}

const char *claude_permission_mode(const struct claude_wish *w)
{
	auto_strv policy = {0};

	collect(w, false, &policy);
	return policy.n ? "dontAsk" : w->isolated ? "bypassPermissions" : NULL;
}

void claude_arguments(const struct claude_wish *w, struct strv *argv)
{
	static const char *const always[] = {"-p",	    "--output-format", "stream-json", "--input-format",
					     "stream-json", "--verbose"};
	const char *mode = claude_permission_mode(w);
	auto_free char *schema = w->schema ? json_compact(w->schema) : NULL;
	auto_free char *turns =
		w->node->tool_max_steps.v > 0 ? xasprintf("%lld", (long long)w->node->tool_max_steps.v) : NULL;

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		strv_add(argv, always[i]);
	if (str_eq(mode, "bypassPermissions"))
		strv_add(argv, "--dangerously-skip-permissions");
	else
		add_pair(argv, "--permission-mode", mode);
	add_pair(argv, "--model", w->model && str_starts(w->model, "anthropic/") ? w->model + 10 : w->model);
	add_pair(argv, "--effort", w->node->reasoning_effort.s);
	add_pair(argv, "--append-system-prompt-file", w->system_file);
	add_pair(argv, "--max-turns", turns);
	add_pair(argv, "--json-schema", schema);
	add_tools(w, argv);
	add_pair(argv, "--mcp-config", w->mcp_file);
	strv_add(argv, "--strict-mcp-config");
	add_pair(argv, "--resume", w->resume);
	if (w->resume && w->fork)
		strv_add(argv, "--fork-session");
}
