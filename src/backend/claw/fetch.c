/* WebFetch.
 *
 * The request is made by this process and not inside the sandbox, so that an agent without network may still read what
 * its policy allows, and so that the policy is asked the same two questions as for its own connections: of each URL's
 * host before DNS, and of each address before it is dialled. A redirect is a new URL with the same questions. With an
 * open network there is nothing to ask, and the user's own proxy serves. Only text is given back, bounded, and nothing
 * of the user (no cookie, no key) goes along. */
#include "fetch.h"

#include <http/http.h>
#include "html.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/agent.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	PAGE_MAX = 5 * 1024 * 1024, /* bytes that are read */
	TEXT_MAX = 100 * 1024,	    /* bytes that a model is given */
	URL_MAX = 4096,
	HOPS_MAX = 5,
	WHOLE_MS = 60 * 1000,
};

struct fetch {
	struct http *http;
	const struct session *session;
	fetch_cb cb;
	void *arg;
	struct http_request *request;
	struct egress egress;
	char *url;
	char *location; /* of a redirect */
	unsigned hops;
	int status;
	bool text, html;
	struct buf body;
	bool cut; /* there was more */
};

json_t *fetch_tool(void)
{
	static const char schema[] = "{\"type\":\"object\",\"properties\":{\"url\":{\"type\":\"string\","
				     "\"description\":\"http or https URL\"}},\"required\":[\"url\"]}";
	json_t *o = json_object();

	json_put_str(o, "name", "WebFetch");
	json_put_str(o, "description",
		     "Gets a page or file by its URL and returns it as text (HTML made readable, at most 100 KiB). "
		     "Only hosts "
		     "that the network policy of this run allows can be reached.");
	json_put(o, "input_schema", json_loads(schema, 0, NULL));
	return o;
}

static void fetch_free(struct fetch *f)
{
	buf_done(&f->body);
	free(f->url);
	free(f->location);
	free(f);
}

void fetch_cancel(struct fetch *f)
{
	if (f->request)
		http_cancel(f->request);
	fetch_free(f);
}

static void on_head(void *arg, const struct http_head *h)
{
	static const char *const kinds[] = {"text/",
					    "application/json",
					    "application/xml",
					    "application/javascript",
					    "application/x-ndjson",
					    "application/yaml",
					    "application/xhtml",
					    "application/ld+json",
					    "application/rss",
					    "application/atom"};
	struct fetch *f = arg;
	const char *type = http_field(h, "content-type"), *location = http_field(h, "location");

	f->status = h->status;
	f->text = type == NULL;
	f->html = html_is(type, "", 0);
	for (size_t i = 0; type && i < ARRAY_LEN(kinds); i++)
		f->text |= strncasecmp(type, kinds[i], strlen(kinds[i])) == 0;
	if (location && h->status >= 300 && h->status < 400)
		f->location = xstrndup(location, URL_MAX + 1);
}

static int request(struct fetch *f, struct err *e);

static void finish(struct fetch *f, const char *text, size_t len, const struct err *e)
{
	f->cb(f->arg, text, len, e);
	fetch_free(f);
}

/* What a redirect leads to; relative ones are made whole by the URL that they came from. */
static char *resolve(const char *base, const char *location)
{
	const char *host = strstr(base, "://");
	size_t scheme = host ? (size_t)(host - base) : 0;
	size_t origin = host ? (size_t)(host + 3 - base) + strcspn(host + 3, "/?#") : 0;

	if (strncasecmp(location, "http://", 7) == 0 || strncasecmp(location, "https://", 8) == 0)
		return xstrdup(location);
	if (location[0] == '/' && location[1] == '/')
		return xasprintf("%.*s:%s", (int)scheme, base, location);
	if (location[0] == '/')
		return xasprintf("%.*s%s", (int)origin, base, location);
	size_t path = strcspn(base, "?#");
	while (path > origin && base[path - 1] != '/')
		path--;
	return xasprintf("%.*s%s%s", (int)path, base, path == origin ? "/" : "", location);
}

static bool follow(struct fetch *f, struct err *e)
{
	auto_free char *next = resolve(f->url, f->location);

	if (++f->hops > HOPS_MAX) {
		(void)err_set(e, ERR_NETWORK, ELOOP, "%.300s: more than %d redirects", f->url, HOPS_MAX);
		err_hint(e, "name the address that it leads to");
		return false;
	}
	free(f->url);
	f->url = TAKE_PTR(next);
	free(TAKE_PTR(f->location));
	return request(f, e) == 0;
}

static void give(struct fetch *f)
{
	auto_buf out = BUF_INIT(4 * PAGE_MAX);
	struct err e = ERR_INIT;

	if (!f->text) {
		(void)err_set(&e, ERR_NETWORK, EBADMSG, "%.300s: it is no text", f->url);
		err_hint(&e, "WebFetch reads text only");
		finish(f, NULL, 0, &e);
		return;
	}
	if (f->status >= 400) {
		(void)buf_printf(&out, "HTTP status %d\n\n", f->status);
	}
	auto_buf readable = BUF_INIT(PAGE_MAX);
	if (f->html)
		(void)html_to_text(&readable, buf_str(&f->body), f->body.len);
	const struct buf *text = f->html ? &readable : &f->body;
	size_t len = MIN(text->len, (size_t)TEXT_MAX);
	(void)utf8_sanitize(&out, buf_str(text), len);
	if (f->cut || len < text->len)
		(void)buf_puts(&out, "\n\n[The rest was cut off.]");
	finish(f, buf_str(&out), out.len, NULL);
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct fetch *f = arg;
	size_t room = PAGE_MAX - f->body.len;

	(void)buf_add(&f->body, data, MIN(len, room));
	f->cut |= len > room;
}

static void on_done(void *arg, const struct err *failure)
{
	struct fetch *f = arg;
	struct err e = ERR_INIT;

	f->request = NULL;
	if (failure)
		finish(f, NULL, 0, failure);
	else if (!f->location)
		give(f);
	else if (!follow(f, &e))
		finish(f, NULL, 0, &e);
}

static int check_address(void *arg, const struct sockaddr *sa, socklen_t len, struct err *e)
{
	const struct fetch *f = arg;

	return egress_check_address(&f->egress, sa, len, e);
}

/* Host and port of a URL as it will be dialled. */
static int take_apart(const char *url, char **ret_host, uint16_t *ret_port, struct err *e)
{
	bool tls = strncasecmp(url, "https://", 8) == 0;
	const char *at = tls ? url + 8 : strncasecmp(url, "http://", 7) == 0 ? url + 7 : NULL;
	size_t len = at ? strcspn(at, "/?#") : 0;
	struct host host;

	/* A backslash is a slash to some who read URLs, and none to others. */
	if (!at || len == 0 || strlen(url) > URL_MAX || memchr(at, '@', len) || strpbrk(url, "\\ \t\r\n") ||
	    host_port_parse(at, len, tls ? 443 : 80, &host, ret_port) < 0) {
		(void)err_set(e, ERR_INPUT, EINVAL, "%.300s: no URL of http or https that can be read", url);
		err_hint(e, "write https://HOST/PATH, without a user and password");
		return -EINVAL;
	}
	*ret_host = xstrdup(host.text);
	return 0;
}

/* The URL with the host as the policy read it, so that nobody reads it in another way (an ending dot, letters of other
 * scripts, an address in octal). */
static char *canonical(const char *url, const char *host, uint16_t port)
{
	bool tls = strncasecmp(url, "https://", 8) == 0, v6 = strchr(host, ':') != NULL;
	const char *rest = url + (tls ? 8 : 7);

	rest += strcspn(rest, "/?#");
	return xasprintf("%s://%s%s%s:%u%s", tls ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "", port, rest);
}

static void add_answers(const struct fetch *f, const char *host, uint16_t port, struct strv *to)
{
	size_t len = strlen(host);

	for (const char *const *v = session_resolve(f->session); v && *v; v++)
		if (strncasecmp(*v, host, len) == 0 && (*v)[len] == ':')
			strv_take(to, xasprintf("%s:%u:%s", host, port, *v + len + 1));
}

static int request(struct fetch *f, struct err *e)
{
	static const char *const headers[] = {"Accept: text/html, text/*, application/json;q=0.9, */*;q=0.1", NULL};
	const struct http_callbacks cb = {.on_head = on_head, .on_data = on_data, .on_done = on_done, .arg = f};
	auto_free char *host = NULL;
	auto_strv resolve_to = {0};
	uint16_t port = 0;
	int r = take_apart(f->url, &host, &port, e);

	if (r == 0)
		r = egress_check_host(f->session, host, port, &f->egress, e);
	if (r < 0)
		return r;
	add_answers(f, host, port, &resolve_to);
	auto_free char *url = canonical(f->url, host, port);
	bool open = egress_is_open(f->session);
	const struct http_opts o = {
		.url = url,
		.headers = headers,
		.total_ms = WHOLE_MS,
		.direct = !open,
		.check_address = open ? NULL : check_address,
		.resolve = resolve_to.n ? (const char *const *)resolve_to.v : NULL,
	};
	buf_clear(&f->body);
	f->cut = false;
	return http_start(f->http, &o, &cb, &f->request, e);
}

int fetch_start(struct http *http, const struct session *session, const json_t *input, fetch_cb cb, void *arg,
		struct fetch **ret, struct err *e)
{
	const char *url = json_get_str(input, "url");

	if (!url)
		return err_set(e, ERR_INPUT, EINVAL, "WebFetch needs url, a string");
	struct fetch *f = xcalloc(1, sizeof *f);
	*f = (struct fetch){.http = http,
			    .session = session,
			    .cb = cb,
			    .arg = arg,
			    .url = xstrdup(url),
			    .body = BUF_INIT(PAGE_MAX)};
	int r = request(f, e);
	if (r < 0) {
		fetch_free(f);
		return r;
	}
	*ret = f;
	return 0;
}
