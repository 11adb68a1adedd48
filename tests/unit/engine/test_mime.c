/* Kinds of files: by content, by name where content says nothing, and never by a name that the content contradicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mime.h"

#include <base/mem.h>
#include <stdlib.h>
#include <string.h>

#define CASE(name, bytes, mime)                                                                                        \
	{                                                                                                              \
		name, bytes, sizeof(bytes) - 1, true, mime                                                             \
	}

static void test_kinds(void **state)
{
	(void)state;
	static const struct {
		const char *name, *bytes;
		size_t len;
		bool whole;
		const char *mime;
	} cases[] = {
		CASE("a.png", "\x89PNG\r\n\x1a\n....", "image/png"),
		CASE("a.txt", "\x89PNG\r\n\x1a\n....", "image/png"),
		CASE("a.png", "hello\n", "text/plain"),
		CASE("a.jpg", "\xff\xd8\xff\xe0", "image/jpeg"),
		CASE("a", "GIF89a", "image/gif"),
		CASE("a.webp", "RIFF\1\2\3\4WEBPVP8 ", "image/webp"),
		CASE("a.pdf", "%PDF-1.7", "application/pdf"),
		CASE("a.docx", "PK\3\4....", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
		CASE("a.bin", "PK\3\4....", "application/zip"),
		CASE("README.MD", "# x\n", "text/markdown"),
		CASE("a.json", "{}", "application/json"),
		CASE("a.svg", "<svg/>", "image/svg+xml"),
		CASE("a.svg", "\0\0", "application/octet-stream"),
		CASE("empty", "", "text/plain"),
		CASE("a.txt", "a\0b", "application/octet-stream"),
		CASE("a.txt", "\xe4\xf6", "application/octet-stream"),
		CASE("a.txt", "x\xc3\xa4", "text/plain"),
		{"a.txt", "x\xc3", 2, false, "text/plain"},
		{"a.txt", "x\xc3", 2, true, "application/octet-stream"},
		CASE("a.tar", "short", "text/plain"),
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* Behind its last byte nothing may be read. */
		char *exact = cases[i].len ? xmemdup(cases[i].bytes, cases[i].len) : NULL;
		assert_string_equal(mime_of(cases[i].name, exact ? exact : "", cases[i].len, cases[i].whole),
				    cases[i].mime);
		free(exact);
	}
}

static void test_accepts(void **state)
{
	(void)state;
	static const struct {
		const char *wanted, *mime;
		bool good;
	} cases[] = {
		{"image/png", "image/png", true},   {"image/PNG", "image/png", true}, {"image/*", "image/png", true},
		{"image/*", "imagex/png", false},   {"*/*", "text/plain", true},      {"*", "text/plain", true},
		{"image/png", "image/jpeg", false}, {"text/*", "image/png", false},   {"", "text/plain", false},
		{"/*", "text/plain", false},	    {"image/pn", "image/png", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(mime_accepts(cases[i].wanted, cases[i].mime), cases[i].good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_accepts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
