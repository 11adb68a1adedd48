/* Whether what was mounted is what was checked, for drivers whose engine looks paths up again. */
#pragma once

struct err;
struct session;
struct sources;

/* Holds the workspace, the shared state and the binds of the spec as they are now; no symlink is followed to one.
 * Returns 0, or -errno with which is not there any more. */
int sources_open(const struct session *s, struct sources **ret, struct err *e) __attribute__((warn_unused_result));

/* Asks the guest of the started sandbox. done is called once, later, or from within for what cannot be asked: NULL, or
 * which mount is another file than the one that is held. */
void sources_verify(struct sources *l, struct session *s, void (*done)(void *arg, const struct err *e), void *arg);

/* NULL is accepted; not between verify and its done. */
void sources_free(struct sources *l);
