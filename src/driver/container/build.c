/* One build, step by step on the loop: the hash of all files on a thread, then the question whether the engine has an
 * image of that name, then whether it has buildx, then a copy of the files on a thread (build_copy.c), then the build
 * itself. So what did not change costs one hash and one question, whoever built it before, and two runs at once may
 * build the same twice but never a wrong image: the name says what is in it.
 *
 * What the engine says while it builds goes to the log, line by line and without control characters; the end of its
 * stderr goes into the event and the error, since that is where a Dockerfile's mistake is explained. */
#include "build.h"
#include "build_context.h"
#include "cli.h"
#include "engine.h"
#include "words.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/json.h>
#include <base/log.h>
#include <base/mem.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#define IMAGE_PREFIX "iterion-sandbox-build:"

enum { ANSWER_LIMIT = 4096, LINE_LIMIT = 4 * 4096 };

struct build {
	struct build_params p;
	struct build_context files;
	uv_work_t work;
	atomic_bool stop;
	char hash[BUILD_HASH_SIZE];
	int hashed; /* 0 or -errno of err */
	struct cli *cli;
	char *image;
	bool buildx, good;
	uint64_t begin_ms;
	struct err err;
};

static void emit(const struct build *b, const char *type, json_t *data)
{
	if (b->p.on_event)
		b->p.on_event(b->p.arg, type, data);
	json_decref(data);
}

static void clean(uv_work_t *work)
{
	struct build *b = work->data;

	build_context_done(&b->files);
}

static void on_cleaned(uv_work_t *work, int status)
{
	struct build *b = work->data;

	(void)status;
	b->p.done(b->p.arg, b->good ? b->image : NULL, b->good ? NULL : &b->err);
	build_context_done(&b->files);
	free(b->image);
	free(b);
}

/* The copy goes first, on a thread; nothing is ended early any more. */
static void finish(struct build *b, bool good)
{
	b->good = good;
	b->cli = NULL;
	if (!b->files.copy.top || uv_queue_work(b->p.loop, &b->work, clean, on_cleaned) < 0)
		on_cleaned(&b->work, 0);
}

/* Sets the error of a build that was ended; false when it was not. */
static bool was_cancelled(struct build *b)
{
	if (!atomic_load(&b->stop))
		return false;
	(void)err_set(&b->err, ERR_CANCELLED, ECANCELED, "build the image: the run was cancelled");
	return true;
}

/* Starts the engine's program; when that fails, the build has ended. */
static void call(struct build *b, const struct cli_opts *o, cli_done_cb done)
{
	if (was_cancelled(b) || cli_start(b->p.loop, o, done, b, &b->cli, &b->err) < 0)
		finish(b, false);
}

static void on_line(void *arg, const char *line)
{
	auto_buf clean = BUF_INIT(LINE_LIMIT);

	(void)arg;
	(void)text_neutralise(&clean, line, strlen(line));
	log_info("build: %s", buf_str(&clean));
}

static void emit_started(const struct build *b)
{
	json_t *d = json_object();

	json_put_str(d, "driver", b->p.engine->name);
	json_put_str(d, "dockerfile", b->p.spec->dockerfile);
	json_put_str(d, "context", b->p.spec->context ? b->p.spec->context : ".");
	emit(b, "sandbox_build_started", d);
}

static void emit_finished(const struct build *b)
{
	json_t *d = json_object();

	json_put_str(d, "driver", b->p.engine->name);
	json_put_str(d, "target", b->image);
	json_put_int(d, "duration_ms", (long long)(clock_ms() - b->begin_ms));
	emit(b, "sandbox_build_finished", d);
}

static void emit_failed(const struct build *b, const char *text, size_t len)
{
	json_t *d = json_object();

	json_put_str(d, "driver", b->p.engine->name);
	json_put(d, "error", json_text(text, len));
	emit(b, "sandbox_build_failed", d);
}

/* What a build ends with is its last line; those above tell of steps, and of the engine's own plans. */
static char *last_line(const char *text)
{
	size_t end = strlen(text);

	while (end > 0 && strchr(" \t\r\n", text[end - 1]))
		end--;
	size_t begin = end;
	while (begin > 0 && text[begin - 1] != '\n')
		begin--;
	return xstrndup(text + begin, end - begin);
}

/* Whether the engine failed; else it did its work and the Dockerfile is wrong. */
static bool is_engines_own(enum words_kind kind)
{
	return kind == WORDS_DAEMON_DOWN || kind == WORDS_NO_PERMISSION || kind == WORDS_IMAGE_NOT_FOUND ||
	       kind == WORDS_UNAUTHORIZED || kind == WORDS_NO_REGISTRY || kind == WORDS_DISK_FULL;
}

static void explain(struct build *b, const struct cli_result *r)
{
	auto_free char *last = last_line(r->err);
	struct cli_result end = *r;

	end.err = last;
	end.err_len = strlen(last);
	int why = words_explain(b->p.engine, &end, NULL, &b->err);
	if (!is_engines_own(words_classify(last))) {
		b->err.hint[0] = '\0';
		err_hint(&b->err, "Mend the Dockerfile; `--log-level info` shows what the build says, step by step.");
	}
	(void)err_wrap(&b->err, why, "build the image of %s", b->p.spec->dockerfile);
}

static void on_built(void *arg, const struct cli_result *r)
{
	struct build *b = arg;

	b->cli = NULL;
	if (cli_ok(r)) {
		emit_finished(b);
		finish(b, true);
		return;
	}
	bool cancelled = was_cancelled(b);
	if (!cancelled)
		explain(b, r);
	bool said = !cancelled && r->err_len > 0;
	emit_failed(b, said ? r->err : b->err.msg, said ? r->err_len : strlen(b->err.msg));
	finish(b, false);
}

void build_words(struct strv *argv, const struct sandbox_build *spec, const struct build_context *c, const char *image,
		 bool buildx, bool mixes_args)
{
	if (buildx)
		strv_add(argv, "buildx");
	strv_add(argv, "build");
	if (buildx)
		strv_add(argv, "--load");
	if (mixes_args && spec->args.n)
		strv_add(argv, "--no-cache");
	strv_add(argv, "-f");
	strv_add(argv, c->dockerfile);
	strv_add(argv, "-t");
	strv_add(argv, image);
	if (spec->target) {
		strv_add(argv, "--target");
		strv_add(argv, spec->target);
	}
	for (size_t i = 0; i < spec->args.n; i++) {
		strv_add(argv, "--build-arg");
		strv_add(argv, spec->args.v[i]);
	}
	for (size_t i = 0; i < spec->cache_from.n; i++) {
		strv_add(argv, "--cache-from");
		strv_add(argv, spec->cache_from.v[i]);
	}
	strv_add(argv, c->folder);
}

static void run_build(struct build *b)
{
	auto_strv argv = {0};

	strv_add(&argv, b->p.program);
	build_words(&argv, b->p.spec, &b->files, b->image, b->buildx, b->p.engine->mixes_args);
	const struct cli_opts o = {
		.argv = (const char *const *)argv.v,
		.stdin_fd = -1,
		.out_limit = ANSWER_LIMIT,
		.on_line = on_line,
	};
	b->begin_ms = clock_ms();
	if (!atomic_load(&b->stop))
		emit_started(b);
	call(b, &o, on_built);
}

static void copy(uv_work_t *work)
{
	struct build *b = work->data;

	b->hashed = build_context_copy(&b->files, b->p.spec, b->p.hidden, &b->stop, b->hash, &b->err);
}

/* What was copied is what is built, so the name is that of the copy: somebody may have written meanwhile. */
static void on_copied(uv_work_t *work, int status)
{
	struct build *b = work->data;

	(void)status;
	if (b->hashed < 0) {
		finish(b, false);
		return;
	}
	free(b->image);
	b->image = xasprintf(IMAGE_PREFIX "%s", b->hash);
	run_build(b);
}

static void copy_files(struct build *b)
{
	int r = uv_queue_work(b->p.loop, &b->work, copy, on_copied);

	if (r == 0)
		return;
	(void)err_sys(&b->err, -r, "build the image: start a thread");
	finish(b, false);
}

static void on_buildx_known(void *arg, const struct cli_result *r)
{
	struct build *b = arg;

	b->cli = NULL;
	b->buildx = cli_ok(r);
	copy_files(b);
}

static void ask_for_buildx(struct build *b)
{
	const char *const argv[] = {b->p.program, "buildx", "version", NULL};
	const struct cli_opts o = {
		.argv = argv, .stdin_fd = -1, .out_limit = ANSWER_LIMIT, .timeout_ms = engine_timeout_ms()};

	call(b, &o, on_buildx_known);
}

static void on_image_known(void *arg, const struct cli_result *r)
{
	struct build *b = arg;

	b->cli = NULL;
	if (cli_ok(r)) {
		log_info("build: nothing changed, the image is there: %s", b->image);
		finish(b, true);
	} else if (b->p.engine->buildx) {
		ask_for_buildx(b);
	} else {
		copy_files(b);
	}
}

static void ask_for_image(struct build *b)
{
	b->image = xasprintf(IMAGE_PREFIX "%s", b->hash);
	const char *const argv[] = {b->p.program, "image", "inspect", "--format", "{{.Os}}", b->image, NULL};
	const struct cli_opts o = {.argv = argv, .stdin_fd = -1, .out_limit = ANSWER_LIMIT};

	call(b, &o, on_image_known);
}

static void hash(uv_work_t *work)
{
	struct build *b = work->data;

	b->hashed = build_context_hash(&b->files, b->p.spec, b->p.hidden, &b->stop, b->hash, &b->err);
}

static void on_hashed(uv_work_t *work, int status)
{
	struct build *b = work->data;

	(void)status;
	if (b->hashed < 0)
		finish(b, false);
	else
		ask_for_image(b);
}

int build_start(const struct build_params *p, struct build **ret, struct err *e)
{
	struct build *b = xcalloc(1, sizeof *b);

	b->p = *p;
	b->work.data = b;
	int r = build_context_find(p->workspace, p->spec, &b->files, e);
	if (r == 0) {
		r = uv_queue_work(p->loop, &b->work, hash, on_hashed);
		if (r < 0)
			(void)err_sys(e, -r, "build the image: start a thread");
	}
	if (r < 0) {
		build_context_done(&b->files);
		free(b);
		return r;
	}
	*ret = b;
	return 0;
}

void build_cancel(struct build *b)
{
	atomic_store(&b->stop, true);
	if (b->cli)
		cli_signal(b->cli, SIGTERM);
}
