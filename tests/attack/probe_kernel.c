/* Attempts on the kernel's rarer doors: keys, BPF, tracing, io_uring, modules, clocks, terminals, other call tables. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <pty.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/personality.h>
#include <sys/quota.h>
#include <sys/reboot.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#ifndef TIOCL_SETSEL
#define TIOCL_SETSEL 2
#endif

enum { UNMAPPED = 0x1000 }; /* an address that no process maps: permission is checked before it is read */

/* KEYCTL_GET_KEYRING_ID of the session's keyring, made when missing. */
static int try_keyctl(void)
{
	return result(syscall(SYS_keyctl, 0, -3, 1));
}

static int add_key(void)
{
	return result(syscall(SYS_add_key, "user", "iterion-probe", "x", 1, -2 /* process keyring */));
}

static int request_key(void)
{
	long r = syscall(SYS_request_key, "user", "iterion-probe", NULL, 0);

	return r < 0 && errno == ENOKEY ? 0 : result(r); /* "no such key" is an answer of the key service */
}

static int try_bpf(void)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};

	return result(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}

/* Counting our own instructions in user space: allowed to anybody where perf_event_paranoid is 2. */
static int try_perf(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof attr,
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return result(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static int try_io_uring(void)
{
	struct io_uring_params p = {0};

	return result(syscall(SYS_io_uring_setup, 1, &p));
}

static int try_userfaultfd(void)
{
	return result(syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */));
}

static int init_module(void)
{
	return result(syscall(SYS_init_module, (void *)(uintptr_t)UNMAPPED, 0, ""));
}

static int finit_module(void)
{
	return result(syscall(SYS_finit_module, -1, "", 0));
}

static int delete_module(void)
{
	return result(syscall(SYS_delete_module, "iterion-no-such-module", O_NONBLOCK));
}

static int kexec_load(void)
{
	return result(syscall(SYS_kexec_load, 0, 17, (void *)(uintptr_t)UNMAPPED, 0));
}

/* A wrong magic number: the permission is checked first, and nothing could ever reboot. */
static int try_reboot(void)
{
	return result(syscall(SYS_reboot, 0, 0, 0, NULL));
}

static int try_swapon(void)
{
	return result(swapon("/iterion-no-such-file", 0));
}

/* To what it shows already: were it allowed after all, the host would lose a microsecond. */
static int set_clock(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) < 0)
		return -errno;
	return result(clock_settime(CLOCK_REALTIME, &now));
}

static int set_hostname(void)
{
	char name[65] = "";

	if (gethostname(name, sizeof name - 1) < 0)
		return -errno;
	return result(sethostname(name, strlen(name)));
}

static int read_kernel_log(void)
{
	char buf[64];

	return result(klogctl(3, buf, sizeof buf));
}

static int port_access(void)
{
#ifdef SYS_iopl
	return result(syscall(SYS_iopl, 3));
#else
	return -ENOSYS;
#endif
}

/* Puts a byte into the terminal's input as if it had been typed. stdin when that is one, else a terminal of our own. */
static int on_terminal(unsigned long request, void *arg)
{
	int main_fd, sub_fd = 0;

	if (!isatty(0) && openpty(&main_fd, &sub_fd, NULL, NULL, NULL) < 0)
		return -errno;
	if (sub_fd) {
		(void)setsid();
		(void)ioctl(sub_fd, TIOCSCTTY, 0);
	}
	return result(ioctl(sub_fd, request, arg));
}

static int push_input(void)
{
	char c = 'x';

	return on_terminal(TIOCSTI, &c);
}

/* The number is compared as 32 bits by the kernel: a filter that compares 64 bits would miss this one. */
static int push_input_high_bits(void)
{
	char c = 'x';

	return on_terminal(TIOCSTI | 0x100000000ul, &c);
}

static int paste_selection(void)
{
	char sub = TIOCL_SETSEL;

	return on_terminal(TIOCLINUX, &sub);
}

/* The 32-bit call table: mount is 21 there, and a filter written for one table must not let the other through. */
static int call_32bit(void)
{
#ifdef __x86_64__
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(310 /* unshare */), "b"(0x10000000 /* CLONE_NEWUSER */), "c"(0), "d"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)r;
#else
	return -ENOSYS;
#endif
}

/* The x32 table shares the architecture's number and differs by one bit of the call's. */
static int call_x32(void)
{
#ifdef __x86_64__
	return result(syscall(0x40000000 + SYS_unshare, 0x10000000));
#else
	return -ENOSYS;
#endif
}

static int change_personality(void)
{
	return result(personality(READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE));
}

#define ROW(name, fn)                                                                                                  \
	static int fn##_row(char **a)                                                                                  \
	{                                                                                                              \
		(void)a;                                                                                               \
		return fn();                                                                                           \
	}
#define ROWS(X)                                                                                                        \
	X("keyctl", try_keyctl)                                                                                        \
	X("add-key", add_key)                                                                                          \
	X("request-key", request_key)                                                                                  \
	X("bpf", try_bpf)                                                                                              \
	X("perf", try_perf)                                                                                            \
	X("io-uring", try_io_uring)                                                                                    \
	X("userfaultfd", try_userfaultfd)                                                                              \
	X("init-module", init_module)                                                                                  \
	X("finit-module", finit_module)                                                                                \
	X("delete-module", delete_module)                                                                              \
	X("kexec-load", kexec_load)                                                                                    \
	X("reboot", try_reboot)                                                                                        \
	X("swapon", try_swapon)                                                                                        \
	X("set-clock", set_clock)                                                                                      \
	X("set-hostname", set_hostname)                                                                                \
	X("kernel-log", read_kernel_log)                                                                               \
	X("iopl", port_access)                                                                                         \
	X("tiocsti", push_input)                                                                                       \
	X("tiocsti-high-bits", push_input_high_bits)                                                                   \
	X("tioclinux", paste_selection)                                                                                \
	X("call-32bit", call_32bit)                                                                                    \
	X("call-x32", call_x32)                                                                                        \
	X("personality", change_personality)

ROWS(ROW)

#define TABLE_ROW(name, fn) {name, "", fn##_row},
const struct attempt kernel_attempts[] = {ROWS(TABLE_ROW){0}};
