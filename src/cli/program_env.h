/* The environment of a program that a command runs in a sandbox. */
#pragma once

struct sandbox_spec;
struct strv;

/* Appends PATH, HOME (home, when not NULL), USER, LANG, TERM, TZ from this process, then the spec's own variables. */
void program_env(struct strv *env, const struct sandbox_spec *spec, const char *home);
