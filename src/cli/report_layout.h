/* Places for the nodes of a graph: rank by rank, in the order in which they were met. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Between two ranks. */
enum { LAYOUT_BETWEEN = 52 };

struct layout_point {
	double x, y;
};

struct layout_edge {
	size_t from, to; /* nodes */
	bool back;	 /* it goes against the order: a loop */
	/* Set by layout_place: where it passes the ranks between its ends. The layout's own. */
	struct layout_point *via;
	size_t n_via;
};

struct layout {
	size_t n_nodes;
	struct layout_edge *edges; /* from and to are the caller's; so is the array */
	size_t n_edges;
	double node_width, node_height;
	/* Set by layout_place. */
	bool sideways;		    /* the ranks stand side by side, and not one below the other */
	struct layout_point *nodes; /* the middle of each */
	double width, height;
};

/* Nodes are numbered in the order they were met. Without nodes: nothing. */
void layout_place(struct layout *l);
void layout_done(struct layout *l);
