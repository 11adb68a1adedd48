/* The pure parts: names, documents, heads, addresses, credentials, accounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth.h"
#include "challenge.h"
#include "manifest.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <image/reference.h>
#include <image/user.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_names(void **state)
{
	static const struct {
		const char *text, *domain, *repository, *tag, *canonical;
	} rows[] = {
		{"debian", "docker.io", "library/debian", "latest", "docker.io/library/debian:latest"},
		{"debian:12", "docker.io", "library/debian", "12", "docker.io/library/debian:12"},
		{"a/b", "docker.io", "a/b", "latest", "docker.io/a/b:latest"},
		{"docker.io/debian", "docker.io", "library/debian", "latest", "docker.io/library/debian:latest"},
		{"index.docker.io/a/b:1", "docker.io", "a/b", "1", "docker.io/a/b:1"},
		{"ghcr.io/o/n:v1.2-x_y", "ghcr.io", "o/n", "v1.2-x_y", "ghcr.io/o/n:v1.2-x_y"},
		{"localhost/x", "localhost", "x", "latest", "localhost/x:latest"},
		{"localhost:5000/x/y", "localhost:5000", "x/y", "latest", "localhost:5000/x/y:latest"},
		{"[::1]:5000/x", "[::1]:5000", "x", "latest", "[::1]:5000/x:latest"},
		{"HOST/x", "HOST", "x", "latest", "HOST/x:latest"},
		{"a__b/c.d---e:1", "docker.io", "a__b/c.d---e", "1", "docker.io/a__b/c.d---e:1"},
		{"debian@sha256:" HEX, "docker.io", "library/debian", NULL, "docker.io/library/debian@sha256:" HEX},
		{"debian:12@sha256:" HEX, "docker.io", "library/debian", "12",
		 "docker.io/library/debian:12@sha256:" HEX},
		{"x@sha512:" HEX HEX, "docker.io", "library/x", NULL, "docker.io/library/x@sha512:" HEX HEX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_image_ref r = {0};
		struct err e = ERR_INIT;
		if (image_ref_parse(rows[i].text, "/w", &r, &e) < 0)
			fail_msg("%s: %s", rows[i].text, e.msg);
		assert_int_equal(r.kind, IMAGE_REGISTRY);
		assert_string_equal(r.domain, rows[i].domain);
		assert_string_equal(r.repository, rows[i].repository);
		if (rows[i].tag)
			assert_string_equal(r.tag, rows[i].tag);
		else
			assert_null(r.tag);
		assert_string_equal(r.text, rows[i].canonical);
	}
}

static void test_names_that_are_none(void **state)
{
	static const char *const rows[] = {
		"",
		":",
		"a:",
		"A",
		"a/B",
		"-a",
		"a-",
		"a..b",
		"a//b",
		"/a",
		"a/",
		"a___b",
		"a:.x",
		"a:-x",
		"a@",
		"a@sha256:",
		"a@sha256:x",
		"a@md5:" HEX,
		"a@sha256:" HEX "0",
		"a b",
		"a\n",
		"h.st:0/a",
		"h.st:x/a",
		"h.st:70000/a",
		"..",
		"a/../b",
		"h_st.x/a",
		"[::1/a",
		"[x]/a",
		"http://a/b",
		"-.x/a",
		"a?b",
		"oci:",
		"oci:x:",
		"oci:x:y/",
		"oci:x:a b",
		"docker-archive:",
		"docker-archive:x:",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_image_ref r = {0};
		struct err e = ERR_INIT;
		if (image_ref_parse(rows[i], "/w", &r, &e) == 0)
			fail_msg("'%s' is taken for %s", rows[i], r.text);
		assert_string_not_equal(e.hint, "");
	}
}

static void test_local_names(void **state)
{
	static const struct {
		const char *text, *path, *tag, *canonical;
	} rows[] = {
		{"oci:x", "/w/x", NULL, "oci:/w/x"},
		{"oci:../x:1.0", "/x", "1.0", "oci:/x:1.0"},
		{"oci:/a/b:c/d", "/a/b:c/d", NULL, "oci:/a/b:c/d"},
		{"docker-archive:x.tar", "/w/x.tar", NULL, "docker-archive:/w/x.tar"},
		{"docker-archive:/x.tar:a/b:1", "/x.tar", "a/b:1", "docker-archive:/x.tar:a/b:1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_image_ref r = {0};
		assert_int_equal(image_ref_parse(rows[i].text, "/w", &r, NULL), 0);
		assert_string_equal(r.path, rows[i].path);
		assert_string_equal(r.text, rows[i].canonical);
		assert_true(rows[i].tag ? r.tag && strcmp(r.tag, rows[i].tag) == 0 : !r.tag);
	}
}

static void test_loopback(void **state)
{
	static const struct {
		const char *text;
		bool is;
	} rows[] = {
		{"localhost/x", true},
		{"localhost:1/x", true},
		{"127.0.0.1:1/x", true},
		{"127.1.2.3/x", true},
		{"[::1]/x", true},
		{"[::1]:1/x", true},
		{"x", false},
		{"127.example.net/x", false},
		{"localhost.net/x", false},
		{"10.0.0.1/x", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_image_ref r = {0};
		assert_int_equal(image_ref_parse(rows[i].text, "/w", &r, NULL), 0);
		assert_int_equal(image_ref_is_loopback(&r), rows[i].is);
	}
}

static void test_challenges(void **state)
{
	static const struct {
		const char *field;
		int r;
		const char *realm, *service, *scope;
	} rows[] = {
		{"Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:a/b:pull\"", 0, "https://a/t", "s",
		 "repository:a/b:pull"},
		{"bearer  Realm=https://a , service=\"a \\\" b\"", 0, "https://a", "a \" b", NULL},
		{"Bearer realm=\"https://a\", Basic realm=\"x\"", 0, "https://a", NULL, NULL},
		{"Basic realm=\"x\"", 0, NULL, NULL, NULL},
		{"Bearer service=\"s\"", -EINVAL, NULL, NULL, NULL},
		{"Bearer realm=\"ftp://a\"", -EINVAL, NULL, NULL, NULL},
		{"Bearer realm=\"https://a", -EINVAL, NULL, NULL, NULL},
		{"Digest x", -EINVAL, NULL, NULL, NULL},
		{"", -EINVAL, NULL, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct challenge c;
		if (challenge_parse(rows[i].field, &c) != rows[i].r)
			fail_msg("%s", rows[i].field);
		if (rows[i].r < 0)
			continue;
		assert_int_equal(c.bearer, rows[i].realm != NULL);
		if (rows[i].realm)
			assert_string_equal(c.realm, rows[i].realm);
		assert_string_equal(c.service ? c.service : "-", rows[i].service ? rows[i].service : "-");
		assert_string_equal(c.scope ? c.scope : "-", rows[i].scope ? rows[i].scope : "-");
		challenge_done(&c);
	}
}

static void test_addresses(void **state)
{
	static const struct {
		const char *from, *to, *want;
	} rows[] = {
		{"https://a/v2/x", "https://b/y", "https://b/y"},
		{"https://a:1/v2/x?q", "/y?z", "https://a:1/y?z"},
		{"https://a/x", "//b/y", "https://b/y"},
		{"https://a/x", "y", NULL},
		{"https://a/x", "https://b/\n", NULL},
		{"https://a/x", "file:///x", NULL},
	};
	static const struct {
		const char *url;
		bool is;
	} safe[] = {
		{"https://a/x", true},
		{"http://a/x", false},
		{"http://127.0.0.1:1/x", true},
		{"http://127.0.0.1", true},
		{"http://127.0.0.1.net/x", false},
		{"http://127.0.0.1@b/x", false},
		{"http://localhost/x", true},
		{"http://localhost.net/x", false},
		{"http://[::1]:1/", true},
		{"http://localhostx", false},
		{"http://127.0.0.1:1@b/x", false},
		{"http://localhost:1@b/x", false},
		{"http://[::1]:1@b/x", false},
		{"http://127.0.0.1:1/x@b", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = url_resolve(rows[i].from, rows[i].to);
		assert_string_equal(got ? got : "-", rows[i].want ? rows[i].want : "-");
	}
	for (size_t i = 0; i < ARRAY_LEN(safe); i++) {
		if (url_is_private(safe[i].url, true) != safe[i].is)
			fail_msg("%s", safe[i].url);
		/* A registry elsewhere leads to no service of this machine. */
		if (url_is_private(safe[i].url, false) != (strncmp(safe[i].url, "https:", 6) == 0))
			fail_msg("%s for a registry elsewhere", safe[i].url);
	}
	assert_true(url_same_origin("https://a:1/x", "HTTPS://A:1/y?z"));
	assert_false(url_same_origin("https://a/x", "https://a.b/x"));
	assert_false(url_same_origin("https://a/x", "http://a/x"));
	assert_false(url_same_origin("https://a/x", "https://a:1/x"));
}

static void test_credentials(void **state)
{
	static const struct {
		const char *text, *domain, *user, *secret, *helper;
	} rows[] = {
		{"{\"auths\":{\"a.b\":{\"auth\":\"bWU6cHc6eA==\"}}}", "a.b", "me", "pw:x", NULL},
		{"{\"auths\":{\"https://a.b/v2/\":{\"auth\":\"bWU6cHc=\"}}}", "a.b", "me", "pw", NULL},
		{"{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"bWU6cHc=\"}}}", "docker.io", "me", "pw",
		 NULL},
		{"{\"auths\":{\"a.b\":{\"username\":\"me\",\"password\":\"pw\"}}}", "a.b", "me", "pw", NULL},
		{"{\"auths\":{\"a.b\":{\"identitytoken\":\"t\"}}}", "a.b", "<token>", "t", NULL},
		{"{\"auths\":{\"a.b/o\":{\"auth\":\"bTI6cDI=\"},\"a.b\":{\"auth\":\"bWU6cHc=\"}}}", "a.b", "m2", "p2",
		 NULL},
		{"{\"auths\":{\"a.b/oo\":{\"auth\":\"bTI6cDI=\"}}}", "a.b", NULL, NULL, NULL},
		{"{\"auths\":{\"a.b\":{\"auth\":\"!!\"}}}", "a.b", NULL, NULL, NULL},
		{"{\"auths\":{\"a.b\":{\"auth\":\"bWU=\"}}}", "a.b", NULL, NULL, NULL},
		{"{\"auths\":{\"a.b\":5},\"credHelpers\":[]}", "a.b", NULL, NULL, NULL},
		{"{\"credHelpers\":{\"a.b\":\"x\"},\"auths\":{\"a.b\":{\"auth\":\"bWU6cHc=\"}}}", "a.b", NULL, NULL,
		 "x"},
		{"{\"credsStore\":\"s\",\"auths\":{\"a.b\":{}}}", "a.b", NULL, NULL, "s"},
		{"{}", "a.b", NULL, NULL, NULL},
	};
	static const char *const bad[] = {"", "[]", "{", "{\"credsStore\":\"a/b\"}",
					  "{\"credHelpers\":{\"a.b\":\"..\\u0000\"}}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		__attribute__((cleanup(credentials_entry_done))) struct credentials_entry e = {0};
		if (credentials_parse(rows[i].text, strlen(rows[i].text), rows[i].domain, "o/n", &e, NULL) < 0)
			fail_msg("%s", rows[i].text);
		assert_string_equal(e.found.user ? e.found.user : "-", rows[i].user ? rows[i].user : "-");
		assert_string_equal(e.found.secret ? e.found.secret : "-", rows[i].secret ? rows[i].secret : "-");
		assert_string_equal(e.helper ? e.helper : "-", rows[i].helper ? rows[i].helper : "-");
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		__attribute__((cleanup(credentials_entry_done))) struct credentials_entry e = {0};
		if (credentials_parse(bad[i], strlen(bad[i]), "a.b", "o/n", &e, NULL) == 0)
			fail_msg("%s", bad[i]);
	}
}

static void test_users(void **state)
{
	static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n\nbroken\ndev:x:1000:1001:D,,,:/home/dev:/bin/sh\n"
				     "far:x:99999999999:1::/f:/bin/sh\nnohome:x:7:8";
	static const char group[] = "root:x:0:\nstaff:x:50:dev\n";
	static const struct {
		const char *user;
		int r;
		uid_t uid;
		gid_t gid;
		const char *home;
	} rows[] = {
		{NULL, 0, 0, 0, "/root"},
		{"", 0, 0, 0, "/root"},
		{"dev", 0, 1000, 1001, "/home/dev"},
		{"1000", 0, 1000, 1001, "/home/dev"},
		{"dev:staff", 0, 1000, 50, "/home/dev"},
		{"dev:9", 0, 1000, 9, "/home/dev"},
		{"55", 0, 55, 0, NULL},
		{"55:66", 0, 55, 66, NULL},
		{"nohome", 0, 7, 8, NULL},
		{"nobody", -ENOENT, 0, 0, NULL},
		{"dev:none", -ENOENT, 0, 0, NULL},
		{"far", -ENOENT, 0, 0, NULL},
		{"4294967295", -ENOENT, 0, 0, NULL},
		{"-1", -ENOENT, 0, 0, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct image_user u = {0};
		struct err e = ERR_INIT;
		if (image_user_find(rows[i].user, passwd, group, &u, &e) != rows[i].r)
			fail_msg("%s: %s", rows[i].user, e.msg);
		if (rows[i].r < 0)
			continue;
		assert_int_equal(u.uid, rows[i].uid);
		assert_int_equal(u.gid, rows[i].gid);
		assert_string_equal(u.home ? u.home : "-", rows[i].home ? rows[i].home : "-");
		free(u.home);
	}
	struct image_user u = {0};
	assert_int_equal(image_user_find("12:34", NULL, NULL, &u, NULL), 0);
	assert_int_equal(u.uid, 12);
}

#define ENTRY(os, arch, digit)                                                                                         \
	"{\"digest\":\"sha256:" digit "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"size\":1,"  \
	"\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"}}"

static void test_choice_of_an_index(void **state)
{
	static const char several[] = "{\"manifests\":[" ENTRY("windows", "amd64", "1") "," ENTRY(
		"linux", "arm64", "2") "," ENTRY("linux", "amd64", "3") "," ENTRY("unknown", "unknown", "4") "]}";
	static const struct platform amd64 = {"linux", "amd64"}, arm64 = {"linux", "arm64"}, other = {"linux", "s390x"};
	struct blob_ref b;

	(void)state;
	assert_true(manifest_is_index(several, strlen(several)));
	assert_int_equal(index_choose(several, strlen(several), NULL, &amd64, &b, NULL), 0);
	assert_int_equal(b.digest[7], '3');
	free(b.digest);
	assert_int_equal(index_choose(several, strlen(several), NULL, &arm64, &b, NULL), 0);
	assert_int_equal(b.digest[7], '2');
	free(b.digest);
	struct err e = ERR_INIT;
	assert_int_equal(index_choose(several, strlen(several), NULL, &other, &b, &e), -ENOENT);
	assert_non_null(strstr(e.hint, "linux/arm64"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_that_are_none),
		cmocka_unit_test(test_local_names),
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_challenges),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_credentials),
		cmocka_unit_test(test_users),
		cmocka_unit_test(test_choice_of_an_index),
	};

	return cmocka_run_group_tests_name("image", tests, NULL, NULL);
}
