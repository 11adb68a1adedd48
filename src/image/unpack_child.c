/* The process that unpacks a layer: it reads bytes that whoever made the image chose, through decompressors and a
 * parser, so a memory error in it must lead nowhere.
 *
 * Stages, each relying on the ones before:
 *   1. it dies with its parent, has no core, and nothing open but the layer, the folder and the way back;
 *   2. capabilities: those that give files their owners, and only for root; no_new_privs;
 *   3. Landlock: the one folder and no other path, where the kernel has it;
 *   4. seccomp: the calls named by the marks of the code that runs here, and these for the C library:
 *      #syscalls: brk mmap munmap mremap madvise exit_group futex rt_sigreturn
 *   5. proof: what must fail is tried.
 * Its answer is one small record, which is checked like an enemy's. */
#include "unpack_child.h"

#include "unpack_filter.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_LAYER = 3, FD_FOLDER, FD_ANSWER, FD_ABOVE };

/* Fits into one write to a pipe. */
struct answer {
	int r;
	struct unpack_result result;
	struct err e;
};
_Static_assert(sizeof(struct answer) <= PIPE_BUF, "an answer is written at once");

static int limit_powers(const struct unpack_opts *o, struct err *e)
{
	const uint32_t kept = o->owners ? 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER : 0;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct caps[2] = {{.effective = kept, .permitted = kept}};
	const struct rlimit none = {0};

	if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, errno, "confine the unpacking: forbid core files");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "confine the unpacking: set no_new_privs");
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, caps) < 0)
		return err_sys(e, errno, "confine the unpacking: drop capabilities");
	return 0;
}

/* The folder may be read and written, without sockets, block devices and programs. Before ABI 2 no hard link between
 * two folders could be made: such a kernel has the filter alone. */
static int enter_landlock(bool *ret_entered, struct err *e)
{
	enum { EXECUTE = 0, MAKE_SOCK = 9, MAKE_BLOCK = 11 };
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	uint64_t handled = (1u << 14) - 1;

	*ret_entered = false;
	if (abi < 2)
		return 0;
	handled |= (abi >= 3 ? 1u << 14 : 0) | (abi >= 5 ? 1u << 15 : 0);
	auto_fd rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
	if (rules < 0)
		return err_sys(e, errno, "confine the unpacking: make a Landlock ruleset");
	const uint64_t refused = 1u << EXECUTE | 1u << MAKE_SOCK | 1u << MAKE_BLOCK | 1u << 15;
	const struct landlock_path_beneath_attr rule = {.allowed_access = handled & ~refused, .parent_fd = FD_FOLDER};
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return err_sys(e, errno, "confine the unpacking: enter Landlock");
	*ret_entered = true;
	return 0;
}

static int install_filter(struct err *e)
{
	/* The kernel reads only. */
	union {
		const struct sock_filter *in;
		struct sock_filter *out;
	} f = {.in = unpack_filter};
	struct sock_fprog prog = {.len = ARRAY_LEN(unpack_filter), .filter = f.out};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_sys(e, errno, "confine the unpacking: install the seccomp filter");
	return 0;
}

/* Tries what must not work any more. */
static int prove(bool landlock, struct err *e)
{
	auto_fd root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd net = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (landlock && root >= 0)
		return err_set(e, ERR_SANDBOX, EPERM, "confine the unpacking: it can still open files");
	if (net >= 0)
		return err_set(e, ERR_SANDBOX, EPERM, "confine the unpacking: it can still open sockets");
	return 0;
}

static int confine(const struct unpack_opts *o, struct err *e)
{
	bool landlock = false;
	int r = limit_powers(o, e);

	if (r == 0)
		r = enter_landlock(&landlock, e);
	if (r == 0)
		r = install_filter(e);
	return r < 0 ? r : prove(landlock, e);
}

/* To their numbers, by way of numbers that none of them has. */
static int place_descriptors(const int from[3], struct err *e)
{
	int high[3];

	for (int i = 0; i < 3; i++) {
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64);
		if (high[i] < 0)
			return err_sys(e, errno, "prepare the unpacking");
	}
	for (int i = 0; i < 3; i++)
		if (dup2(high[i], FD_LAYER + i) < 0)
			return err_sys(e, errno, "prepare the unpacking");
	if (syscall(SYS_close_range, (unsigned)FD_ABOVE, ~0u, 0) < 0)
		return err_sys(e, errno, "prepare the unpacking");
	return 0;
}

__attribute__((noreturn)) static void child(pid_t parent, const int from[3], const char *like,
					    const struct unpack_opts *o)
{
	struct answer a = {.e = ERR_INIT};

	umask(0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	a.r = place_descriptors(from, &a.e);
	if (a.r < 0)
		_exit(1);
	a.r = confine(o, &a.e);
	if (a.r == 0)
		a.r = unpack_layer(FD_LAYER, FD_FOLDER, like, o, &a.result, &a.e);
	_exit(fd_write_all(FD_ANSWER, &a, sizeof a) < 0);
}

int unpack_child_start(int folder, const char *like, const struct unpack_opts *o, struct unpack_child *ret,
		       struct err *e)
{
	int data[2], answer[2];
	pid_t self = getpid();

	if (pipe2(data, O_CLOEXEC) < 0)
		return err_sys(e, errno, "prepare the unpacking");
	if (pipe2(answer, O_CLOEXEC) < 0) {
		int r = err_sys(e, errno, "prepare the unpacking");
		close_quietly(data[0]);
		close_quietly(data[1]);
		return r;
	}
	/* More at once means fewer changes between the two; a limit of the user's is no reason to stop. */
	(void)fcntl(data[1], F_SETPIPE_SZ, 1024 * 1024);
	pid_t pid = fork();
	if (pid == 0)
		child(self, (const int[3]){data[0], folder, answer[1]}, like, o);
	int errnum = errno;
	close_quietly(data[0]);
	close_quietly(answer[1]);
	if (pid < 0) {
		close_quietly(data[1]);
		close_quietly(answer[0]);
		return err_sys(e, errnum, "start the unpacking");
	}
	*ret = (struct unpack_child){.pid = pid, .data = data[1], .answer = answer[0]};
	return 0;
}

int unpack_child_write(const struct unpack_child *c, const void *data, size_t len)
{
	return fd_write_all(c->data, data, len);
}

static void reap(struct unpack_child *c)
{
	close_quietly(TAKE_FD(c->data));
	close_quietly(TAKE_FD(c->answer));
	while (c->pid > 0 && waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	c->pid = 0;
}

int unpack_child_finish(struct unpack_child *c, struct unpack_result *ret, struct err *e)
{
	struct answer a;
	size_t have = 0;
	ssize_t got = 1;

	close_quietly(TAKE_FD(c->data));
	while (have < sizeof a && got > 0) {
		got = read(c->answer, (char *)&a + have, sizeof a - have);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got > 0)
			have += (size_t)got;
	}
	reap(c);
	if (have < sizeof a) {
		int r = err_set(e, ERR_SANDBOX, ECHILD, "the process that unpacks it ended");
		err_hint(e,
			 "It was killed from outside, ran out of memory, or the layer made it fail: see the kernel's "
			 "log.");
		return r;
	}
	/* What it wrote is text and ends within its room. */
	a.e.msg[sizeof a.e.msg - 1] = a.e.hint[sizeof a.e.hint - 1] = '\0';
	a.result.diff_id[sizeof a.result.diff_id - 1] = '\0';
	if (a.r < 0) {
		(void)err_set(e, ERR_INPUT, a.e.errnum > 0 ? a.e.errnum : EPROTO, "%s", a.e.msg);
		if (a.e.hint[0])
			err_hint(e, "%s", a.e.hint);
		return e ? -e->errnum : -EPROTO;
	}
	*ret = a.result;
	return 0;
}

void unpack_child_kill(struct unpack_child *c)
{
	if (c->pid > 0)
		(void)kill(c->pid, SIGKILL);
	reap(c);
}
