/* Hosts as people, programs and attackers write them, brought to one canonical form before anything compares them.
 *
 * A rule and a request must never disagree on what a text means, and what the policy judged must be what the proxy
 * connects to. So every spelling that some resolver takes for an IP address is an address here: the whole grammar of
 * inet_aton(3) (hexadecimal, octal, fewer than four parts), IPv4-mapped IPv6 (RFC 4291 §2.5.5.2), digits of other
 * scripts (they become ASCII by the IDNA mapping first, and are looked at after it). A text that ends like a number but
 * is no address ("1.2.3.4.5", "0x", "256.1.1.1") is malformed, as in the URL standard's "ends in a number" check: no
 * top-level domain is a number, and a resolver may still make an address of it.
 *
 * Names: IDNA2008 lookup form with the UTS #46 mapping (non-transitional, as browsers and curl do), only for text that
 * is not ASCII; then labels of 1 to 63 letters, digits, hyphens (not at either end, RFC 1123 §2.1) and underscores (not
 * host names by the letter, but in use), 253 characters in all (RFC 1035 §2.3.4). Scope ids (fe80::1%eth0) name an
 * interface of this machine and are malformed here. */
#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>

#include <arpa/inet.h>
#include <errno.h>
#include <idn2.h>
#include <netinet/in.h>
#include <string.h>

enum {
	MAX_HOST_INPUT = 1024, /* bytes of UTF-8; a name of 253 characters in lookup form needs less */
	MAX_NAME = 253,
	MAX_LABEL = 63,
};

static const unsigned char mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

static void set_v4(struct host *h, const unsigned char addr[4])
{
	*h = (struct host){.family = AF_INET};
	memcpy(h->addr, addr, 4);
	(void)inet_ntop(AF_INET, h->addr, h->text, sizeof h->text);
}

static void set_v6(struct host *h, const unsigned char addr[16])
{
	if (memcmp(addr, mapped_prefix, sizeof mapped_prefix) == 0) {
		set_v4(h, addr + 12);
		return;
	}
	*h = (struct host){.family = AF_INET6};
	memcpy(h->addr, addr, 16);
	(void)inet_ntop(AF_INET6, h->addr, h->text, sizeof h->text);
}

static int parse_v6(const char *text, size_t len, struct host *ret)
{
	char copy[INET6_ADDRSTRLEN];
	unsigned char addr[16];

	if (len >= sizeof copy)
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (inet_pton(AF_INET6, copy, addr) != 1)
		return -EINVAL;
	set_v6(ret, addr);
	return 0;
}

/* Whether the last label reads as a number: all digits, or 0x and hexadecimal digits (also none). */
static bool ends_in_number(const char *name)
{
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;

	if (last[0] == '0' && last[1] == 'x') {
		for (last += 2; *last; last++)
			if (!is_hex(*last))
				return false;
		return true;
	}
	for (const char *p = last; *p; p++)
		if (!is_digit(*p))
			return false;
	return *last != '\0';
}

/* One part of an IPv4 address in C notation at *s, which moves past it. */
static int parse_v4_part(const char **s, uint64_t *ret)
{
	const char *p = *s;
	unsigned base = 10;
	uint64_t v = 0;

	if (p[0] == '0' && p[1] == 'x') {
		base = 16;
		p += 2;
	} else if (p[0] == '0') {
		base = 8;
	}
	const char *first = p;
	for (; is_hex(*p); p++) {
		unsigned digit = is_digit(*p) ? (unsigned)(*p - '0') : (unsigned)(*p - 'a') + 10;
		if (digit >= base)
			return -EINVAL;
		v = v * base + digit;
		if (v > UINT32_MAX)
			return -EINVAL;
	}
	if (p == first)
		return -EINVAL;
	*s = p;
	*ret = v;
	return 0;
}

/* The grammar of inet_aton(3): one to four parts, the last of which fills what is left of the 32 bits. */
static int parse_v4(const char *text, struct host *ret)
{
	uint32_t addr = 0;

	for (unsigned n = 0; n < 4; n++) {
		uint64_t part;
		int r = parse_v4_part(&text, &part);
		if (r < 0)
			return r;
		if (*text == '\0') {
			if (part >> (8 * (4 - n)))
				return -EINVAL;
			addr = htonl(addr | (uint32_t)part);
			unsigned char bytes[4];
			memcpy(bytes, &addr, 4);
			set_v4(ret, bytes);
			return 0;
		}
		if (*text != '.' || part > 255)
			return -EINVAL;
		text++;
		addr |= (uint32_t)part << (24 - 8 * n);
	}
	return -EINVAL;
}

/* Letters, digits, hyphens, underscores; labels of the right length; lower case already. */
static bool name_valid(const char *name, size_t len)
{
	size_t start = 0;

	for (size_t i = 0; i <= len; i++) {
		char c = name[i];
		if (c == '.' || i == len) {
			if (i == start || i - start > MAX_LABEL || name[start] == '-' || name[i - 1] == '-')
				return false;
			start = i + 1;
		} else if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '_') {
			return false;
		}
	}
	return true;
}

/* An ASCII name or IPv4 address without surrounding space. */
static int parse_ascii(const char *text, size_t len, struct host *ret)
{
	char name[HOST_TEXT_SIZE];

	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0 || len > MAX_NAME)
		return -EINVAL;
	memcpy(name, text, len);
	name[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if (name[i] >= 'A' && name[i] <= 'Z')
			name[i] = (char)(name[i] - 'A' + 'a');
	if (!name_valid(name, len))
		return -EINVAL;
	if (ends_in_number(name))
		return parse_v4(name, ret);
	*ret = (struct host){.family = AF_UNSPEC};
	memcpy(ret->text, name, len + 1);
	return 0;
}

static int parse_unicode(const char *text, size_t len, struct host *ret)
{
	uint8_t copy[MAX_HOST_INPUT + 1];
	uint8_t *ascii = NULL;

	if (!utf8_valid(text, len))
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (idn2_lookup_u8(copy, &ascii, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK)
		return -EINVAL;
	int r = parse_ascii((const char *)ascii, strlen((const char *)ascii), ret);
	idn2_free(ascii);
	return r;
}

int host_parse(const char *text, size_t len, struct host *ret)
{
	bool ascii = true, colon = false;

	while (len > 0 && (text[0] == ' ' || text[0] == '\t')) {
		text++;
		len--;
	}
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	if (len == 0 || len > MAX_HOST_INPUT || memchr(text, '\0', len))
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		ascii = ascii && (unsigned char)text[i] < 0x80;
		colon = colon || text[i] == ':';
	}
	if (text[0] == '[')
		return text[len - 1] == ']' ? parse_v6(text + 1, len - 2, ret) : -EINVAL;
	if (colon)
		return parse_v6(text, len, ret);
	return ascii ? parse_ascii(text, len, ret) : parse_unicode(text, len, ret);
}

static int parse_port(const char *text, size_t len, uint16_t *ret)
{
	unsigned v = 0;

	if (len == 0 || len > 5)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(text[i]))
			return -EINVAL;
		v = v * 10 + (unsigned)(text[i] - '0');
	}
	if (v == 0 || v > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)v;
	return 0;
}

/* The colon before the port, or NULL when none is written: a bare IPv6 address has several and no port. */
static const char *port_colon(const char *text, size_t len)
{
	if (text[0] != '[') {
		const char *first = memchr(text, ':', len), *last = memrchr(text, ':', len);
		return first == last ? first : NULL;
	}
	const char *bracket = memchr(text, ']', len);
	if (!bracket)
		return NULL;
	return bracket + 1 < text + len && bracket[1] == ':' ? bracket + 1 : NULL;
}

int host_port_parse(const char *text, size_t len, unsigned default_port, struct host *ret, uint16_t *ret_port)
{
	uint16_t port = (uint16_t)default_port;
	size_t host_len = len;

	if (len == 0 || default_port > UINT16_MAX)
		return -EINVAL;
	const char *colon = port_colon(text, len);
	if (colon) {
		host_len = (size_t)(colon - text);
		int r = parse_port(colon + 1, len - host_len - 1, &port);
		if (r < 0)
			return r;
	} else if (default_port == 0) {
		return -EINVAL;
	}
	int r = host_parse(text, host_len, ret);
	if (r == 0)
		*ret_port = port;
	return r;
}

int host_from_sockaddr(const struct sockaddr *sa, socklen_t len, struct host *ret, uint16_t *ret_port)
{
	uint16_t port;

	if (len >= (socklen_t)sizeof(struct sockaddr_in) && sa->sa_family == AF_INET) {
		struct sockaddr_in in;
		unsigned char addr[4];
		memcpy(&in, sa, sizeof in);
		memcpy(addr, &in.sin_addr, sizeof addr);
		set_v4(ret, addr);
		port = ntohs(in.sin_port);
	} else if (len >= (socklen_t)sizeof(struct sockaddr_in6) && sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, sa, sizeof in6);
		set_v6(ret, in6.sin6_addr.s6_addr);
		port = ntohs(in6.sin6_port);
	} else {
		return -EINVAL;
	}
	if (ret_port)
		*ret_port = port;
	return 0;
}
