/* What the live view knows of a run: gathered from its events, without a terminal. */
#pragma once

#include <base/str.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of importance when there is no room for all. */
enum view_state { VIEW_RUNNING, VIEW_WAITING, VIEW_FAILED, VIEW_STOPPED, VIEW_FINISHED, VIEW_STATES };

/* One line: a node, or a node within a branch; it is used again when the node runs again in a loop. All texts are
 * neutralised and without newlines. */
struct view_node {
	char *name;
	char *branch; /* NULL: none */
	char *detail; /* what it put out, or why it failed; NULL: nothing */
	enum view_state state;
	unsigned times;
	uint64_t begun_ms; /* of the last time */
	uint64_t took_ms;  /* of all times that have ended */
	long long tokens;
	double cost_usd;
};

struct view_pull {
	char *image, *layer;
	uint64_t current, total; /* bytes; total 0: unknown */
};

/* The sandbox of some nodes only. */
struct view_place {
	char *node;  /* that it was started for */
	char *nodes; /* all that share it, separated by commas */
	char *text;  /* what it is */
};

struct view_block {
	char *host; /* with its port */
	uint64_t count;
};

struct view {
	char *title;
	char *sandbox;	   /* NULL: it is being started */
	char *worktree;	   /* NULL: none */
	char *end;	   /* "finished", "failed", …; NULL: the run goes on */
	const char *doing; /* while it goes on; NULL: it runs */
	uint64_t begun_ms, ended_ms;
	struct view_node *nodes; /* in the order they first began */
	size_t n_nodes, cap_nodes;
	size_t n_dropped; /* finished ones that are kept no longer */
	size_t n_done;	  /* times that a node finished */
	struct view_place *places;
	size_t n_places, cap_places;
	struct view_pull *pulls;
	size_t n_pulls, cap_pulls;
	struct view_block *blocks;
	size_t n_blocks, cap_blocks;
	uint64_t n_more_blocked; /* connections to hosts beyond those kept */
	struct strv notes;	 /* warnings, the newest last */
	long long tokens;
	double cost_usd;
	bool learning; /* the network mode is learn */
};

/* What the run is called; the event that starts it may say better. */
void view_title(struct view *v, const char *title);
/* Takes one event in; data of any shape is survived. */
void view_add(struct view *v, const json_t *ev);
/* A word of this program's own among the warnings. */
void view_note(struct view *v, const char *text);
void view_done(struct view *v);
