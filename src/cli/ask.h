/* Human nodes' questions on the terminal. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct asker;
struct engine;
struct engine_question;
struct live_view;

/* Whether somebody can be asked: standard input and standard error are terminals, and this process is in their
 * foreground. */
bool ask_possible(void);

/* Asks on the loop. NULL when this process has no terminal to read; free with asker_free. */
struct asker *asker_new(uv_loop_t *loop);
/* Who gets the answers, and the view (NULL: none) that is held while it asks; before the first question. */
void asker_serve(struct asker *a, struct engine *en, struct live_view *view);

/* Takes a question, to be asked when those before it are answered. */
void asker_add(struct asker *a, const struct engine_question *q);

/* Nothing is asked any more: the view is released. Again, or NULL: nothing. */
void asker_stop(struct asker *a);
/* After asker_stop the loop must run once more before this. NULL is accepted. */
void asker_free(struct asker *a);
