/* Which sandbox a run or a node gets: precedence of flags, blocks, environment and defaults. */
#pragma once

#include <sandbox/spec.h>

struct sandbox_block;

/* All that has a say; NULL where nothing was said (an empty environment variable counts as not set). Borrowed. */
struct sandbox_inputs {
	struct {
		const char *mode;	   /* --sandbox */
		const char *host_state;	   /* --sandbox-host-state */
		const char *driver;	   /* --sandbox-driver */
		const char *default_image; /* --sandbox-default-image */
	} flag;
	struct {
		const char *mode;	   /* ITERION_SANDBOX_DEFAULT */
		const char *host_state;	   /* ITERION_SANDBOX_HOST_STATE */
		const char *driver;	   /* ITERION_SANDBOX_DRIVER */
		const char *default_image; /* ITERION_SANDBOX_DEFAULT_IMAGE */
	} env;
	const struct sandbox_block *devcontainer; /* lies under the workflow's block; given when the mode asks for it */
	const struct sandbox_block *workflow;
	const struct sandbox_block *node; /* NULL: for the run as a whole */
	const char *builtin_image;	  /* sandbox_builtin_image */
};

struct sandbox_resolved {
	struct sandbox_spec spec;
	/* The driver that was asked for, or NULL: by host; and who asked. */
	char *driver;
	const char *driver_source; /* static */
	/* The image for mode auto when nothing names one. */
	char *default_image;
	const char *default_image_source; /* static */
	bool default_image_chosen;	  /* by flag or environment, not the program's own */
};

/* The mode alone, by the rules of sandbox_resolve: whether a devcontainer.json is to be looked for (SANDBOX_AUTO). */
int sandbox_decide_mode(const struct sandbox_inputs *in, enum sandbox_mode *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Resolves everything but the image of mode auto, which depends on the driver: choose one (driver and driver_source say
 * what was asked for), then call sandbox_settle. Returns 0 (sandbox_resolved_done frees), or -EINVAL with what is wrong
 * and a hint. */
int sandbox_resolve(const struct sandbox_inputs *in, struct sandbox_resolved *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Fills in the default image where the spec needs one, and checks the spec as a whole. host_toolchain: the driver can
 * run the host's own programs and needs no image; a default image that somebody chose is used all the same. */
int sandbox_settle(struct sandbox_resolved *r, bool host_toolchain, struct err *e) __attribute__((warn_unused_result));

void sandbox_resolved_done(struct sandbox_resolved *r);
#define auto_sandbox_resolved __attribute__((cleanup(sandbox_resolved_done))) struct sandbox_resolved

/* The image that a release of this version falls back on, and :edge for a development build; the caller frees. */
char *sandbox_builtin_image(const char *version) __attribute__((returns_nonnull));
