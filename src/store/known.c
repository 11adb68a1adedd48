/* Which stores in workspaces are this user's own.
 *
 * A .iterion folder of a repository is taken for the store without being named, and what stands in its records is run
 * by `resume`: a program in a sandbox that makes such a folder in its workspace could have anything run outside. So one
 * that has runs in it counts only with a mark that this user's iterion put there: a keyed sum over its path. The key
 * lies among the runs of the user's own store, and the mark among those of the marked one, which no sandbox shows. A
 * folder without runs is harmless, and becomes marked by the first run. */
#include "record.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/id.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/locate.h>
#include <store/run.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A run's id begins with a letter or digit. */
#define KEY_FILE "runs/.key"
#define MARK_FILE ".mark"

enum { KEY_SIZE = 32, MARK_SIZE = 2 * SHA256_DIGEST_SIZE };

static char *key_path(const char *home_store)
{
	return xasprintf("%s/" KEY_FILE, home_store);
}

/* A key of another length is none. */
static bool read_key(const char *home_store, char **ret)
{
	auto_free char *path = key_path(home_store), *text = NULL;
	size_t len = 0;

	if (file_read(AT_FDCWD, path, KEY_SIZE, &text, &len, NULL) < 0 || len != KEY_SIZE)
		return false;
	*ret = TAKE_PTR(text);
	return true;
}

/* Two first runs at once must agree on it, or what one of them marked would be unknown. */
static int make_key(const char *home_store, char **ret, struct err *e)
{
	auto_free char *runs = xasprintf("%s/runs", home_store);
	unsigned char key[KEY_SIZE];

	int r = dir_make(AT_FDCWD, runs, 0700, e);
	if (r < 0)
		return r;
	auto_fd dir = dir_open(AT_FDCWD, runs, e);
	if (dir < 0)
		return dir;
	if (flock(dir, LOCK_EX) < 0)
		return err_sys(e, errno, "lock %s", runs);
	if (read_key(home_store, ret))
		return 0;
	random_bytes(key, sizeof key);
	r = file_replace(dir, ".key", key, sizeof key, 0600, FILE_NO_SYNC, e);
	if (r == 0 && !read_key(home_store, ret))
		r = err_set(e, ERR_INPUT, EIO, "%s/" KEY_FILE ": it cannot be read back", home_store);
	return r;
}

static void mark_of(char ret[MARK_SIZE + 1], const char *key, const char *store)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char sum[SHA256_DIGEST_SIZE];
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, KEY_SIZE, (const unsigned char *)key);
	hmac_sha256_update(&ctx, strlen(store), (const unsigned char *)store);
	hmac_sha256_digest(&ctx, sizeof sum, sum);
	for (size_t i = 0; i < sizeof sum; i++) {
		ret[2 * i] = digits[sum[i] >> 4];
		ret[2 * i + 1] = digits[sum[i] & 15];
	}
	ret[MARK_SIZE] = '\0';
}

static int open_runs(const char *store, struct err *e)
{
	auto_free char *runs = xasprintf("%s/runs", store);

	return dir_open(AT_FDCWD, runs, e);
}

bool store_is_known(const char *store, const char *home_store)
{
	auto_free char *real = realpath(store, NULL), *key = NULL, *text = NULL;
	auto_fd runs = open_runs(store, NULL);
	char mark[MARK_SIZE + 1];
	size_t len = 0;

	if (!real || runs < 0 || !read_key(home_store, &key) ||
	    file_read(runs, MARK_FILE, MARK_SIZE, &text, &len, NULL) < 0)
		return false;
	mark_of(mark, key, real);
	return len == MARK_SIZE && str_eq(text, mark);
}

bool store_has_runs(const char *store)
{
	auto_free char *path = xasprintf("%s/runs", store);
	auto_dir d = NULL;
	const struct dirent *ent;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno != ENOENT;
	/* A link may lead to what is not the store's. */
	d = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
	if (!d)
		return true;
	while ((ent = readdir(d)))
		if (store_run_id_check(ent->d_name, NULL) == 0)
			return true;
	return false;
}

int store_keep_known(const char *store, const char *home_store, struct err *e)
{
	auto_free char *real = realpath(store, NULL), *key = NULL;
	char mark[MARK_SIZE + 1];
	int r = 0;

	if (!real)
		return err_sys(e, errno, "open %s", store);
	if (store_is_known(store, home_store))
		return 0;
	if (!read_key(home_store, &key))
		r = make_key(home_store, &key, e);
	if (r < 0)
		return r;
	auto_fd runs = open_runs(store, e);
	if (runs < 0)
		return runs;
	mark_of(mark, key, real);
	return file_replace(runs, MARK_FILE, mark, MARK_SIZE, 0600, FILE_NO_SYNC, e);
}
