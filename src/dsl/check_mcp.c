/* MCP servers: that each can be started or reached, that nodes name those that there are (C025), how to be known to
 * one (C038), and that a browser's server finds a browser (C060). */
#include "checks.h"

#include <base/mem.h>
#include <base/str.h>
#include <dsl/sandbox_block.h>

#include <stdlib.h>
#include <string.h>

static void check_transport(struct check *c, const struct dsl_mcp_server *s)
{
	bool stdio = s->transport.v == DSL_STDIO;
	const char *word = stdio ? "stdio" : s->transport.v == DSL_HTTP ? "http" : "sse";

	if (!s->transport.pos.line) {
		diag_error(c->f, "C025", s->name.pos, "add transport: stdio, http or sse",
			   "the MCP server \"%s\" has no transport", s->name.s);
		return;
	}
	if (!s->transport.v)
		return;
	if (stdio && !s->command.len)
		diag_error(c->f, "C025", s->name.pos, "add command: \"…\"",
			   "the MCP server \"%s\" is of transport stdio but has no command", s->name.s);
	if (!stdio && !s->url.len)
		diag_error(c->f, "C025", s->name.pos, "add url: \"https://…\"",
			   "the MCP server \"%s\" is of transport %s but has no url", s->name.s, word);
	struct dsl_pos extra = stdio ? s->url.pos : s->command.pos.line ? s->command.pos : s->args.pos;
	if (extra.line)
		diag_error(c->f, "C025", extra, stdio ? "remove url" : "remove command and args",
			   "the MCP server \"%s\" is of transport %s, which has none of this", s->name.s, word);
}

static void check_auth(struct check *c, const struct dsl_mcp_server *s)
{
	bool bearer = s->auth.type.s && strcmp(s->auth.type.s, "bearer") == 0;

	if (!s->auth.pos.line)
		return;
	if (bearer && !s->auth.token.pos.line)
		diag_error(c->f, "C038", s->auth.pos, "add token: \"${NAME}\", with a variable that holds it",
			   "the MCP server \"%s\" has auth of type bearer without a token", s->name.s);
	if (bearer || (s->auth.type.s && strcmp(s->auth.type.s, "oauth2") == 0))
		return;
	diag_error(c->f, "C038", s->auth.type.s ? s->auth.type.pos : s->auth.pos,
		   "use type: bearer or oauth2, or remove auth", "the auth type \"%.100s\" is not supported",
		   s->auth.type.s ? s->auth.type.s : "");
}

static bool mentions(const struct dsl_str *s, const char *word)
{
	return s->s && strstr(s->s, word);
}

/* Whether the server drives a browser. */
static bool is_browser(const struct dsl_mcp_server *s)
{
	static const char *const words[] = {"playwright", "puppeteer", "chrome-devtools"};

	for (size_t w = 0; w < ARRAY_LEN(words); w++) {
		if (mentions(&s->command, words[w]))
			return true;
		for (size_t i = 0; i < s->args.n; i++)
			if (mentions(&s->args.v[i], words[w]))
				return true;
	}
	return false;
}

static void check_browser(struct check *c, const struct dsl_mcp_server *s)
{
	const struct dsl_str *image = c->w->sandbox ? &c->w->sandbox->image : NULL;

	if (image && image->len && is_browser(s) && !mentions(image, "browser") && !mentions(image, "playwright"))
		diag_error(c->f, "C060", s->name.pos, "use an image with a browser, such as iterion-sandbox-browser",
			   "the MCP server \"%s\" needs a browser, which the image %.200s does not seem to have",
			   s->name.s, image->s);
}

/* With autoload_project a name may stand in .mcp.json, which is not looked at here. */
static void check_named(struct check *c, const struct dsl_mcp *mcp, bool autoload)
{
	for (size_t i = 0; i < mcp->servers.n && !autoload; i++) {
		const struct dsl_str *name = &mcp->servers.v[i];
		if (!dsl_find_mcp_server(c->f, name->s))
			diag_error(c->f, "C025", name->pos,
				   hint_nearest_name(c->f, name->s, &c->f->state->mcp_servers,
						     "declare it (mcp_server NAME:), or write autoload_project: true"),
				   "there is no MCP server \"%.100s\"", name->s);
	}
}

/* mcp.SERVER or mcp.SERVER.TOOL, where SERVER is a name and no pattern, of a server that is not there: such an entry
 * matches nothing, and the agent would miss its tools without a word. */
static void check_tools(struct check *c, const struct dsl_list *tools, bool autoload)
{
	for (size_t i = 0; i < tools->n && !autoload; i++) {
		const struct dsl_str *s = &tools->v[i];
		if (!str_starts(s->s, "mcp."))
			continue;
		char *name = xstrndup(s->s + 4, strcspn(s->s + 4, "."));
		if (*name && !strchr(name, '*') && !dsl_find_mcp_server(c->f, name))
			diag_warning(c->f, "C025", s->pos,
				     hint_nearest_name(c->f, name, &c->f->state->mcp_servers,
						       "declare it: mcp_server NAME:"),
				     "there is no MCP server \"%.100s\", so \"%.200s\" is no tool", name, s->s);
		free(name);
	}
}

void check_mcp(struct check *c)
{
	bool autoload = c->w->mcp.autoload_project.v;

	check_named(c, &c->w->mcp, autoload);
	for (size_t i = 0; i < c->f->n_nodes; i++) {
		const struct dsl_mcp *mcp = &c->f->nodes[i]->mcp;
		bool more = mcp->autoload_project.set ? mcp->autoload_project.v : autoload;
		check_named(c, mcp, more);
		check_tools(c, &c->f->nodes[i]->tools, more);
	}
	for (size_t i = 0; i < c->f->n_mcp_servers; i++) {
		check_transport(c, c->f->mcp_servers[i]);
		check_auth(c, c->f->mcp_servers[i]);
		check_browser(c, c->f->mcp_servers[i]);
	}
}
