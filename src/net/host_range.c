/* Addresses that are not the public internet: this machine, its networks, the cloud's metadata services.
 *
 * The policy speaks of names, and whoever owns a name's zone decides what it resolves to; without this table an allowed
 * name would be a way to 169.254.169.254 or to the host's own services. The rows are IANA's special-purpose registries
 * (RFC 6890 and what amended it) plus the metadata addresses that lie outside them. Three IPv6 forms carry an IPv4
 * address that a translator or tunnel on the way would connect to: they are judged by that address. */
#include "host_range.h"

#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct range {
	unsigned char prefix[16];
	unsigned char bits;
	struct special_range what;
};

#define WHAT(text)                                                                                                     \
	{                                                                                                              \
		text, "resolved address: " text                                                                        \
	}

static const struct range v4_ranges[] = {
	{{0}, 8, WHAT("unspecified address (0.0.0.0/8)")},	    /* RFC 1122 §3.2.1.3; reaches this host on Linux */
	{{10}, 8, WHAT("private address (10.0.0.0/8)")},	    /* RFC 1918 */
	{{100, 64}, 10, WHAT("shared address (100.64.0.0/10)")},    /* RFC 6598; Alibaba's metadata lies in it */
	{{127}, 8, WHAT("loopback address (127.0.0.0/8)")},	    /* RFC 1122 §3.2.1.3 */
	{{168, 63, 129, 16}, 32, WHAT("cloud metadata address")},   /* Azure's host agent, in a public range */
	{{169, 254, 169, 254}, 32, WHAT("cloud metadata address")}, /* AWS, GCP, Azure, OpenStack, … */
	{{169, 254}, 16, WHAT("link-local address (169.254.0.0/16)")},	  /* RFC 3927 */
	{{172, 16}, 12, WHAT("private address (172.16.0.0/12)")},	  /* RFC 1918 */
	{{192, 0, 0}, 24, WHAT("protocol assignment (192.0.0.0/24)")},	  /* RFC 6890; Oracle's metadata lies in it */
	{{192, 0, 2}, 24, WHAT("documentation address (192.0.2.0/24)")},  /* RFC 5737 */
	{{192, 88, 99}, 24, WHAT("6to4 relay address (192.88.99.0/24)")}, /* RFC 7526 */
	{{192, 168}, 16, WHAT("private address (192.168.0.0/16)")},	  /* RFC 1918 */
	{{198, 18}, 15, WHAT("benchmark address (198.18.0.0/15)")}, /* RFC 2544; also the transparent mode's own */
	{{198, 51, 100}, 24, WHAT("documentation address (198.51.100.0/24)")}, /* RFC 5737 */
	{{203, 0, 113}, 24, WHAT("documentation address (203.0.113.0/24)")},   /* RFC 5737 */
	{{224}, 4, WHAT("multicast address (224.0.0.0/4)")},		       /* RFC 5771 */
	{{240}, 4, WHAT("reserved address (240.0.0.0/4)")}, /* RFC 1112 §4, with the limited broadcast */
};

static const struct range v6_ranges[] = {
	{{0}, 128, WHAT("unspecified address (::)")},	   /* RFC 4291 §2.5.2 */
	{{[15] = 1}, 128, WHAT("loopback address (::1)")}, /* RFC 4291 §2.5.3 */
	{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, WHAT("local translation prefix (64:ff9b:1::/48)")}, /* RFC 8215 */
	{{0x01}, 64, WHAT("discard prefix (100::/64)")},					       /* RFC 6666 */
	{{0x20, 0x01}, 23, WHAT("protocol assignment (2001::/23)")}, /* RFC 2928, with Teredo (RFC 4380) */
	{{0x20, 0x01, 0x0d, 0xb8}, 32, WHAT("documentation address (2001:db8::/32)")}, /* RFC 3849 */
	{{0x3f, 0xff}, 20, WHAT("documentation address (3fff::/20)")},		       /* RFC 9637 */
	{{0x5f}, 16, WHAT("segment routing prefix (5f00::/16)")},		       /* RFC 9602 */
	{{0xfd, 0x00, 0x0e, 0xc2}, 32, WHAT("cloud metadata address")}, /* AWS: fd00:ec2::254 and its siblings */
	{{0xfc}, 7, WHAT("private address (fc00::/7)")},		/* RFC 4193 */
	{{0xfe, 0x80}, 10, WHAT("link-local address (fe80::/10)")},	/* RFC 4291 §2.5.6 */
	{{0xfe, 0xc0}, 10, WHAT("site-local address (fec0::/10)")},	/* RFC 3879 */
	{{0xff}, 8, WHAT("multicast address (ff00::/8)")},		/* RFC 4291 §2.7 */
};

/* Prefixes behind which, at this byte, an IPv4 address stands. */
static const struct {
	unsigned char prefix[12];
	unsigned char bits;
	unsigned char at;
} embedding[] = {
	{{0}, 96, 12},			      /* IPv4-compatible (RFC 4291 §2.5.5.1) */
	{{[10] = 0xff, [11] = 0xff}, 96, 12}, /* IPv4-mapped (RFC 4291 §2.5.5.2) */
	{{0x00, 0x64, 0xff, 0x9b}, 96, 12},   /* NAT64 (RFC 6052 §2.1) */
	{{0x20, 0x02}, 16, 2},		      /* 6to4 (RFC 3056 §2) */
};

static bool prefix_equal(const unsigned char *addr, const unsigned char *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(addr, prefix, whole) != 0)
		return false;
	return rest == 0 || ((addr[whole] ^ prefix[whole]) >> (8 - rest)) == 0;
}

static const struct special_range *look_up(const unsigned char *addr, const struct range *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (prefix_equal(addr, rows[i].prefix, rows[i].bits))
			return &rows[i].what;
	return NULL;
}

const struct special_range *host_special_range(const struct host *h)
{
	if (h->family == AF_INET)
		return look_up(h->addr, v4_ranges, ARRAY_LEN(v4_ranges));
	const struct special_range *what = look_up(h->addr, v6_ranges, ARRAY_LEN(v6_ranges));
	if (what)
		return what;
	for (size_t i = 0; i < ARRAY_LEN(embedding); i++)
		if (prefix_equal(h->addr, embedding[i].prefix, embedding[i].bits))
			return look_up(h->addr + embedding[i].at, v4_ranges, ARRAY_LEN(v4_ranges));
	return NULL;
}

bool host_is_local_name(const struct host *h)
{
	return h->family == AF_UNSPEC && (str_eq(h->text, "localhost") || str_ends(h->text, ".localhost"));
}
