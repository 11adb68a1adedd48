/* What every test of base needs: cmocka with the headers it wants first, and memory before an unreadable page. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* A copy of len bytes (at most a page) that ends right before an unreadable page: a read past the end is a crash.
 * Freed by guarded_free. */
static inline char *guarded_copy(const void *data, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *base = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(base != MAP_FAILED && len <= page);
	assert_int_equal(mprotect(base + page, page, PROT_NONE), 0);
	if (len)
		memcpy(base + page - len, data, len);
	return base + page - len;
}

static inline void guarded_free(const char *p, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t base = (uintptr_t)p + len - page;

	munmap((void *)base, 2 * page);
}
