/* Many small allocations that end together: blocks in a list, each filled from its start. A request larger than a
 * block gets one of its own. */
#include <base/arena.h>
#include <base/mem.h>

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 16 * 1024 };

struct block {
	struct block *next;
	size_t used;
	size_t size;
	alignas(max_align_t) unsigned char data[];
};

struct arena {
	struct block *head;
};

struct arena *arena_new(void)
{
	return xcalloc(1, sizeof(struct arena));
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	for (struct block *b = a->head; b;) {
		struct block *next = b->next;
		free(b);
		b = next;
	}
	free(a);
}

static struct block *add_block(struct arena *a, size_t size)
{
	struct block *b = xcalloc(1, sizeof *b + size);

	b->size = size;
	if (a->head && size > BLOCK_SIZE) {
		/* Behind the head, so that the room left there is still used. */
		b->next = a->head->next;
		a->head->next = b;
	} else {
		b->next = a->head;
		a->head = b;
	}
	return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
	const size_t align = alignof(max_align_t);

	size = (size + align - 1) & ~(align - 1);
	struct block *b = a->head;
	if (!b || b->size - b->used < size)
		b = add_block(a, MAX(size, (size_t)BLOCK_SIZE));
	void *p = b->data + b->used;
	b->used += size;
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *q = arena_alloc(a, len + 1);

	if (len)
		memcpy(q, s, len);
	return q;
}
