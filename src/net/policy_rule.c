/* One network rule: [!]host[:port[-port]].
 *
 * host is a name, one leading wildcard before a name ("*." one label, "**." one or more), "*", "**", an IP literal or a
 * CIDR. The text is cut into negation, wildcard, host, prefix length and ports first and judged after that, so that
 * each kind of mistake has its own message: a rule that is almost right must not quietly mean something else. What is
 * left as host goes through host_parse, by which rules and requests agree on every spelling. */
#include "policy_rule.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* The pieces of a rule; pointers into its text. A missing piece is NULL. */
struct pieces {
	const char *host;
	size_t host_len;
	const char *bits;
	size_t bits_len;
	const char *ports;
};

static int bad(struct err *e, const char *text, const char *why, const char *hint)
{
	auto_buf shown = BUF_INIT(256);

	(void)text_neutralise(&shown, text, strnlen(text, 100));
	int r = err_set(e, ERR_INPUT, EINVAL, "network rule \"%s%s\": %s", buf_str(&shown),
			strnlen(text, 101) > 100 ? "…" : "", why);
	err_hint(e, "%s", hint);
	return r;
}

static const char ports_hint[] = "ports are a number or a range from 1 to 65535: \"db.example.com:5432\", "
				 "\"db.example.com:8000-8010\"";
static const char wildcard_hint[] = "write \"*.example.com\" for exactly one label, \"**.example.com\" for one or "
				    "more, \"**\" for any host";
static const char host_hint[] = "a rule is a host name such as \"api.example.com\", a wildcard such as "
				"\"*.example.com\", an IP address or a CIDR such as \"10.0.0.0/8\"";

/* Reads a decimal number that ends at one of the two characters (or the end); moves *s there. */
static int read_number(const char **s, unsigned long max, unsigned long *ret)
{
	const char *p = *s;
	unsigned long v = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (unsigned long)(*p - '0');
		if (v > max)
			return -EINVAL;
	}
	if (p == *s)
		return -EINVAL;
	*s = p;
	*ret = v;
	return 0;
}

static int parse_ports(const char *text, const char *ports, struct rule *ret, struct err *e)
{
	unsigned long low = 0, high = 0;

	ret->port_low = 0;
	ret->port_high = UINT16_MAX;
	if (!ports)
		return 0;
	if (!*ports)
		return bad(e, text, "no port behind the colon", ports_hint);
	int r = read_number(&ports, UINT16_MAX, &low);
	high = low;
	if (r == 0 && *ports == '-') {
		ports++;
		r = read_number(&ports, UINT16_MAX, &high);
	}
	if (r < 0 || *ports)
		return bad(e, text, "not a port or a range of ports", ports_hint);
	if (low == 0)
		return bad(e, text, "port 0 does not exist", ports_hint);
	if (low > high)
		return bad(e, text, "the range of ports is reversed", ports_hint);
	ret->port_low = (uint16_t)low;
	ret->port_high = (uint16_t)high;
	return 0;
}

/* Cuts "host[/bits][:ports]"; only brackets and the number of colons decide which colon is the port's. */
static int cut(const char *text, const char *body, struct pieces *ret, struct err *e)
{
	const char *rest = body, *slash;

	*ret = (struct pieces){.host = body};
	if (*body == '[') {
		const char *close = strchr(body, ']');
		if (!close)
			return bad(e, text, "the bracket is not closed", "an IPv6 rule reads \"[2001:db8::1]:443\"");
		slash = memchr(body, '/', (size_t)(close - body));
		rest = close + 1;
		if (slash) {
			/* [2001:db8::/32]:443 */
			ret->host = body + 1;
			ret->host_len = (size_t)(slash - body - 1);
			ret->bits = slash + 1;
			ret->bits_len = (size_t)(close - slash - 1);
		} else {
			ret->host_len = (size_t)(rest - body);
		}
	} else {
		const char *first = strchr(body, ':'), *last = strrchr(body, ':');
		slash = strchr(body, '/');
		bool v6 = first != last && (!slash || first < slash);
		rest = v6 ? body + (slash ? (size_t)(slash - body) : strlen(body)) : body + strcspn(body, ":/");
		ret->host_len = (size_t)(rest - body);
	}
	if (*rest == '/' && !ret->bits) {
		ret->bits = rest + 1;
		ret->bits_len = strcspn(ret->bits, ":");
		rest = ret->bits + ret->bits_len;
	}
	if (*rest == ':')
		ret->ports = rest + 1;
	else if (*rest)
		return bad(e, text, "text behind the host", host_hint);
	return 0;
}

/* Takes "*." or "**." (or "*" and "**" alone) from the front. */
static int cut_wildcard(const char *text, struct pieces *p, struct rule *ret, struct err *e)
{
	size_t stars = 0;

	while (stars < p->host_len && p->host[stars] == '*')
		stars++;
	ret->kind = stars == 0 ? RULE_NAME : stars == 1 ? RULE_ONE : RULE_DEEP;
	if (stars > 2)
		return bad(e, text, "more than two stars", wildcard_hint);
	const char *after = p->host + stars;
	size_t left = p->host_len - stars;
	const char *star = memchr(after, '*', left);
	if (star && stars > 0 && *after == '.')
		return bad(e, text, "two wildcards; a rule has one, at its beginning", wildcard_hint);
	if (star && star > after && star[-1] == '.' && (star + 1 == after + left || star[1] == '.' || star[1] == '*'))
		return bad(e, text, "the wildcard does not lead", wildcard_hint);
	if (star || (stars > 0 && left > 0 && *after != '.'))
		return bad(e, text, "a wildcard inside a label", wildcard_hint);
	if (stars == 0)
		return 0;
	if (left == 1)
		return bad(e, text, "no name behind the wildcard", wildcard_hint);
	p->host = left ? after + 1 : after;
	p->host_len = left ? left - 1 : 0;
	return 0;
}

static bool only_digits(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] < '0' || s[i] > '9')
			return false;
	return len > 0;
}

/* The address of a CIDR, in plain notation only: "10/8" would be 0.0.0.10/8 by inet_aton, and mean everything else. */
static bool plain_address(const struct pieces *p)
{
	char copy[INET_ADDRSTRLEN];
	unsigned char addr[4];

	if (memchr(p->host, ':', p->host_len))
		return true;
	if (p->host_len >= sizeof copy)
		return false;
	memcpy(copy, p->host, p->host_len);
	copy[p->host_len] = '\0';
	return inet_pton(AF_INET, copy, addr) == 1;
}

static void mask(unsigned char *addr, size_t size, unsigned bits)
{
	for (size_t i = 0; i < size; i++) {
		unsigned keep = bits >= 8 * (i + 1) ? 8 : bits > 8 * i ? bits - (unsigned)(8 * i) : 0;
		addr[i] = (unsigned char)(addr[i] & (0xff00u >> keep));
	}
}

static int set_address(const char *text, const struct pieces *p, const struct host *h, struct rule *ret, struct err *e)
{
	static const char hint[] = "a CIDR is a whole address and a prefix length: \"10.0.0.0/8\" (0 to 32), "
				   "\"2001:db8::/32\" (0 to 128)";
	unsigned most = h->family == AF_INET ? 32 : 128;
	bool mapped = h->family == AF_INET && memchr(p->host, ':', p->host_len);

	ret->kind = RULE_ADDRESS;
	ret->family = h->family;
	ret->bits = most;
	memcpy(ret->addr, h->addr, sizeof ret->addr);
	if (!p->bits)
		return 0;
	if (!only_digits(p->bits, p->bits_len) || p->bits_len > 3)
		return bad(e, text, "the prefix length is no number", hint);
	unsigned bits = 0;
	for (size_t i = 0; i < p->bits_len; i++)
		bits = bits * 10 + (unsigned)(p->bits[i] - '0');
	/* ::ffff:10.0.0.0/104 is 10.0.0.0/8. */
	if (mapped && bits < 96)
		return bad(e, text, "the prefix is shorter than the IPv4-mapped range", hint);
	if (mapped)
		bits -= 96;
	if (bits > most)
		return bad(e, text, "the prefix length is too long", hint);
	if (!plain_address(p))
		return bad(e, text, "the address is not written in full", hint);
	ret->bits = bits;
	mask(ret->addr, most / 8, bits);
	return 0;
}

static int set_host(const char *text, const struct pieces *p, struct rule *ret, struct err *e)
{
	struct host h;

	if (p->host_len == 0 && ret->kind != RULE_NAME && !p->bits) {
		ret->name = xstrdup("");
		return 0;
	}
	if (p->host_len == 0)
		return bad(e, text, "no host", host_hint);
	/* host_parse trims; inside a rule a space is a mistake wherever it stands. */
	if (memchr(p->host, ' ', p->host_len) || memchr(p->host, '\t', p->host_len))
		return bad(e, text, "a space inside", "write one rule for each host");
	int r = host_parse(p->host, p->host_len, &h);
	if (p->bits && (r < 0 || h.family == AF_UNSPEC))
		return bad(e, text, "a path; rules name hosts, not pages", host_hint);
	if (r < 0)
		return bad(e, text, "no valid host name or address", host_hint);
	if (h.family == AF_UNSPEC) {
		ret->name = xstrdup(h.text);
		return 0;
	}
	if (ret->kind != RULE_NAME)
		return bad(e, text, "a wildcard before an address", "write a CIDR such as \"10.0.0.0/8\"");
	return set_address(text, p, &h, ret, e);
}

static int parse_body(const char *text, struct rule *ret, struct err *e)
{
	const char *body = text;
	struct pieces p;

	if (!*body)
		return bad(e, text, "it is empty", host_hint);
	if (*body == '!') {
		ret->negated = true;
		body++;
		if (!*body)
			return bad(e, text, "a negation of nothing", "write the host behind it: \"!bad.example.com\"");
		if (*body == '!')
			return bad(e, text, "a double negation", "one \"!\" takes a host out of the list");
	}
	if (strstr(body, "://"))
		return bad(e, text, "a URL; rules name hosts",
			   "keep the host only: \"example.com\" or "
			   "\"example.com:443\"");
	int r = cut(text, body, &p, e);
	if (r == 0)
		r = cut_wildcard(text, &p, ret, e);
	if (r == 0)
		r = set_host(text, &p, ret, e);
	if (r == 0)
		r = parse_ports(text, p.ports, ret, e);
	return r;
}

int rule_parse(const char *text, struct rule *ret, struct err *e)
{
	struct rule rule = {0};
	size_t len;

	text += strspn(text, " \t");
	len = strlen(text);
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	rule.text = xstrndup(text, len);
	int r = parse_body(rule.text, &rule, e);
	if (r < 0) {
		rule_done(&rule);
		return r;
	}
	*ret = rule;
	return 0;
}

void rule_done(struct rule *r)
{
	free(r->text);
	free(r->name);
	*r = (struct rule){0};
}

bool rule_covers_address(const struct rule *r, const struct host *address)
{
	unsigned whole = r->bits / 8, rest = r->bits % 8;

	if (r->kind != RULE_ADDRESS || r->family != address->family || memcmp(r->addr, address->addr, whole) != 0)
		return false;
	return rest == 0 || ((r->addr[whole] ^ address->addr[whole]) >> (8 - rest)) == 0;
}
