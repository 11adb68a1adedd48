/* The command that a fresh sandbox runs once, before any node. */
#pragma once

#include <driver/session.h>

struct session;

/* Runs the spec's post_create in the started sandbox; done is called once, later: with NULL when it ended with 0, else
 * with its last words. Emits sandbox_post_create. */
void post_create_run(struct session *s, session_done_cb done, void *arg);
