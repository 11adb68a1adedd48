/* What /proc tells of a process.
 *
 * A process number alone names nobody: the kernel gives it out again. Whoever writes one down for later writes the
 * start time beside it. */
#include <base/cleanup.h>
#include <base/proc.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int proc_start_time(pid_t pid, unsigned long long *ret)
{
	char path[64], text[1024];

	(void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	/* The second field is the program's name, which may hold anything: the count begins behind its parenthesis. */
	const char *p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -EPROTO;
	*ret = strtoull(p + 1, NULL, 10);
	return 0;
}
