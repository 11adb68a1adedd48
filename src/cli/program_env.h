/* The environment of a program that a command runs in a sandbox. */
#pragma once

struct sandbox_spec;
struct session;
struct strv;

/* Appends the variables of the image that the started session has, PATH (without an image), USER, LANG, TERM, TZ from
 * this process where the image says nothing, HOME, then the spec's own variables. */
void program_env(struct strv *env, const struct sandbox_spec *spec, const struct session *session);
