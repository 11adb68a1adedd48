/* Which nodes were under way in a place, now and a little while ago. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { STAYS_MAX = 64 };

struct stay {
	const char *node; /* NULL: none */
	char *branch;	  /* NULL: the main line */
	const void *who;  /* NULL: it has ended */
	uint64_t begin_ms, end_ms;
};

struct stays {
	struct stay v[STAYS_MAX];
	uint64_t forgotten_ms; /* the latest end of those that are not among v any more */
};

/* A node begins; who stands for this execution until it ends. node must live as long as the list. */
void stay_begin(struct stays *l, const char *node, const char *branch, const void *who);
void stay_end(struct stays *l, const void *who);
/* The one that was there between two moments (clock_ms); NULL when that was none, more than one, or is not known. */
const struct stay *stay_only(const struct stays *l, uint64_t first_ms, uint64_t last_ms);
void stays_done(struct stays *l);
