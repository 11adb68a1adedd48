/* `proxy`: the egress proxy of a sandbox by itself, until SIGTERM or SIGINT.
 *
 * The listening socket is made here, before the proxy's process is forked and while its paths can still be reached; the
 * process itself is confined and gets descriptors only. The token never stands on a command line: it comes from a file,
 * or is made here and printed once on standard output, for whoever started us. */
#include "commands.h"
#include "event_file.h"
#include "listen.h"
#include "network_flags.h"
#include "output.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/id.h>
#include <base/json.h>
#include <base/mem.h>
#include <net/proxy.h>
#include <net/proxy_json.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <uv.h>

enum { DRAIN_MS = 2000, MAX_TOKEN_FILE = 4096, N_SIGNALS = 2 };

struct proxy_opts {
	const char *listen;
	struct network_flags network;
	const char *token_file;
	bool no_auth;
	struct strv resolve;
	const char *events;
};

struct server {
	uv_loop_t *loop;
	struct proxy *proxy;
	struct listen_address address;
	struct event_file events;
	uv_signal_t signals[N_SIGNALS];
	const char *show_token; /* NULL: it is known or there is none */
	bool lost;
	bool stopping;
	struct err err;
};

static void on_closed(uv_handle_t *h)
{
	(void)h;
}

static void close_signals(struct server *s)
{
	for (size_t i = 0; i < N_SIGNALS; i++)
		uv_close((uv_handle_t *)&s->signals[i], on_closed);
}

static void on_stopped(void *arg)
{
	close_signals(arg);
}

static void stop(struct server *s)
{
	if (s->stopping)
		return;
	s->stopping = true;
	proxy_stop(s->proxy, DRAIN_MS, on_stopped, s);
}

static void on_signal(uv_signal_t *h, int sig)
{
	(void)sig;
	stop(h->data);
}

static void on_blocked(void *arg, const struct proxy_blocked *b)
{
	struct server *s = arg;
	auto_json data = proxy_blocked_json(b);

	event_file_add(&s->events, "network_blocked", data);
}

static void on_summary(void *arg, const struct proxy_host_total *t, size_t n)
{
	struct server *s = arg;
	auto_json data = proxy_summary_json(t, n);

	event_file_add(&s->events, "network_summary", data);
}

static void on_lost(void *arg, const struct err *e)
{
	struct server *s = arg;

	s->lost = true;
	err_copy(&s->err, e);
	stop(s);
}

/* It serves: whoever waits for that reads one line. */
static void announce(const struct server *s)
{
	auto_json j = json_object();

	json_put_str(j, "listen", s->address.text);
	if (s->address.port)
		json_put_int(j, "port", s->address.port);
	json_put_str(j, "token", s->show_token);
	auto_free char *line = json_compact(j);
	out_raw(line, strlen(line));
	out_raw("\n", 1);
	out_flush();
}

static void on_ready(void *arg, const struct err *e)
{
	struct server *s = arg;

	if (!e) {
		announce(s);
		return;
	}
	on_lost(s, e);
}

/* The token's file: its first line. */
static int read_token(const char *path, char **ret, struct err *e)
{
	auto_free char *text = NULL;
	size_t len;
	int r = file_read(AT_FDCWD, path, MAX_TOKEN_FILE, &text, &len, e);

	if (r < 0) {
		err_set_kind(e, ERR_INPUT);
		err_hint(e, "Write the token on the first line of a file that only you can read.");
		return r;
	}
	size_t end = strcspn(text, "\r\n");
	if (end == 0 || strlen(text) < end || strspn(text, " ") == end) {
		r = err_set(e, ERR_INPUT, EINVAL, "read the token from %s: its first line is empty", path);
		err_hint(e, "Write the token on the first line.");
	} else if (end < 16) {
		r = err_set(e, ERR_INPUT, EINVAL, "read the token from %s: it has %zu characters, which can be guessed",
			    path, end);
		err_hint(e, "Use at least 16 random characters, such as those of `openssl rand -hex 32`.");
	} else {
		*ret = xstrndup(text, end);
	}
	explicit_bzero(text, len);
	return r;
}

/* NULL for none. */
static int choose_token(const struct proxy_opts *o, struct server *s, char **ret, struct err *e)
{
	if (o->no_auth && o->token_file) {
		int r = err_set(e, ERR_USAGE, EINVAL, "proxy: --no-auth and --token-file: they exclude each other");
		err_hint(e, "Leave one of them out.");
		return r;
	}
	if (o->token_file)
		return read_token(o->token_file, ret, e);
	if (o->no_auth)
		return 0;
	char token[PROXY_TOKEN_SIZE];
	id_hex(token, (PROXY_TOKEN_SIZE - 1) / 2);
	*ret = xstrdup(token);
	s->show_token = *ret;
	return 0;
}

static int serve(struct server *s, int listener, struct err *e)
{
	static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT};
	const struct proxy_callbacks cb = {
		.on_blocked = on_blocked, .on_summary = on_summary, .on_lost = on_lost, .arg = s};

	for (size_t i = 0; i < N_SIGNALS; i++) {
		(void)uv_signal_init(s->loop, &s->signals[i]);
		s->signals[i].data = s;
		(void)uv_signal_start(&s->signals[i], on_signal, numbers[i]);
	}
	int r = proxy_attach(s->proxy, s->loop, &cb, on_ready, s, e);
	if (r < 0) {
		close_quietly(listener);
		close_signals(s);
		(void)uv_run(s->loop, UV_RUN_DEFAULT);
		return r;
	}
	r = proxy_add_listener(s->proxy, listener);
	if (r < 0) {
		(void)err_sys(&s->err, -r, "hand the listening socket to the proxy");
		s->lost = true;
		stop(s);
	}
	(void)uv_run(s->loop, UV_RUN_DEFAULT);
	if (!s->lost)
		return event_file_close(&s->events, e);
	err_copy(e, &s->err);
	return s->err.errnum ? -s->err.errnum : -EIO;
}

static int run_server(const struct proxy_opts *o, struct server *s, struct err *e)
{
	auto_policy policy = NULL;
	auto_free char *token = NULL;

	int r = network_flags_policy(&o->network, &policy, e);
	if (r == 0)
		r = network_flags_check_resolve(&o->resolve, e);
	if (r == 0)
		r = choose_token(o, s, &token, e);
	if (r == 0 && o->events)
		r = event_file_open(o->events, NULL, &s->events, e);
	if (r < 0)
		return r;
	auto_fd listener = listen_open(o->listen, &s->address, e);
	if (listener < 0)
		return listener;
	if (o->no_auth && s->address.reachable)
		show_warning("%s: anyone who reaches this address can use the proxy; it has no authentication",
			     s->address.text);
	const struct proxy_params pp = {
		.policy = policy,
		.token = token,
		.resolve = (const char *const *)o->resolve.v,
		.learn = policy_mode(policy) == NETWORK_LEARN,
	};
	r = proxy_new(&pp, &s->proxy, e);
	if (r == 0)
		r = serve(s, TAKE_FD(listener), e);
	proxy_free(s->proxy);
	listen_close(&s->address);
	return r;
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct proxy_opts *o = inv->options;
	struct server s = {.err = ERR_INIT};
	uv_loop_t loop;

	if (!o->listen) {
		int r = err_set(e, ERR_USAGE, EINVAL, "proxy: --listen is missing");
		err_hint(e,
			 "Say where to listen: --listen 127.0.0.1:3128, or --listen unix:/run/user/1000/proxy.sock.");
		return r;
	}
	int r = uv_loop_init(&loop);
	if (r < 0)
		return err_sys(e, -r, "prepare the event loop");
	s.loop = &loop;
	r = run_server(o, &s, e);
	(void)event_file_close(&s.events, NULL);
	(void)uv_loop_close(&loop);
	return r;
}

static const struct option_row options[] = {
	{.name = "listen",
	 .letter = 'l',
	 .kind = OPTION_STRING,
	 .value = "ADDRESS",
	 .offset = offsetof(struct proxy_opts, listen),
	 .help = "HOST:PORT (port 0: any free one) or unix:PATH"},
	NETWORK_FLAG_ROWS("mode", struct proxy_opts, network, "allowlist"),
	{.name = "token-file",
	 .kind = OPTION_STRING,
	 .value = "FILE",
	 .offset = offsetof(struct proxy_opts, token_file),
	 .help = "clients must present the first line of FILE; without this and --no-auth a token is made and printed"},
	{.name = "no-auth",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct proxy_opts, no_auth),
	 .help = "serve everyone who reaches the address"},
	RESOLVE_ROW(struct proxy_opts, resolve),
	{.name = "events",
	 .kind = OPTION_STRING,
	 .value = "FILE",
	 .offset = offsetof(struct proxy_opts, events),
	 .help = "append network_blocked and network_summary events to FILE, one JSON object a line"},
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion proxy --listen 127.0.0.1:3128 --no-auth --preset packages", "Package registries and nothing else."},
	{"iterion proxy --listen 127.0.0.1:0 --rule '**.example.org'",
	 "Prints {\"listen\":\"127.0.0.1:PORT\",\"port\":PORT,\"token\":\"…\"} once it serves. The token is the "
	 "password "
	 "of the proxy's user (any name), or a Bearer token."},
	{"iterion proxy -l unix:/tmp/p --no-auth --mode denylist --rule evil.example --events log",
	 "Everything but one host, with a record of what was refused."},
	{NULL, NULL},
};

static const struct help_row exits[] = {
	{"0", "it was ended by SIGTERM or SIGINT"},
	{"1", "it could not listen, or the proxy's process died"},
	{"2", "a rule, a preset, the token's file or the command line is wrong"},
	{NULL, NULL},
};

const struct command command_proxy = {
	.name = "proxy",
	.operands = "",
	.summary = "serve the filtering egress proxy by itself",
	.about = "An HTTP (CONNECT and forward) and SOCKS5 proxy that lets through what the policy allows, in a "
		 "confined "
		 "process of its own. It is the one that every sandbox with a network policy uses; by itself it serves "
		 "other programs, until SIGTERM. When it serves, one JSON line on standard output says where.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct proxy_opts),
	.run = run,
};
