/* The runs of a store, for people and commands: lists, look-up by prefix or name, one run's record. */
#include "record.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/read.h>
#include <store/run.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static char *copy_str(const json_t *record, const char *key)
{
	const char *s = json_get_str(record, key);

	return s ? xstrdup(s) : NULL;
}

static char *copy_or_empty(const json_t *record, const char *key)
{
	char *s = copy_str(record, key);

	return s ? s : xstrdup("");
}

static const char *effective_status(int dirfd, const json_t *record)
{
	const char *status = json_get_str(record, "status");

	if (!status)
		return "unreadable";
	if (str_eq(status, run_status_name(RUN_RUNNING)) && !record_alive(dirfd, record))
		return "interrupted";
	return status;
}

static struct store_entry entry_of(int runs, const char *id)
{
	struct store_entry en = {.id = xstrdup(id)};
	auto_fd dir = openat(runs, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_json record = dir < 0 ? NULL : record_read(dir, id, NULL);

	en.status = xstrdup(record ? effective_status(dir, record) : "unreadable");
	en.name = copy_str(record, "name");
	en.workflow = copy_or_empty(record, "workflow_name");
	en.created_at = copy_or_empty(record, "created_at");
	en.finished_at = copy_str(record, "finished_at");
	return en;
}

static void entry_done(struct store_entry *en)
{
	free(en->id);
	free(en->name);
	free(en->workflow);
	free(en->status);
	free(en->created_at);
	free(en->finished_at);
}

void store_list_free(struct store_entry *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		entry_done(&v[i]);
	free(v);
}

/* The folder of runs: 1 with *ret, 0 when there is none yet. */
static int open_runs(const char *store_dir, DIR **ret, struct err *e)
{
	auto_free char *path = xasprintf("%s/runs", store_dir);

	*ret = opendir(path);
	if (*ret)
		return 1;
	return errno == ENOENT ? 0 : err_sys(e, errno, "open folder %s", path);
}

/* The next name that can be a run's, or NULL. */
static const char *next_run(DIR *d)
{
	const struct dirent *ent;

	while ((ent = readdir(d)))
		if (store_run_id_check(ent->d_name, NULL) == 0)
			return ent->d_name;
	return NULL;
}

static int newest_first(const void *a, const void *b)
{
	const struct store_entry *x = a, *y = b;
	int c = strcmp(y->created_at, x->created_at);

	return c ? c : strcmp(y->id, x->id);
}

int store_list(const char *store_dir, struct store_entry **ret, size_t *ret_n, struct err *e)
{
	auto_dir d = NULL;
	int r = open_runs(store_dir, &d, e);
	if (r < 0)
		return r;
	struct store_entry *v = NULL;
	size_t n = 0, cap = 0;
	const char *id;
	while (r > 0 && (id = next_run(d))) {
		v = grow_array(v, n, &cap, sizeof *v);
		v[n++] = entry_of(dirfd(d), id);
	}
	if (n)
		qsort(v, n, sizeof *v, newest_first);
	*ret = v;
	*ret_n = n;
	return 0;
}

static int no_such_run(const char *store_dir, const char *prefix, struct err *e)
{
	(void)err_set(e, ERR_INPUT, ENOENT, "run %s: no run in %s has this id or name", prefix, store_dir);
	err_hint(e, "`iterion inspect` lists the runs; another store is named by --store-dir");
	return -ENOENT;
}

static int find_by_name(const char *store_dir, const char *name, char **ret_id, struct err *e)
{
	struct store_entry *v = NULL;
	size_t n = 0;
	int r = store_list(store_dir, &v, &n, e);

	if (r < 0)
		return r;
	r = -ENOENT;
	for (size_t i = 0; i < n && r < 0; i++) {
		if (!str_eq(v[i].name, name))
			continue;
		*ret_id = xstrdup(v[i].id);
		r = 0;
	}
	store_list_free(v, n);
	return r == 0 ? 0 : no_such_run(store_dir, name, e);
}

int store_find_run(const char *store_dir, const char *prefix, char **ret_id, struct err *e)
{
	auto_dir d = NULL;
	int r = open_runs(store_dir, &d, e);
	if (r < 0)
		return r;
	auto_free char *found = NULL;
	unsigned matches = 0;
	const char *id;
	while (r > 0 && *prefix && (id = next_run(d))) {
		if (!str_starts(id, prefix))
			continue;
		free(found);
		found = xstrdup(id);
		if (str_eq(id, prefix)) {
			matches = 1;
			break;
		}
		matches++;
	}
	if (matches > 1) {
		(void)err_set(e, ERR_INPUT, EINVAL, "run %s: %u runs begin so", prefix, matches);
		err_hint(e, "write more of the id; `iterion inspect` lists the runs");
		return -EINVAL;
	}
	if (matches == 0)
		return find_by_name(store_dir, prefix, ret_id, e);
	*ret_id = TAKE_PTR(found);
	return 0;
}

json_t *store_read_run(const char *store_dir, const char *run_id, struct err *e)
{
	auto_fd dir = record_open_dir(store_dir, run_id, e);
	if (dir < 0)
		return NULL;
	json_t *record = record_read(dir, run_id, e);
	if (record)
		json_put_str(record, "status", effective_status(dir, record));
	return record;
}

bool store_run_alive(const char *store_dir, const char *run_id)
{
	auto_fd dir = record_open_dir(store_dir, run_id, NULL);
	auto_json record = dir < 0 ? NULL : record_read(dir, run_id, NULL);

	return record && record_alive(dir, record);
}
