/* A registry, by the distribution API (version 2).
 *
 * It is asked without credentials first; the answer 401 says how it wants to be asked: by a token, which is fetched
 * from where it says, or by name and password. What it answers with a redirect is fetched from there, without the
 * authorization unless it is the same place: blobs stand in stores of other companies. TLS is never left out, but for a
 * registry on this machine's loopback, which is tried with it first. Everything waits on a loop of its own. */
#include "auth.h"
#include "challenge.h"
#include "source.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <http/http.h>

#include <errno.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum {
	IDLE_MS = 60 * 1000,
	WORDS_LIMIT = 64 * 1024,
	TOKEN_LIMIT = 1024 * 1024,
	DOCUMENT_MS = 5 * 60 * 1000, /* for a whole document */
	BYTES_A_MS = 4,		     /* a layer has as much more time as it takes this way */
	MAX_HOPS = 5,
	MAX_TRIES = 4,
	FIRST_WAIT_MS = 1000,
	LONGEST_WAIT_MS = 30 * 1000,
};

struct registry {
	struct source base;
	uv_loop_t loop;
	struct http *http;
	char *origin; /* "https://registry-1.docker.io" */
	char *domain, *repository, *reference;
	bool loopback;
	bool knows_credentials;
	struct credentials credentials;
	char *authorization; /* a whole field; NULL: none */
};

/* One request and its answer. */
struct exchange {
	bool over;
	int status;
	char *location, *challenge, *retry_after;
	struct http_request *request;
	source_take take; /* of a good answer */
	void *arg;
	int taken;	  /* take's error */
	struct buf words; /* of another answer */
	size_t wasted;	  /* bytes of another answer */
	struct err failure;
};

static void exchange_done(struct exchange *x)
{
	free(x->location);
	free(x->challenge);
	free(x->retry_after);
	buf_done(&x->words);
}

static char *copy_field(const struct http_head *h, const char *name)
{
	const char *v = http_field(h, name);

	return v ? xstrdup(v) : NULL;
}

static void on_head(void *arg, const struct http_head *h)
{
	struct exchange *x = arg;

	x->status = h->status;
	x->location = copy_field(h, "Location");
	x->challenge = copy_field(h, "WWW-Authenticate");
	x->retry_after = copy_field(h, "Retry-After");
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct exchange *x = arg;

	if (x->status == 200) {
		x->taken = x->take(x->arg, data, len);
	} else {
		(void)!buf_add(&x->words, data, MIN(len, x->words.max - x->words.len));
		x->wasted += len;
	}
	/* Such an answer counts by its head, and need not end. */
	if (x->taken < 0 || x->wasted > WORDS_LIMIT) {
		x->over = true;
		http_cancel(x->request);
	}
}

static void on_done(void *arg, const struct err *e)
{
	struct exchange *x = arg;

	x->over = true;
	if (e)
		x->failure = *e;
}

/* Asks, and waits for the answer's end. 0 with a status, or -errno when there was none. */
static int ask(struct registry *g, const struct http_opts *o, struct exchange *x, struct err *e)
{
	const struct http_callbacks cb = {.on_head = on_head, .on_data = on_data, .on_done = on_done, .arg = x};

	x->words = BUF_INIT(WORDS_LIMIT);
	int r = http_start(g->http, o, &cb, &x->request, e);
	while (r == 0 && !x->over)
		(void)uv_run(&g->loop, UV_RUN_ONCE);
	if (r < 0 || x->taken < 0)
		return r < 0 ? r : x->taken;
	if (x->failure.kind == ERR_NONE)
		return 0;
	err_copy(e, &x->failure);
	return x->failure.errnum > 0 ? -x->failure.errnum : -EIO;
}

static void on_timer(uv_timer_t *t)
{
	*(bool *)t->data = true;
}

static void on_timer_closed(uv_handle_t *h)
{
	*(bool *)h->data = true;
}

static void wait_ms(struct registry *g, uint64_t ms)
{
	uv_timer_t timer;
	bool passed = false, closed = false;

	(void)uv_timer_init(&g->loop, &timer);
	timer.data = &passed;
	(void)uv_timer_start(&timer, on_timer, ms, 0);
	while (!passed)
		(void)uv_run(&g->loop, UV_RUN_ONCE);
	timer.data = &closed;
	uv_close((uv_handle_t *)&timer, on_timer_closed);
	while (!closed)
		(void)uv_run(&g->loop, UV_RUN_ONCE);
}

/* --- who asks --- */

static char *basic(const struct credentials *c)
{
	auto_free char *plain = xasprintf("%s:%s", c->user, c->secret);
	size_t len = strlen(plain), coded = BASE64_ENCODE_RAW_LENGTH(len);
	auto_free char *text = xcalloc(1, coded + 1);

	base64_encode_raw(text, len, (const uint8_t *)plain);
	char *field = xasprintf("Authorization: Basic %s", text);
	explicit_bzero(plain, len);
	explicit_bzero(text, coded);
	return field;
}

static void forget_authorization(struct registry *g)
{
	if (g->authorization)
		explicit_bzero(g->authorization, strlen(g->authorization));
	free(TAKE_PTR(g->authorization));
}

static int add_data(void *arg, const void *data, size_t len)
{
	return buf_add(arg, data, len);
}

/* Where a token is fetched, with what is asked for; for a refresh the same stands in the body. */
static void token_query(const struct registry *g, const struct challenge *c, struct buf *to)
{
	(void)!buf_puts(to, "service=");
	url_encode(to, c->service ? c->service : "");
	(void)!buf_puts(to, "&scope=");
	auto_free char *scope = c->scope ? xstrdup(c->scope) : xasprintf("repository:%s:pull", g->repository);
	url_encode(to, scope);
	if (g->credentials.is_token) {
		(void)!buf_puts(to, "&grant_type=refresh_token&client_id=iterion&refresh_token=");
		url_encode(to, g->credentials.secret);
	}
}

static int take_token(struct registry *g, const struct buf *answer, struct err *e)
{
	auto_json j = json_parse_value(buf_str(answer), answer->len, NULL);
	const char *token = json_get_str(j, "token");

	if (!token)
		token = json_get_str(j, "access_token");
	if (!token || !*token || strpbrk(token, "\r\n "))
		return err_set(e, ERR_NETWORK, EPROTO, "the registry's token server gave no token");
	forget_authorization(g);
	g->authorization = xasprintf("Authorization: Bearer %s", token);
	return 0;
}

static int fetch_token(struct registry *g, const struct challenge *c, struct err *e)
{
	auto_buf query = BUF_INIT(WORDS_LIMIT);
	auto_buf answer = BUF_INIT(TOKEN_LIMIT);
	__attribute__((cleanup(exchange_done))) struct exchange x = {.take = add_data, .arg = &answer};
	bool refresh = g->credentials.is_token;

	if (!url_is_private(c->realm, g->loopback))
		return err_set(e, ERR_NETWORK, EPROTO, "the registry wants its token fetched without TLS (%.200s)",
			       c->realm);
	token_query(g, c, &query);
	auto_free char *url =
		refresh ? xstrdup(c->realm)
			: xasprintf("%s%c%s", c->realm, strchr(c->realm, '?') ? '&' : '?', buf_str(&query));
	auto_free char *auth = g->credentials.user && !refresh ? basic(&g->credentials) : NULL;
	const char *headers[] = {auth ? auth : "Content-Type: application/x-www-form-urlencoded", NULL};
	const struct http_opts o = {
		.url = url,
		.headers = headers,
		.body = refresh ? buf_str(&query) : NULL,
		.body_len = refresh ? query.len : 0,
		.idle_ms = IDLE_MS,
		.total_ms = DOCUMENT_MS,
		.direct = g->loopback && !str_starts(url, "https:"),
	};
	int r = ask(g, &o, &x, e);
	if (auth)
		explicit_bzero(auth, strlen(auth));
	if (r == 0 && x.status == 200)
		r = take_token(g, &answer, e);
	else if (r == 0)
		r = err_set(e, ERR_NETWORK, EACCES, "the registry's token server answered %d", x.status);
	if (answer.data)
		explicit_bzero(answer.data, answer.len);
	if (query.data)
		explicit_bzero(query.data, query.len);
	return r;
}

static void hint_login(const struct registry *g, struct err *e)
{
	err_hint(e,
		 "Look whether the image's name is right. When it is private, log in with `docker login %s`, or name a "
		 "file of credentials in REGISTRY_AUTH_FILE.",
		 g->domain);
}

static int authenticate(struct registry *g, const char *field, struct err *e)
{
	__attribute__((cleanup(challenge_done))) struct challenge c = {0};

	if (!field || challenge_parse(field, &c) < 0)
		return err_set(e, ERR_NETWORK, EACCES, "%s refuses, and does not say how it wants to be asked",
			       g->domain);
	if (!g->knows_credentials) {
		int r = credentials_find(g->domain, g->repository, &g->credentials, e);
		if (r < 0)
			return r;
		g->knows_credentials = true;
	}
	if (c.bearer)
		return fetch_token(g, &c, e);
	if (!g->credentials.user || g->credentials.is_token)
		return err_set(e, ERR_NETWORK, EACCES, "%s wants a name and a password", g->domain);
	forget_authorization(g);
	g->authorization = basic(&g->credentials);
	return 0;
}

/* --- what is asked --- */

/* The registry's own words, when it has any. */
static char *words_of(const struct exchange *x)
{
	auto_json j = json_parse_value(buf_str(&x->words), x->words.len, NULL);
	const char *message = json_get_str(json_array_get(json_object_get(j, "errors"), 0), "message");
	auto_buf out = BUF_INIT(1024);

	if (message && *message) {
		(void)!buf_puts(&out, ": ");
		(void)!text_neutralise(&out, message, strnlen(message, 150));
	}
	return buf_steal(&out);
}

static int refused(const struct registry *g, const struct exchange *x, struct err *e)
{
	auto_free char *words = words_of(x);
	int r;

	switch (x->status) {
	case 404:
		r = err_set(e, ERR_INPUT, ENOENT, "%s does not have it%s", g->domain, words);
		err_hint(e, "Look whether name and tag are right.");
		return r;
	case 401:
	case 403:
		r = err_set(e, ERR_NETWORK, EACCES, "%s refuses it (%d)%s", g->domain, x->status, words);
		hint_login(g, e);
		return r;
	case 429:
		r = err_set(e, ERR_NETWORK, EAGAIN, "%s has had too many requests from here%s", g->domain, words);
		err_hint(e, "Wait, or log in with `docker login %s`: those who do may ask more often.", g->domain);
		return r;
	default:
		r = err_set(e, ERR_NETWORK, EIO, "%s answered %d%s", g->domain, x->status, words);
		err_hint(e, "Try again later.");
		return r;
	}
}

static uint64_t wait_for(const struct exchange *x, int tries)
{
	unsigned long long seconds;

	if (x->retry_after && str_parse_uint(x->retry_after, 0, 3600, &seconds) == 0)
		return MIN(seconds * 1000u, (unsigned long long)LONGEST_WAIT_MS);
	return (uint64_t)FIRST_WAIT_MS << tries;
}

static int follow(const struct registry *g, const struct exchange *x, char **url, int hops, struct err *e)
{
	char *next = x->location ? url_resolve(*url, x->location) : NULL;

	if (!next || hops >= MAX_HOPS || !url_is_private(next, g->loopback)) {
		free(next);
		return err_set(e, ERR_NETWORK, EPROTO, "%s leads to %s", g->domain,
			       hops >= MAX_HOPS ? "one place after the other" : "no place that can be asked with TLS");
	}
	free(*url);
	*url = next;
	return 0;
}

/* What a status asks for: 1 once more, 0 it is the answer, or -errno. */
static int on_status(struct registry *g, struct exchange *x, char **url, int *tries, int *hops, struct err *e)
{
	bool own = url_same_origin(*url, g->origin);

	switch (x->status) {
	case 200:
		return 0;
	case 301:
	case 302:
	case 303:
	case 307:
	case 308: {
		int r = follow(g, x, url, (*hops)++, e);
		return r < 0 ? r : 1;
	}
	case 401: {
		if (!own || *tries > 1)
			return refused(g, x, e);
		/* Once more than twice is for a token that ran out. */
		++*tries;
		int r = authenticate(g, x->challenge, e);
		if (r == -EACCES)
			hint_login(g, e);
		return r < 0 ? r : 1;
	}
	default:
		if ((x->status == 429 || x->status >= 500) && *tries < MAX_TRIES) {
			wait_ms(g, wait_for(x, (*tries)++));
			return 1;
		}
		return refused(g, x, e);
	}
}

/* GET with all that belongs to it. size: bytes of the answer, as far as that is known. */
static int get(struct registry *g, const char *path, const char *accept, uint64_t size, source_take take, void *arg,
	       struct err *e)
{
	auto_free char *url = xasprintf("%s/v2/%s/%s", g->origin, g->repository, path);
	int tries = 0, hops = 0, r;

	do {
		__attribute__((cleanup(exchange_done))) struct exchange x = {.take = take, .arg = arg};
		bool own = url_same_origin(url, g->origin);
		const char *headers[3] = {accept};
		if (own && g->authorization)
			headers[accept ? 1 : 0] = g->authorization;
		const struct http_opts o = {.url = url,
					    .headers = headers,
					    .idle_ms = IDLE_MS,
					    .total_ms = DOCUMENT_MS + size / BYTES_A_MS,
					    .direct = g->loopback && own};
		r = ask(g, &o, &x, e);
		if (r == 0)
			r = on_status(g, &x, &url, &tries, &hops, e);
	} while (r == 1);
	return r;
}

static int manifest(struct source *s, const char *digest, struct buf *to, struct err *e)
{
	struct registry *g = (struct registry *)s;
	auto_free char *path = xasprintf("manifests/%s", digest ? digest : g->reference);
	int r = get(g, path, manifest_accept, 0, add_data, to, e);

	/* A registry of one's own machine that does not speak TLS. */
	if ((r == -EPROTO || r == -ECONNRESET) && g->loopback && str_starts(g->origin, "https:")) {
		char *plain = xasprintf("http%s", g->origin + strlen("https"));
		free(g->origin);
		g->origin = plain;
		buf_clear(to);
		r = get(g, path, manifest_accept, 0, add_data, to, e);
	}
	return r == -ENOBUFS ? err_set(e, ERR_INPUT, EFBIG, "the image's manifest has more than 4 MiB") : r;
}

static int blob(struct source *s, const struct blob_ref *b, source_take take, void *arg, struct err *e)
{
	struct registry *g = (struct registry *)s;
	auto_free char *path = xasprintf("blobs/%s", b->digest);

	return get(g, path, NULL, b->size, take, arg, e);
}

static void on_http_closed(void *arg)
{
	*(bool *)arg = true;
}

static void free_registry(struct source *s)
{
	struct registry *g = (struct registry *)s;
	bool closed = false;

	http_close(g->http, on_http_closed, &closed);
	while (!closed && uv_run(&g->loop, UV_RUN_ONCE))
		;
	(void)uv_run(&g->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&g->loop);
	forget_authorization(g);
	credentials_done(&g->credentials);
	free(g->origin);
	free(g->domain);
	free(g->repository);
	free(g->reference);
	free(g);
}

static const struct source_ops ops = {.manifest = manifest, .blob = blob, .free = free_registry};

int registry_open(const struct image_ref *ref, struct source **ret, struct err *e)
{
	struct registry *g = xcalloc(1, sizeof *g);
	int r = uv_loop_init(&g->loop);

	if (r < 0) {
		free(g);
		return err_sys(e, -r, "prepare to ask the registry");
	}
	g->base.ops = &ops;
	g->http = http_new(&g->loop, (const char *const *)environ);
	g->loopback = image_ref_is_loopback(ref);
	g->domain = xstrdup(ref->domain);
	/* Docker's own registry has another name than its images. */
	g->origin = xasprintf("https://%s", str_eq(ref->domain, "docker.io") ? "registry-1.docker.io" : ref->domain);
	g->repository = xstrdup(ref->repository);
	g->reference = xstrdup(ref->digest ? ref->digest : ref->tag);
	*ret = &g->base;
	return 0;
}
