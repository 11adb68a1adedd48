/* Cases in text files: "=== name | expectation" and a text below it; lines that begin with ## before the first are
 * comments. */
#pragma once

#include <stddef.h>

struct dsl_file;

struct test_case {
	const char *name, *expect, *text;
	size_t len;
};

struct test_cases {
	struct test_case *v;
	size_t n;
	char *data; /* what the cases point into */
};

/* Reads tests/data/dsl/NAME. Fails the test when there is no case in it. */
struct test_cases cases_read(const char *name);
void cases_done(struct test_cases *c);
#define auto_cases __attribute__((cleanup(cases_done))) struct test_cases

/* The findings as "CODE@line:column …", in a buffer of the caller. */
const char *findings(const struct dsl_file *f, char *to, size_t size);

/* As many copies of a text, or a text of one character; the caller frees. */
char *repeat(const char *s, size_t times);
