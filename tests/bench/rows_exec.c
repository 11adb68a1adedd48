/* One more program in a sandbox that runs already, through the driver's own interface. */
#include "bench.h"

#include <base/clock.h>
#include <base/err.h>
#include <base/mem.h>
#include <driver/session.h>
#include <sandbox/spec.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_EXEC = 201 };

struct live {
	uv_loop_t loop;
	struct session *session;
	bool called; /* whether the callback that is waited for came */
	bool good;
	bool lost;
	struct err why;
};

static void wait_for(struct live *l)
{
	while (!l->called && uv_run(&l->loop, UV_RUN_ONCE))
		;
	l->called = false;
}

static void on_done(void *arg, const struct err *e)
{
	struct live *l = arg;

	l->called = true;
	l->good = !e;
	if (e)
		l->why = *e;
}

static void on_lost(void *arg, const struct err *e)
{
	struct live *l = arg;

	l->lost = true;
	l->why = *e;
}

static void on_exec_done(void *arg, const struct exec_status *st)
{
	struct live *l = arg;

	l->called = true;
	l->good = st->end == EXEC_EXITED && st->code == 0;
}

static double time_exec(struct live *l)
{
	static const char *const argv[] = {"/bin/true", NULL};
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	const struct exec_opts o = {.argv = argv, .env = env, .stdio = {-1, -1, -1}};
	struct exec *x;
	uint64_t begin = clock_ns();

	if (session_exec(l->session, &o, on_exec_done, l, &x, &l->why) < 0)
		return -1;
	wait_for(l);
	return l->good && !l->lost ? (double)(clock_ns() - begin) / 1e3 : -1;
}

static void time_rounds(struct live *l, const struct bench *b, const char *const *peer, struct result *ret)
{
	double a[ROUNDS_EXEC], z[ROUNDS_EXEC];

	for (size_t i = 0; i < ROUNDS_EXEC; i++) {
		a[i] = time_exec(l);
		z[i] = time_command(b, peer);
		if (a[i] < 0 || z[i] < 0) {
			miss(ret, "round %zu failed: %s", i + 1, a[i] < 0 ? l->why.msg : peer[0]);
			return;
		}
	}
	ret->ours = median(a, ROUNDS_EXEC);
	ret->peer = median(z, ROUNDS_EXEC);
	ret->figure = ret->ours / ret->peer;
	ret->verdict = SHOWN;
}

void compare_exec(const struct bench *b, const char *driver, const char *image, const char *const *peer,
		  struct result *ret)
{
	struct sandbox_spec spec = {.mode = SANDBOX_INLINE, .network = {.mode = NETWORK_ALLOWLIST}};
	struct live l = {.why = ERR_INIT};
	const struct session_params p = {.loop = &l.loop,
					 .spec = &spec,
					 .driver = driver ? driver : "native",
					 .workspace = b->who->workspace,
					 .run_id = "bench",
					 .run_name = "bench",
					 .home = b->who->home,
					 .on_lost = on_lost,
					 .arg = &l};

	if (!works(b, peer, ret))
		return;
	strv_add(&spec.network.rules, "*.example.org");
	spec.image = image ? xstrdup(image) : NULL;
	if (setenv("ITERION_BIN", b->guest, 1) < 0 || uv_loop_init(&l.loop) < 0 ||
	    session_new(&p, &l.session, &l.why) < 0) {
		miss(ret, "%s", l.why.msg);
		sandbox_spec_done(&spec);
		return;
	}
	session_start(l.session, on_done, &l);
	wait_for(&l);
	if (l.good)
		time_rounds(&l, b, peer, ret);
	else
		miss(ret, "%s", l.why.msg);
	session_stop(l.session, on_done, &l);
	wait_for(&l);
	session_free(l.session);
	sandbox_spec_done(&spec);
}

void measure_exec(const struct bench *b, const char *driver, struct result *ret)
{
	const char *const peer[] = {"/bin/true", NULL};

	compare_exec(b, driver, NULL, peer, ret);
}
