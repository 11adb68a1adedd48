/* The commands that a fresh sandbox runs once, before any node. */
#pragma once

#include <driver/session.h>
#include <stdbool.h>

struct sandbox_spec;
struct session;

/* Whether the spec has any. */
bool post_create_wanted(const struct sandbox_spec *spec);

/* Runs the spec's lifecycle commands and post_create in the started sandbox: stage after stage, those of one stage at
 * once. done is called once: with NULL when all ended with 0, else as soon as one failed, with its last words; what
 * then still runs ends with the sandbox. Emits sandbox_post_create for every command that ended. */
void post_create_run(struct session *s, session_done_cb done, void *arg);
