/* The listening socket by which a container's guest reaches this process: one connection, then it is gone. */
#pragma once

#include <uv.h>

struct control;
struct err;

/* Makes the socket in a folder of its own that only this user can enter. */
int control_new(struct control **ret, struct err *e) __attribute__((warn_unused_result));
/* Its path on this host; valid until control_free, there until somebody connected. */
const char *control_path(const struct control *c);

/* Puts a file that everybody can read beside the socket; it goes when the socket does. Its path, borrowed like that of
 * the socket, or NULL. */
enum { CONTROL_FILES = 2 };
const char *control_add_file(struct control *c, const char *name, const char *text, struct err *e);

/* on_connected is called once, with the connection (the callee's) and the user that the peer is here. */
int control_listen(struct control *c, uv_loop_t *loop, void (*on_connected)(void *arg, int fd, unsigned uid), void *arg,
		   struct err *e) __attribute__((warn_unused_result));

/* Lets who connects from now on wait until control_free. */
void control_hold(struct control *c);

/* Closes and removes it. closed is called once the loop has let go of it; NULL when it never listened (then it is freed
 * at once). */
void control_free(struct control *c, void (*closed)(void *arg), void *arg);

/* Removes the folders of processes of this user that are gone. */
void control_sweep(void);
