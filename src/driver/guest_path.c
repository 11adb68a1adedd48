/* Where the guest program is on this host: named by ITERION_BIN, or looked for from this program's own place, never in
 * PATH or the current folder, which others may write. */
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

static const char *const places[] = {
	"iterion-guest",		    /* beside */
	"../libexec/iterion/iterion-guest", /* an installation that was moved as a whole */
	"../guest/iterion-guest",	    /* the build tree */
	ITERION_LIBEXECDIR "/iterion-guest",
};

int guest_path_find(char **ret, struct err *e)
{
	char self[PATH_MAX];
	const char *named = getenv("ITERION_BIN");

	if (named && named[0]) {
		*ret = realpath(named, NULL);
		int r = *ret ? 0 : err_sys(e, errno, "ITERION_BIN names %s", named);
		if (r < 0)
			err_hint(e, "Name an iterion-guest program, or unset the variable to use the installed one.");
		return r;
	}
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n <= 0)
		return err_sys(e, errno, "find this program's own file");
	self[n] = '\0';
	auto_free char *dir = path_parent(self);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		auto_free char *joined = path_join(dir, places[i]);
		char *clean = path_clean(joined);
		if (clean && access(clean, X_OK) == 0) {
			*ret = clean;
			return 0;
		}
		free(clean);
	}
	int r = err_set(e, ERR_SANDBOX, ENOENT,
			"find iterion-guest, the program that runs inside sandboxes: neither in %s "
			"nor in %s",
			dir, ITERION_LIBEXECDIR);
	err_hint(e, "Install iterion again (`make install`), or put both programs into one folder.");
	return r;
}
