/* Fuzz target: what an MCP server, or the workspace, may say. The first byte of the input chooses the reader: messages
 * of JSON-RPC (and a tool's result in them), a stream of events in pieces, a .mcp.json, or an endpoint's address.
 * Whatever they are: no crash, what is accepted keeps to its bounds, and the pieces that a stream comes in change
 * nothing. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <mcp/config.h>
#include <mcp/endpoint.h>
#include <mcp/names.h>
#include <mcp/result.h>
#include <mcp/rpc.h>
#include <stream/sse.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void on_reply(void *arg, const struct rpc_message *m)
{
	require(m->kind == RPC_ERROR);
	*(bool *)arg = true;
}

static void on_message(void *arg, const struct rpc_message *m)
{
	(void)arg;
	if (m->kind == RPC_REQUEST || m->kind == RPC_NOTIFICATION)
		require(m->method && *m->method && strlen(m->method) <= RPC_METHOD_MAX);
	if (m->kind == RPC_REQUEST) {
		/* What we say to it is a message too. */
		bool told = false;
		auto_free char *reply = rpc_refuse(m->id, -32601, "no");
		require(rpc_read(reply, strlen(reply), on_reply, &told, NULL) == 0 && told);
		require(!strchr(reply, '\n'));
	}
	if (m->kind == RPC_ERROR)
		require(m->text);
	if (m->kind != RPC_RESULT)
		return;
	struct mcp_result r = {0};
	struct err e = ERR_INIT;
	if (mcp_result_read("s", m->result, &r, &e) < 0) {
		require(e.msg[0] && e.hint[0]);
		return;
	}
	require(utf8_valid(r.text, strlen(r.text)) && json_is_array(r.content));
	mcp_result_done(&r);
}

static void try_rpc(const char *text, size_t len)
{
	struct err e = ERR_INIT;

	if (rpc_read(text, len, on_message, NULL, &e) < 0)
		require(e.kind == ERR_PROTOCOL && e.msg[0]);
}

static bool on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct buf *b = arg;

	require(*name && len <= 64);
	(void)buf_printf(b, "%s=", name);
	(void)buf_add(b, data, len);
	(void)buf_putc(b, ';');
	return true;
}

/* 0 or -errno; the events in *to. */
static int read_events(const char *text, size_t len, size_t piece, struct buf *to)
{
	struct sse s;
	int r = 0;

	sse_init(&s, 64);
	for (size_t at = 0; at < len && r == 0; at += piece)
		r = sse_feed(&s, text + at, MIN(piece, len - at), on_event, to);
	sse_done(&s);
	return r;
}

static void try_events(const char *text, size_t len)
{
	auto_buf whole = BUF_INIT(1 << 20);
	int r = read_events(text, len, len + 1, &whole);

	for (size_t piece = 1; piece <= 5; piece += 2) {
		auto_buf parts = BUF_INIT(1 << 20);
		int q = read_events(text, len, piece, &parts);
		require(q == r);
		require(whole.len == parts.len && (whole.len == 0 || memcmp(whole.data, parts.data, whole.len) == 0));
	}
}

static bool plain(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
			return false;
	return true;
}

static void try_project(const char *text, size_t len)
{
	struct mcp_specs l = {0};
	auto_strv env = {0};

	strv_add(&env, "HOME=/home/u");
	if (mcp_specs_project(&l, text, len, NULL) < 0)
		require(l.n == 0);
	for (size_t i = 0; i < l.n; i++) {
		struct mcp_spec s = {0};
		struct err e = ERR_INIT;
		require(l.v[i].project && !l.v[i].sandboxed && mcp_server_name_good(l.v[i].name));
		if (mcp_spec_settle(&l.v[i], &env, &s, &e) < 0) {
			require(e.msg[0] && e.hint[0]);
			continue;
		}
		require(s.transport == DSL_STDIO ? s.argv.n > 0 && *s.argv.v[0] : s.url && plain(s.url));
		for (size_t k = 0; k < s.headers.n; k++)
			require(plain(s.headers.v[k]));
		json_decref(mcp_spec_claude(&s));
		mcp_spec_done(&s);
	}
	mcp_specs_done(&l);
}

static void try_endpoint(const char *text, size_t len)
{
	static const char url[] = "http://a.example:80/x/sse?k=v", origin[] = "http://a.example:80";
	auto_free char *said = xstrndup(text, len);
	auto_free char *got = endpoint_resolve(url, said);

	if (!got)
		return;
	require(strncasecmp(got, origin, strlen(origin)) == 0 && plain(got));
	require(!got[strlen(origin)] || strchr("/?#", got[strlen(origin)]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(const char *text, size_t len) = {try_rpc, try_events, try_project, try_endpoint};

	if (size > 0)
		readers[data[0] % ARRAY_LEN(readers)]((const char *)data + 1, size - 1);
	return 0;
}
