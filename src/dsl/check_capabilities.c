/* Capabilities: their shape (C081), whether they are known (C080), and the board in a sandbox (C082). */
#include "checks.h"

#include <base/mem.h>
#include <base/str.h>
#include <dsl/sandbox_block.h>

#include <string.h>

static const char *const known[] = {
	"board.read",  "board.create",	"board.move",	   "board.assign",	"board.label",
	"board.close", "board.comment", "watch.subscribe", "watch.unsubscribe",
};

static bool is_part(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= '0' && s[i] <= '9') && s[i] != '_')
			return false;
	return len > 0;
}

/* domain or domain.action */
static bool well_formed(const char *s)
{
	const char *dot = strchr(s, '.');

	return is_part(s, dot ? (size_t)(dot - s) : strlen(s)) && (!dot || is_part(dot + 1, strlen(dot + 1)));
}

static bool is_known(const char *s)
{
	if (strcmp(s, "board") == 0 || strcmp(s, "watch") == 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(s, known[i]) == 0)
			return true;
	return false;
}

static bool is_active(const struct dsl_sandbox *s)
{
	return s && s->mode.v != DSL_SANDBOX_NONE && !(s->short_form && s->mode.v == DSL_SANDBOX_INHERIT);
}

static void check_list(struct check *c, const struct dsl_list *l, bool sandboxed)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct dsl_str *s = &l->v[i];
		if (!well_formed(s->s))
			diag_error(c->f, "C081", s->pos, "write domain.action in lower case, such as board.create",
				   "\"%.100s\" is no capability", s->s);
		else if (!is_known(s->s))
			diag_warning(c->f, "C080", s->pos, hint_nearest(c->f, s->s, known, ARRAY_LEN(known), NULL),
				     "unknown capability \"%s\"", s->s);
		else if (sandboxed && str_starts(s->s, "board"))
			diag_warning(c->f, "C082", s->pos, "make sure that the server is reachable from the sandbox",
				     "\"%s\" in a sandbox works over HTTP only", s->s);
	}
}

void check_capabilities(struct check *c)
{
	bool workflow = is_active(c->w->sandbox);

	check_list(c, &c->w->capabilities, workflow);
	for (size_t i = 0; i < c->f->n_nodes; i++) {
		const struct dsl_node *n = c->f->nodes[i];
		bool inherits = !n->sandbox || n->sandbox->mode.v == DSL_SANDBOX_INHERIT;
		check_list(c, &n->capabilities, inherits ? workflow : is_active(n->sandbox));
	}
}
