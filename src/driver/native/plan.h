/* What a native sandbox's file system is made of, as a list of steps: made without privilege, tested as data, carried
 * out by apply.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct arena;
struct certificates;
struct err;
struct host_state_plan;
struct sandbox_spec;
struct strv;

enum step_kind {
	STEP_DIR,      /* a folder (mode) */
	STEP_SYMLINK,  /* source: the link's text */
	STEP_FILE,     /* content: a small file, mode 0444 */
	STEP_BIND,     /* source, with all that is mounted below it */
	STEP_WRITABLE, /* the folder itself becomes a mount that can be written (mode); empty at start */
	STEP_READONLY, /* the folder as it stands becomes a mount of its own that cannot be written */
	STEP_PROC,     /* a new proc of the sandbox's own process numbers */
	STEP_DEVPTS,   /* a new devpts */
	STEP_COVER,    /* an empty, read-only folder over the target */
	STEP_MASK,     /* what stands at the target reads as empty, or is an empty folder; missing is fine */
	STEP_LOCK,     /* the target, as it stands, can no longer be written; missing is fine */
};

enum step_flag {
	STEP_RO = 1,
	STEP_DEVICE = 2,     /* device files below work */
	STEP_SOURCE_DIR = 4, /* a bind's source is a folder (else a file) */
	STEP_INSIDE = 8,     /* a bind's source is a file that an earlier step made */
	STEP_OPTIONAL = 16,  /* an image may stand in its way: then it is left out */
};

struct step {
	enum step_kind kind;
	unsigned flags;
	mode_t mode;
	const char *target; /* absolute, clean */
	const char *source;
	const char *content;
};

struct plan {
	struct arena *arena;
	struct step *v;
	size_t n;
	size_t cap;
	/* Of an image: the root is an overlay of these folders (the topmost first), can be written, and what
	 * STEP_WRITABLE makes is empty. */
	bool layered;
	const char **layers;
	size_t n_layers;
	uid_t uid; /* who owns what it makes, when that is another user than root */
	gid_t gid;
};

/* What the plan depends on beside the spec. All paths absolute and resolved. */
struct plan_facts {
	const char *workspace;
	const char *workspace_target;		  /* where it stands inside */
	const char *home;			  /* NULL: no home inside */
	const char *guest;			  /* the guest's file on this host */
	const char *artifact_files;		  /* on this host; NULL: none */
	const char *attachments;		  /* the same; read-only inside */
	const struct host_state_plan *host_state; /* NULL: none */
	const char *hidden;			  /* the run store when it lies within the workspace, else NULL */
	const struct certificates *certificates;  /* NULL: TLS is not inspected */
	uid_t uid;
	gid_t gid;
	bool host_network; /* open mode: the host's resolver files are shown */
	/* Of an image: its layers, and its files of accounts (NULL: it has none). */
	const struct strv *layers;
	const char *passwd;
	const char *group;
};

struct plan *plan_new(void);
void plan_free(struct plan *p);

/* Appends one step; strings are copied. */
void plan_add(struct plan *p, struct step s);

/* The host toolchain view: the host's programs read-only, a curated /etc, own /proc and /dev, writable temporary
 * folders and HOME, and the workspace. Returns 0 or -errno (a mount that cannot be made here). */
int plan_host_view(struct plan *p, const struct sandbox_spec *spec, const struct plan_facts *facts, struct err *e)
	__attribute__((warn_unused_result));

/* The view of an image: its own files, which can be written until the sandbox ends, and over them what a sandbox has of
 * its own. */
int plan_image_view(struct plan *p, const struct sandbox_spec *spec, const struct plan_facts *facts, struct err *e)
	__attribute__((warn_unused_result));

/* The part of the host's view that is /etc, and of an image's. */
void plan_etc(struct plan *p, const struct plan_facts *facts);
void plan_image_etc(struct plan *p, const struct plan_facts *facts);

/* What both views have. */
void plan_proc(struct plan *p);
void plan_dev(struct plan *p);
/* The run's own folders below /run/iterion: first their places, then what stands there. */
void plan_run_places(struct plan *p, const struct plan_facts *facts);
void plan_run_binds(struct plan *p, const struct plan_facts *facts);
/* The workspace, the user's state and the spec's mounts, from the shallowest to the deepest; folders of extra are made
 * writable and empty among them. */
int plan_user_mounts(struct plan *p, const struct sandbox_spec *spec, const struct plan_facts *facts,
		     const struct strv *extra, struct err *e) __attribute__((warn_unused_result));
