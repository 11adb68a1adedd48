/* Hosts: every spelling of a name or an address comes to one canonical form, or is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/str.h>
#include <net/policy.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define L63 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg"

static const struct {
	const char *text;
	const char *canonical; /* NULL: refused */
	int family;
} hosts[] = {
	/* names */
	{"example.com", "example.com", AF_UNSPEC},
	{"EXAMPLE.Com", "example.com", AF_UNSPEC},
	{"  example.com\t", "example.com", AF_UNSPEC},
	{"example.com.", "example.com", AF_UNSPEC},
	{"example.com..", NULL, 0},
	{"localhost", "localhost", AF_UNSPEC},
	{"under_score.example.com", "under_score.example.com", AF_UNSPEC},
	{"_dmarc.example.com", "_dmarc.example.com", AF_UNSPEC},
	{"r3---sn-4g5e.example.com", "r3---sn-4g5e.example.com", AF_UNSPEC},
	{"1password.com", "1password.com", AF_UNSPEC},
	{"4.example", "4.example", AF_UNSPEC},
	{"3com", "3com", AF_UNSPEC},
	{"0xabc.com", "0xabc.com", AF_UNSPEC},
	{"0xg", "0xg", AF_UNSPEC},
	{L63 ".example", L63 ".example", AF_UNSPEC},
	{L63 "h.example", NULL, 0},
	{"", NULL, 0},
	{" ", NULL, 0},
	{".", NULL, 0},
	{".example.com", NULL, 0},
	{"example..com", NULL, 0},
	{"-oProxyCommand.example.com", NULL, 0},
	{"a-.example.com", NULL, 0},
	{"exa mple.com", NULL, 0},
	{"exa\tmple.com", NULL, 0},
	{"example.com\n", NULL, 0},
	{"example.com\r", NULL, 0},
	{"example.com/", NULL, 0},
	{"user@example.com", NULL, 0},
	{"example.com%00.evil.site", NULL, 0},
	{"*.example.com", NULL, 0},
	{"example.com\x7f", NULL, 0},
	{"exam\\ple.com", NULL, 0},
	/* other scripts */
	{"bücher.example", "xn--bcher-kva.example", AF_UNSPEC},
	{"BÜCHER.example", "xn--bcher-kva.example", AF_UNSPEC},
	{"bu\xcc\x88"
	 "cher.example",
	 "xn--bcher-kva.example", AF_UNSPEC}, /* decomposed */
	{"xn--bcher-kva.example", "xn--bcher-kva.example", AF_UNSPEC},
	{"XN--BCHER-KVA.example", "xn--bcher-kva.example", AF_UNSPEC},
	{"faß.example", "xn--fa-hia.example", AF_UNSPEC}, /* IDNA2003 would make fass.example */
	{"пример.example.com", "xn--e1afmkfd.example.com", AF_UNSPEC},
	{"pаypal.com", "xn--pypal-4ve.com", AF_UNSPEC},	  /* Cyrillic a */
	{"例え。jp", "xn--r8jz45g.jp", AF_UNSPEC},	  /* ideographic full stop */
	{"ｅｘａｍｐｌｅ.com", "example.com", AF_UNSPEC}, /* full width */
	{"１２７.0.0.1", "127.0.0.1", AF_INET},		  /* full-width digits */
	{"example.com\xe2\x84\x80", NULL, 0},		  /* ℀ would become a/c */
	{"\xff\xfe.com", NULL, 0},
	{"a\xc0\xaf.com", NULL, 0},
	{"ex\xe2\x80\x8b"
	 "ample.com\xe2\x80\xae",
	 NULL, 0}, /* direction override */
	/* IPv4, every notation of inet_aton */
	{"127.0.0.1", "127.0.0.1", AF_INET},
	{"127.0.0.1.", "127.0.0.1", AF_INET},
	{"127.1", "127.0.0.1", AF_INET},
	{"127.0.1", "127.0.0.1", AF_INET},
	{"0x7f.1", "127.0.0.1", AF_INET},
	{"0X7F.0.0.1", "127.0.0.1", AF_INET},
	{"0x7f000001", "127.0.0.1", AF_INET},
	{"2130706433", "127.0.0.1", AF_INET},
	{"017700000001", "127.0.0.1", AF_INET},
	{"0177.0.0.1", "127.0.0.1", AF_INET},
	{"0000177.0.0.01", "127.0.0.1", AF_INET},
	{"169.16689662", "169.254.169.254", AF_INET},
	{"1", "0.0.0.1", AF_INET},
	{"0", "0.0.0.0", AF_INET},
	{"4294967295", "255.255.255.255", AF_INET},
	{"4294967296", NULL, 0},
	{"99999999999999999999999999", NULL, 0},
	{"0x100000000", NULL, 0},
	{"1.2.3.4.5", NULL, 0},
	{"1.2.3", "1.2.0.3", AF_INET},
	{"1.2.65536", NULL, 0},
	{"1.2.65535", "1.2.255.255", AF_INET},
	{"1.16777216", NULL, 0},
	{"256.1.1.1", NULL, 0},
	{"1.256.1.1", NULL, 0},
	{"1.1.1.256", NULL, 0},
	{"1..2", NULL, 0},
	{"0x", NULL, 0},
	{"1.2.3.0x", NULL, 0},
	{"08.0.0.1", NULL, 0},
	{"1.2.3.09", NULL, 0},
	{"foo.123", NULL, 0},
	{"foo.0x1f", NULL, 0},
	{"+1.2.3.4", NULL, 0},
	{"1.2.3.-4", NULL, 0},
	{"[127.0.0.1]", NULL, 0},
	/* IPv6 */
	{"::1", "::1", AF_INET6},
	{"[::1]", "::1", AF_INET6},
	{"[2001:DB8:0:0::17]", "2001:db8::17", AF_INET6},
	{"2001:0db8:0000:0000:0000:0000:0000:0017", "2001:db8::17", AF_INET6},
	{"::ffff:1.2.3.4", "1.2.3.4", AF_INET},
	{"[::FFFF:102:304]", "1.2.3.4", AF_INET},
	{"::ffff:0:1.2.3.4", "::ffff:0:102:304", AF_INET6},
	{"::", "::", AF_INET6},
	{"[::1", NULL, 0},
	{"::1]", NULL, 0},
	{"[", NULL, 0},
	{"[]", NULL, 0},
	{"[[::1]]", NULL, 0},
	{"[::1]x", NULL, 0},
	{"::1.", NULL, 0},
	{":", NULL, 0},
	{":::", NULL, 0},
	{"1:2:3:4:5:6:7:8:9", NULL, 0},
	{"12345::", NULL, 0},
	{"::ffff:0x7f.1", NULL, 0},
	{"fe80::1%eth0", NULL, 0},
	{"[fe80::1%25eth0]", NULL, 0},
	{"[v1.fe80]", NULL, 0},
	{"::aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, 0},
};

static void test_hosts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
		struct host h = {.text = "untouched"};
		int r = host_parse(hosts[i].text, strlen(hosts[i].text), &h);
		if (hosts[i].canonical &&
		    (r != 0 || !str_eq(h.text, hosts[i].canonical) || h.family != hosts[i].family))
			fail_msg("\"%s\" gives %d \"%s\", not \"%s\"", hosts[i].text, r, h.text, hosts[i].canonical);
		if (!hosts[i].canonical && (r != -EINVAL || !str_eq(h.text, "untouched")))
			fail_msg("\"%s\" gives %d \"%s\", and should be refused", hosts[i].text, r, h.text);
	}
}

/* A canonical host is its own canonical form: what was judged once is judged so again. */
static void test_canonical_is_stable(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
		struct host a, b;
		if (host_parse(hosts[i].text, strlen(hosts[i].text), &a) < 0)
			continue;
		assert_int_equal(host_parse(a.text, strlen(a.text), &b), 0);
		assert_string_equal(a.text, b.text);
		assert_int_equal(a.family, b.family);
		assert_memory_equal(a.addr, b.addr, sizeof a.addr);
	}
}

static void test_lengths(void **state)
{
	char name[2048];
	struct host h;

	(void)state;
	/* Labels of 49 characters and a dot: 250, then "abc" and "abcd". */
	memset(name, 'x', sizeof name);
	for (size_t i = 49; i < 250; i += 50)
		name[i] = '.';
	assert_int_equal(host_parse(name, 253, &h), 0);
	assert_int_equal(strlen(h.text), 253);
	assert_int_equal(host_parse(name, 254, &h), -EINVAL);
	name[253] = '.';
	assert_int_equal(host_parse(name, 254, &h), 0);
	assert_int_equal(strlen(h.text), 253);
	assert_int_equal(host_parse(name, 2000, &h), -EINVAL);
	assert_int_equal(host_parse("a\0b.com", 7, &h), -EINVAL);
	assert_int_equal(host_parse("example.com\0", 12, &h), -EINVAL);
}

/* Every text right before a page that cannot be read: a read past the end kills the test. */
static void test_reads_stay_inside(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(two != MAP_FAILED);
	assert_int_equal(mprotect(two + page, page, PROT_NONE), 0);
	for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
		size_t len = strlen(hosts[i].text);
		char *at = two + page - len;
		struct host h;
		uint16_t port;
		memcpy(at, hosts[i].text, len);
		assert_int_equal(host_parse(at, len, &h), hosts[i].canonical ? 0 : -EINVAL);
		(void)!host_port_parse(at, len, 0, &h, &port);
		(void)!host_port_parse(at, len, 80, &h, &port);
	}
	munmap(two, 2 * page);
}

static void test_ports(void **state)
{
	static const struct {
		const char *text;
		unsigned default_port;
		const char *host; /* NULL: refused */
		unsigned port;
	} rows[] = {
		{"example.com:443", 0, "example.com", 443},
		{"example.com", 443, "example.com", 443},
		{"example.com", 0, NULL, 0},
		{"example.com:", 443, NULL, 0},
		{"example.com:0", 443, NULL, 0},
		{"example.com:1", 0, "example.com", 1},
		{"example.com:65535", 0, "example.com", 65535},
		{"example.com:65536", 0, NULL, 0},
		{"example.com:99999", 0, NULL, 0},
		{"example.com:4294967739", 0, NULL, 0},
		{"example.com:-1", 0, NULL, 0},
		{"example.com:+80", 0, NULL, 0},
		{"example.com: 80", 0, NULL, 0},
		{"example.com:80 ", 0, NULL, 0},
		{"example.com:http", 0, NULL, 0},
		{"example.com:0x50", 0, NULL, 0},
		{":443", 0, NULL, 0},
		{":", 443, NULL, 0},
		{"", 443, NULL, 0},
		{"[::1]:443", 0, "::1", 443},
		{"[::1]", 80, "::1", 80},
		{"[::1]", 0, NULL, 0},
		{"[::1]:", 80, NULL, 0},
		{"[::1]443", 80, NULL, 0},
		{"[::1:443", 80, NULL, 0},
		{"::1", 80, "::1", 80},
		{"::1", 0, NULL, 0},
		{"2001:db8::1:443", 0, NULL, 0}, /* no telling the port from the address */
		{"[::ffff:10.1.2.3]:80", 0, "10.1.2.3", 80},
		{"0x7f.0.0.1:80", 0, "127.0.0.1", 80},
		{"user@example.com:443", 0, NULL, 0},
		{"example.com:80:80", 0, NULL, 0},
		{"example.com", 65536, NULL, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct host h;
		uint16_t port = 7;
		int r = host_port_parse(rows[i].text, strlen(rows[i].text), rows[i].default_port, &h, &port);
		if (r != (rows[i].host ? 0 : -EINVAL))
			fail_msg("\"%s\" gives %d", rows[i].text, r);
		assert_int_equal(port, rows[i].host ? rows[i].port : 7);
		if (rows[i].host)
			assert_string_equal(h.text, rows[i].host);
	}
}

static void test_sockaddr(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(443)};
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct host h;
	uint16_t port;

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "10.1.2.3", &in.sin_addr), 1);
	assert_int_equal(host_from_sockaddr((struct sockaddr *)&in, sizeof in, &h, &port), 0);
	assert_string_equal(h.text, "10.1.2.3");
	assert_int_equal(port, 80);
	assert_int_equal(host_from_sockaddr((struct sockaddr *)&in, sizeof in - 1, &h, &port), -EINVAL);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", &in6.sin6_addr), 1);
	assert_int_equal(host_from_sockaddr((struct sockaddr *)&in6, sizeof in6, &h, NULL), 0);
	assert_int_equal(h.family, AF_INET);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr), 1);
	assert_int_equal(host_from_sockaddr((struct sockaddr *)&in6, sizeof in6, &h, &port), 0);
	assert_string_equal(h.text, "2001:db8::1");
	assert_int_equal(port, 443);
	assert_int_equal(host_from_sockaddr(&other, sizeof other, &h, &port), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),	cmocka_unit_test(test_canonical_is_stable),
		cmocka_unit_test(test_lengths), cmocka_unit_test(test_reads_stay_inside),
		cmocka_unit_test(test_ports),	cmocka_unit_test(test_sockaddr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
