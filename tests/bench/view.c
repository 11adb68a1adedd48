/* bubblewrap with the very view of the native sandbox: what is mounted there is read from inside, and each mount
 * becomes an option, so that both build the same. What our /etc has as files of its own is bound from the host. */
#include "bench.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/path.h>
#include <base/str.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VIEW_LIMIT = 1024 * 1024 };

static void add(struct strv *l, const char *option, const char *from, const char *to)
{
	strv_add(l, option);
	if (from)
		strv_add(l, from);
	strv_add(l, to);
}

/* The host's top-level links, which are no mounts. */
static void add_links(struct strv *l)
{
	static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char to[256];
		ssize_t n = readlink(names[i], to, sizeof to - 1);
		if (n <= 0)
			continue;
		to[n] = '\0';
		add(l, "--symlink", to, names[i]);
	}
}

/* One mount of the sandbox: its place, the root of what is mounted within its file system, and that one's type. */
static void add_mount(const struct bench *b, struct strv *l, const char *at, const char *root, const char *type)
{
	struct stat st;

	if (str_eq(at, "/") || str_starts(at, "/run/iterion"))
		return;
	if (str_eq(at, "/proc"))
		add(l, "--proc", NULL, at);
	else if (str_starts(at, "/proc/") && str_eq(root, "/null"))
		add(l, "--ro-bind", "/dev/null", at);
	else if (str_starts(at, "/proc/") && str_eq(type, "proc"))
		add(l, "--ro-bind", at, at);
	else if (str_eq(at, "/dev/null"))
		add(l, "--dev", NULL, "/dev");
	else if (path_within(at, "/dev"))
		return;
	else if (str_eq(type, "tmpfs"))
		add(l, "--tmpfs", NULL, at);
	else if (stat(at, &st) == 0)
		add(l, str_eq(at, b->who->workspace) ? "--bind" : "--ro-bind", at, at);
}

bool same_view(const struct bench *b, struct strv *l, struct result *ret)
{
	auto_free char *file = path_join(b->who->workspace, "view");
	const char *const look[] = {
		b->iterion,  "sandbox",	  "exec",   "--sandbox-driver", "native", "--workspace", b->who->workspace,
		"--network", "allowlist", "--rule", "x.example",	"--",	  "cp",		 "/proc/self/mountinfo",
		file,	     NULL};
	auto_free char *text = NULL;
	size_t n = 0;

	if (!works(b, look, ret))
		return false;
	if (file_read(AT_FDCWD, file, VIEW_LIMIT, &text, &n, NULL) < 0) {
		miss(ret, "the sandbox's mounts could not be read");
		return false;
	}
	(void)unlink(file);
	add_links(l);
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char root[256], at[256], type[32];
		const char *dash = strstr(line, " - ");
		if (dash && sscanf(line, "%*s %*s %*s %255s %255s", root, at) == 2 &&
		    sscanf(dash, " - %31s", type) == 1)
			add_mount(b, l, at, root, type);
	}
	add(l, "--ro-bind", "/etc/passwd", "/etc/passwd");
	add(l, "--ro-bind", "/etc/group", "/etc/group");
	add(l, "--ro-bind", "/etc/hosts", "/etc/hosts");
	return true;
}
