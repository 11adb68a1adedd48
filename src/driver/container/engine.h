/* The container engines that are driven through their command-line programs, and how they differ. */
#pragma once

#include <stdbool.h>

struct err;

struct container_engine {
	const char *name;	   /* of the driver */
	const char *program;	   /* looked up in PATH */
	const char *host_variable; /* names the engine's socket or another machine */
	const char *socket;	   /* where its daemon listens by default; NULL: it has no daemon */
	const char *probe[3];	   /* the words that ask whether it answers */
	bool tmpfs_owner;	   /* --tmpfs takes uid= and gid= */
	/* Options of --mount type=tmpfs: for the user's folders (when it can give those to the container's user), for
	 * everybody, and to hide what is there. */
	const char *tmpfs_home, *tmpfs_shared, *tmpfs_cover;
	const char *remove[4]; /* the words that end and remove a container at once */
	bool buildx;	       /* builds by a plugin where that is installed */
	bool mixes_args; /* its builds take a cached step for the same one with another argument (buildah 1.28 does) */
	bool keep_id;	 /* without root its containers have a user namespace: --userns=keep-id */
};

extern const struct container_engine engine_docker;
extern const struct container_engine engine_podman;

/* The program's path, found in PATH; the caller frees. -ENOENT when it is not there. */
int engine_find(const struct container_engine *en, char **ret, struct err *e) __attribute__((warn_unused_result));

/* Where the engine is, by its variable: on this machine (also when the variable is not set, or has an address of this
 * machine) or elsewhere. A tunnel to another machine looks like this one. */
bool engine_is_remote(const struct container_engine *en);

/* How long an engine may take to answer: ITERION_SANDBOX_DOCTOR_TIMEOUT, a duration; 5 s by default. */
unsigned engine_timeout_ms(void);

/* Whether it answers, within engine_timeout_ms. Spawns nothing when there is no program, and asks nothing when its
 * socket lets nobody connect. 0, or -errno with why and what to do. */
int engine_probe(const struct container_engine *en, struct err *e) __attribute__((warn_unused_result));
