/* What a tool's end means: its output as a value, or why the node failed.
 *
 * With an output schema, standard output that is one JSON object gives the fields; anything else gives {output, stderr,
 * exit_code}. A stream that was too long for memory stands there with its beginning, and with the file that holds all
 * of it and its size. Whatever bytes a program prints, the value is valid JSON text. A failure carries the last line
 * that the program wrote to its standard error, since that is where most programs say why. */
#include "tool_priv.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/limits.h>

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { REASON_MAX = 400, TAIL = 4096 };

/* The length without a UTF-8 sequence that the end cut in two. */
static size_t whole_utf8(const char *s, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = (unsigned char)s[len - back];
		if ((c & 0xc0) == 0x80)
			continue;
		size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		return need > back ? len - back : len;
	}
	return len;
}

static void put_stream(json_t *o, const char *key, const struct capture *c)
{
	const char *s = buf_str(&c->head);
	size_t len = c->head.len;

	json_put(o, key, json_text(s, c->total > len ? whole_utf8(s, len) : len));
}

/* Where the whole of a stream is, when it is not in the value. */
static void put_ref(json_t *o, const char *name, const struct capture *c)
{
	auto_buf key = BUF_INIT(64);

	if (!c->ref)
		return;
	(void)buf_printf(&key, "%s_ref", name);
	json_put_str(o, buf_str(&key), c->ref);
	buf_clear(&key);
	(void)buf_printf(&key, "%s_bytes", name);
	json_put_int(o, buf_str(&key), (long long)c->total);
}

static void put_refs(json_t *o, const struct node_exec *x)
{
	put_ref(o, "output", &x->out);
	put_ref(o, "stderr", &x->err);
}

static int exit_code(const struct exec_status *st)
{
	return st->end == EXEC_SIGNALED ? 128 + st->code : st->code;
}

/* The fields that the program printed, or NULL. */
static json_t *printed_fields(const struct node_exec *x)
{
	if (!x->task.structured || x->out.ref)
		return NULL;
	json_t *j = json_parse_value(buf_str(&x->out.head), x->out.head.len, NULL);
	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

static json_t *value_of(const struct node_exec *x)
{
	json_t *o = printed_fields(x);

	if (o) {
		if (x->task.exit_code_field && !json_object_get(o, "exit_code"))
			json_put_int(o, "exit_code", exit_code(&x->status));
		return o;
	}
	o = json_object();
	put_stream(o, "output", &x->out);
	put_stream(o, "stderr", &x->err);
	json_put_int(o, "exit_code", exit_code(&x->status));
	put_refs(o, x);
	return o;
}

/* ": " and the last line that is not empty, safe to print. */
static void add_reason(struct buf *to, const struct capture *c)
{
	auto_buf tail = BUF_INIT(TAIL);

	capture_tail(c, TAIL, &tail);
	const char *end = buf_str(&tail) + tail.len;
	while (end > buf_str(&tail) && strchr(" \t\r\n", end[-1]))
		end--;
	const char *line = end;
	while (line > buf_str(&tail) && line[-1] != '\n' && end - line < REASON_MAX)
		line--;
	if (line == end)
		return;
	(void)buf_puts(to, ": ");
	(void)text_neutralise(to, line, (size_t)(end - line));
}

static int not_run(const struct node_exec *x, struct err *e)
{
	int errnum = x->status.code;
	int r = err_sys(e, errnum, "node %s: run %s", x->task.node_id, x->program);

	err_set_kind(e, ERR_NODE);
	limits_explain(&x->status, e);
	if (errnum == ENOENT)
		err_hint(e, "the node runs where %s is not found: install it there, or name an image that has it",
			 x->program);
	else if (errnum == E2BIG)
		err_hint(e, "the command and its values are too long for the kernel: pass large values by files in "
			    "$ITERION_ARTIFACT_FILES_DIR");
	else
		err_hint(e, "look at the rights of the program and of the working folder");
	return r;
}

static int failure(const struct node_exec *x, struct err *e)
{
	const struct exec_status *st = &x->status;
	auto_buf reason = BUF_INIT(4 * REASON_MAX);

	add_reason(&reason, &x->err);
	if (st->end == EXEC_SIGNALED) {
		const char *name = sigabbrev_np(st->code);
		(void)err_set(e, ERR_NODE, EPROTO, "node %s: ended by signal %d%s%s%s%s", x->task.node_id, st->code,
			      name ? " (SIG" : "", name ? name : "", name ? ")" : "", buf_str(&reason));
		limits_explain(st, e);
		if (st->code == SIGKILL)
			err_hint(e, "SIGKILL often means that memory was out: see limits.memory and the kernel's log");
	} else {
		(void)err_set(e, ERR_NODE, EPROTO, "node %s: exit code %d%s", x->task.node_id, st->code,
			      buf_str(&reason));
		limits_explain(st, e);
	}
	err_hint(
		e,
		"all that it printed is in the event tool_error of this node; a node whose output schema has exit_code "
		"does not fail");
	return -EPROTO;
}

static int outcome(const struct node_exec *x, struct err *e)
{
	if (x->cancelled)
		return err_set(e, ERR_CANCELLED, ECANCELED, "node %s: cancelled", x->task.node_id);
	if (x->status.end == EXEC_LOST) {
		int r = err_set(e, ERR_SANDBOX, ECONNRESET, "node %s: the sandbox ended while it ran", x->task.node_id);
		err_hint(e, "`iterion resume` starts a new sandbox and runs this node again");
		return r;
	}
	if (x->status.end == EXEC_NOT_FOUND)
		return not_run(x, e);
	const struct err *lost_output = x->out.failure.kind ? &x->out.failure : &x->err.failure;
	if (lost_output->kind) {
		err_copy(e, lost_output);
		return err_wrap(e, -EIO, "node %s: keep its output", x->task.node_id);
	}
	bool good = x->task.exit_code_field || (x->status.end == EXEC_EXITED && x->status.code == 0);
	return good ? 0 : failure(x, e);
}

int tool_result(const struct node_exec *x, json_t **ret_output, json_t **ret_details, struct err *e)
{
	int r = outcome(x, e);
	bool ran = x->status.end == EXEC_EXITED || x->status.end == EXEC_SIGNALED;
	json_t *details = json_object();

	if (ran && x->status.end == EXEC_EXITED)
		json_put_int(details, "exit_code", x->status.code);
	if (x->status.end == EXEC_SIGNALED)
		json_put_int(details, "signal", x->status.code);
	put_refs(details, x);
	if (r == 0)
		*ret_output = value_of(x);
	else if (ran)
		json_put(details, "output", value_of(x));
	*ret_details = details;
	return r;
}
