/* Where the programs beside this one are on this host: looked for from its own place, never in PATH or the current
 * folder, which others may write. The guest can be named by ITERION_BIN. */
#include "guest_path.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <config.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static const char guest_installed[] = ITERION_LIBEXECDIR "/iterion-guest";
static const char proxy_installed[] = ITERION_LIBEXECDIR "/iterion-proxy";

/* Beside; in an installation that was moved as a whole; in the build tree; in the installation. */
static const char *const guest_places[] = {"iterion-guest", "../libexec/iterion/iterion-guest",
					   "../guest/iterion-guest", guest_installed, NULL};
static const char *const proxy_places[] = {"iterion-proxy", "../libexec/iterion/iterion-proxy", "../net/iterion-proxy",
					   proxy_installed, NULL};

/* what: the words for the program when it is in none of the places. */
static int find(const char *const *places, const char *what, char **ret, struct err *e)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n <= 0)
		return err_sys(e, errno, "find this program's own file");
	self[n] = '\0';
	auto_free char *dir = path_parent(self);
	for (; *places; places++) {
		auto_free char *joined = path_join(dir, *places);
		char *clean = path_clean(joined);
		if (clean && access(clean, X_OK) == 0) {
			*ret = clean;
			return 0;
		}
		free(clean);
	}
	int r = err_set(e, ERR_SANDBOX, ENOENT, "find %s: neither in %s nor in %s", what, dir, ITERION_LIBEXECDIR);
	err_hint(e, "Install iterion again (`make install`), or put both programs into one folder.");
	return r;
}

int guest_path_find(char **ret, struct err *e)
{
	const char *named = getenv("ITERION_BIN");

	if (named && named[0]) {
		*ret = realpath(named, NULL);
		int r = *ret ? 0 : err_sys(e, errno, "ITERION_BIN names %s", named);
		if (r < 0)
			err_hint(e, "Name an iterion-guest program, or unset the variable to use the installed one.");
		return r;
	}
	return find(guest_places, "iterion-guest, the program that runs inside sandboxes", ret, e);
}

int proxy_path_find(char **ret, struct err *e)
{
	return find(proxy_places, "iterion-proxy, the program that inspects TLS", ret, e);
}
