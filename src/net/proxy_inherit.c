/* What a forked process got from its parent and must not keep. Descriptors and the environment are plain to see; memory
 * that is shared and writable is not: a parent whose event loop uses an io_uring has its queues mapped that way, and
 * who writes to those lets the parent do things. All such mappings are taken out, whatever they are. Private memory is
 * a copy and stays; what is secret in it is not this process's doing. */
#include "proxy_inherit.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { KEEP_STDERR = 1 }; /* for the sanitizer's reports */
#else
enum { KEEP_STDERR = 0 };
#endif

static void reset_signals(void)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL}, ign = {.sa_handler = SIG_IGN};
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP && !(KEEP_STDERR && (s == SIGSEGV || s == SIGBUS || s == SIGFPE)))
			(void)sigaction(s, &dfl, NULL);
	/* splice(2) has no MSG_NOSIGNAL. */
	(void)sigaction(SIGPIPE, &ign, NULL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Leaves nothing open but /dev/null as 0 to 2 and the control socket. */
static int keep_only(int ctl, struct err *e)
{
	if (dup2(ctl, PROXY_CONTROL_FD) < 0 || fcntl(PROXY_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, errno, "start the proxy: keep its control socket");
	if (syscall(SYS_close_range, PROXY_CONTROL_FD + 1u, ~0u, 0) < 0)
		return err_sys(e, errno, "start the proxy: close what it inherited");
	auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return err_sys(e, errno, "start the proxy: open /dev/null");
	for (int fd = 0; fd <= 2 - KEEP_STDERR; fd++)
		if (dup2(null, fd) < 0)
			return err_sys(e, errno, "start the proxy: replace descriptor %d", fd);
	return 0;
}

enum { MAX_SHARED = 256 };

struct range {
	uintptr_t start, end;
};

/* Finds the writable shared mappings in /proc/self/maps (proc(5)). Returns how many, or -errno. */
static int find_shared(struct range ret[MAX_SHARED])
{
	auto_file f = fopen("/proc/self/maps", "re");
	auto_free char *line = NULL;
	size_t cap = 0;
	int n = 0;

	if (!f)
		return -errno;
	while (getline(&line, &cap, f) > 0) {
		char flags[5] = "";
		uintptr_t start, end;
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, flags) != 3)
			return -EPROTO;
		if (flags[1] != 'w' || flags[3] != 's')
			continue;
		if (n == MAX_SHARED)
			return -E2BIG;
		ret[n++] = (struct range){start, end};
	}
	return n;
}

static int unmap_shared(struct err *e)
{
	struct range shared[MAX_SHARED] = {0};
	int n = find_shared(shared);

	if (n < 0)
		return err_sys(e, -n, "start the proxy: look for memory that it shares");
	for (int i = 0; i < n; i++)
		if (syscall(SYS_munmap, shared[i].start, shared[i].end - shared[i].start) < 0)
			return err_sys(e, errno, "start the proxy: give up shared memory");
	return 0;
}

int proxy_leave_parent(int ctl, int parent_pid, struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, errno, "start the proxy: bind its life to the run's");
	/* The parent may have died before that call. */
	if (getppid() != parent_pid)
		_exit(1);
	(void)prctl(PR_SET_NAME, "iterion-proxy", 0, 0, 0);
	/* Out of the terminal's process group: an interrupt there is for the run, which then drains the proxy. */
	(void)setsid();
	reset_signals();
	int r = keep_only(ctl, e);
	return r < 0 ? r : unmap_shared(e);
}

void proxy_wipe_environment(void)
{
	for (char **v = environ; v && *v; v++)
		explicit_bzero(*v, strlen(*v));
	if (environ)
		*environ = NULL;
}
