/* Limits without a kernel: where a cgroup may be made, what is written into it, what its counters say. The folders are
 * the test's own, with the files that a cgroup has. */
#include "native/cgroup.h"
#include "native/cgroup_find.h"
#include "native/hold_process.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <driver/exec.h>

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char base[32];

static int make_base(void **state)
{
	(void)state;
	strcpy(base, "/tmp/iterion-limits.XXXXXX");
	return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
	(void)state;
	return tree_remove(AT_FDCWD, base, NULL);
}

/* A file of the folder, or the folder itself when text is NULL. */
static void put(const char *name, const char *text)
{
	auto_free char *path = path_join(base, name);

	if (!text) {
		assert_int_equal(dir_make(AT_FDCWD, path, 0755, NULL), 0);
		return;
	}
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void assert_text(const char *name, const char *text)
{
	auto_free char *path = path_join(base, name);
	auto_free char *data = NULL;

	assert_int_equal(file_read(AT_FDCWD, path, 4096, &data, NULL, NULL), 0);
	assert_string_equal(data, text);
}

static int open_base(void)
{
	return open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void test_locate(void **state)
{
	static const char hybrid[] =
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
	static const char own[] = "3:cpu,cpuacct:/a\n2:memory:/user/b c\n1:name=systemd:/x\n0::/user.slice/s\n";
	static const struct {
		const char *mounts, *own, *controller, *top, *at; /* top NULL: not there */
	} rows[] = {
		{hybrid, own, NULL, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/user.slice/s"},
		{hybrid, own, "cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a"},
		{hybrid, own, "cpuacct", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a"},
		{hybrid, own, "memory", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/user/b c"},
		{hybrid, own, "pids", NULL, NULL},
		{hybrid, own, "mem", NULL, NULL},
		{hybrid, "0::/\n", NULL, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"},
		/* A container: its part of the hierarchy is the mount's root. */
		{"1 2 0:3 /docker/x /cg rw - cgroup2 c rw\n", "0::/docker/x\n", NULL, "/cg", "/cg"},
		{"1 2 0:3 /docker/x /cg rw - cgroup2 c rw\n", "0::/docker/x/y\n", NULL, "/cg", "/cg/y"},
		{"1 2 0:3 /docker/x /cg rw - cgroup2 c rw\n", "0::/docker/xy\n", NULL, NULL, NULL},
		{"1 2 0:3 / /with\\040blank rw - cgroup2 c rw\n", "0::/a\n", NULL, "/with blank", "/with blank/a"},
		/* Out of the cgroup namespace. */
		{hybrid, "0::/../../other\n", NULL, NULL, NULL},
		{hybrid, "0::/..\n", NULL, NULL, NULL},
		{hybrid, "0::\n", NULL, NULL, NULL},
		{hybrid, "nonsense", NULL, NULL, NULL},
		{"", own, NULL, NULL, NULL},
		{"1 2\n - cgroup2\n1 - cgroup2 c rw\n", own, NULL, NULL, NULL},
		{hybrid, "", "memory", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_cgroup_at at = {0};
		int r = cgroup_locate(rows[i].mounts, rows[i].own, rows[i].controller, &at);
		assert_int_equal(r, rows[i].top ? 0 : -ENOENT);
		if (rows[i].top) {
			assert_string_equal(at.top, rows[i].top);
			assert_string_equal(at.own, rows[i].at);
		}
	}
}

/* One cgroup of a tree; hands: what it hands down. */
static void put_cgroup(const char *name, const char *has, const char *hands, const char *procs)
{
	auto_free char *controllers = xasprintf("%s/cgroup.controllers", name);
	auto_free char *down = xasprintf("%s/cgroup.subtree_control", name);
	auto_free char *members = xasprintf("%s/cgroup.procs", name);
	auto_free char *type = xasprintf("%s/cgroup.type", name);

	put(name, NULL);
	put(controllers, has);
	put(down, hands);
	put(members, procs);
	put(type, "domain\n");
}

/* Which cgroup of the tree top > mid > own is taken; NULL: none. */
static void assert_parent(unsigned wanted, const char *name, const char *says)
{
	struct cgroup_at at = {.top = path_join(base, "top"), .own = path_join(base, "top/mid/own")};
	auto_buf why = BUF_INIT(256);
	auto_free char *parent = NULL;
	auto_free char *expected = name ? path_join(base, name) : NULL;

	assert_int_equal(cgroup_v2_parent(&at, wanted, &parent, &why), name ? 0 : -ENOENT);
	if (name)
		assert_string_equal(parent, expected);
	else
		assert_non_null(strstr(buf_str(&why), says));
	cgroup_at_done(&at);
}

static void test_parent(void **state)
{
	auto_free char *procs = path_join(base, "top/mid/cgroup.procs");

	(void)state;
	put_cgroup("top", "cpu io memory pids\n", "memory pids\n", "");
	put_cgroup("top/mid", "memory pids\n", "memory pids\n", "");
	put_cgroup("top/mid/own", "memory pids\n", "", "123\n");
	/* Its own has processes, and so cannot hand anything down: the one above is taken. */
	assert_parent(LIMIT_MEMORY | LIMIT_PIDS, "top/mid", NULL);
	/* cpu is not that far down; top has no processes and can hand it down. */
	assert_parent(LIMIT_CPUS, "top", NULL);
	put("top/cgroup.procs", "1\n");
	assert_parent(LIMIT_CPUS, NULL, "not handed down");
	put("top/cgroup.controllers", "memory pids\n");
	assert_parent(LIMIT_CPUS | LIMIT_PIDS, NULL, "not all of the controllers");
	/* Nothing above a cgroup in which this user may not put processes. */
	put("top/mid/own/cgroup.procs", "");
	put("top/mid/own/cgroup.subtree_control", "pids\n");
	assert_int_equal(unlink(procs), 0);
	assert_parent(LIMIT_PIDS, "top/mid/own", NULL);
	assert_parent(LIMIT_MEMORY | LIMIT_PIDS, "top/mid/own", NULL);
	put("top/mid/own/cgroup.procs", "7\n");
	assert_parent(LIMIT_MEMORY, NULL, "not handed down");
}

static void test_hand_down(void **state)
{
	(void)state;
	put_cgroup("p", "cpu memory pids\n", "cpu\n", "");
	auto_free char *parent = path_join(base, "p");
	assert_int_equal(cgroup_v2_hand_down(parent, LIMIT_CPUS), 0);
	assert_text("p/cgroup.subtree_control", "cpu\n");
	assert_int_equal(cgroup_v2_hand_down(parent, LIMIT_CPUS | LIMIT_PIDS), 0);
	assert_text("p/cgroup.subtree_control", "+pids");
	assert_int_equal(cgroup_v2_controllers(parent), LIMIT_ALL);
	assert_int_equal(cgroup_v2_hand_down("/nowhere", LIMIT_PIDS), -ENOENT);
}

static const struct sandbox_limits some = {.cpus = 1.5, .memory = UINT64_C(64) << 20, .pids = 20};

static void test_files_of_version_2(void **state)
{
	auto_fd dir = open_base();

	(void)state;
	assert_int_equal(cgroup_v2_limit(dir, &some, LIMIT_ALL), -ENOENT);
	put("memory.max", "");
	put("pids.max", "");
	put("cpu.max", "");
	/* Without swap there is no file for it. */
	assert_int_equal(cgroup_v2_limit(dir, &some, LIMIT_ALL), 0);
	assert_text("memory.max", "67108864");
	assert_text("pids.max", "20");
	assert_text("cpu.max", "150000 100000");
	put("memory.swap.max", "");
	put("memory.max", "");
	assert_int_equal(cgroup_v2_limit(dir, &some, LIMIT_MEMORY), 0);
	assert_text("memory.swap.max", "0");
	put("cpu.max", "");
	assert_int_equal(cgroup_v2_limit(dir, &(struct sandbox_limits){.cpus = 0.001}, LIMIT_CPUS), 0);
	assert_text("cpu.max", "1000 100000");
}

static void test_files_of_version_1(void **state)
{
	auto_fd dir = open_base();

	(void)state;
	assert_int_equal(cgroup_v1_limit(dir, &some, LIMIT_MEMORY), -ENOENT);
	put("memory.limit_in_bytes", "");
	assert_int_equal(cgroup_v1_limit(dir, &some, LIMIT_MEMORY), 0);
	assert_text("memory.limit_in_bytes", "67108864");
	put("memory.memsw.limit_in_bytes", "");
	assert_int_equal(cgroup_v1_limit(dir, &some, LIMIT_MEMORY), 0);
	assert_text("memory.memsw.limit_in_bytes", "67108864");
	put("pids.max", "");
	put("cpu.cfs_period_us", "");
	put("cpu.cfs_quota_us", "");
	assert_int_equal(cgroup_v1_limit(dir, &some, LIMIT_ALL), 0);
	assert_text("pids.max", "20");
	assert_text("cpu.cfs_period_us", "100000");
	assert_text("cpu.cfs_quota_us", "150000");
}

static void test_held(void **state)
{
	static const struct {
		const char *memory, *pids, *cpu;
		unsigned held;
	} rows[] = {
		{"67108864\n", "20\n", "150000 100000\n", LIMIT_ALL},
		{"4096\n", "5\n", "15000 10000\n", LIMIT_ALL},
		{"max\n", "max\n", "max 100000\n", 0},
		{"67108865\n", "21\n", "160000 100000\n", 0},
		{"67108864\n", "max\n", "150000\n", LIMIT_MEMORY},
		{"", "", "", 0},
	};
	auto_fd dir = open_base();

	(void)state;
	assert_int_equal(cgroup_v2_held(dir, &some), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		put("memory.max", rows[i].memory);
		put("pids.max", rows[i].pids);
		put("cpu.max", rows[i].cpu);
		assert_int_equal(cgroup_v2_held(dir, &some), rows[i].held);
	}
	put("memory.max", "1\n");
	assert_int_equal(cgroup_v2_held(dir, &(struct sandbox_limits){.pids = 1}), 0);
}

static void test_hits(void **state)
{
	struct limit_hits h = {0};
	auto_fd dir = open_base();

	(void)state;
	cgroup_hits(dir, &h);
	assert_int_equal(h.memory + h.pids, 0);
	put("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 9\n");
	put("pids.events", "max 4\n");
	cgroup_hits(dir, &h);
	assert_int_equal(h.memory, 2);
	assert_int_equal(h.pids, 4);
	put("memory.events", "oom_killer 5\n");
	put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7");
	put("pids.events", "maximum 3");
	h = (struct limit_hits){0};
	cgroup_hits(dir, &h);
	assert_int_equal(h.memory, 7);
	assert_int_equal(h.pids, 0);
}

/* A cgroup whose owner is a process that ended. */
static void leave(const char *name)
{
	struct cgroup left = {.dir = -1};

	pid_t pid = fork();
	if (pid == 0)
		_exit(cgroup_make(base, name, &left) == 0 ? 0 : 1);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_sweep(void **state)
{
	struct cgroup mine = {.dir = -1}, twice = {.dir = -1};
	auto_free char *mine_path = path_join(base, "iterion-mine");
	auto_free char *full = path_join(base, "iterion-full/child");
	struct stat st;

	(void)state;
	assert_int_equal(cgroup_make(base, "iterion-mine", &mine), 0);
	assert_string_equal(mine.path, mine_path);
	/* Who can open the folder can lock it too, and then nobody sweeps it. */
	assert_int_equal(stat(mine_path, &st), 0);
	assert_int_equal(st.st_mode & 077, 0);
	assert_int_equal(cgroup_make(base, "iterion-mine", &twice), -EEXIST);
	assert_int_equal(twice.dir, -1);
	leave("iterion-left");
	leave("iterion-full");
	leave("iterion-unit.scope");
	leave("somebody");
	assert_int_equal(mkdir(full, 0755), 0);
	/* The living one, one that is not empty, a unit, and what is not ours stay. */
	assert_int_equal(cgroup_sweep(base), 1);
	assert_int_equal(cgroup_sweep(base), 0);
	assert_int_equal(stat(mine_path, &st), 0);
	put("somebody/deep", NULL);
	put("somebody/deep/iterion-left", NULL);
	put("iterion-mine/iterion-left", NULL);
	assert_int_equal(cgroup_sweep_tree(base), 2);
	assert_int_equal(cgroup_sweep_tree("/nowhere"), 0);
	cgroup_remove(&mine);
	assert_int_equal(stat(mine_path, &st), -1);
	cgroup_remove(&mine);
}

static void test_words(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *words;
	} rows[] = {
		{0, "0 bytes"},
		{1000, "1000 bytes"},
		{1024, "1 KiB"},
		{UINT64_C(1536) << 20, "1536 MiB"},
		{UINT64_C(2) << 30, "2 GiB"},
		{UINT64_C(3) << 50, "3072 TiB"},
	};
	struct err e = ERR_INIT;
	char text[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		limits_memory_words(text, sizeof text, rows[i].bytes);
		assert_string_equal(text, rows[i].words);
	}
	(void)err_set(&e, ERR_NODE, EPROTO, "node a: exit code 1");
	limits_explain(&(struct exec_status){.end = EXEC_EXITED, .code = 1}, &e);
	assert_string_equal(e.msg, "node a: exit code 1");
	assert_string_equal(e.hint, "");
	limits_explain(&(struct exec_status){.end = EXEC_EXITED, .memory_limit = 1 << 20, .pids_limit = 7}, &e);
	assert_string_equal(e.msg, "node a: exit code 1; the sandbox reached its memory limit of 1 MiB; the sandbox "
				   "reached its limit of 7 processes");
	assert_non_null(strstr(e.hint, "limits.memory"));
	limits_explain(&(struct exec_status){.memory_limit = 1}, NULL);
}

static void test_weaker(void **state)
{
	const struct sandbox_limits small = {.cpus = 0.5, .memory = UINT64_C(64) << 20, .pids = 20},
				    many = {.cpus = 10000};
	auto_free char *memory = process_weaker(LIMIT_MEMORY, &small, true, "why");
	auto_free char *cpus = process_weaker(LIMIT_CPUS, &small, true, "why");
	auto_free char *pids = process_weaker(LIMIT_PIDS, &small, false, "why");

	(void)state;
	assert_string_equal(
		memory, "limits.memory: 64 MiB hold for each process by itself and not for the sandbox, and files "
			"in memory (/tmp, /dev/shm, what changes in an image) do not count: no cgroup can be made here "
			"(why)");
	assert_true(str_starts(cpus, "limits.cpus: ") && str_ends(cpus, " (why)"));
	assert_string_equal(pids, "limits.pids: the number of processes is not limited: no cgroup can be made here "
				  "(why)");
	/* As good as a cgroup. */
	assert_null(process_weaker(LIMIT_PIDS, &small, true, "why"));
	assert_null(process_weaker(LIMIT_CPUS, &many, true, "why"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_locate),
		cmocka_unit_test_setup_teardown(test_parent, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_hand_down, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_files_of_version_2, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_files_of_version_1, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_held, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_hits, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_sweep, make_base, remove_base),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_weaker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
