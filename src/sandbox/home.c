/* HOME inside a sandbox. A pure function from paths to paths: what exists on the disk does not matter, because the
 * folders are made inside the sandbox. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/home.h>

#include <errno.h>
#include <string.h>

static bool inside_any(const char *path, const struct strv *binds)
{
	for (size_t i = 0; i < binds->n; i++)
		if (path_within(path, binds->v[i]))
			return true;
	return false;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes path when it is new and no bind shows something there. */
static void add(struct strv *ret, char *path, const struct strv *binds)
{
	if (strv_has(ret, path) || inside_any(path, binds))
		free(path);
	else
		strv_take(ret, path);
}

/* The folders between home and the bind, without both. */
static void add_parents(struct strv *ret, const char *home, const char *bind, const struct strv *binds)
{
	const char *slash = bind + strlen(home);

	if (!path_within(bind, home))
		return;
	while (*slash && (slash = strchr(slash + 1, '/')))
		add(ret, xstrndup(bind, (size_t)(slash - bind)), binds);
}

int sandbox_home_tmpfs(const char *home, const char *const *binds, size_t n, struct strv *ret, struct err *e)
{
	auto_strv clean = {0};

	if (!*home)
		return 0;
	auto_free char *own = path_clean(home);
	if (!own || strcmp(own, "/") == 0) {
		int r = own ? err_set(e, ERR_INPUT, EINVAL, "HOME must not be /")
			    : err_set(e, ERR_INPUT, EINVAL, "HOME is no absolute path: \"%.200s\"", home);
		err_hint(e, "set HOME to the user's own folder, such as /home/me");
		return r;
	}
	for (size_t i = 0; i < n; i++) {
		char *bind = path_clean(binds[i]);
		if (bind)
			strv_take(&clean, bind);
	}
	add(ret, xstrdup(own), &clean);
	for (size_t i = 0; i < clean.n; i++)
		add_parents(ret, own, clean.v[i], &clean);
	if (ret->n > 1)
		qsort(ret->v, ret->n, sizeof *ret->v, by_text);
	return 0;
}
