/* A sandbox of one driver on a loop of its own. */
#include "sandboxed.h"

#include <base/cleanup.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void on_ready(void *arg, const int *listeners, size_t n)
{
	struct sandboxed *s = arg;

	s->ready = true;
	s->n_listeners = n;
	for (size_t i = 0; i < n; i++)
		s->listeners[i] = listeners[i];
}

static void on_lost(void *arg, const struct err *e)
{
	struct sandboxed *s = arg;

	s->lost = true;
	s->why = *e;
}

static void on_event(void *arg, const char *type, json_t *data)
{
	const struct sandboxed *s = arg;

	if (s->events)
		(void)json_array_append_new(s->events, json_pack("[sO]", type, data));
}

void sandboxed_wait(struct sandboxed *s, const bool *flag)
{
	while (!*flag && uv_run(&s->loop, UV_RUN_ONCE))
		;
	assert_true(*flag);
}

void sandboxed_start_with(struct sandboxed *s, const struct driver *d, bool enforce_network,
			  const struct sandbox_spec *spec)
{
	static char workspace[] = "/tmp/iterion-test-XXXXXX";
	const struct sandbox_callbacks cb = {.on_ready = on_ready, .on_lost = on_lost, .on_event = on_event, .arg = s};
	struct err e = ERR_INIT;

	memcpy(workspace + sizeof workspace - 7, "XXXXXX", 6);
	*s = (struct sandboxed){.events = s->events};
	assert_non_null(mkdtemp(workspace));
	s->params = (struct sandbox_params){.spec = spec ? spec : &s->spec,
					    .workspace = workspace,
					    .workspace_target = workspace,
					    .home = "/home/inside",
					    .run_id = "r",
					    .run_name = "n",
					    .enforce_network = enforce_network};
	assert_int_equal(uv_loop_init(&s->loop), 0);
	if (d->sandbox_new(&s->params, &s->sandbox, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(s->sandbox->ops->start(s->sandbox, &s->loop, &cb, &e), 0);
	while (!s->ready && !s->lost && uv_run(&s->loop, UV_RUN_ONCE))
		;
}

void sandboxed_start(struct sandboxed *s, const struct driver *d, bool enforce_network)
{
	memset(s, 0, sizeof *s);
	sandboxed_start_with(s, d, enforce_network, NULL);
}

struct shell {
	struct exec_status status;
	bool done;
};

static void on_done(void *arg, const struct exec_status *st)
{
	struct shell *sh = arg;

	sh->status = *st;
	sh->done = true;
}

struct exec_status sandboxed_sh(struct sandboxed *s, const char *command, char *out, size_t size)
{
	const char *const argv[] = {"sh", "-c", command, NULL}, *const path[] = {"PATH=/usr/bin:/bin", NULL};
	const char *const *env = s->env ? s->env : path;
	struct shell sh = {0};
	struct err e = ERR_INIT;
	struct exec *x;
	int pipe_fds[2];

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	const struct exec_opts o = {
		.argv = argv, .env = env, .cwd = s->params.workspace_target, .stdio = {-1, pipe_fds[1], 2}};
	if (s->sandbox->ops->exec(s->sandbox, &o, on_done, &sh, &x, &e) < 0)
		fail_msg("%s", e.msg);
	assert_false(sh.done);
	close(pipe_fds[1]);
	sandboxed_wait(s, &sh.done);
	size_t n = 0;
	for (ssize_t r; out && n + 1 < size && (r = read(pipe_fds[0], out + n, size - 1 - n)) > 0;)
		n += (size_t)r;
	if (out)
		out[n] = '\0';
	close(pipe_fds[0]);
	return sh.status;
}

static void on_stopped(void *arg, bool killed)
{
	struct sandboxed *s = arg;

	s->stopped = true;
	s->killed = killed;
}

void sandboxed_end(struct sandboxed *s)
{
	s->sandbox->ops->stop(s->sandbox, on_stopped, s);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	assert_true(s->stopped);
	s->sandbox->ops->free(s->sandbox);
	for (size_t i = 0; i < s->n_listeners; i++)
		close(s->listeners[i]);
	assert_int_equal(uv_loop_close(&s->loop), 0);
	rmdir(s->params.workspace);
}
