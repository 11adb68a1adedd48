/* The live view as lines of text, for a terminal of a given size. */
#pragma once

#include <base/str.h>
#include <stdbool.h>
#include <stdint.h>

struct view;

struct view_space {
	unsigned columns;
	unsigned rows; /* 0: as many as there are, for what stays on the screen after the end */
	bool colour;
};

/* Adds the lines to ret: none is wider than the space, and there are at most so many rows. now_ms: wall clock. */
void view_frame(const struct view *v, const struct view_space *space, uint64_t now_ms, struct strv *ret);
