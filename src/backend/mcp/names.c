/* Which servers and tools a node has.
 *
 * A server declared in the file serves every node, unless the workflow's `mcp:` block lists `servers`: then those. A
 * node's own block adds `servers`, begins from nothing with `inherit: false`, and takes away with `disable`, which
 * holds names of servers or patterns of tools (mcp.gh.delete_*). Servers of .mcp.json come with autoload_project.
 * `tools:`, where it is written, has the last word: a tool that no entry matches is not there, and a server whose tools
 * none can match is not even started. */
#include "names.h"

#include <base/str.h>

#include <string.h>

static bool good(const char *name, size_t max, const char *also)
{
	size_t len = strlen(name);

	if (len == 0 || len > max)
		return false;
	for (const char *p = name; *p; p++) {
		bool alnum = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
		if (!alnum && !strchr(also, *p))
			return false;
	}
	return true;
}

bool mcp_server_name_good(const char *name)
{
	return good(name, MCP_SERVER_NAME_MAX, "_-");
}

bool mcp_tool_name_good(const char *name)
{
	return good(name, MCP_TOOL_NAME_MAX, "_.-/");
}

bool mcp_name_split(const char *full, char server[MCP_SERVER_NAME_MAX + 1], const char **ret_tool)
{
	if (!str_starts(full, "mcp."))
		return false;
	const char *dot = strchr(full + 4, '.');
	size_t len = dot ? (size_t)(dot - (full + 4)) : 0;
	if (len == 0 || len > MCP_SERVER_NAME_MAX)
		return false;
	memcpy(server, full + 4, len);
	server[len] = '\0';
	*ret_tool = dot + 1;
	return mcp_server_name_good(server) && mcp_tool_name_good(dot + 1);
}

/* After a mismatch only the latest star can give way: what an earlier one could take, the latest can take too. */
bool mcp_pattern_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			from = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

/* Whether the pattern can match a text that begins with mcp.SERVER. — a star takes the rest of it, whatever that is.
 * "mcp.SERVER" alone means all of the server. */
static bool can_match_server(const char *pattern, const char *server)
{
	if (!str_starts(pattern, "mcp.")) {
		/* What comes before a star must still be a beginning of mcp. */
		size_t n = strcspn(pattern, "*");
		return n < 4 && pattern[n] == '*' && strncmp(pattern, "mcp.", n) == 0;
	}
	const char *p = pattern + 4;
	for (; *server; p++, server++) {
		if (*p == '*')
			return true;
		if (*p != *server)
			return false;
	}
	return *p == '*' || *p == '.' || *p == '\0';
}

static bool whole_server(const char *pattern, const char *full)
{
	size_t len = strlen(pattern);

	return str_starts(pattern, "mcp.") && !strchr(pattern + 4, '.') && !strchr(pattern, '*') &&
	       strncmp(full, pattern, len) == 0 && full[len] == '.';
}

static bool list_has_tool(const struct dsl_list *l, const char *full)
{
	for (size_t i = 0; i < l->n; i++)
		if (mcp_pattern_matches(l->v[i].s, full) || whole_server(l->v[i].s, full))
			return true;
	return false;
}

static bool list_has(const struct dsl_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].s, name))
			return true;
	return false;
}

static bool inherits(const struct dsl_node *n)
{
	return !n->mcp.inherit.set || n->mcp.inherit.v;
}

bool mcp_autoload(const struct dsl_file *f, const struct dsl_node *n)
{
	if (n->mcp.autoload_project.set)
		return n->mcp.autoload_project.v;
	return f->workflow && inherits(n) && f->workflow->mcp.autoload_project.v;
}

static bool disabled(const struct dsl_file *f, const struct dsl_node *n, const char *name)
{
	return list_has(&n->mcp.disable, name) || (f->workflow && list_has(&f->workflow->mcp.disable, name));
}

bool mcp_tool_allowed(const struct dsl_file *f, const struct dsl_node *n, const char *full)
{
	if (n->tools.pos.line && !list_has_tool(&n->tools, full))
		return false;
	return !list_has_tool(&n->mcp.disable, full) &&
	       !(f->workflow && list_has_tool(&f->workflow->mcp.disable, full));
}

static bool inherited(const struct dsl_file *f, const struct dsl_node *n, const char *server)
{
	const struct dsl_mcp *w = f->workflow ? &f->workflow->mcp : NULL;

	return inherits(n) && (!w || !w->servers.pos.line || list_has(&w->servers, server));
}

static bool tools_reach(const struct dsl_node *n, const char *server)
{
	if (!n->tools.pos.line)
		return true;
	for (size_t i = 0; i < n->tools.n; i++)
		if (can_match_server(n->tools.v[i].s, server))
			return true;
	return false;
}

bool mcp_server_allowed(const struct dsl_file *f, const struct dsl_node *n, const char *server, bool project)
{
	bool there = list_has(&n->mcp.servers, server) || (project ? mcp_autoload(f, n) : inherited(f, n, server));

	return there && !disabled(f, n, server) && tools_reach(n, server);
}
