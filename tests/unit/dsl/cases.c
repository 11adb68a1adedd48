/* Reading of case files, and what several tests need. */
#include "cases.h"

#include <base/err.h>
#include <base/file.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/str.h>
#include <dsl/ast.h>
#include <dsl/diag.h>

#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct test_cases cases_read(const char *name)
{
	struct err e = ERR_INIT;
	char *path = xasprintf("%s/dsl/%s", TEST_DATA, name), *data;
	size_t len, n = 0, cap = 0;
	struct test_case *v = NULL;

	if (file_read(AT_FDCWD, path, 1 << 20, &data, &len, &e) < 0)
		fail_msg("%s", e.msg);
	free(path);
	for (char *p = data; (p = strstr(p, "=== "));) {
		char *line_end = strchr(p, '\n'), *bar, *next;
		assert_non_null(line_end);
		*line_end = '\0';
		bar = strstr(p, " |");
		assert_non_null(bar);
		*bar = '\0';
		next = str_starts(line_end + 1, "=== ") ? line_end : strstr(line_end + 1, "\n=== ");
		v = grow_array(v, n, &cap, sizeof *v);
		v[n] = (struct test_case){
			.name = p + 4, .expect = bar + 2 + strspn(bar + 2, " "), .text = line_end + 1};
		v[n].len = next ? (size_t)(next + 1 - v[n].text) : strlen(v[n].text);
		n++;
		if (!next)
			break;
		p = next + 1;
	}
	assert_true(n > 0);
	return (struct test_cases){.v = v, .n = n, .data = data};
}

void cases_done(struct test_cases *c)
{
	free(c->v);
	free(c->data);
}

const char *findings(const struct dsl_file *f, char *to, size_t size)
{
	size_t n = 0;

	to[0] = '\0';
	for (size_t i = 0; i < f->n_diags && n < size; i++)
		n += (size_t)snprintf(to + n, size - n, "%s%s@%u:%u", i ? " " : "", f->diags[i].code,
				      f->diags[i].pos.line, f->diags[i].pos.column);
	return to;
}

char *repeat(const char *s, size_t times)
{
	size_t len = strlen(s);
	char *to = xmalloc(len * times + 1);

	for (size_t i = 0; i < times; i++)
		memcpy(to + i * len, s, len);
	to[len * times] = '\0';
	return to;
}
