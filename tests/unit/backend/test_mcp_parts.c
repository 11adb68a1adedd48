/* The parts of the MCP client that need no server: messages, lines, events, names, addresses, files, results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../store/tmp.h"
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/parse.h>
#include <errno.h>
#include <mcp/config.h>
#include <mcp/endpoint.h>
#include <stream/lines.h>
#include <mcp/mcp.h>
#include <mcp/names.h>
#include <mcp/result.h>
#include <mcp/rpc.h>
#include <stream/sse.h>
#include <stdio.h>
#include <unistd.h>

/* --- JSON-RPC --- */

static void note_message(void *arg, const struct rpc_message *m)
{
	static const char *const kinds[] = {"request", "notification", "result", "error"};
	struct buf *b = arg;

	(void)buf_printf(b, "%s%s", b->len ? "," : "", kinds[m->kind]);
	if (m->method)
		(void)buf_printf(b, " %s", m->method);
	if (m->number > 0)
		(void)buf_printf(b, " #%d", (int)m->number);
	if (m->text)
		(void)buf_printf(b, " %d %s", (int)m->code, m->text);
}

static void test_rpc(void **state)
{
#define V "\"jsonrpc\":\"2.0\","
	static const struct {
		const char *text;
		const char *expect; /* NULL: refused */
	} cases[] = {
		{"{" V "\"id\":1,\"method\":\"ping\"}", "request ping"},
		{"{" V "\"id\":\"a\",\"method\":\"ping\",\"params\":{}}", "request ping"},
		{"{" V "\"method\":\"n\"}", "notification n"},
		{"{" V "\"id\":7,\"result\":{}}", "result #7"},
		{"{" V "\"id\":7,\"result\":3}", "result #7"},
		{"{" V "\"id\":\"7\",\"result\":{}}", "result"},
		{"{" V "\"id\":-7,\"result\":{}}", "result"},
		{"{" V "\"id\":7,\"error\":{\"code\":-32601,\"message\":\"no\"}}", "error #7 -32601 no"},
		{"{" V "\"id\":null,\"error\":{\"code\":1,\"message\":\"no\"}}", "error 1 no"},
		{"[{" V "\"method\":\"n\"},{" V "\"id\":7,\"result\":{}}]", "notification n,result #7"},
		{"[]", NULL},
		{"", NULL},
		{"3", NULL},
		{"{", NULL},
		{"{}", NULL},
		{"{\"id\":1,\"method\":\"ping\"}", NULL},
		{"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", NULL},
		{"{" V "\"id\":1.5,\"method\":\"ping\"}", NULL},
		{"{" V "\"id\":{},\"method\":\"ping\"}", NULL},
		{"{" V "\"id\":null,\"method\":\"ping\"}", NULL},
		{"{" V "\"id\":1,\"method\":3}", NULL},
		{"{" V "\"id\":1,\"method\":\"\"}", NULL},
		{"{" V "\"id\":1,\"method\":\"ping\",\"params\":[1]}", NULL},
		{"{" V "\"id\":1}", NULL},
		{"{" V "\"id\":1,\"result\":{},\"error\":{\"code\":1,\"message\":\"m\"}}", NULL},
		{"{" V "\"id\":1,\"error\":{\"code\":\"1\",\"message\":\"m\"}}", NULL},
		{"{" V "\"id\":1,\"error\":\"m\"}", NULL},
		{"{" V "\"id\":1,\"result\":\"\\u0000\"}", NULL},
		{"{" V "\"id\":1,\"result\":{},\"result\":{}}", NULL},
	};
#undef V

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_buf got = BUF_INIT(1000);
		struct err e = ERR_INIT;
		int r = rpc_read(cases[i].text, strlen(cases[i].text), note_message, &got, &e);
		if (r == 0 ? !str_eq(buf_str(&got), cases[i].expect)
			   : cases[i].expect || r != -EPROTO || e.kind != ERR_PROTOCOL)
			fail_msg("%s: %d %s (%s)", cases[i].text, r, buf_str(&got), e.msg);
	}
}

static void test_rpc_bounds(void **state)
{
	auto_buf many = BUF_INIT(RPC_MESSAGE_MAX), got = BUF_INIT(1000), deep = BUF_INIT(RPC_MESSAGE_MAX);
	auto_buf commas = BUF_INIT(RPC_MESSAGE_MAX);

	(void)state;
	assert_int_equal(buf_puts(&many, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":["), 0);
	for (size_t i = 0; i < RPC_VALUES_MAX; i++)
		assert_int_equal(buf_puts(&many, "{},"), 0);
	assert_int_equal(buf_puts(&many, "{}]}"), 0);
	assert_int_equal(rpc_read(many.data, many.len, note_message, &got, NULL), -EPROTO);
	/* Inside a string they are no values. */
	assert_int_equal(buf_puts(&commas, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\\\""), 0);
	for (size_t i = 0; i <= RPC_VALUES_MAX; i++)
		assert_int_equal(buf_puts(&commas, ",["), 0);
	assert_int_equal(buf_puts(&commas, "\"}"), 0);
	assert_int_equal(rpc_read(commas.data, commas.len, note_message, &got, NULL), 0);
	for (size_t i = 0; i < 100000; i++)
		assert_int_equal(buf_putc(&deep, '['), 0);
	assert_int_equal(rpc_read(deep.data, deep.len, note_message, &got, NULL), -EPROTO);
}

static void test_rpc_write(void **state)
{
	auto_json params = json_pack("{s:s}", "a", "b\nc");
	auto_json id = json_string("x");
	auto_free char *request = rpc_request(5, "m", params), *refused = rpc_refuse(id, -32601, "no"),
		       *notification = rpc_notification("n", NULL);

	(void)state;
	assert_string_equal(request, "{\"method\":\"m\",\"params\":{\"a\":\"b\\nc\"},\"id\":5,\"jsonrpc\":\"2.0\"}");
	assert_string_equal(refused,
			    "{\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"no\"},\"jsonrpc\":\"2.0\"}");
	assert_string_equal(notification, "{\"method\":\"n\",\"jsonrpc\":\"2.0\"}");
}

/* --- lines and events --- */

static bool note_line(void *arg, const char *line, size_t len)
{
	struct buf *b = arg;

	(void)buf_printf(b, "<%.*s>", (int)len, line);
	return !(len == 4 && memcmp(line, "stop", 4) == 0);
}

/* The same text in pieces of every size gives the same lines. */
static void test_lines(void **state)
{
	static const struct {
		const char *text, *expect;
		int r;
	} cases[] = {
		{"", "", 0},
		{"a", "", 0},
		{"a\n", "<a>", 0},
		{"a\r\nb\n\nc", "<a><b><>", 0},
		{"12345678\n", "<12345678>", 0},
		{"123456789\n", "", -EMSGSIZE},
		{"a\n123456789", "<a>", -EMSGSIZE},
		{"a\nstop\nb\n", "<a><stop>", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);
		for (size_t piece = 1; piece <= len + 1; piece++) {
			auto_buf got = BUF_INIT(1000);
			struct lines l;
			int r = 0;
			lines_init(&l, 8);
			for (size_t at = 0; at < len && r == 0 && !strstr(buf_str(&got), "stop"); at += piece)
				r = lines_feed(&l, cases[i].text + at, MIN(piece, len - at), note_line, &got);
			lines_done(&l);
			if (r != cases[i].r || !str_eq(buf_str(&got), cases[i].expect))
				fail_msg("%zu by %zu: %d %s", i, piece, r, buf_str(&got));
		}
	}
}

static bool note_event(void *arg, const char *name, const char *data, size_t len)
{
	struct buf *b = arg;

	(void)buf_printf(b, "<%s:%.*s>", name, (int)len, data);
	return true;
}

static void test_sse(void **state)
{
	static const struct {
		const char *text, *expect;
		int r;
	} cases[] = {
		{"data: x\n\n", "<message:x>", 0},
		{"\xef\xbb\xbf"
		 "data: x\n\n",
		 "<message:x>", 0},
		{"event: endpoint\r\ndata: /a\r\n\r\n", "<endpoint:/a>", 0},
		{"data:x\ndata: y\ndata\n\n", "<message:x\ny\n>", 0},
		{": comment\nid: 3\nretry: 9\nfoo: bar\n\ndata: x\n\n", "<message:x>", 0},
		{"event: a\n\ndata: x\n\n", "<message:x>", 0},
		{"data: x\n", "", 0},
		{"data: 12345678901234567\n\n", "", -EMSGSIZE},
		{"data: 123456789\ndata: 12345678\n\n", "", -EMSGSIZE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);
		for (size_t piece = 1; piece <= len; piece++) {
			auto_buf got = BUF_INIT(1000);
			struct sse s;
			int r = 0;
			sse_init(&s, 16);
			for (size_t at = 0; at < len && r == 0; at += piece)
				r = sse_feed(&s, cases[i].text + at, MIN(piece, len - at), note_event, &got);
			sse_done(&s);
			if (r != cases[i].r || !str_eq(buf_str(&got), cases[i].expect))
				fail_msg("%zu by %zu: %d %s", i, piece, r, buf_str(&got));
		}
	}
}

static void test_sse_place(void **state)
{
	static const struct {
		const char *text, *id;
		unsigned retry_ms;
	} cases[] = {
		{"data: x\n\n", "", 0},
		{"id: 1\ndata: x\n\n", "1", 0},
		{"id: 1\ndata: x\n\nid: 2\ndata: cut", "1", 0},
		{"id: 1\n\ndata: x\n\n", "1", 0},
		{"id: 1\n\nid\n\n", "", 0},
		{"id: a\x01\n\n", "", 0},
		{"retry: 250\n", "", 250},
		{"retry: -1\nretry: 1x\nretry: 99999999999999999999\n", "", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_buf got = BUF_INIT(1000);
		struct sse s;
		sse_init(&s, 100);
		assert_int_equal(sse_feed(&s, cases[i].text, strlen(cases[i].text), note_event, &got), 0);
		if (!str_eq(s.id, cases[i].id) || s.retry_ms != cases[i].retry_ms)
			fail_msg("%zu: %s %u", i, s.id, s.retry_ms);
		sse_done(&s);
	}
}

/* --- names --- */

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{"mcp.gh.*", "mcp.gh.list", true},
		{"mcp.gh.*", "mcp.gl.list", false},
		{"mcp.gh.l*t", "mcp.gh.list", true},
		{"mcp.gh.l*s", "mcp.gh.list", false},
		{"*", "anything", true},
		{"", "", true},
		{"", "x", false},
		{"*a*b*c*", "xxaxxbxxcxx", true},
		{"*a*b*c", "xxaxxcxxbxx", false},
		{"a**b", "ab", true},
		{"mcp.gh.list", "mcp.gh.list", true},
		{"mcp.gh.list", "mcp.gh.lists", false},
	};
	auto_buf stars = BUF_INIT(10000), as = BUF_INIT(100000);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (mcp_pattern_matches(cases[i].pattern, cases[i].text) != cases[i].matches)
			fail_msg("%s %s", cases[i].pattern, cases[i].text);
	/* Quadratic and no worse: a careless matcher would not come back. */
	for (size_t i = 0; i < 1000; i++)
		(void)buf_puts(&stars, "*a");
	(void)buf_puts(&stars, "b");
	for (size_t i = 0; i < 5000; i++)
		(void)buf_putc(&as, 'a');
	assert_false(mcp_pattern_matches(buf_str(&stars), buf_str(&as)));
}

static void test_split(void **state)
{
	static const struct {
		const char *name, *server, *tool;
	} cases[] = {
		{"mcp.gh.list", "gh", "list"}, {"mcp.gh.a.b/c-d_e", "gh", "a.b/c-d_e"},
		{"mcp.gh", NULL, NULL},	       {"mcp.gh.", NULL, NULL},
		{"mcp..x", NULL, NULL},	       {"gh.list", NULL, NULL},
		{"mcp.g h.x", NULL, NULL},     {"mcp.gh.a b", NULL, NULL},
		{"mcp.gh.a\nb", NULL, NULL},   {"", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char server[MCP_SERVER_NAME_MAX + 1];
		const char *tool = NULL;
		bool ok = mcp_name_split(cases[i].name, server, &tool);
		if (ok != (cases[i].server != NULL) ||
		    (ok && (!str_eq(server, cases[i].server) || !str_eq(tool, cases[i].tool))))
			fail_msg("%s", cases[i].name);
	}
}

/* Which tools of two declared servers, gh and db, and of one of .mcp.json, pj, a node has. */
static void test_allowed(void **state)
{
	static const char *const tools[] = {"mcp.gh.list", "mcp.gh.del", "mcp.db.list", "mcp.pj.list"};
	static const struct {
		const char *node, *workflow;
		const char *expect; /* + for each that it has */
	} cases[] = {
		{"", "", "+++-"},
		{"", "  mcp:\n    servers: [gh]\n", "++--"},
		{"", "  mcp:\n    autoload_project: true\n", "++++"},
		{"  mcp:\n    autoload_project: false\n", "  mcp:\n    autoload_project: true\n", "+++-"},
		{"  mcp:\n    autoload_project: true\n", "", "++++"},
		{"  mcp:\n    inherit: false\n", "", "----"},
		{"  mcp:\n    inherit: false\n    servers: [db]\n", "", "--+-"},
		{"  mcp:\n    servers: [db]\n", "  mcp:\n    servers: [gh]\n", "+++-"},
		{"  mcp:\n    disable: [gh]\n", "", "--+-"},
		{"  mcp:\n    disable: [mcp.gh.d*]\n", "", "+-+-"},
		{"", "  mcp:\n    disable: [mcp.*.list]\n", "-+--"},
		{"  tools: [Read, mcp.gh.*]\n", "", "++--"},
		{"  tools: [mcp.*.list]\n", "  mcp:\n    autoload_project: true\n", "+-++"},
		{"  tools: [mcp.db]\n", "", "--+-"},
		{"  tools: [\"*\"]\n", "", "+++-"},
		{"  tools: [Read]\n", "", "----"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text =
			xasprintf("mcp_server gh:\n  transport: stdio\n  command: \"x\"\nmcp_server db:\n"
				  "  transport: stdio\n  command: \"x\"\nagent a:\n  model: \"m\"\n  user: p\n%sprompt "
				  "p:\n  hello\nworkflow w:\n  entry: a\n%s  a -> done\n",
				  cases[i].node, cases[i].workflow);
		struct dsl_file *f;
		char got[8] = "";
		assert_int_equal(dsl_parse("t", text, strlen(text), NULL, &f), 0);
		for (size_t k = 0; k < ARRAY_LEN(tools); k++) {
			char server[MCP_SERVER_NAME_MAX + 1];
			const char *tool;
			assert_true(mcp_name_split(tools[k], server, &tool));
			bool has = mcp_server_allowed(f, f->nodes[0], server, str_eq(server, "pj")) &&
				   mcp_tool_allowed(f, f->nodes[0], tools[k]);
			got[k] = has ? '+' : '-';
		}
		dsl_file_free(f);
		if (!str_eq(got, cases[i].expect))
			fail_msg("case %zu: %s", i, got);
	}
}

static void test_endpoint(void **state)
{
	static const struct {
		const char *url, *said, *expect;
	} cases[] = {
		{"http://a:1/x/sse", "/m?id=1", "http://a:1/m?id=1"},
		{"http://a:1/x/sse", "m?id=1", "http://a:1/x/m?id=1"},
		{"http://a:1/x/sse?k=v", "?id=1", "http://a:1/x/sse?id=1"},
		{"http://a:1", "m", "http://a:1/m"},
		{"http://a:1", "?m", "http://a:1/?m"},
		{"http://a:1/x", "http://a:1/y", "http://a:1/y"},
		{"http://a:1/x", "HTTP://A:1/y", "HTTP://A:1/y"},
		{"http://a:1/x", "http://a:12/y", NULL},
		{"http://a:1/x", "http://a:1@evil/y", NULL},
		{"http://a:1/x", "https://a:1/y", NULL},
		{"http://a:1/x", "//evil/y", NULL},
		{"http://a:1/x", "/\\evil", NULL},
		{"http://a:1/x", "javascript:1", NULL},
		{"http://a:1/x", "/a b", NULL},
		{"http://a:1/x", "/a\r\nX: y", NULL},
		{"http://a:1/x", "", NULL},
		{"nonsense", "/x", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *got = endpoint_resolve(cases[i].url, cases[i].said);
		if (!str_eq(got, cases[i].expect))
			fail_msg("%s %s: %s", cases[i].url, cases[i].said, got ? got : "NULL");
	}
}

/* --- .mcp.json --- */

static void test_project(void **state)
{
	static const char text[] =
		"{\"mcpServers\": {"
		"\"a\": {\"command\": \"run\", \"args\": [\"${HOME}/x\", \"$5\", \"${NOPE:-d}\"], \"env\": {\"K\": "
		"\"v\"}},"
		"\"b\": {\"url\": \"https://h/${USER}\", \"headers\": {\"X-Y\": \"z\"}},"
		"\"c\": {\"type\": \"sse\", \"url\": \"http://h/\"},"
		"\"d\": {\"command\": \"${NOPE}\"},"
		"\"bad name\": {\"command\": \"x\"}, \"no_command\": {}, \"bad_args\": {\"command\": \"x\", \"args\": "
		"1},"
		"\"bad_env\": {\"command\": \"x\", \"env\": {\"A\": 1}}, \"bad_type\": {\"type\": \"carrier pigeon\"},"
		"\"bad_header\": {\"url\": \"http://h\", \"headers\": {\"A: b\": \"c\"}},"
		"\"split\": {\"url\": \"http://h\", \"headers\": {\"A\": \"c\\r\\nB: d\"}}, \"no\": 3}}";
	struct mcp_specs l = {0};
	struct err e = ERR_INIT;
	auto_strv env = {0};
	struct mcp_spec s = {0};

	(void)state;
	strv_add(&env, "HOME=/h");
	strv_add(&env, "USER=u");
	assert_int_equal(mcp_specs_project(&l, text, sizeof text - 1, &e), 0);
	assert_int_equal(l.n, 5);
	assert_int_equal(l.complaints.n, 7);
	assert_int_equal(mcp_spec_settle(&l.v[0], &env, &s, &e), 0);
	assert_int_equal(s.argv.n, 4);
	assert_string_equal(s.argv.v[1], "/h/x");
	assert_string_equal(s.argv.v[2], "$5");
	assert_string_equal(s.argv.v[3], "d");
	assert_string_equal(s.env.v[0], "K=v");
	auto_json claude = mcp_spec_claude(&s);
	auto_free char *shown = json_compact(claude);
	assert_string_equal(shown, "{\"type\":\"stdio\",\"command\":\"run\",\"args\":[\"/h/x\",\"$5\",\"d\"],"
				   "\"env\":{\"K\":\"v\"}}");
	mcp_spec_done(&s);
	assert_int_equal(mcp_spec_settle(&l.v[1], &env, &s, &e), 0);
	assert_string_equal(s.url, "https://h/u");
	assert_string_equal(s.headers.v[0], "X-Y: z");
	mcp_spec_done(&s);
	assert_int_equal(l.v[2].transport, DSL_SSE);
	assert_int_equal(mcp_spec_settle(&l.v[3], &env, &s, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "${NOPE}"));
	assert_string_equal(l.v[4].name, "split");
	assert_int_equal(mcp_spec_settle(&l.v[4], &env, &s, &e), -EINVAL);
	mcp_specs_done(&l);
}

static void test_project_whole(void **state)
{
	static const char *const bad[] = {"", "[]", "{", "{\"mcpServers\": []}",
					  "{\"mcpServers\": {\"a\": {}, \"a\": {}}}"};
	struct mcp_specs l = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (mcp_specs_project(&l, bad[i], strlen(bad[i]), NULL) != -EINVAL)
			fail_msg("%s", bad[i]);
	mcp_specs_done(&l);
}

/* Missing is fine; a link and a folder are not. */
static void test_project_file(void **state)
{
	char *dir = tmp_dir();
	auto_free char *path = xasprintf("%s/.mcp.json", dir), *other = xasprintf("%s/other", dir);
	struct mcp_specs l = {0};
	struct err e = ERR_INIT;
	static const char text[] = "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}";

	(void)state;
	assert_int_equal(mcp_specs_load(&l, dir, &e), 0);
	assert_int_equal(l.n, 0);
	assert_int_equal(file_replace(AT_FDCWD, other, text, sizeof text - 1, 0600, FILE_NO_SYNC, NULL), 0);
	assert_int_equal(symlink("other", path), 0);
	assert_true(mcp_specs_load(&l, dir, &e) < 0);
	assert_true(e.hint[0] != '\0');
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(mcp_specs_load(&l, dir, &e) < 0);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(mcp_specs_load(&l, dir, &e), 0);
	assert_int_equal(l.n, 1);
	mcp_specs_done(&l);
	tmp_remove(dir);
}

/* A token travels over https or to this machine, and is a token. */
static void test_token(void **state)
{
	static const struct {
		const char *url, *token;
		int r;
	} cases[] = {
		{"https://example.org/mcp", "t0k", 0},
		{"http://127.0.0.1:80/mcp", "t0k", 0},
		{"http://localhost/mcp", "t0k", 0},
		{"http://[::1]:8/mcp", "t0k", 0},
		{"http://example.org/mcp", "t0k", -EINVAL},
		{"http://127.0.0.1.example.org/mcp", "t0k", -EINVAL},
		{"http://localhost.example.org/mcp", "t0k", -EINVAL},
		{"https://example.org/mcp", "", -EINVAL},
		{"https://example.org/mcp", "a b", -EINVAL},
		{"https://example.org/mcp", "a\nX: y", -EINVAL},
		{"http://example.org/mcp", NULL, 0},
		{"ftp://example.org/mcp", NULL, -EINVAL},
		{"http://example.org/a b", NULL, -EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mcp_spec s = {.name = xstrdup("m"),
				     .transport = DSL_HTTP,
				     .url = xstrdup(cases[i].url),
				     .token = cases[i].token ? xstrdup(cases[i].token) : NULL};
		struct mcp_spec settled = {0};
		struct err e = ERR_INIT;
		int r = mcp_spec_settle(&s, &(struct strv){0}, &settled, &e);
		if (r != cases[i].r ||
		    (r < 0 && (!e.hint[0] || (cases[i].token && *cases[i].token && strstr(e.msg, cases[i].token)))))
			fail_msg("case %zu: %d %s", i, r, e.msg);
		if (r == 0 && cases[i].token)
			assert_string_equal(settled.headers.v[0], "Authorization: Bearer t0k");
		mcp_spec_done(&settled);
		mcp_spec_done(&s);
	}
}

/* --- results --- */

static void test_result(void **state)
{
	static const struct {
		const char *result;
		const char *text; /* NULL: refused */
		size_t kept;
		bool is_error;
	} cases[] = {
		{"{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}", "a\nb", 2,
		 false},
		{"{\"content\":[],\"isError\":true}", "", 0, true},
		{"{\"content\":[],\"structuredContent\":{\"x\":1}}", "{\"x\":1}", 0, false},
		{"{\"structuredContent\":{\"x\":1}}", "{\"x\":1}", 0, false},
		{"{\"content\":[{\"type\":\"image\",\"data\":\"QUJD\",\"mimeType\":\"image/png\"}]}",
		 "[image: image/png, 3 bytes]", 1, false},
		{"{\"content\":[{\"type\":\"image\",\"data\":3,\"mimeType\":\"image/png\"}]}",
		 "[content of a kind that is not known: image]", 0, false},
		{"{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":\"f:x\",\"text\":\"in it\"}}]}", "in it",
		 1, false},
		{"{\"content\":[{\"type\":\"resource_link\",\"uri\":\"f:x\",\"name\":\"n\"}]}", "[link: n f:x]", 1,
		 false},
		{"{\"content\":[{\"type\":\"hologram\"}, 3]}",
		 "[content of a kind that is not known: hologram]\n[content of a kind that is not known: ?]", 0, false},
		{"{}", NULL, 0, false},
		{"[]", NULL, 0, false},
		{"{\"content\":\"x\"}", NULL, 0, false},
		{"{\"content\":[],\"isError\":\"yes\"}", NULL, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_json j = json_loads(cases[i].result, 0, NULL);
		struct mcp_result r = {0};
		struct err e = ERR_INIT;
		int n = mcp_result_read("s", j, &r, &e);
		if (n < 0 ? cases[i].text || !e.hint[0]
			  : !str_eq(r.text, cases[i].text) || json_array_size(r.content) != cases[i].kept ||
				    r.is_error != cases[i].is_error)
			fail_msg("%s: %d %s", cases[i].result, n, r.text ? r.text : e.msg);
		mcp_result_done(&r);
	}
}

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
#define IMAGE(data, type) "{\"type\":\"image\",\"data\":\"" data "\",\"mimeType\":\"" type "\"}"

/* Which images a model is shown: by their first bytes, in base64 that is some, within the bounds. */
static void test_result_images(void **state)
{
	static const struct {
		const char *block, *media_type;
	} cases[] = {
		{IMAGE(PNG, "image/png"), "image/png"},
		{IMAGE(PNG, "text/html"), "image/png"},
		{IMAGE("/9j/AAAAAAAAAAAAAAAA", "image/jpg"), "image/jpeg"},
		{IMAGE("R0lGODdhAAAAAAAAAAAA", "image/gif"), "image/gif"},
		{IMAGE("R0lGODlhAAAAAAAAAAAA", "image/gif"), "image/gif"},
		{IMAGE("UklGRiQAAABXRUJQVlA4", "image/webp"), "image/webp"},
		{IMAGE("UklGRiQAAABXQVZFZm10", "image/webp"), NULL},
		{IMAGE("PHN2ZyB4bWxucz0iaHR0", "image/svg+xml"), NULL},
		{IMAGE("iVBORw0KGgoAAAANSUhE!A==", "image/png"), NULL},
		{IMAGE("iVBORw0KGgoAAAANSUhEA", "image/png"), NULL},
		{IMAGE("iVBORw0KGgoAAAAN=UhE", "image/png"), NULL},
		{IMAGE("iVBORw0KGgo=", "image/png"), NULL},
		{IMAGE("/9j/", "image/jpeg"), NULL},
		{"{\"type\":\"audio\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}", NULL},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text = xasprintf("{\"content\":[%s]}", cases[i].block);
		auto_json j = json_loads(text, 0, NULL);
		struct mcp_result r = {0};
		assert_int_equal(mcp_result_read("s", j, &r, NULL), 0);
		auto_json images = mcp_result_images(&r, 1000);
		assert_int_equal(json_array_size(images), cases[i].media_type != NULL);
		if (cases[i].media_type)
			assert_string_equal(json_get_str(json_array_get(images, 0), "media_type"), cases[i].media_type);
		mcp_result_done(&r);
	}
	/* Two fit, together with the third they do not, and a smaller one still does. */
	static const char all[] = "{\"content\":[" IMAGE(PNG, "a") "," IMAGE(PNG, "a") "," IMAGE(PNG, "a") "," IMAGE(
		"/9j/AAAAAAAAAAAAAAAA", "a") "]}";
	auto_json j = json_loads(all, 0, NULL);
	struct mcp_result r = {0};
	assert_int_equal(mcp_result_read("s", j, &r, NULL), 0);
	auto_json images = mcp_result_images(&r, 2 * strlen(PNG) + 20);
	assert_int_equal(json_array_size(images), 3);
	assert_string_equal(json_get_str(json_array_get(images, 2), "media_type"), "image/jpeg");
	mcp_result_done(&r);
}

static void test_result_long(void **state)
{
	size_t len = 2 * 1024 * 1024;
	auto_buf text = BUF_INIT(3 * 1024 * 1024);
	struct mcp_result r = {0};

	(void)state;
	for (size_t i = 0; i < len / 2; i++)
		(void)buf_puts(&text, "\xc3\xa9");
	(void)buf_puts(&text, "x");
	auto_json j = json_pack("{s:[{s:s,s:s}]}", "content", "type", "text", "text", buf_str(&text));
	assert_int_equal(mcp_result_read("s", j, &r, NULL), 0);
	assert_true(strlen(r.text) < len / 2 + 1000);
	assert_true(str_ends(r.text, "too long]"));
	assert_true(utf8_valid(r.text, strlen(r.text)));
	mcp_result_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rpc),	      cmocka_unit_test(test_rpc_bounds),
		cmocka_unit_test(test_rpc_write),     cmocka_unit_test(test_lines),
		cmocka_unit_test(test_sse),	      cmocka_unit_test(test_sse_place),
		cmocka_unit_test(test_patterns),      cmocka_unit_test(test_split),
		cmocka_unit_test(test_allowed),	      cmocka_unit_test(test_endpoint),
		cmocka_unit_test(test_project),	      cmocka_unit_test(test_project_whole),
		cmocka_unit_test(test_project_file),  cmocka_unit_test(test_token),
		cmocka_unit_test(test_result),	      cmocka_unit_test(test_result_long),
		cmocka_unit_test(test_result_images),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
