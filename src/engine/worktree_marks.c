/* Warning the user of what the run left in his repository.
 *
 * Our own git never reads what decides about programs there (worktree_room.c), but the user's next git does. The common
 * git folder must be writable inside, or git would not work there; so what can be done is to know its dangerous files
 * before the run and to say afterwards which of them are other ones now. Nothing is restored: the change may be wanted,
 * or may be the user's own of the same time. */
#include "worktree_priv.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>
#include <base/path.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <store/run.h>
#include <string.h>

enum { MARK_MAX = 1024 * 1024, MARKS_MAX = 2000 };

static void mark(json_t *marks, int common, const char *name)
{
	auto_free char *text = NULL;
	char sha[SHA256_HEX_SIZE];
	struct stat st;
	size_t len;

	if (json_object_size(marks) >= MARKS_MAX || fstatat(common, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (!S_ISREG(st.st_mode)) {
		json_put_str(marks, name, "no file");
		return;
	}
	if (file_read(common, name, MARK_MAX, &text, &len, NULL) < 0) {
		json_put_str(marks, name, "not read");
		return;
	}
	store_sha256(sha, text, len);
	json_put_str(marks, name, sha);
}

/* Files of a folder; with a leaf, that file of each of its folders. */
static void mark_all(json_t *marks, int common, const char *folder, const char *leaf)
{
	int fd = openat(common, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;

	if (!dir) {
		close_quietly(fd);
		return;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.' || str_ends(d->d_name, ".sample"))
			continue;
		auto_free char *name =
			leaf ? xasprintf("%s/%s/%s", folder, d->d_name, leaf) : xasprintf("%s/%s", folder, d->d_name);
		mark(marks, common, name);
	}
}

json_t *marks_take(const struct worktree *w)
{
	static const char *const names[] = {"config",	       "config.worktree", "commondir",
					    "info/attributes", "info/grafts",	  "objects/info/alternates"};
	json_t *marks = json_object();
	auto_fd fd = dir_open(AT_FDCWD, w->common, NULL);

	if (fd < 0)
		return marks;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		mark(marks, fd, names[i]);
	mark_all(marks, fd, "hooks", NULL);
	mark_all(marks, fd, "worktrees", "commondir");
	mark_all(marks, fd, "worktrees", "config.worktree");
	mark_all(marks, fd, "modules", "config");
	return marks;
}

void marks_compare(const struct worktree *w)
{
	json_t *now = w->marks_now;
	auto_json changed = json_array();
	const char *own = w->admin ? path_base(w->admin) : "";
	auto_free char *ours = xasprintf("worktrees/%s/", own);
	const char *name;
	json_t *value;

	if (!w->marks || !now)
		return;
	/* Entries of trees that were made or removed by others meanwhile say nothing. */
	json_object_foreach(now, name, value)
	{
		const json_t *before = json_object_get(w->marks, name);
		bool is_new = !before && str_starts(name, "worktrees/") && str_ends(name, "/commondir") &&
			      !(*own && str_starts(name, ours));
		if (!is_new && (!before || !json_equal(before, value)))
			(void)json_array_append_new(changed, json_text(name, strlen(name)));
	}
	if (json_array_size(changed) == 0)
		return;
	json_t *d = json_object();
	json_put_str(d, "code", "git_files_changed");
	json_put_str(d, "message",
		     "files that decide which programs git runs in your repository are not what they were before the "
		     "run; look at them before you use git there");
	json_put_str(d, "git_dir", w->common);
	json_put(d, "files", json_incref(changed));
	worktree_emit(w, "worktree_warning", d);
	log_warn("the run changed files that decide which programs git runs in your repository: look at %s/%s%s before "
		 "you use git there",
		 w->common, json_string_value(json_array_get(changed, 0)),
		 json_array_size(changed) > 1 ? " and others (event worktree_warning)" : "");
}
