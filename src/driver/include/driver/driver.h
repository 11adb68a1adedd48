/* The drivers that this build has, and the choice of one. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct driver;

/* What a spec may ask of it. */
struct driver_caps {
	bool image;
	bool build;
	bool mounts;
	bool host_state; /* shares the user's own state on this machine */
	bool user;
	bool image_user;     /* the user, of a sandbox that has an image */
	bool run_args;	     /* words for a container's making */
	bool network_policy; /* the policy is enforced, not only offered */
	bool limits;
	bool secrets;
	bool host_toolchain; /* serves an active mode without an image */
	bool remote; /* on another machine: nothing of this one is mounted, the workspace is copied there and back */
};

/* All drivers, best known first; static. */
const struct driver *const *driver_list(size_t *ret_n);
const char *driver_name(const struct driver *d);
/* Whether it is one that is chosen on this host when nobody names one and it can serve. */
bool driver_wanted(const struct driver *d);
const struct driver_caps *driver_caps(const struct driver *d);

/* Where its sandboxes have the files that a run was given; NULL: at the host's path. */
const char *driver_attachments(const struct driver *d);

/* Whether it can serve here, by asking the kernel or the engine, not by looking for a file. 0, or -errno with why not
 * and what to do. */
int driver_probe(const struct driver *d, struct err *e) __attribute__((warn_unused_result));

/* By name: -ENOENT naming those that exist. NULL chooses the first that answers, and when there is no image the first
 * that needs none; *ret_reason (static) says why it is this one. A failure names everything that was tried. */
int driver_choose(const char *name, bool without_image, const struct driver **ret, const char **ret_reason,
		  struct err *e) __attribute__((warn_unused_result));

/* Removes what sandboxes of dead owners left behind; *ret_n: how many things. */
int driver_sweep_all(size_t *ret_n, struct err *e) __attribute__((warn_unused_result));

/* Appends one object for each sandbox that the engines of this host have, anybody's: driver, id, name, image, state,
 * created, run_id, run_name, owner ("alive", "gone": a leftover, or "elsewhere"). */
int driver_list_all(json_t *rows, struct err *e) __attribute__((warn_unused_result));
