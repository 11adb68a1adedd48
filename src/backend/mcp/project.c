/* The project's .mcp.json, which whoever wrote the workspace wrote: an agent of an earlier run, or a stranger whose
 * repository was cloned. So nothing in it can ask for more than its own place has: it is read without following links,
 * its servers run inside the sandbox when there is one (mcp.c decides), and its ${NAME} see no variable of the user's
 * shell (config.c). One bad entry does not spoil the others. */
#include "config.h"
#include "names.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

enum { MEMBERS_MAX = 256 }; /* of args, env, headers */

/* NULL, or what is wrong with it. */
static const char *read_list(const json_t *from, struct strv *to)
{
	size_t i;
	json_t *item;

	if (from && (!json_is_array(from) || json_array_size(from) > MEMBERS_MAX))
		return "its args are no list, or too many";
	json_array_foreach(from, i, item)
	{
		if (!json_is_string(item))
			return "its args are not all strings";
		strv_add(to, json_string_value(item));
	}
	return NULL;
}

static const char *read_map(json_t *from, const char *separator, struct strv *to)
{
	const char *key;
	json_t *value;

	if (from && (!json_is_object(from) || json_object_size(from) > MEMBERS_MAX))
		return "its env or headers are no object, or too many";
	json_object_foreach(from, key, value)
	{
		if (!json_is_string(value) || strpbrk(key, "=: \t\r\n") || !*key)
			return "its env or headers hold something else than names and strings";
		strv_take(to, xasprintf("%s%s%s", key, separator, json_string_value(value)));
	}
	return NULL;
}

static const char *read_transport(const json_t *o, enum dsl_transport *ret)
{
	static const struct {
		const char *word;
		enum dsl_transport is;
	} words[] = {{"stdio", DSL_STDIO}, {"http", DSL_HTTP}, {"streamable-http", DSL_HTTP}, {"sse", DSL_SSE}};
	const char *type = json_get_str(o, "type");

	if (!type)
		type = json_object_get(o, "url") ? "http" : "stdio";
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (str_eq(words[i].word, type)) {
			*ret = words[i].is;
			return NULL;
		}
	}
	return "its type is none of stdio, http and sse";
}

static const char *read_server(const char *name, json_t *o, struct mcp_spec *s)
{
	const char *command = json_get_str(o, "command"), *url = json_get_str(o, "url");

	if (!json_is_object(o))
		return "it is no object";
	if (!mcp_server_name_good(name))
		return "its name is too long or holds more than letters, digits, _ and -";
	const char *wrong = read_transport(o, &s->transport);
	if (wrong)
		return wrong;
	if (s->transport == DSL_STDIO) {
		if (!command || !*command)
			return "it has no command";
		strv_add(&s->argv, command);
		wrong = read_list(json_object_get(o, "args"), &s->argv);
		return wrong ? wrong : read_map(json_object_get(o, "env"), "=", &s->env);
	}
	if (!url)
		return "it has no url";
	s->url = xstrdup(url);
	return read_map(json_object_get(o, "headers"), ": ", &s->headers);
}

static bool taken(const struct mcp_specs *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, name))
			return true;
	return false;
}

static void complain(struct mcp_specs *to, const char *name, const char *why)
{
	strv_take(&to->complaints, xasprintf("MCP server %.64s of .mcp.json: %s", name, why));
}

static void add(struct mcp_specs *to, const char *name, json_t *o)
{
	struct mcp_spec s = {.name = xstrdup(name), .project = true};
	const char *wrong = read_server(name, o, &s);

	if (!wrong && taken(to, name))
		wrong = "the workflow declares a server of that name, which is used";
	if (wrong) {
		complain(to, name, wrong);
		mcp_spec_done(&s);
		return;
	}
	to->v = grow_array(to->v, to->n, &to->cap, sizeof *to->v);
	to->v[to->n++] = s;
}

int mcp_specs_project(struct mcp_specs *to, const char *text, size_t len, struct err *e)
{
	auto_json doc = json_parse_value(text, len, e);
	json_t *servers = json_object_get(doc, "mcpServers"), *o;
	const char *name;
	size_t n = 0;

	if (!doc)
		return -EINVAL;
	if (!json_is_object(servers))
		return err_set(e, ERR_INPUT, EINVAL, "it has no object \"mcpServers\"");
	json_object_foreach(servers, name, o)
	{
		if (n++ == MCP_SERVERS_MAX) {
			complain(to, name, "it is one too many, and so are those behind it");
			break;
		}
		add(to, name, o);
	}
	return 0;
}

static int read_file(int dir, struct buf *to, struct err *e)
{
	auto_fd fd = file_open_resolve(dir, ".mcp.json", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
				       RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	struct stat st;

	if (fd < 0)
		return fd == -ENOENT ? fd : err_sys(e, -fd, "read .mcp.json of the workspace");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INPUT, EINVAL, "read .mcp.json of the workspace: it is no regular file");
	int r = fd_read_all(fd, to);
	return r < 0 ? err_sys(e, -r, "read .mcp.json of the workspace") : 0;
}

int mcp_specs_load(struct mcp_specs *to, const char *workspace, struct err *e)
{
	auto_buf text = BUF_INIT(MCP_PROJECT_FILE_MAX);
	auto_fd dir = dir_open(AT_FDCWD, workspace, e);

	if (dir < 0)
		return dir;
	int r = read_file(dir, &text, e);
	if (r == -ENOENT)
		return 0;
	if (r == 0) {
		r = mcp_specs_project(to, buf_str(&text), text.len, e);
		if (r < 0)
			r = err_wrap(e, r, "read .mcp.json of the workspace");
	}
	if (r < 0)
		err_hint(e, "mend the file, or take autoload_project out of the workflow");
	return r;
}
