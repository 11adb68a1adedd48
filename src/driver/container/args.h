/* The command line and the environment file by which an engine makes a sandbox's container. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct buf;
struct container_engine;
struct err;
struct sandbox_params;
struct strv;

/* What they depend on beside the spec. Everything is borrowed. */
struct args_facts {
	const struct container_engine *engine;
	const char *program; /* its path */
	const char *name;    /* of the container */
	const char *owner;   /* labels.h */
	const char *image;
	const char *guest;     /* the guest's file on this host */
	const char *socket;    /* the host's listening control socket; NULL: the guest is not used, PID 1 is sleep */
	bool advisory;	       /* a policy is only offered: the engine's own network */
	const char *alias;     /* with it: a name for the engine's host; NULL: none is needed */
	const char *authority; /* files of this host with what p->certificates says; NULL: none */
	const char *bundle;
	const char *env_file; /* a path that the program can open */
	uid_t uid;	      /* this process's own */
	gid_t gid;
	bool unlabelled; /* SELinux would keep the container from the workspace: it runs without a label */
};

/* Whether the container's user is made this process's own, since nobody named one: files that are made in what is
 * shared of the user's home then belong to the user. Not for root, who owns them anyway. */
bool args_remaps_user(const struct sandbox_params *p, const struct args_facts *f);

/* The whole command line of `run`, argv[0] first. Returns 0, or -errno for what a container cannot have. */
int args_run(const struct sandbox_params *p, const struct args_facts *f, struct strv *ret, struct err *e)
	__attribute__((warn_unused_result));

/* What stands in its environment file: one NAME=value a line. Returns 0 or -ENOBUFS. */
int args_env(const struct sandbox_params *p, struct buf *ret) __attribute__((warn_unused_result));

/* The name that a run's n-th container has (from 1), of the characters that engines take; the caller frees. */
char *args_name(const char *run_id, unsigned n) __attribute__((returns_nonnull));
