/* A table from names to declarations. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct arena;

struct names {
	struct names_slot {
		const char *name;
		void *value;
		uint32_t hash;
	} * slots;
	size_t n, cap;	    /* cap is 0 or a power of two */
	const char **order; /* the names in the order they were added */
};

/* Adds name (which must outlive the table, as the arena does) unless it is there: returns the earlier value, or NULL
 * when it was added. */
void *names_add(struct names *t, struct arena *a, const char *name, void *value);

/* The value of name, or NULL. */
void *names_get(const struct names *t, const char *name);
