/* The conversation of a node in the run's folder.
 *
 * After each step the runner hands over what was said so far, and it is put in place of the step before, in
 * sessions/ of the run. A runner that dies goes on from there, and so does the node when the whole run was killed and
 * is resumed: the name is made from the node and all that it was told, so that the same work finds its beginning again.
 * When the node has ended, the conversation is kept under its id for a node that inherits it, or is removed.
 *
 * Two branches may do the very same work at once; the second one then keeps nothing, for it could not be told from the
 * first. */
#include "claw.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/run.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 64 * 1024 * 1024, ID_MAX = 64 };

struct claw_saved {
	struct claw_saved *next;
	const struct store_run *run;
	char *name; /* of the file; NULL: nothing is kept */
	json_t *data;
	bool written;
};

/* Those of this process, so that no two have one file. */
static struct claw_saved *all;

static int folder(const struct store_run *run, bool make, struct err *e)
{
	auto_fd dir = dir_open(AT_FDCWD, store_run_dir(run), e);

	if (dir < 0)
		return dir;
	if (make && mkdirat(dir, "sessions", 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make the folder sessions of the run");
	return dir_open(dir, "sessions", e);
}

static char *file_name(const struct node_exec *x)
{
	const struct agent_task *a = x->task.agent;
	auto_json all_of_it = json_object();
	char sum[SHA256_HEX_SIZE];

	json_put_str(all_of_it, "node", x->task.node_id);
	json_put_str(all_of_it, "model", x->target.model);
	json_put_str(all_of_it, "system", a->system);
	json_put_str(all_of_it, "user", a->user);
	json_put_str(all_of_it, "session", a->session_id);
	if (a->input)
		json_put(all_of_it, "input", json_deep_copy(a->input));
	char *text = json_dumps(all_of_it, JSON_COMPACT | JSON_SORT_KEYS);
	store_sha256(sum, text, strlen(text));
	free(text);
	return xasprintf("node-%.32s.json", sum);
}

static bool is_taken(const struct store_run *run, const char *name)
{
	for (const struct claw_saved *s = all; s; s = s->next)
		if (s->run == run && str_eq(s->name, name))
			return true;
	return false;
}

static json_t *read_file(const struct store_run *run, const char *name, struct err *e)
{
	auto_fd dir = folder(run, false, e);
	auto_free char *text = NULL;
	size_t len;

	if (dir < 0 || file_read(dir, name, FILE_MAX, &text, &len, e) < 0)
		return NULL;
	json_t *j = json_parse(text, len, e);
	if (json_is_array(json_object_get(j, "conversation")))
		return j;
	json_decref(j);
	(void)err_set(e, ERR_INPUT, EBADMSG, "%s holds no conversation", name);
	return NULL;
}

struct claw_saved *claw_saved_open(const struct node_exec *x)
{
	struct claw_saved *s = xcalloc(1, sizeof *s);
	auto_free char *name = file_name(x);

	s->run = x->task.run;
	if (!is_taken(s->run, name))
		s->name = TAKE_PTR(name);
	s->next = all;
	all = s;
	s->data = s->name ? read_file(s->run, s->name, NULL) : NULL;
	s->written = s->data != NULL;
	return s;
}

const json_t *claw_saved_replay(const struct claw_saved *s)
{
	return s->data;
}

/* Takes what is to be kept, and writes it. */
static int put(struct claw_saved *s, json_t *o, struct err *e)
{
	json_decref(s->data);
	s->data = o;
	if (!s->name)
		return 0;
	auto_fd dir = folder(s->run, true, e);
	if (dir < 0)
		return dir;
	auto_free char *text = json_compact(o);
	int r = file_replace(dir, s->name, text, strlen(text), 0600, FILE_NO_SYNC, e);
	s->written |= r == 0;
	return r;
}

int claw_saved_take(struct claw_saved *s, const json_t *data, struct err *e)
{
	const char *id = json_get_str(data, "session_id");
	json_t *conversation = json_object_get(data, "conversation");

	if (!id || !json_is_array(conversation))
		return err_set(e, ERR_PROTOCOL, EPROTO, "the runner sent a capture without a conversation");
	json_t *o = json_object();
	json_put_str(o, "session_id", id);
	json_put_int(o, "step", json_integer_value(json_object_get(data, "step")));
	json_put(o, "conversation", json_deep_copy(conversation));
	return put(s, o, e);
}

int claw_saved_ask(struct claw_saved *s, const json_t *result, struct err *e)
{
	json_t *conversation = json_object_get(result, "pending_conversation");
	const char *id = json_get_str(result, "session_id");

	if (!json_is_array(conversation))
		return err_set(e, ERR_PROTOCOL, EPROTO, "the runner asks a person, but sent no conversation");
	json_t *o = json_object();
	json_put_str(o, "session_id", id);
	json_put_str(o, "pending_tool_use_id", json_get_str(result, "pending_tool_use_id"));
	json_put(o, "conversation", json_deep_copy(conversation));
	return put(s, o, e);
}

/* An id as a file's name: what somebody else made up is none. */
static char *kept_name(const char *id)
{
	size_t len = id ? strlen(id) : 0;

	if (!len || len > ID_MAX || strspn(id, "0123456789abcdefABCDEF-") != len)
		return NULL;
	return xasprintf("session-%s.json", id);
}

/* The id is the runner's word. One that another node's conversation has would put this one in its place, or let those
 * who go on from this node read the other, which may come from a sandbox that knows more. */
const char *claw_session_id(const struct node_exec *x)
{
	const struct agent_task *a = x->task.agent;
	const char *id = json_get_str(x->result, "session_id");
	auto_free char *name = kept_name(id);

	if (!name || (a->session_id && !a->fork_session && str_eq(a->session_id, id)))
		return name ? id : NULL;
	auto_fd dir = folder(x->task.run, false, NULL);
	return dir >= 0 && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? NULL : id;
}

void claw_saved_close(struct claw_saved *s, const char *keep, bool forget)
{
	auto_fd dir = s->written ? folder(s->run, false, NULL) : -1;
	auto_free char *kept = kept_name(keep);
	struct claw_saved **p = &all;

	if (dir >= 0 && kept)
		(void)renameat(dir, s->name, dir, kept);
	else if (dir >= 0 && forget)
		(void)unlinkat(dir, s->name, 0);
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	json_decref(s->data);
	free(s->name);
	free(s);
}

json_t *claw_saved_load(const struct node_exec *x, struct err *e)
{
	const struct agent_task *a = x->task.agent;
	auto_free char *name = kept_name(a->session_id);
	struct err why = ERR_INIT;
	auto_json j = name ? read_file(x->task.run, name, &why) : NULL;

	if (j)
		return json_incref(json_object_get(j, "conversation"));
	(void)err_set(e, ERR_NODE, ENOENT,
		      "node %s: the conversation %.80s that it is to go on with is not in this run%s%s",
		      x->task.node_id, a->session_id, why.kind ? ": " : "", why.msg);
	err_hint(e, "write `session: inherit_if_available`, which begins a new one then");
	return NULL;
}
