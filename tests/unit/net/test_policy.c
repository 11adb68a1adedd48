/* The policy beyond the tables: ports, addresses, resolved addresses, messages, and many rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOW = 1, DENY = 0 };

static struct policy *make(enum network_mode mode, const char *rules)
{
	auto_strv list = {0};
	char *copy = xstrdup(rules), *rest = copy;
	struct policy *p = NULL;
	struct err e = ERR_INIT;

	for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " "))
		if (*word)
			strv_add(&list, word);
	if (policy_new(mode, NULL, (const char *const *)list.v, &p, &e) < 0)
		fail_msg("%s: %s", rules, e.msg);
	free(copy);
	return p;
}

static struct host host(const char *text)
{
	struct host h;

	if (host_parse(text, strlen(text), &h) < 0)
		fail_msg("no host: %s", text);
	return h;
}

static const struct {
	enum network_mode mode;
	const char *rules, *host;
	uint16_t port;
	int want;
	const char *rule; /* that decides; NULL: not checked */
} verdicts[] = {
	/* what decides is named */
	{NETWORK_ALLOWLIST, "a.example b.example", "b.example", 1, ALLOW, "b.example"},
	{NETWORK_ALLOWLIST, "a.example", "c.example", 1, DENY, "default"},
	{NETWORK_ALLOWLIST, "**.example !C.Example", "c.example", 1, DENY, "!C.Example"},
	{NETWORK_ALLOWLIST, "**.example !c.example **.example", "c.example", 1, ALLOW, "**.example"},
	{NETWORK_ALLOWLIST, "a.example *.example ** !** a.example !*.example", "a.example", 1, DENY, "!*.example"},
	/* wildcards */
	{NETWORK_ALLOWLIST, "*", "intranet", 1, ALLOW, "*"},
	{NETWORK_ALLOWLIST, "*.com", "com", 1, DENY, "default"},
	{NETWORK_ALLOWLIST, "*.com", "a.com", 1, ALLOW, "*.com"},
	{NETWORK_ALLOWLIST, "*.com", "a.b.com", 1, DENY, "default"},
	{NETWORK_ALLOWLIST, "**.com", "com", 1, DENY, "default"},
	{NETWORK_ALLOWLIST, "**", "com", 1, ALLOW, "**"},
	{NETWORK_ALLOWLIST, "**.example.com.", "a.example.com", 1, ALLOW, "**.example.com."},
	{NETWORK_ALLOWLIST, "*.bücher.example", "a.xn--bcher-kva.example", 1, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "**:443", "a.example", 443, ALLOW, "**:443"},
	{NETWORK_ALLOWLIST, "**:443", "a.example", 80, DENY, "default"},
	{NETWORK_ALLOWLIST, "*:443", "intranet", 443, ALLOW, "*:443"},
	/* ports */
	{NETWORK_ALLOWLIST, "a.example:1", "a.example", 1, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "a.example:65535", "a.example", 65535, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "a.example:1-65535", "a.example", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "a.example:80-80", "a.example", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "a.example:8000-8010", "a.example", 8000, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "a.example:8000-8010", "a.example", 8010, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "a.example:8000-8010", "a.example", 7999, DENY, NULL},
	{NETWORK_ALLOWLIST, "a.example:80 a.example:443", "a.example", 80, ALLOW, "a.example:80"},
	{NETWORK_ALLOWLIST, "a.example !a.example:25", "a.example", 25, DENY, "!a.example:25"},
	/* literals and networks */
	{NETWORK_ALLOWLIST, "1.2.3.4:443", "1.2.3.4", 443, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "1.2.3.4:443", "1.2.3.4", 80, DENY, NULL},
	{NETWORK_ALLOWLIST, "0x01020304", "1.2.3.4", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "[2001:db8::1]:443", "2001:db8:0::1", 443, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "[2001:db8::1]:443", "2001:db8::1", 80, DENY, NULL},
	{NETWORK_ALLOWLIST, "2001:db8::1", "2001:db8::1", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "[2001:db8::/32]:443", "2001:db8:ffff::1", 443, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "[2001:db8::]/32:443", "2001:db8:ffff::1", 443, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "[2001:db8::]/32:443", "2001:db8:ffff::1", 80, DENY, NULL},
	{NETWORK_ALLOWLIST, "2001:db8::/32:443", "2001:db8::1", 443, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "2001:db8::/33", "2001:db8:8000::1", 443, DENY, NULL},
	{NETWORK_ALLOWLIST, "10.1.2.3/8", "10.200.0.1", 80, ALLOW, "10.1.2.3/8"},
	{NETWORK_ALLOWLIST, "10.0.0.0/8:5432", "10.0.0.1", 5432, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "10.0.0.0/8:5432", "10.0.0.1", 80, DENY, NULL},
	{NETWORK_ALLOWLIST, "::ffff:10.0.0.0/104", "10.200.9.9", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "::ffff:10.0.0.0/104", "11.0.0.1", 80, DENY, NULL},
	{NETWORK_ALLOWLIST, "::/0", "1.2.3.4", 80, DENY, NULL},
	{NETWORK_ALLOWLIST, "0.0.0.0/0", "8.8.8.8", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "10.0.0.0/8 !10.1.0.0/16", "10.1.0.1", 80, DENY, "!10.1.0.0/16"},
	{NETWORK_ALLOWLIST, "10.0.0.0/8 !10.1.0.0/16 10.1.0.1", "10.1.0.1", 80, ALLOW, "10.1.0.1"},
	{NETWORK_ALLOWLIST, "1.2.3.4/32", "1.2.3.4", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "1.2.3.4/31", "1.2.3.5", 80, ALLOW, NULL},
	{NETWORK_ALLOWLIST, "1.2.3.4/31", "1.2.3.6", 80, DENY, NULL},
	{NETWORK_ALLOWLIST, "8.8.8.8 **", "8.8.8.8", 53, ALLOW, "8.8.8.8"},
	{NETWORK_ALLOWLIST, "8.8.8.8 !**", "8.8.8.8", 53, DENY, "!**"},
	{NETWORK_ALLOWLIST, "!** 8.8.8.8", "8.8.8.8", 53, ALLOW, "8.8.8.8"},
	{NETWORK_ALLOWLIST, "** *", "8.8.8.8", 53, DENY, "default"},
	/* denylists */
	{NETWORK_DENYLIST, "", "8.8.8.8", 53, ALLOW, "default"},
	{NETWORK_DENYLIST, "**", "8.8.8.8", 53, DENY, "**"},
	{NETWORK_DENYLIST, "** !8.8.8.8", "8.8.8.8", 53, ALLOW, "!8.8.8.8"},
	{NETWORK_DENYLIST, "8.8.8.0/24", "8.8.8.8", 53, DENY, "8.8.8.0/24"},
	{NETWORK_DENYLIST, "evil.site !10.0.0.0/8", "10.0.0.1", 80, ALLOW, "!10.0.0.0/8"},
	{NETWORK_DENYLIST, "evil.site", "10.0.0.1", 80, DENY, "default"},
	{NETWORK_DENYLIST, "evil.site !**", "10.0.0.1", 80, DENY, "default"},
	{NETWORK_DENYLIST, "evil.site:25", "evil.site", 25, DENY, NULL},
	{NETWORK_DENYLIST, "evil.site:25", "evil.site", 80, ALLOW, "default"},
	/* this machine by name */
	{NETWORK_ALLOWLIST, "**", "localhost", 80, DENY, "default"},
	{NETWORK_ALLOWLIST, "**", "a.LOCALHOST", 80, DENY, "default"},
	{NETWORK_ALLOWLIST, "**", "a.localhost.", 80, DENY, "default"},
	{NETWORK_ALLOWLIST, "**", "notlocalhost", 80, ALLOW, "**"},
	{NETWORK_ALLOWLIST, "localhost", "localhost", 80, ALLOW, "localhost"},
	{NETWORK_ALLOWLIST, "localhost:80", "localhost", 81, DENY, "default"},
	{NETWORK_ALLOWLIST, "* 127.0.0.0/8:80", "localhost", 80, ALLOW, "*"},
	{NETWORK_ALLOWLIST, "* 127.0.0.0/8:80", "localhost", 81, DENY, "default"},
	{NETWORK_ALLOWLIST, "* ::1", "localhost", 81, ALLOW, "*"},
	{NETWORK_ALLOWLIST, "127.0.0.1", "localhost", 81, DENY, "default"},
	{NETWORK_DENYLIST, "", "localhost", 80, DENY, "default"},
	{NETWORK_DENYLIST, "evil.site !localhost", "localhost", 80, ALLOW, "!localhost"},
	/* modes without a filter */
	{NETWORK_OPEN, "", "localhost", 80, ALLOW, "default"},
	{NETWORK_LEARN, "a.example", "b.example", 80, ALLOW, "default"},
	{NETWORK_LEARN, "", "169.254.169.254", 80, ALLOW, "default"},
};

static void test_verdicts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(verdicts); i++) {
		struct policy *p = make(verdicts[i].mode, verdicts[i].rules);
		struct host h = host(verdicts[i].host);
		struct policy_verdict v;
		policy_check_host(p, &h, verdicts[i].port, &v);
		if (v.allow != verdicts[i].want || (verdicts[i].rule && !str_eq(v.rule, verdicts[i].rule)))
			fail_msg("%s [%s] %s:%u: %s by %s", network_mode_name(verdicts[i].mode), verdicts[i].rules,
				 verdicts[i].host, verdicts[i].port, v.allow ? "allow" : "deny", v.rule);
		if (!v.allow)
			assert_non_null(v.reason);
		policy_free(p);
	}
}

static const struct {
	enum network_mode mode;
	const char *rules, *host, *address;
	int want;
} resolved[] = {
	{NETWORK_ALLOWLIST, "**.example", "a.example", "93.184.216.34", ALLOW},
	{NETWORK_ALLOWLIST, "**.example", "a.example", "2606:2800:220:1::1", ALLOW},
	{NETWORK_ALLOWLIST, "**.example", "a.example", "10.0.0.1", DENY},
	{NETWORK_ALLOWLIST, "**.example !10.0.0.0/8", "a.example", "10.0.0.1", DENY},
	{NETWORK_ALLOWLIST, "**.example 10.0.0.0/8", "a.example", "10.0.0.1", ALLOW},
	{NETWORK_ALLOWLIST, "**.example 10.0.0.0/8:443", "a.example", "10.0.0.1", ALLOW},
	{NETWORK_ALLOWLIST, "**.example 10.0.0.0/8:80", "a.example", "10.0.0.1", DENY},
	{NETWORK_ALLOWLIST, "10.0.0.0/8", "a.example", "10.0.0.1", DENY}, /* the name is not allowed */
	{NETWORK_ALLOWLIST, "a.example", "a.example", "10.0.0.1", ALLOW},
	{NETWORK_ALLOWLIST, "a.example", "a.example", "169.254.169.254", ALLOW},
	{NETWORK_ALLOWLIST, "a.example **.example", "a.example", "10.0.0.1", DENY}, /* the wildcard decides */
	{NETWORK_ALLOWLIST, "a.example !10.0.0.0/8", "a.example", "10.0.0.1", DENY},
	{NETWORK_ALLOWLIST, "!10.0.0.0/8 a.example", "a.example", "10.0.0.1", ALLOW},
	{NETWORK_ALLOWLIST, "!93.184.216.34 **.example", "a.example", "93.184.216.34", DENY},
	{NETWORK_ALLOWLIST, "*", "intranet", "192.168.1.1", DENY},
	{NETWORK_ALLOWLIST, "* 192.168.0.0/16", "intranet", "192.168.1.1", ALLOW},
	{NETWORK_ALLOWLIST, "* 127.0.0.0/8", "localhost", "127.0.0.1", ALLOW},
	{NETWORK_ALLOWLIST, "* 127.0.0.0/8", "localhost", "::1", DENY},
	{NETWORK_ALLOWLIST, "1.2.3.4", "1.2.3.4", "1.2.3.4", ALLOW},
	{NETWORK_ALLOWLIST, "127.0.0.0/8", "127.0.0.1", "127.0.0.1", ALLOW},
	{NETWORK_DENYLIST, "", "a.example", "10.0.0.1", DENY},
	{NETWORK_DENYLIST, "", "a.example", "93.184.216.34", ALLOW},
	{NETWORK_DENYLIST, "93.184.216.0/24", "a.example", "93.184.216.34", DENY},
	{NETWORK_DENYLIST, "**.corp !a.corp", "a.corp", "10.0.0.1", ALLOW},
	{NETWORK_DENYLIST, "evil.site !10.0.0.0/8", "a.example", "10.0.0.1", ALLOW},
	{NETWORK_OPEN, "", "a.example", "10.0.0.1", ALLOW},
	{NETWORK_LEARN, "", "a.example", "169.254.169.254", ALLOW},
};

static void test_resolved(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(resolved); i++) {
		struct policy *p = make(resolved[i].mode, resolved[i].rules);
		struct host h = host(resolved[i].host), a = host(resolved[i].address);
		struct policy_verdict first, v;
		policy_check_host(p, &h, 443, &first);
		policy_check_address(p, &h, &first, &a, 443, &v);
		if (v.allow != resolved[i].want)
			fail_msg("[%s] %s at %s: %d", resolved[i].rules, resolved[i].host, resolved[i].address,
				 v.allow);
		if (!v.allow)
			assert_non_null(v.reason);
		policy_free(p);
	}
}

/* First and last address of every special range, and the neighbours outside. */
static void test_ranges(void **state)
{
	static const char *const special[] = {
		"0.0.0.0",
		"0.255.255.255",
		"10.0.0.0",
		"10.255.255.255",
		"100.64.0.0",
		"100.127.255.255",
		"100.100.100.200",
		"127.0.0.0",
		"127.255.255.255",
		"168.63.129.16",
		"169.254.0.0",
		"169.254.169.254",
		"169.254.170.2",
		"169.254.255.255",
		"172.16.0.0",
		"172.31.255.255",
		"192.0.0.0",
		"192.0.0.192",
		"192.0.0.255",
		"192.0.2.0",
		"192.0.2.255",
		"192.88.99.1",
		"192.168.0.0",
		"192.168.255.255",
		"198.18.0.0",
		"198.19.255.255",
		"198.51.100.1",
		"203.0.113.255",
		"224.0.0.0",
		"239.255.255.255",
		"240.0.0.0",
		"255.255.255.255",
		"::",
		"::1",
		"::7f00:1",
		"::ffff:127.0.0.1",
		"64:ff9b::7f00:1",
		"64:ff9b::a9fe:a9fe",
		"64:ff9b:1::1",
		"64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
		"100::1",
		"2001::1",
		"2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
		"2001:db8::",
		"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
		"2002:7f00:1::",
		"2002:a00:1::1",
		"2002:c0a8:101::1",
		"2002:a9fe:a9fe::",
		"3fff::1",
		"3fff:fff::",
		"5f00::1",
		"fc00::",
		"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"fd00:ec2::254",
		"fe80::1",
		"febf::1",
		"fec0::1",
		"feff::1",
		"ff00::",
		"ff02::1",
		"ffff::",
	};
	static const char *const public[] = {
		"1.0.0.0",
		"9.255.255.255",
		"11.0.0.0",
		"100.63.255.255",
		"100.128.0.0",
		"126.255.255.255",
		"128.0.0.0",
		"168.63.129.15",
		"168.63.129.17",
		"169.253.255.255",
		"169.255.0.0",
		"172.15.255.255",
		"172.32.0.0",
		"191.255.255.255",
		"192.0.1.0",
		"192.0.3.0",
		"192.88.98.255",
		"192.88.100.0",
		"192.167.255.255",
		"192.169.0.0",
		"198.17.255.255",
		"198.20.0.0",
		"198.51.99.255",
		"198.51.101.0",
		"203.0.112.255",
		"203.0.114.0",
		"223.255.255.255",
		"::ffff:8.8.8.8",
		"64:ff9b::808:808",
		"2001:200::1",
		"2001:4860:4860::8888",
		"2001:db7::1",
		"2001:db9::1",
		"2002:808:808::1",
		"2003::1",
		"2a00:1450::1",
		"3ffe::1",
		"3fff:1000::1",
		"fbff::1",
		"fe00::1",
	};
	struct policy *p = make(NETWORK_DENYLIST, "");
	struct host h = host("a.example");
	struct policy_verdict first, v;

	(void)state;
	policy_check_host(p, &h, 443, &first);
	assert_true(first.allow);
	for (size_t i = 0; i < ARRAY_LEN(special) + ARRAY_LEN(public); i++) {
		bool is_public = i >= ARRAY_LEN(special);
		const char *text = is_public ? public[i - ARRAY_LEN(special)] : special[i];
		struct host a = host(text);
		policy_check_address(p, &h, &first, &a, 443, &v);
		if (v.allow != is_public)
			fail_msg("%s as resolved address: %d", text, v.allow);
		assert_true(is_public || str_starts(v.reason, "resolved address: "));
		policy_check_host(p, &a, 443, &v);
		if (v.allow != is_public)
			fail_msg("%s as literal: %d", text, v.allow);
	}
	policy_free(p);
}

/* A first look that denied stays a denial, whatever the address. */
static void test_denied_stays_denied(void **state)
{
	struct policy *p = make(NETWORK_ALLOWLIST, "8.8.8.8");
	struct host h = host("a.example"), a = host("8.8.8.8");
	struct policy_verdict first, v;

	(void)state;
	policy_check_host(p, &h, 443, &first);
	policy_check_address(p, &h, &first, &a, 443, &v);
	assert_false(v.allow);
	assert_string_equal(v.reason, "policy denial");
	policy_free(p);
}

static const struct {
	enum network_mode mode;
	const char *preset, *rule, *in_msg, *in_hint;
} errors[] = {
	{NETWORK_ALLOWLIST, NULL, "a*b.com", "a wildcard inside a label", "*.example.com"},
	{NETWORK_ALLOWLIST, NULL, "*b.com", "a wildcard inside a label", "*.example.com"},
	{NETWORK_ALLOWLIST, NULL, "**b.com", "a wildcard inside a label", NULL},
	{NETWORK_ALLOWLIST, NULL, "b.*", "does not lead", NULL},
	{NETWORK_ALLOWLIST, NULL, "foo.**.com", "does not lead", NULL},
	{NETWORK_ALLOWLIST, NULL, "*.*", "two wildcards", NULL},
	{NETWORK_ALLOWLIST, NULL, "**.*.com", "two wildcards", NULL},
	{NETWORK_ALLOWLIST, NULL, "****", "more than two stars", NULL},
	{NETWORK_ALLOWLIST, NULL, "**.", "no name behind the wildcard", NULL},
	{NETWORK_ALLOWLIST, NULL, "*.1.2.3.4", "a wildcard before an address", "CIDR"},
	{NETWORK_ALLOWLIST, NULL, "*:", "no port behind the colon", NULL},
	{NETWORK_ALLOWLIST, NULL, "**/8", "no host", NULL},
	{NETWORK_ALLOWLIST, NULL, ":443", "no host", NULL},
	{NETWORK_ALLOWLIST, NULL, "!:443", "no host", NULL},
	{NETWORK_ALLOWLIST, NULL, "/8", "no host", NULL},
	{NETWORK_ALLOWLIST, NULL, "https://x.com", "a URL", "keep the host"},
	{NETWORK_ALLOWLIST, NULL, "!https://x.com", "a URL", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com/", "a path", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:443/path", "not a port", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:", "no port behind the colon", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:0", "port 0", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:0-10", "port 0", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:65536", "not a port", "65535"},
	{NETWORK_ALLOWLIST, NULL, "x.com:1-65536", "not a port", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:1-", "not a port", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:-1", "not a port", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:1-2-3", "not a port", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:http", "not a port", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:99999999999999999999999", "not a port", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com:9-3", "reversed", NULL},
	{NETWORK_ALLOWLIST, NULL, "10.0.0.0/33", "too long", "0 to 32"},
	{NETWORK_ALLOWLIST, NULL, "10.0.0.0/", "no number", NULL},
	{NETWORK_ALLOWLIST, NULL, "10.0.0.0/-1", "no number", NULL},
	{NETWORK_ALLOWLIST, NULL, "10.0.0.0/8x", "no number", NULL},
	{NETWORK_ALLOWLIST, NULL, "10.0.0.0/255.0.0.0", "no number", NULL},
	{NETWORK_ALLOWLIST, NULL, "10.0.0.0/99999999999999999999", "no number", NULL},
	{NETWORK_ALLOWLIST, NULL, "10/8", "not written in full", NULL},
	{NETWORK_ALLOWLIST, NULL, "0xa.0.0.0/8", "not written in full", NULL},
	{NETWORK_ALLOWLIST, NULL, "2001:db8::/129", "too long", "0 to 128"},
	{NETWORK_ALLOWLIST, NULL, "::ffff:10.0.0.0/8", "shorter than the IPv4-mapped", NULL},
	{NETWORK_ALLOWLIST, NULL, "fe80::1%eth0", "no valid host", NULL},
	{NETWORK_ALLOWLIST, NULL, "[::1", "not closed", NULL},
	{NETWORK_ALLOWLIST, NULL, "[::1]x", "text behind the host", NULL},
	{NETWORK_ALLOWLIST, NULL, "[::1/64]/64", "text behind the host", NULL},
	{NETWORK_ALLOWLIST, NULL, "[]", "no valid host", NULL},
	{NETWORK_ALLOWLIST, NULL, "example..com", "no valid host", NULL},
	{NETWORK_ALLOWLIST, NULL, "1.2.3.4.5", "no valid host", NULL},
	{NETWORK_ALLOWLIST, NULL, "x.com\n", "no valid host", NULL},
	{NETWORK_ALLOWLIST, NULL, "!", "a negation of nothing", NULL},
	{NETWORK_ALLOWLIST, NULL, "!!x.com", "a double negation", NULL},
	{NETWORK_ALLOWLIST, NULL, "   ", "it is empty", NULL},
	{NETWORK_ALLOWLIST, NULL, "! x.com", "a space inside", NULL},
	{NETWORK_OPEN, NULL, "a*b.com", "a wildcard inside a label", NULL},
	{NETWORK_LEARN, NULL, "a*b.com", "a wildcard inside a label", NULL},
	{NETWORK_ALLOWLIST, "iteration-default", "x.com", "\"iteration-default\" does not exist",
	 "\"iterion-default\""},
	{NETWORK_ALLOWLIST, "zzz", "x.com", "\"zzz\" does not exist", "llm, packages, code-hosts, none"},
	{NETWORK_ALLOWLIST, "silent", "x.com", "does not exist", NULL},
	{NETWORK_ALLOWLIST, "@llm", "x.com", "does not exist", NULL},
	{NETWORK_DENYLIST, "llm", "x.com", "preset cannot be used in mode denylist", "mode: allowlist"},
	{NETWORK_DENYLIST, NULL, "!x.com", "denies nothing", "write \"x.com\""},
};

static void test_errors(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		const char *presets[] = {errors[i].preset, NULL}, *rules[] = {errors[i].rule, NULL};
		struct policy *p = NULL;
		struct err e = ERR_INIT;
		if (policy_new(errors[i].mode, presets, rules, &p, &e) != -EINVAL)
			fail_msg("\"%s\" is taken", errors[i].rule);
		assert_null(p);
		if (!strstr(e.msg, errors[i].in_msg))
			fail_msg("\"%s\": \"%s\" does not say \"%s\"", errors[i].rule, e.msg, errors[i].in_msg);
		if (!e.hint[0] || (errors[i].in_hint && !strstr(e.hint, errors[i].in_hint)))
			fail_msg("\"%s\": hint \"%s\"", errors[i].rule, e.hint);
	}
}

static void test_empty_preset_suits_every_mode(void **state)
{
	static const char *const none[] = {"none", NULL}, *const rules[] = {"evil.site", NULL};
	struct policy *p;

	(void)state;
	assert_int_equal(policy_new(NETWORK_DENYLIST, none, rules, &p, NULL), 0);
	policy_free(p);
}

static void test_presets_come_first(void **state)
{
	static const char *const presets[] = {"code-hosts", "llm", NULL}, *const rules[] = {"!github.com", NULL};
	const char *const *all;
	struct policy_verdict v;
	struct host h = host("github.com");
	struct policy *p;

	(void)state;
	assert_int_equal(policy_new(NETWORK_ALLOWLIST, presets, rules, &p, NULL), 0);
	size_t n = policy_rules(p, &all);
	assert_true(n > 10);
	assert_string_equal(all[0], "github.com");
	assert_string_equal(all[n - 1], "!github.com");
	assert_null(all[n]);
	policy_check_host(p, &h, 443, &v);
	assert_false(v.allow);
	assert_false(v.silent);
	policy_free(p);
}

/* Ten thousand rules of each kind: the right one decides. */
static void test_many_rules(void **state)
{
	enum { N = 10000 };
	auto_strv list = {0};
	struct policy *p;
	struct policy_verdict v;
	struct host hit = host("host9999.example.com"), deep = host("a.b.c.zone17.example.com"),
		    miss = host("x.y.z.example");
	struct host address = host("10.39.15.1");

	(void)state;
	for (unsigned i = 0; i < N; i++) {
		strv_take(&list, xasprintf("host%u.example.com", i));
		strv_take(&list, xasprintf("**.zone%u.example.com", i));
		strv_take(&list, xasprintf("10.%u.%u.0/24", i / 256, i % 256));
	}
	strv_add(&list, "!**.zone17.example.com:25");
	assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, (const char *const *)list.v, &p, NULL), 0);
	policy_check_host(p, &deep, 25, &v);
	assert_false(v.allow);
	policy_check_host(p, &hit, 443, &v);
	assert_true(v.allow && v.exact);
	policy_check_host(p, &deep, 443, &v);
	assert_string_equal(v.rule, "**.zone17.example.com");
	policy_check_host(p, &miss, 443, &v);
	assert_false(v.allow);
	policy_check_host(p, &address, 443, &v);
	assert_string_equal(v.rule, "10.39.15.0/24");
	policy_free(p);
}

static void test_too_many_rules(void **state)
{
	auto_strv list = {0};
	struct policy *p;
	struct err e = ERR_INIT;

	(void)state;
	for (unsigned i = 0; i < 100001; i++)
		strv_add(&list, "a.example");
	assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, (const char *const *)list.v, &p, &e), -EINVAL);
	assert_true(e.hint[0]);
}

static void test_mode_names(void **state)
{
	enum network_mode m;

	(void)state;
	for (enum network_mode i = NETWORK_OPEN; i <= NETWORK_LEARN; i++) {
		assert_int_equal(network_mode_parse(network_mode_name(i), &m), 0);
		assert_int_equal(m, i);
	}
	assert_int_equal(network_mode_parse("Open", &m), -EINVAL);
	assert_int_equal(network_mode_parse("", &m), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_resolved),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_denied_stays_denied),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_empty_preset_suits_every_mode),
		cmocka_unit_test(test_presets_come_first),
		cmocka_unit_test(test_many_rules),
		cmocka_unit_test(test_too_many_rules),
		cmocka_unit_test(test_mode_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
