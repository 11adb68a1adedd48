/* The live view of a run on a terminal: a line a node, drawn anew as it goes on. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct live_view;

/* Whether standard output is a terminal for it: one that is wide enough, knows the usual sequences (TERM is neither
 * unset nor dumb), and this process is in its foreground. Costs nothing when it is no terminal. */
bool live_view_possible(void);

/* Draws from the loop once the run has gone on for a moment. Free with live_view_free. */
struct live_view *live_view_new(uv_loop_t *loop, const char *title);

void live_view_event(struct live_view *v, const json_t *ev);
/* What the run does now if not simply run, such as "stopping". Borrowed. */
void live_view_doing(struct live_view *v, const char *word);

/* While held the terminal is as it was before, for whoever wants to print on it or ask; holds may be nested. */
void live_view_hold(struct live_view *v);
void live_view_release(struct live_view *v);

/* The run has ended: gives the terminal back, prints what stays on it, and closes the handles; the loop must run once
 * more before live_view_free. Again, or NULL: nothing. */
void live_view_end(struct live_view *v);
void live_view_free(struct live_view *v);
