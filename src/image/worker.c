/* The process that fetches: this program once more, so that neither what it loads (libcurl, its TLS) nor what it does
 * (waiting) is the run's. Its request comes as one JSON object on its input; it answers with one JSON object a line. It
 * dies with whoever started it, and what it leaves in the store is whole (store.c). */
#include <image/worker.h>

#include "fetch.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_LIMIT = 64 * 1024 };

char *image_request_text(const struct image_request *r)
{
	auto_json j = json_object();

	json_put_str(j, "store", r->store);
	json_put_str(j, "reference", r->reference);
	json_put_str(j, "base", r->base);
	json_put_bool(j, "look", r->look);
	return json_compact(j);
}

static void say(int out, const json_t *j)
{
	auto_free char *text = json_compact(j);
	auto_free char *line = xasprintf("%s\n", text);

	/* Whoever does not listen any more has its reasons. */
	(void)!fd_write_all(out, line, strlen(line));
}

static void on_progress(void *arg, const char *layer, uint64_t current, uint64_t total)
{
	auto_json j = json_object();

	json_put_str(j, "layer", layer);
	json_put_int(j, "current", (long long)current);
	json_put_int(j, "total", (long long)total);
	say(*(int *)arg, j);
}

static void say_error(int out, const struct err *e)
{
	auto_json j = json_object();

	json_put(j, "error", json_text(e->msg, strlen(e->msg)));
	json_put(j, "hint", json_text(e->hint, strlen(e->hint)));
	json_put_int(j, "errno", e->errnum);
	json_put_int(j, "kind", e->kind);
	say(out, j);
}

/* The user's bound of one layer's size. */
static int max_bytes(uint64_t *ret, struct err *e)
{
	const char *text = getenv("ITERION_IMAGE_MAX_BYTES");
	unsigned long long v = 0;

	if (text && *text && str_parse_uint(text, 1, INT64_MAX, &v) < 0) {
		int r = err_set(e, ERR_USAGE, EINVAL, "ITERION_IMAGE_MAX_BYTES is %.40s: not a number of bytes", text);
		err_hint(e, "Give a whole number, such as 10000000000, or unset it.");
		return r;
	}
	*ret = v;
	return 0;
}

int image_pull(const struct image_request *r, image_progress progress, void *arg, struct err *e)
{
	struct fetch_opts o = {
		.store = r->store,
		.reference = r->reference,
		.base = r->base,
		.look = r->look,
		.on_progress = progress,
		.arg = arg,
	};
	int bad = max_bytes(&o.max_bytes, e);

	return bad < 0 ? bad : image_fetch(&o, e);
}

static int fetch(const json_t *j, int *out, struct err *e)
{
	const struct image_request request = {
		.store = json_get_str(j, "store"),
		.reference = json_get_str(j, "reference"),
		.base = json_get_str(j, "base"),
		.look = json_is_true(json_object_get(j, "look")),
	};

	if (!request.store || !request.reference || !request.base) {
		int r = err_set(e, ERR_USAGE, EINVAL, IMAGE_WORKER ": its input is no request");
		err_hint(e, "It is started by other commands, not by people.");
		return r;
	}
	return image_pull(&request, on_progress, out, e);
}

int image_worker(int in, int out)
{
	auto_buf text = BUF_INIT(REQUEST_LIMIT);
	struct err e = ERR_INIT;
	int r = fd_read_all(in, &text);
	auto_json j = r < 0 ? NULL : json_parse(buf_str(&text), text.len, NULL);

	r = fetch(j, &out, &e);
	if (r < 0) {
		say_error(out, &e);
		return 1;
	}
	auto_json done = json_pack("{sb}", "done", 1);
	say(out, done);
	return 0;
}

void image_line_parse(const char *line, struct image_line *ret, struct err *e)
{
	auto_json j = json_parse(line, strlen(line), NULL);
	const char *error = json_get_str(j, "error"), *hint = json_get_str(j, "hint"),
		   *layer = json_get_str(j, "layer");
	long long errnum = json_integer_value(json_object_get(j, "errno"));
	long long kind = json_integer_value(json_object_get(j, "kind"));

	*ret = (struct image_line){0};
	if (error) {
		ret->word = IMAGE_WORD_FAILED;
		(void)err_set(e, kind > ERR_NONE && kind <= ERR_INTERNAL ? (enum err_kind)kind : ERR_SANDBOX,
			      errnum > 0 && errnum < 4096 ? (int)errnum : EIO, "%s", error);
		if (hint && *hint)
			err_hint(e, "%s", hint);
	} else if (json_is_true(json_object_get(j, "done"))) {
		ret->word = IMAGE_WORD_DONE;
	} else if (layer) {
		ret->word = IMAGE_WORD_PROGRESS;
		(void)snprintf(ret->layer, sizeof ret->layer, "%s", layer);
		ret->current = (uint64_t)json_integer_value(json_object_get(j, "current"));
		ret->total = (uint64_t)json_integer_value(json_object_get(j, "total"));
	}
}

int image_look(const struct image_request *r, struct err *e)
{
	const struct image_request look = {.store = r->store, .reference = r->reference, .base = r->base, .look = true};

	return image_pull(&look, NULL, NULL, e);
}
