/* The view of an image as a list of steps.
 *
 * The root is the overlay, so what the image has is there and can be changed until the sandbox ends. /dev, /run and
 * /sys are not the image's: a sandbox has its own. The image may be hostile: a link where a folder must be ends the
 * start, since no target is looked up through one. HOME, when the user's state is shared, is the user's own path, empty
 * but for what is mounted there, as in a container. */
#include "plan.h"
#include "../ops.h"

#include <base/arena.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>
#include <image/store.h>
#include <sandbox/home.h>
#include <sandbox/host_state.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

static void keep_layers(struct plan *p, const struct strv *layers)
{
	p->layered = true;
	p->layers = xcalloc(layers->n + 1, sizeof *p->layers);
	for (size_t i = 0; i < layers->n; i++)
		p->layers[p->n_layers++] = arena_strndup(p->arena, layers->v[i], strlen(layers->v[i]));
}

/* HOME and what lies between it and the mounts below it. */
static int home_folders(const struct sandbox_spec *spec, const struct plan_facts *f, struct strv *ret, struct err *e)
{
	auto_strv binds = {0};

	strv_add(&binds, f->workspace_target);
	for (size_t i = 0; f->host_state && i < f->host_state->mounts.n; i++)
		strv_add(&binds, f->host_state->mounts.v[i]);
	for (size_t i = 0; i < spec->n_mounts; i++)
		strv_add(&binds, spec->mounts[i].target);
	return sandbox_home_tmpfs(f->home, (const char *const *)binds.v, binds.n, ret, e);
}

/* Whether the image has a file of its own there, not a link: that leads to one that is looked at too, or to none. */
static bool has_file(const struct strv *layers, const char *path)
{
	for (size_t i = 0; i < layers->n; i++) {
		auto_fd root = image_layer_open(layers->v[i]);
		auto_fd fd = root < 0 ? -ENOENT
				      : file_open_resolve(root, path + 1, O_PATH | O_NOFOLLOW,
							  RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
		struct stat st;
		if (fd != -ENOENT)
			return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	}
	return false;
}

/* The image's own file of certificates reads as the one with the proxy's. */
static void add_certificates(struct plan *p, const struct plan_facts *f)
{
	for (const char *const *v = certificate_places; f->certificates && *v; v++)
		if (has_file(f->layers, *v))
			plan_add(p, (struct step){.kind = STEP_BIND,
						  .flags = STEP_RO | STEP_INSIDE | STEP_OPTIONAL,
						  .target = *v,
						  .source = GUEST_CA_BUNDLE});
}

int plan_image_view(struct plan *p, const struct sandbox_spec *spec, const struct plan_facts *f, struct err *e)
{
	auto_strv home = {0};
	bool shares = spec->host_state != HOST_STATE_NONE && f->home;
	int r = shares ? home_folders(spec, f, &home, e) : 0;

	if (r < 0)
		return r;
	keep_layers(p, f->layers);
	p->uid = f->uid;
	p->gid = f->gid;
	plan_image_etc(p, f);
	plan_proc(p);
	plan_add(p, (struct step){.kind = STEP_COVER, .target = "/dev"});
	plan_dev(p);
	plan_add(p, (struct step){.kind = STEP_COVER, .target = "/sys"});
	plan_add(p, (struct step){.kind = STEP_DIR, .mode = 01777, .target = "/tmp"});
	plan_add(p, (struct step){.kind = STEP_WRITABLE, .mode = 0755, .target = "/run"});
	plan_run_places(p, f);
	plan_run_binds(p, f);
	add_certificates(p, f);
	/* Where launchers look for it, unless the image has one of its own. */
	plan_add(p, (struct step){.kind = STEP_SYMLINK,
				  .flags = STEP_OPTIONAL,
				  .target = "/usr/local/bin/iterion",
				  .source = GUEST_PATH});
	return plan_user_mounts(p, spec, f, &home, e);
}
