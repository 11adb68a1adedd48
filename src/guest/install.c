/* `install PATH`: a copy of this very program at PATH, that anybody may execute. So an image needs to hold nothing but
 * the program to bring it into a pod's volume. */
#include "guest.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

static int copy(const char *to)
{
	struct stat st;
	auto_fd in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	auto_fd out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755);

	if (in < 0 || out < 0 || fstat(in, &st) < 0)
		return -errno;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(out, in, NULL, (size_t)left);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		left -= n;
	}
	/* Whatever the mask of this process is. */
	return fchmod(out, 0755) < 0 ? -errno : 0;
}

int guest_install(int argc, char **argv)
{
	int r = argc == 2 ? copy(argv[1]) : -EINVAL;

	if (r < 0)
		fprintf(stderr, "iterion-guest: install %s: %s\n", argc > 1 ? argv[1] : "", strerror(-r));
	return r < 0;
}
