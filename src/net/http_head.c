/* Heads of HTTP/1.x messages.
 *
 * The parser is stricter than RFC 9112 asks of a recipient: wherever two implementations are known to read the same
 * bytes in two ways (request smuggling), the message is refused instead of mended. So lines end in CR LF and nothing
 * else, folded lines and spaces before the colon do not exist, a length is said once and in one way, and a transfer
 * coding other than "chunked" is unknown. http_scan finds the end of a head in O(n) over all calls; the parsers then
 * run once over whole heads, and re-check what they rely on, since tests and fuzzers call them alone. */
#include "http_head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { MAX_BLANK_LINES = 2, MAX_METHOD = 32 };

ssize_t http_scan(struct http_scan *s, const char *data, size_t len, const char **why)
{
	for (; s->pos < len; s->pos++) {
		char c = data[s->pos];
		if (s->pos >= HTTP_HEAD_MAX)
			return -EMSGSIZE;
		if (s->cr && c != '\n') {
			*why = "a carriage return stands alone";
			return -EBADMSG;
		}
		if (c == '\n') {
			if (!s->cr) {
				*why = "a line ends without a carriage return";
				return -EBADMSG;
			}
			s->cr = false;
			if (!s->in_line && s->begun)
				return (ssize_t)++s->pos;
			if (!s->in_line && ++s->blank > MAX_BLANK_LINES) {
				*why = "too many empty lines before the request";
				return -EBADMSG;
			}
			s->in_line = false;
		} else if (c == '\r') {
			s->cr = true;
		} else if (c == '\0') {
			*why = "a NUL byte in the head";
			return -EBADMSG;
		} else {
			s->in_line = s->begun = true;
		}
	}
	return len >= HTTP_HEAD_MAX ? -EMSGSIZE : 0;
}

static bool is_token_char(char ch)
{
	unsigned char c = (unsigned char)ch;

	if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
		return true;
	return c && strchr("!#$%&'*+-.^_`|~", c);
}

static bool is_token(struct http_text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (!is_token_char(t.p[i]))
			return false;
	return t.len > 0;
}

/* Field values and reasons: visible characters, space, tab, and bytes past ASCII. */
static bool is_text(struct http_text t)
{
	for (size_t i = 0; i < t.len; i++) {
		unsigned char c = (unsigned char)t.p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static bool is_visible(struct http_text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.p[i] < 0x21 || t.p[i] > 0x7e)
			return false;
	return t.len > 0;
}

static struct http_text trim(struct http_text t)
{
	while (t.len && (*t.p == ' ' || *t.p == '\t')) {
		t.p++;
		t.len--;
	}
	while (t.len && (t.p[t.len - 1] == ' ' || t.p[t.len - 1] == '\t'))
		t.len--;
	return t;
}

bool http_is(struct http_text t, const char *word)
{
	return t.p && t.len == strlen(word) && strncasecmp(t.p, word, t.len) == 0;
}

const struct http_field *http_find(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (http_is(h->fields[i].name, name))
			return &h->fields[i];
	return NULL;
}

bool http_list_next(struct http_text *rest, struct http_text *ret)
{
	while (rest->len > 0) {
		const char *comma = memchr(rest->p, ',', rest->len);
		size_t n = comma ? (size_t)(comma - rest->p) : rest->len;
		struct http_text item = trim((struct http_text){rest->p, n});
		size_t used = comma ? n + 1 : n;
		rest->p += used;
		rest->len -= used;
		if (item.len > 0) {
			*ret = item;
			return true;
		}
	}
	return false;
}

bool http_hop_by_hop(const struct http_head *h, struct http_text name)
{
	static const char *const fixed[] = {"connection", "keep-alive",	   "te", "trailer", "transfer-encoding",
					    "upgrade",	  "http2-settings"};

	if (name.len > 6 && strncasecmp(name.p, "proxy-", 6) == 0)
		return true;
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		if (http_is(name, fixed[i]))
			return true;
	for (size_t i = 0; i < h->n_connection; i++)
		if (h->connection[i].len == name.len && strncasecmp(h->connection[i].p, name.p, name.len) == 0)
			return true;
	return false;
}

/* Takes the next line off *rest; false when none is complete. */
static bool next_line(struct http_text *rest, struct http_text *ret)
{
	const char *cr = rest->len ? memchr(rest->p, '\r', rest->len) : NULL;

	if (!cr || (size_t)(cr - rest->p) + 1 >= rest->len || cr[1] != '\n')
		return false;
	*ret = (struct http_text){rest->p, (size_t)(cr - rest->p)};
	rest->len -= ret->len + 2;
	rest->p = cr + 2;
	return true;
}

static int parse_field(struct http_text line, struct http_field *ret, const char **why)
{
	const char *colon = memchr(line.p, ':', line.len);

	*why = "a header line is malformed";
	if (*line.p == ' ' || *line.p == '\t') {
		*why = "a header line is folded";
		return -EBADMSG;
	}
	if (!colon)
		return -EBADMSG;
	ret->name = (struct http_text){line.p, (size_t)(colon - line.p)};
	ret->value = trim((struct http_text){colon + 1, line.len - ret->name.len - 1});
	if (ret->name.len && (colon[-1] == ' ' || colon[-1] == '\t')) {
		*why = "a space stands before the colon of a header";
		return -EBADMSG;
	}
	return is_token(ret->name) && is_text(ret->value) ? 0 : -EBADMSG;
}

/* The lines after the first one, up to the empty line that must end the head exactly. */
static int parse_fields(struct http_text rest, struct http_head *h, const char **why)
{
	struct http_text line;

	while (next_line(&rest, &line)) {
		if (line.len == 0)
			return rest.len == 0 ? 0 : -EBADMSG;
		if (h->n_fields == HTTP_MAX_FIELDS) {
			*why = "too many headers";
			return -EMSGSIZE;
		}
		int r = parse_field(line, &h->fields[h->n_fields], why);
		if (r < 0)
			return r;
		h->n_fields++;
	}
	*why = "the head does not end in an empty line";
	return -EBADMSG;
}

static int parse_length(struct http_head *h, struct http_text v)
{
	uint64_t n = 0;

	/* 18 digits cannot overflow and are more than any body has. */
	if (h->has_length || v.len == 0 || v.len > 18)
		return -EBADMSG;
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return -EBADMSG;
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	}
	h->has_length = true;
	h->length = n;
	return 0;
}

static int parse_connection(struct http_head *h, struct http_text v, const char **why)
{
	struct http_text token;

	while (http_list_next(&v, &token)) {
		*why = "the Connection header is malformed";
		if (!is_token(token) || h->n_connection == HTTP_MAX_CONNECTION_TOKENS)
			return -EBADMSG;
		h->connection[h->n_connection++] = token;
	}
	return 0;
}

static bool connection_names(const struct http_head *h, const char *word)
{
	for (size_t i = 0; i < h->n_connection; i++)
		if (http_is(h->connection[i], word))
			return true;
	return false;
}

static int interpret_field(struct http_head *h, const struct http_field *f, const char **why)
{
	if (http_is(f->name, "content-length")) {
		*why = "the Content-Length is no single number";
		return parse_length(h, f->value);
	}
	if (http_is(f->name, "transfer-encoding")) {
		*why = "the Transfer-Encoding is not exactly \"chunked\"";
		if (h->chunked || !http_is(f->value, "chunked"))
			return -EBADMSG;
		h->chunked = true;
		return 0;
	}
	if (http_is(f->name, "host")) {
		*why = "there is more than one Host header";
		if (h->host.p)
			return -EBADMSG;
		h->host = f->value;
		return 0;
	}
	if (http_is(f->name, "connection"))
		return parse_connection(h, f->value, why);
	return 0;
}

/* Draws from the fields what framing and forwarding need, and refuses what can be read in two ways. */
static int interpret(struct http_head *h, const char **why)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		int r = interpret_field(h, &h->fields[i], why);
		if (r < 0)
			return r;
	}
	if (h->chunked && h->has_length) {
		*why = "both Content-Length and Transfer-Encoding are given";
		return -EBADMSG;
	}
	if (h->chunked && h->minor == 0) {
		*why = "Transfer-Encoding does not exist in HTTP/1.0";
		return -EBADMSG;
	}
	h->keep_alive = !connection_names(h, "close") && (h->minor > 0 || connection_names(h, "keep-alive"));
	const struct http_field *up = http_find(h, "upgrade");
	h->websocket = up && http_is(up->value, "websocket") && connection_names(h, "upgrade");
	return 0;
}

/* "HTTP/1.0" or "HTTP/1.1": 0; another version: -EPROTONOSUPPORT; no version at all: -EBADMSG. */
static int parse_version(struct http_text t, unsigned *ret_minor)
{
	if (t.len != 8 || memcmp(t.p, "HTTP/", 5) != 0 || t.p[6] != '.')
		return -EBADMSG;
	if (t.p[5] != '1' || (t.p[7] != '0' && t.p[7] != '1'))
		return t.p[5] >= '0' && t.p[5] <= '9' && t.p[7] >= '0' && t.p[7] <= '9' ? -EPROTONOSUPPORT : -EBADMSG;
	*ret_minor = (unsigned)(t.p[7] - '0');
	return 0;
}

static unsigned parse_request_line(struct http_text line, struct http_head *h, const char **why)
{
	const char *sp1 = line.len ? memchr(line.p, ' ', line.len) : NULL;
	const char *sp2 = line.len ? memrchr(line.p, ' ', line.len) : NULL;

	*why = "the request line is malformed";
	if (!sp1 || sp1 == sp2)
		return 400;
	h->method = (struct http_text){line.p, (size_t)(sp1 - line.p)};
	h->target = (struct http_text){sp1 + 1, (size_t)(sp2 - sp1) - 1};
	struct http_text version = {sp2 + 1, line.len - (size_t)(sp2 - line.p) - 1};
	if (h->method.len > MAX_METHOD || !is_token(h->method) || !is_visible(h->target))
		return 400;
	int r = parse_version(version, &h->minor);
	if (r == -EPROTONOSUPPORT)
		*why = "this proxy speaks HTTP/1.0 and HTTP/1.1";
	return r == -EPROTONOSUPPORT ? 505 : r < 0 ? 400 : 0;
}

unsigned http_parse_request(const char *data, size_t len, struct http_head *ret, const char **why)
{
	struct http_text rest = {data, len}, line = {0};

	memset(ret, 0, offsetof(struct http_head, fields));
	memset(&ret->host, 0, sizeof *ret - offsetof(struct http_head, host));
	*why = "the request line is malformed";
	for (unsigned blank = 0; line.len == 0; blank++)
		if (blank > MAX_BLANK_LINES || !next_line(&rest, &line))
			return 400;
	unsigned status = parse_request_line(line, ret, why);
	if (status)
		return status;
	int r = parse_fields(rest, ret, why);
	if (r == 0)
		r = interpret(ret, why);
	return r == -EMSGSIZE ? 431 : r < 0 ? 400 : 0;
}

static int parse_status_line(struct http_text line, struct http_head *h)
{
	if (line.len < 12 || parse_version((struct http_text){line.p, 8}, &h->minor) < 0 || line.p[8] != ' ')
		return -EBADMSG;
	for (size_t i = 9; i < 12; i++) {
		if (line.p[i] < '0' || line.p[i] > '9')
			return -EBADMSG;
		h->status = h->status * 10 + (unsigned)(line.p[i] - '0');
	}
	if (line.len > 12 && line.p[12] != ' ')
		return -EBADMSG;
	if (line.len > 13)
		h->reason = (struct http_text){line.p + 13, line.len - 13};
	return h->status >= 100 && is_text(h->reason) ? 0 : -EBADMSG;
}

int http_parse_response(const char *data, size_t len, struct http_head *ret, const char **why)
{
	struct http_text rest = {data, len}, line;

	memset(ret, 0, offsetof(struct http_head, fields));
	memset(&ret->host, 0, sizeof *ret - offsetof(struct http_head, host));
	*why = "the status line is malformed";
	if (!next_line(&rest, &line) || parse_status_line(line, ret) < 0)
		return -EBADMSG;
	int r = parse_fields(rest, ret, why);
	if (r == 0)
		r = interpret(ret, why);
	return r < 0 ? -EBADMSG : 0;
}

int http_absolute_target(struct http_text target, struct http_text *ret_authority, struct http_text *ret_path,
			 const char **why)
{
	size_t i = 7;

	if (target.len > 8 && strncasecmp(target.p, "https://", 8) == 0) {
		*why = "https goes through CONNECT, not as a plain request";
		return -EINVAL;
	}
	if (target.len < 8 || strncasecmp(target.p, "http://", 7) != 0) {
		*why = "the target is no http:// address";
		return -EINVAL;
	}
	while (i < target.len && target.p[i] != '/' && target.p[i] != '?')
		i++;
	*ret_authority = (struct http_text){target.p + 7, i - 7};
	*ret_path = (struct http_text){target.p + i, target.len - i};
	*why = "the target is malformed";
	if (ret_authority->len == 0 || memchr(target.p, '#', target.len) || memchr(target.p + 7, '@', i - 7))
		return -EINVAL;
	return 0;
}
