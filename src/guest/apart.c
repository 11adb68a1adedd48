/* Keeping the programs of different execs apart.
 *
 * All programs of a sandbox have one user, so the kernel would let each read what another one has in its environment
 * and memory: the key of an agent's model from a tool of another node, or from what an earlier one left running. Each
 * exec therefore enters a Landlock domain of its own. A domain's processes may only trace, and look into /proc of,
 * those of the same domain (landlock(7), "Ptrace restrictions"); a program with its children, a debugger among them,
 * notices nothing. Nothing else is to be restricted: the one right that a ruleset must name, and that every domain
 * takes away unasked, is to move files between folders, and it is given back for the whole tree.
 *
 * Kernels before 5.19 cannot give it back; there, and where Landlock is off, programs are not kept apart. */
#include "guest.h"

#include <base/cleanup.h>

#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From linux/landlock.h, written out because the headers of the build machine may be older than the kernel. */
enum { GIVE_VERSION = 1, RULE_PATH_BENEATH = 1, FIRST_WITH_REFER = 2 };
#define ACCESS_REFER (UINT64_C(1) << 13)

struct beneath {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

int guest_apart(void)
{
	const uint64_t handled = ACCESS_REFER;

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, GIVE_VERSION) < FIRST_WITH_REFER)
		return 0;
	/* Who could gain rights by an exec may not enter a domain (landlock_restrict_self(2)). */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return 0;
	auto_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
	const struct beneath all = {.allowed = ACCESS_REFER, .parent_fd = root};
	if (root < 0 || rules < 0 || syscall(SYS_landlock_add_rule, rules, RULE_PATH_BENEATH, &all, 0) < 0)
		return 0;
	return TAKE_FD(rules);
}
