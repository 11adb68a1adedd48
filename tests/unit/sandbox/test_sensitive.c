/* Sensitive bind sources: the place itself, below it, above it, and through symlinks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/mount.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const homes[] = {"/srv/people/eve", NULL};
static const struct sandbox_host_facts facts = {
	.home = "/home/u",
	.homes = homes,
	.docker_host = "unix:///opt/rootless/docker.sock",
	.container_host = "unix:/opt/pod/podman.sock",
	.ssh_auth_sock = "/tmp/ssh-abc/agent.1",
	.xdg_runtime_dir = "/tmp/xdg-1000",
	.runs_dir = "/home/u/.iterion/runs",
	.own_run = "/home/u/.iterion/runs/r1",
};

static const struct {
	const char *path;
	bool refused;
} table[] = {
	/* whole trees contain something */
	{"/", true},
	{"/var", true},
	{"/var/run", true},
	{"/run", true},
	{"/etc", true},
	{"/home", true},
	{"/home/u", true},
	{"/home/other", true},
	{"/root", true},
	{"/tmp", true}, /* the agent's socket stands there */
	{"/srv", true},
	{"/opt", true},
	/* the kernel's */
	{"/proc", true},
	{"/proc/self/root", true},
	{"/proc/1/environ", true},
	{"/sys", true},
	{"/sys/fs/cgroup", true},
	{"/dev", true},
	{"/dev/sda", true},
	{"/dev/mem", true},
	{"/dev/kmsg", true},
	{"/dev/fuse", true},
	{"/dev/null", false},
	{"/dev/urandom", false},
	{"/dev/null/x", true},
	{"/boot", true},
	{"/boot/vmlinuz", true},
	/* engines and service managers */
	{"/var/run/docker.sock", true},
	{"/run/docker.sock", true},
	{"/run/podman/podman.sock", true},
	{"/run/containerd/containerd.sock", true},
	{"/var/run/crio/crio.sock", true},
	{"/run/user/1000/podman/podman.sock", true},
	{"/run/user/1000", true},
	{"/run/systemd/private", true},
	{"/run/dbus/system_bus_socket", true},
	{"/opt/rootless/docker.sock", true},
	{"/opt/rootless", true},
	{"/opt/pod/podman.sock", true},
	{"/opt/other", false},
	{"/tmp/ssh-abc/agent.1", true},
	{"/tmp/ssh-abc", true},
	{"/tmp/xdg-1000/bus", true},
	{"/tmp/xdg-10001", false},
	{"/tmp/mine", false},
	/* accounts */
	{"/etc/shadow", true},
	{"/etc/shadow-", true},
	{"/etc/gshadow", true},
	{"/etc/sudoers", true},
	{"/etc/sudoers.d/me", true},
	{"/etc/sudoers.bak", true},
	{"/etc/passwd", false},
	{"/etc/ssl/certs", false},
	/* credentials */
	{"/home/u/.ssh", true},
	{"/home/u/.ssh/id_ed25519", true},
	{"/home/u/.aws/credentials", true},
	{"/home/u/.gnupg", true},
	{"/home/u/.docker/config.json", true},
	{"/home/u/.kube", true},
	{"/home/u/.azure", true},
	{"/home/u/.gcloud", true},
	{"/home/u/.config/gcloud/x", true},
	{"/home/u/.config/gh/hosts.yml", true},
	{"/home/u/.config", true},
	{"/home/u/.netrc", true},
	{"/home/u/.npmrc", true},
	{"/home/u/.pypirc", true},
	{"/home/u/.git-credentials", true},
	{"/home/nobody-named/.ssh", true},
	{"/home/nobody-named/.config", true},
	{"/home/nobody-named/work", false},
	{"/var/home/x/.aws", true},
	{"/srv/people/eve/.ssh", true},
	{"/srv/people/eve", true},
	{"/srv/people/eve/work", false},
	{"/root/.ssh", true},
	{"/root/work", true},
	{"/home/u/.cache", false},
	{"/home/u/.config/nvim", false},
	{"/home/u/work/repo", false},
	{"/home/u/work/.ssh", false}, /* of a project, not of a home */
	{"/home/u/.sshx", false},
	{"/home/u/.npm", false},
	/* text that is not clean */
	{"/home/u/work/../.ssh", true},
	{"//proc//self", true},
	{"/home/u/work/.", false},
	/* the store */
	{"/home/u/.iterion", true},
	{"/home/u/.iterion/runs", true},
	{"/home/u/.iterion/runs/r2", true},
	{"/home/u/.iterion/runs/r1", false},
	{"/home/u/.iterion/runs/r1/artifact-files", false},
	{"/home/u/.iterion/runs/r10", true},
	{"/home/u/.iterion/images", false},
	/* the rest of the world */
	{"/srv/data", false},
	{"/usr", false},
	{"/usr/lib", false},
	{"/nix/store", false},
};

static void test_table(void **state)
{
	struct sandbox_sensitive *s = sandbox_sensitive_new(&facts);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct err e = ERR_INIT;
		int r = sandbox_mount_check_source(s, table[i].path, &e);
		if (r != (table[i].refused ? -EPERM : 0))
			fail_msg("%s: %d %s", table[i].path, r, e.msg);
		assert_true(r == 0 || (e.hint[0] && strstr(e.msg, ": ")));
	}
	struct err e = ERR_INIT;
	assert_int_equal(sandbox_mount_check_source(s, "relative", &e), -EINVAL);
	sandbox_sensitive_free(s);
}

static void test_own_root_home(void **state)
{
	const struct sandbox_host_facts root = {.home = "/root"};
	struct sandbox_sensitive *s = sandbox_sensitive_new(&root);

	(void)state;
	assert_int_equal(sandbox_mount_check_source(s, "/root/work", NULL), 0);
	assert_int_equal(sandbox_mount_check_source(s, "/root/.ssh/id", NULL), -EPERM);
	assert_int_equal(sandbox_mount_check_source(s, "/root", NULL), -EPERM);
	sandbox_sensitive_free(s);
}

static void test_remote_engine_names_no_path(void **state)
{
	const struct sandbox_host_facts remote = {.home = "/home/u", .docker_host = "ssh://me@/srv/x"};
	struct sandbox_sensitive *s = sandbox_sensitive_new(&remote);

	(void)state;
	assert_int_equal(sandbox_mount_check_source(s, "/srv/x", NULL), 0);
	sandbox_sensitive_free(s);
}

/* Symlinks on either side: of the source, and of a place. */
static void test_symlinks(void **state)
{
	char dir[] = "/tmp/sensitiveXXXXXX";
	struct err e = ERR_INIT;

	(void)state;
	assert_non_null(mkdtemp(dir));
	/* Itself possibly behind one. */
	auto_free char *base = realpath(dir, NULL);
	auto_free char *home = path_join(base, "real"), *via = path_join(base, "home");
	auto_free char *ssh = path_join(home, ".ssh"), *work = path_join(home, "work");
	auto_free char *innocent = path_join(base, "innocent"), *fine = path_join(base, "fine");
	auto_free char *missing = path_join(base, "missing");
	auto_free char *later = path_join(home, ".aws/credentials");
	assert_int_equal(mkdir(home, 0700), 0);
	assert_int_equal(mkdir(ssh, 0700), 0);
	assert_int_equal(mkdir(work, 0700), 0);
	assert_int_equal(symlink(home, via), 0);
	assert_int_equal(symlink(ssh, innocent), 0);
	assert_int_equal(symlink(work, fine), 0);

	const struct sandbox_host_facts f = {.home = via};
	struct sandbox_sensitive *s = sandbox_sensitive_new(&f);
	assert_int_equal(sandbox_mount_resolve_source(s, innocent, NULL, &e), -EPERM);
	assert_non_null(strstr(e.msg, innocent));
	assert_int_equal(sandbox_mount_check_source(s, ssh, NULL), -EPERM);
	assert_int_equal(sandbox_mount_check_source(s, home, NULL), -EPERM);
	assert_int_equal(sandbox_mount_check_source(s, later, NULL), -EPERM);
	auto_free char *resolved = NULL;
	assert_int_equal(sandbox_mount_resolve_source(s, fine, &resolved, &e), 0);
	assert_string_equal(resolved, work);
	assert_int_equal(sandbox_mount_resolve_source(s, missing, NULL, &e), -ENOENT);
	assert_true(e.hint[0]);
	sandbox_sensitive_free(s);
	assert_int_equal(tree_remove(AT_FDCWD, base, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_own_root_home),
		cmocka_unit_test(test_remote_engine_names_no_path),
		cmocka_unit_test(test_symlinks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
