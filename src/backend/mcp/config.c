/* Servers of the workflow file, and how any server is checked before it starts.
 *
 * The file's own texts were expanded by its parser, from the user's environment: who wrote the workflow may name a key
 * in `env:` or `auth:` and so give it to that server. A token goes over https, or to this machine. */
#include "config.h"
#include "names.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void mcp_spec_done(struct mcp_spec *s)
{
	free(s->name);
	strv_done(&s->argv);
	strv_done(&s->env);
	free(s->url);
	strv_done(&s->headers);
	if (s->token)
		explicit_bzero(s->token, strlen(s->token));
	free(s->token);
	*s = (struct mcp_spec){0};
}

void mcp_specs_done(struct mcp_specs *s)
{
	for (size_t i = 0; i < s->n; i++)
		mcp_spec_done(&s->v[i]);
	free(s->v);
	strv_done(&s->complaints);
	*s = (struct mcp_specs){0};
}

static void add_declared(struct mcp_specs *to, const struct dsl_mcp_server *d)
{
	to->v = grow_array(to->v, to->n, &to->cap, sizeof *to->v);
	struct mcp_spec *s = &to->v[to->n++];

	*s = (struct mcp_spec){
		.name = xstrdup(d->name.s),
		.transport = (enum dsl_transport)d->transport.v,
		.url = d->url.s ? xstrdup(d->url.s) : NULL,
		.token = d->auth.token.s ? xstrdup(d->auth.token.s) : NULL,
		.sandboxed = d->sandboxed.v,
	};
	if (d->command.s)
		strv_add(&s->argv, d->command.s);
	for (size_t i = 0; i < d->args.n; i++)
		strv_add(&s->argv, d->args.v[i].s);
	for (size_t i = 0; i < d->env.n; i++)
		strv_set_env(&s->env, d->env.v[i].key.s, d->env.v[i].value.s ? d->env.v[i].value.s : "");
	/* Without a token the want of one is said when the server is to start, not to those who never use it. */
	if (d->auth.pos.line && !s->token)
		s->token = xstrdup("");
}

void mcp_specs_declared(struct mcp_specs *to, const struct dsl_file *f)
{
	for (size_t i = 0; i < f->n_mcp_servers; i++)
		add_declared(to, f->mcp_servers[i]);
}

static int bad(struct err *e, const struct mcp_spec *s, const char *why, const char *hint)
{
	int r = err_set(e, ERR_INPUT, EINVAL, "MCP server %.*s: %s", MCP_SERVER_NAME_MAX, s->name, why);

	err_hint(e, "%s", hint);
	return r;
}

/* Printable ASCII and spaces only: anything else could end a header or a request line. */
static bool plain(const char *s, bool spaces)
{
	for (; *s; s++)
		if ((unsigned char)*s > 0x7e || (unsigned char)*s < (spaces ? 0x20 : 0x21))
			return false;
	return true;
}

static bool is_loopback(const char *url)
{
	static const char *const hosts[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		size_t len = strlen(hosts[i]);
		if (strncmp(url, hosts[i], len) == 0 && strchr("/:?#", url[len]))
			return true;
	}
	return false;
}

static int check_token(const struct mcp_spec *s, struct err *e)
{
	if (!s->token)
		return 0;
	if (!*s->token)
		return bad(e, s, "its auth block gives no token",
			   "set the variable that `token: \"${NAME}\"` names; a token that needs a log-in in a browser "
			   "is obtained outside of a run");
	if (!plain(s->token, false))
		return bad(e, s, "its token holds a space or another character that no token has",
			   "look at the variable that the auth block names");
	if (!str_starts(s->url, "https://") && !is_loopback(s->url))
		return bad(e, s, "its token would travel in clear", "use an https:// URL");
	return 0;
}

static int check_headers(const struct mcp_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->headers.n; i++)
		if (!plain(s->headers.v[i], true))
			return bad(e, s, "one of its headers holds a control character or is no ASCII",
				   "look at its headers");
	return 0;
}

static int check(const struct mcp_spec *s, struct err *e)
{
	if (!mcp_server_name_good(s->name))
		return bad(e, s, "its name is too long or holds more than letters, digits, _ and -",
			   "give it a short name");
	if (s->transport == DSL_STDIO) {
		if (s->argv.n == 0 || !*s->argv.v[0])
			return bad(e, s, "it has no command", "name the program in command");
		for (size_t i = 0; i < s->env.n; i++) {
			auto_free char *name = xstrndup(s->env.v[i], strcspn(s->env.v[i], "="));
			if (!str_is_identifier(name))
				return bad(e, s, "its env names something that is no variable",
					   "use letters, digits and _ in the names of env");
		}
		return 0;
	}
	if (!s->url || (!str_starts(s->url, "http://") && !str_starts(s->url, "https://")) || !plain(s->url, false))
		return bad(e, s, "its url is none that can be asked", "use http:// or https://");
	int r = check_headers(s, e);
	return r < 0 ? r : check_token(s, e);
}

/* --- ${NAME} of .mcp.json --- */

enum { EXPANDED_MAX = 64 * 1024 };

static int no_variable(const struct mcp_spec *s, const char *name, size_t len, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EINVAL, "MCP server %s of .mcp.json: ${%.*s} is not set for it", s->name,
			(int)MIN(len, (size_t)64), name);

	err_hint(e, "what .mcp.json names gets no variable of your shell; declare the server in the workflow "
		    "(mcp_server) to pass one, or set it in the sandbox's env");
	return r;
}

/* One reference at *p, which moves behind it; what is no reference stays as it is. */
static int expand_one(const struct mcp_spec *s, const char **p, const struct strv *env, struct buf *to, struct err *e)
{
	const char *name = *p + 2, *end = strchr(name, '}');
	const char *colon = end ? memmem(name, (size_t)(end - name), ":-", 2) : NULL;
	size_t len = end ? (size_t)((colon ? colon : end) - name) : 0;
	auto_free char *word = xstrndup(name, len);

	if (!end || !str_is_identifier(word)) {
		*p += 2;
		return buf_puts(to, "${");
	}
	*p = end + 1;
	const char *value = strv_get_env(env, word);
	if (value)
		return buf_puts(to, value);
	return colon ? buf_add(to, colon + 2, (size_t)(end - colon - 2)) : no_variable(s, name, len, e);
}

static int expand(const struct mcp_spec *s, const char *text, const struct strv *env, char **ret, struct err *e)
{
	auto_buf out = BUF_INIT(EXPANDED_MAX);
	int r = 0;

	if (!s->project) {
		*ret = xstrdup(text);
		return 0;
	}
	for (const char *p = text; *p && r == 0;) {
		if (p[0] == '$' && p[1] == '{') {
			r = expand_one(s, &p, env, &out, e);
			continue;
		}
		size_t n = 1 + strcspn(p + 1, "$");
		r = buf_add(&out, p, n);
		p += n;
	}
	if (r == -ENOBUFS)
		return bad(e, s, "a text of it is too long", "keep each below 64 KiB");
	if (r == 0)
		*ret = buf_steal(&out);
	return r;
}

static int expand_list(const struct mcp_spec *s, const struct strv *from, const struct strv *env, struct strv *to,
		       struct err *e)
{
	for (size_t i = 0; i < from->n; i++) {
		char *text = NULL;
		int r = expand(s, from->v[i], env, &text, e);
		if (r < 0)
			return r;
		strv_take(to, text);
	}
	return 0;
}

int mcp_spec_settle(const struct mcp_spec *s, const struct strv *env, struct mcp_spec *ret, struct err *e)
{
	struct mcp_spec c = {
		.name = xstrdup(s->name),
		.transport = s->transport,
		.token = s->token ? xstrdup(s->token) : NULL,
		.sandboxed = s->sandboxed,
		.project = s->project,
	};
	int r = expand_list(s, &s->argv, env, &c.argv, e);

	if (r == 0)
		r = expand_list(s, &s->env, env, &c.env, e);
	if (r == 0)
		r = expand_list(s, &s->headers, env, &c.headers, e);
	if (r == 0 && s->url)
		r = expand(s, s->url, env, &c.url, e);
	if (r == 0)
		r = check(&c, e);
	if (r < 0) {
		mcp_spec_done(&c);
		return r;
	}
	if (c.token)
		strv_take(&c.headers, xasprintf("Authorization: Bearer %s", c.token));
	*ret = c;
	return 0;
}

/* --- for claude --- */

/* "NAME=value" or "Name: value" as members of an object. */
static json_t *members(const struct strv *l, const char *separator)
{
	json_t *o = json_object();

	for (size_t i = 0; i < l->n; i++) {
		const char *at = strstr(l->v[i], separator);
		if (!at)
			continue;
		auto_free char *name = xstrndup(l->v[i], (size_t)(at - l->v[i]));
		json_put_str(o, name, at + strlen(separator));
	}
	return o;
}

json_t *mcp_spec_claude(const struct mcp_spec *s)
{
	json_t *o = json_object();

	if (s->transport != DSL_STDIO) {
		json_put_str(o, "type", s->transport == DSL_SSE ? "sse" : "http");
		json_put_str(o, "url", s->url);
		if (s->headers.n > 0)
			json_put(o, "headers", members(&s->headers, ": "));
		return o;
	}
	json_t *args = json_array();
	for (size_t i = 1; i < s->argv.n; i++)
		(void)json_array_append_new(args, json_text(s->argv.v[i], strlen(s->argv.v[i])));
	json_put_str(o, "type", "stdio");
	json_put_str(o, "command", s->argv.v[0]);
	json_put(o, "args", args);
	json_put(o, "env", members(&s->env, "="));
	return o;
}
