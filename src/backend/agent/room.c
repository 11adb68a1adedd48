/* Files and leftovers of an agent, by programs that run where it runs.
 *
 * Which file system a sandbox has is the driver's affair, so a file gets there by a shell that reads it from its input:
 * neither argv (its length, and everybody can read it) nor the environment. The folder's name cannot be guessed.
 *
 * An agent's tools may put what they start into a session of its own, which no signal to the agent's group reaches, and
 * several agents may share a sandbox, so killing everything is no answer. Everything that it starts inherits a mark in
 * its environment; who has it is killed, again until nobody is found. A program that takes the mark out of its
 * environment escapes this, until its sandbox ends. */
#include "room.h"

#include "child.h"

#include <base/cleanup.h>
#include <base/id.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 12, LINE_MAX_BYTES = 4096 };

static const char write_script[] = "umask 077; mkdir -p \"$1\" && cat >\"$1/$2\"";
/* $1: the folder, or nothing; $2: the mark, or nothing. */
static const char leave_script[] =
	"[ -z \"$1\" ] || rm -rf \"$1\"\n"
	"[ -n \"$2\" ] || exit 0\n"
	"i=0\n"
	"while [ $i -lt 50 ]; do\n"
	"	found=$(grep -lF -e \"$2\" /proc/[0-9]*/environ 2>/dev/null)\n"
	"	[ -n \"$found\" ] || exit 0\n"
	"	for f in $found; do p=${f#/proc/}; kill -9 \"${p%/environ}\" 2>/dev/null; done\n"
	"	i=$((i + 1))\n"
	"done\n";

void room_init(struct agent_room *r, uv_loop_t *loop, struct session *session, const char *const *env)
{
	char hex[2 * NAME_BYTES + 1];

	*r = (struct agent_room){.loop = loop, .session = session, .env = env};
	id_hex(hex, NAME_BYTES);
	r->dir = xasprintf("/tmp/iterion-agent-%s", hex);
	id_hex(hex, NAME_BYTES);
	r->mark = xasprintf("ITERION_EXEC_ID=%s", hex);
}

char *room_add(struct agent_room *r, const char *name, const char *text)
{
	if (r->n == ROOM_FILES_MAX)
		abort();
	r->files[r->n++] = (struct agent_file){.name = name, .text = text, .len = strlen(text)};
	return xasprintf("%s/%s", r->dir, name);
}

static void no_line(void *arg, char *line, size_t len)
{
	(void)arg;
	(void)line;
	(void)len;
}

static int run(struct agent_room *r, const char *script, const char *first, const char *second,
	       const struct agent_file *input, void (*on_end)(void *arg, const struct agent_child_end *end),
	       struct err *e)
{
	const char *const argv[] = {"/bin/sh", "-c", script, "iterion", first, second, NULL};
	const struct agent_child_opts o = {
		.loop = r->loop,
		.session = r->session,
		.argv = argv,
		.env = r->env,
		.cwd = "/",
		.input = input ? input->text : "",
		.input_len = input ? input->len : 0,
		.line_max = LINE_MAX_BYTES,
		/* The mark is in the environment of what other execs started. */
		.oversees = str_eq(script, leave_script),
	};
	const struct agent_child_callbacks cb = {.on_line = no_line, .on_end = on_end, .arg = r};

	return agent_child_start(&o, &cb, &r->child, e);
}

static int write_next(struct agent_room *r, struct err *e);

static void on_written(void *arg, const struct agent_child_end *end)
{
	struct agent_room *r = arg;
	const struct agent_file *f = &r->files[r->written++];

	r->child = NULL;
	r->err = ERR_INIT;
	if (end->status.end != EXEC_EXITED || end->status.code != 0) {
		(void)err_set(&r->err, ERR_NODE, EIO, "write %s/%s where the agent runs: %s", r->dir, f->name,
			      *end->stderr_text ? end->stderr_text : "the shell did not end well");
		err_hint(&r->err, "the agent's sandbox needs /bin/sh, mkdir and cat, and room in its /tmp");
		r->done(r->arg, &r->err);
	} else if (r->written == r->n) {
		r->done(r->arg, NULL);
	} else if (write_next(r, &r->err) < 0) {
		r->done(r->arg, &r->err);
	}
}

static int write_next(struct agent_room *r, struct err *e)
{
	const struct agent_file *f = &r->files[r->written];

	return run(r, write_script, r->dir, f->name, f, on_written, e);
}

int room_enter(struct agent_room *r, void (*done)(void *arg, const struct err *e), void *arg, bool *ret_wait,
	       struct err *e)
{
	*ret_wait = r->n > 0;
	if (r->n == 0)
		return 0;
	r->done = done;
	r->arg = arg;
	r->made = true;
	return write_next(r, e);
}

static void on_left(void *arg, const struct agent_child_end *end)
{
	struct agent_room *r = arg;

	(void)end;
	r->child = NULL;
	r->done(r->arg, NULL);
}

bool room_leave(struct agent_room *r, bool sweep, void (*done)(void *arg, const struct err *e), void *arg)
{
	if (!r->made && !sweep)
		return false;
	r->done = done;
	r->arg = arg;
	return run(r, leave_script, r->made ? r->dir : "", sweep ? r->mark : "", NULL, on_left, NULL) == 0;
}

void room_signal(struct agent_room *r, int sig)
{
	if (r->child)
		agent_child_signal(r->child, sig);
}

void room_free(struct agent_room *r)
{
	free(r->dir);
	free(r->mark);
}
