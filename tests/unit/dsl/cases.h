/* Cases in text files: "=== name | expectation" and a text below it; lines that begin with ## before the first are
 * comments. */
#pragma once

#include <stddef.h>

struct dsl_file;

struct test_case {
	const char *name, *expect, *text;
	size_t len;
};

/* Reads tests/data/dsl/NAME; the cases live until the program ends. Fails the test when there is none. */
size_t cases_read(const char *name, struct test_case **ret);

/* The findings as "CODE@line:column …", in a buffer of the caller. */
const char *findings(const struct dsl_file *f, char *to, size_t size);

/* As many copies of a text, or a text of one character; the caller frees. */
char *repeat(const char *s, size_t times);
