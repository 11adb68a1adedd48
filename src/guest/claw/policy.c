/* Which calls a node may make.
 *
 * tool_policy is a list of patterns: Tool, or Tool(what it is used on), with ! before it to deny. A denial wins. As
 * soon as one pattern allows something, only what is allowed may be called. `readonly` takes away every tool that
 * writes, and Bash, which could, but for the commands that a pattern of the list names. allowed_tools names the tools
 * that are offered. Two tools are outside of this, since they are how a node speaks: ask_user and structured_output.
 *
 * A pattern is only matched against what is known before the call: for Bash each simple command, for the file tools the
 * path as text, for WebFetch the host. A pattern with parentheses for any other tool cannot be judged, and so it allows
 * nothing, and denies the tool. */
#include "command.h"
#include "glob.h"
#include "policy.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct pattern {
	char *tool;
	char *on; /* what stands in the parentheses, NULL for the whole tool */
	bool deny;
};

struct policy {
	struct pattern *v;
	size_t n;
	bool any_allow;
	bool readonly;
	bool all_tools;
	struct strv allowed_tools;
	char *work_dir;
};

static int parse_pattern(const char *text, struct pattern *ret)
{
	const char *s = text + strspn(text, " "), *open, *end;
	struct pattern x = {.deny = *s == '!'};

	s += x.deny;
	end = s + strlen(s);
	open = strchr(s, '(');
	if (open && end[-1] != ')')
		return -EINVAL;
	size_t len = open ? (size_t)(open - s) : strlen(s);
	if (!len)
		return -EINVAL;
	x.tool = xstrndup(s, len);
	x.on = open ? xstrndup(open + 1, (size_t)(end - open - 2)) : NULL;
	*ret = x;
	return 0;
}

int policy_new(const struct task *t, struct policy **ret, struct err *e)
{
	struct policy *p = xcalloc(1, sizeof *p);

	p->readonly = t->readonly;
	p->all_tools = t->all_tools;
	p->work_dir = xstrdup(t->work_dir ? t->work_dir : "/");
	for (size_t i = 0; i < t->allowed_tools.n; i++)
		strv_add(&p->allowed_tools, t->allowed_tools.v[i]);
	p->v = xcalloc(t->tool_policy.n + 1, sizeof *p->v);
	for (size_t i = 0; i < t->tool_policy.n; i++) {
		if (parse_pattern(t->tool_policy.v[i], &p->v[p->n]) < 0) {
			policy_free(p);
			int r = err_set(e, ERR_PROTOCOL, EPROTO, "read tool_policy: \"%.100s\" is no pattern",
					t->tool_policy.v[i]);
			err_hint(e, "Write Tool, Tool(pattern), or either with ! before it, such as \"Bash(git *)\".");
			return r;
		}
		p->any_allow = p->any_allow || !p->v[p->n].deny;
		p->n++;
	}
	*ret = p;
	return 0;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].tool);
		free(p->v[i].on);
	}
	free(p->v);
	strv_done(&p->allowed_tools);
	free(p->work_dir);
	free(p);
}

/* Reading and ending background commands go with Bash. */
static const char *judged_as(const char *name)
{
	return strcmp(name, "BashOutput") == 0 || strcmp(name, "KillShell") == 0 ? "Bash" : name;
}

static bool names_tool(const struct pattern *x, const char *name)
{
	return glob_text(x->tool, name, strlen(name)) || strcasecmp(x->tool, name) == 0;
}

static bool listed(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->allowed_tools.n; i++)
		if (strcasecmp(p->allowed_tools.v[i], name) == 0)
			return true;
	return p->all_tools;
}

static bool is_bash(const struct tool *builtin)
{
	return builtin == &tool_bash || builtin == &tool_bash_output || builtin == &tool_kill_shell;
}

/* Whether some pattern of the list allows (a part of) the tool by its own name. */
static bool some_allow(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->v[i].deny && names_tool(&p->v[i], name))
			return true;
	return false;
}

bool policy_offers(const struct policy *p, const char *name, const struct tool *builtin)
{
	const char *as = judged_as(name);

	/* The launcher's tools were chosen there. */
	if (builtin && !listed(p, name) && !listed(p, as))
		return false;
	if (p->readonly && builtin && !(builtin->flags & TOOL_READS) && !(is_bash(builtin) && some_allow(p, as)))
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].deny && !p->v[i].on && names_tool(&p->v[i], as))
			return false;
	return !p->any_allow || some_allow(p, as);
}

/* "git *" also means git alone, "git:*" is another way to write it. */
static bool command_matches(const char *pattern, const char *part)
{
	size_t len = strlen(pattern), n = strlen(part);

	if (glob_text(pattern, part, n))
		return true;
	if (len < 2 || pattern[len - 1] != '*' || !strchr(" :", pattern[len - 2]))
		return false;
	size_t head = len - 2;
	return n >= head && memcmp(part, pattern, head) == 0 && (n == head || part[head] == ' ');
}

/* The path that a call of a file tool is about; an absolute pattern of Glob is one. */
static char *path_of(const struct tool *builtin, struct jv input)
{
	char *path = jv_cstr(jv_get(input, "file_path"));
	char *pattern = builtin == &tool_glob ? jv_cstr(jv_get(input, "pattern")) : NULL;

	if (pattern && pattern[0] == '/') {
		free(path);
		return pattern;
	}
	free(pattern);
	return path ? path : jv_cstr(jv_get(input, "path"));
}

static bool path_matches(const struct policy *p, const char *pattern, const struct tool *builtin, struct jv input)
{
	char *path = path_of(builtin, input);
	auto_free char *full = path_join(p->work_dir, path ? path : "");
	auto_free char *clean = path_clean(full);
	auto_free char *joined = path_join(p->work_dir, pattern);
	auto_free char *want = path_clean(joined);
	struct glob *g = want ? glob_new(want) : NULL;
	bool hit = g && clean && glob_match(g, clean);

	glob_free(g);
	free(path);
	return hit;
}

/* "domain:example.com" or the host alone, of a URL. */
static bool host_matches(const char *pattern, struct jv input)
{
	auto_free char *url = jv_cstr(jv_get(input, "url"));
	const char *from = url ? strstr(url, "://") : NULL;

	if (!from)
		return false;
	if (str_starts(pattern, "domain:"))
		pattern += strlen("domain:");
	from += 3;
	size_t len = strcspn(from, "/?#");
	const char *at = memrchr(from, '@', len);
	if (at) {
		len -= (size_t)(at + 1 - from);
		from = at + 1;
	}
	len = from[0] == '[' ? len : MIN(len, strcspn(from, ":"));
	return glob_text(pattern, from, len);
}

static bool is_file_tool(const struct tool *builtin)
{
	return builtin == &tool_read || builtin == &tool_write || builtin == &tool_edit ||
	       builtin == &tool_multi_edit || builtin == &tool_glob || builtin == &tool_grep || builtin == &tool_ls;
}

/* For Bash: part is one simple command. */
static bool pattern_matches(const struct policy *p, const struct pattern *x, const char *name,
			    const struct tool *builtin, struct jv input, const char *part)
{
	if (!names_tool(x, judged_as(name)))
		return false;
	if (!x->on || (is_bash(builtin) && builtin != &tool_bash))
		return x->on ? !x->deny : true;
	if (builtin == &tool_bash)
		return part && command_matches(x->on, part);
	if (is_file_tool(builtin))
		return path_matches(p, x->on, builtin, input);
	if (strcmp(name, "WebFetch") == 0)
		return host_matches(x->on, input);
	return x->deny;
}

enum verdict { ALLOWED, DENIED, NOT_LISTED };

static enum verdict judge(const struct policy *p, const char *name, const struct tool *builtin, struct jv input,
			  const char *part, const struct pattern **ret_by)
{
	bool allowed = !p->any_allow && !(p->readonly && is_bash(builtin));

	for (size_t i = 0; i < p->n; i++) {
		if (!pattern_matches(p, &p->v[i], name, builtin, input, part))
			continue;
		*ret_by = &p->v[i];
		if (p->v[i].deny)
			return DENIED;
		allowed = true;
	}
	return allowed ? ALLOWED : NOT_LISTED;
}

static bool say_no(enum verdict v, const struct pattern *by, const char *name, const char *what, struct tool_result *r)
{
	const char *of = what ? what : name;

	if (v == DENIED)
		return tool_fail(r, "tool_policy does not allow this: \"!%s%s%s%s\" denies %.200s.", by->tool,
				 by->on ? "(" : "", by->on ? by->on : "", by->on ? ")" : "", of);
	return tool_fail(r, "tool_policy does not allow this: no pattern allows %.200s.", of);
}

/* Whether every call of the whole tool is allowed, so that a command need not be understood. */
static bool whole_tool(const struct policy *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->v[i].deny && !p->v[i].on && names_tool(&p->v[i], name))
			return true;
	return !p->any_allow && !p->readonly;
}

static bool bash_allowed(const struct policy *p, struct jv input, struct tool_result *r)
{
	auto_free char *line = jv_cstr(jv_get(input, "command"));
	const struct pattern *by = NULL;
	struct command c;

	/* A malformed input is the tool's own to refuse. */
	command_split(line ? line : "", &c);
	bool good = true;
	if (!whole_tool(p, "Bash") && (c.unclear || c.writes))
		good = tool_fail(r, "tool_policy allows some commands only, and this one %s.",
				 c.writes ? "writes to a file by redirection"
					  : "holds a variable, a substitution or an open quote, so that it cannot be "
					    "judged before it runs");
	for (size_t i = 0; good && i < MAX(c.parts.n, (size_t)1); i++) {
		const char *part = i < c.parts.n ? c.parts.v[i] : NULL;
		enum verdict v = judge(p, "Bash", &tool_bash, input, part, &by);
		good = v == ALLOWED || say_no(v, by, "Bash", part, r);
	}
	command_done(&c);
	return good;
}

bool policy_allows(const struct policy *p, const char *name, const struct tool *builtin, struct jv input,
		   struct tool_result *r)
{
	const struct pattern *by = NULL;

	if (!policy_offers(p, name, builtin))
		return tool_fail(r, "The tool %.100s is not available here.", name);
	if (builtin == &tool_bash)
		return bash_allowed(p, input, r);
	enum verdict v = judge(p, name, builtin, input, NULL, &by);
	return v == ALLOWED || say_no(v, by, name, NULL, r);
}
