/* The overlay of an image's layers.
 *
 * mount(2) is used, not the mount API of descriptors: fsconfig takes 256 bytes at once, and a layer at a time only on
 * recent kernels. Folders go in by descriptor (/proc/self/fd/N), so no path of the store can hold what overlayfs reads
 * as a separator, 200 of them fit into one page, and none can be exchanged on the way. The descriptors are opened here,
 * in the sandbox's mount namespace: the kernel takes no other's. */
#include "overlay.h"
#include "plan.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <image/store.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPTIONS_LIMIT = 4095 };

struct folders {
	int *v;
	size_t n;
};

static void folders_close(const struct folders *f)
{
	for (size_t i = 0; i < f->n; i++)
		close_quietly(f->v[i]);
	free(f->v);
}

static int open_layers(const struct plan *p, int scratch, struct folders *ret, struct err *e)
{
	ret->v = xcalloc(p->n_layers + 1, sizeof *ret->v);
	for (size_t i = 0; i < p->n_layers; i++) {
		int fd = image_layer_open(p->layers[i]);
		if (fd < 0)
			return err_sys(e, -fd, "open the image's layer %s", p->layers[i]);
		ret->v[ret->n++] = fd;
	}
	/* An image without layers is an empty folder. */
	if (ret->n == 0) {
		int fd = mkdirat(scratch, "empty", 0755) < 0
				 ? -1
				 : openat(scratch, "empty", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(e, errno, "make an empty layer");
		ret->v[ret->n++] = fd;
	}
	return 0;
}

static int make_folder(int scratch, const char *name, struct err *e)
{
	int fd = mkdirat(scratch, name, 0755) < 0 ? -1 : openat(scratch, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "make the sandbox's writable layer") : fd;
}

static int explain(int errnum, struct err *e)
{
	int r = err_sys(e, errnum, "mount the image's layers over each other");

	if (errnum == ENODEV)
		err_hint(e, "This kernel has no overlay file system (CONFIG_OVERLAY_FS, `modprobe overlay`): choose "
			    "another driver with --sandbox-driver.");
	else if (errnum == EPERM)
		err_hint(e, "Ordinary users may mount an overlay from Linux 5.11 on: choose another driver with "
			    "--sandbox-driver, or run as root.");
	else
		err_hint(e, "The file system of the image store may not be fit to lie below an overlay (network file "
			    "systems are not): point ITERION_HOME at a local one, such as ext4, xfs or btrfs.");
	return r;
}

static int mount_them(const struct folders *lower, int upper, int work, int place, struct err *e)
{
	auto_buf options = BUF_INIT(OPTIONS_LIMIT);
	char target[32];
	int r = buf_puts(&options, "userxattr,lowerdir=");

	for (size_t i = 0; r == 0 && i < lower->n; i++)
		r = buf_printf(&options, "%s/proc/self/fd/%d", i ? ":" : "", lower->v[i]);
	if (r == 0)
		r = buf_printf(&options, ",upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d", upper, work);
	if (r < 0)
		return err_set(e, ERR_SANDBOX, E2BIG, "mount the image: it has more layers than the kernel takes");
	(void)snprintf(target, sizeof target, "/proc/self/fd/%d", place);
	if (mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, buf_str(&options)) < 0)
		return explain(errno, e);
	return 0;
}

int overlay_mount(int scratch, const struct plan *p, struct err *e)
{
	__attribute__((cleanup(folders_close))) struct folders lower = {0};
	auto_fd upper = make_folder(scratch, "upper", e);
	auto_fd work = upper < 0 ? upper : make_folder(scratch, "work", e);
	auto_fd place = work < 0 ? work : make_folder(scratch, "root", e);
	int r = place < 0 ? place : open_layers(p, scratch, &lower, e);

	if (r == 0)
		r = mount_them(&lower, upper, work, place, e);
	if (r < 0)
		return r;
	int fd = openat(scratch, "root", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "open the image's root") : fd;
}
