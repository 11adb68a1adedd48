/* Programs in a container whose PID 1 is no guest: one `exec` of the engine each.
 *
 * The engine's program has the three descriptors and passes the bytes on. It does not pass signals on, so a shell in
 * the container first notes its own process number in a file and then becomes the program; a signal is an exec of its
 * own that reads the number. The environment goes by a file without a name, for the same reason as the container's own;
 * podman without root has a user namespace, from where it cannot open such a one, and gets one with a name, which is
 * there as long as the program. What a file cannot hold, a value of several lines, goes through the environment of the
 * engine's program, by name; but for names that would steer that program itself, which runs on the host.
 *
 * How the program ended is known only as the exit code that the engine reports: a signal shows as 128 and its number. A
 * SIGKILL that nobody here sent may be the end of the whole container, which is another thing to the run: then the
 * engine is asked whether the container is still there. */
#include "container_priv.h"
#include "labels.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/spawn.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ENV_LIMIT = 4 * 1024 * 1024, SIGNAL_MS = 10 * 1000, FIRST_SIGNAL_CODE = 129, LAST_SIGNAL_CODE = 192 };

static const char env_prefix[] = "iterion-env.";

struct engine_exec {
	struct exec base;
	struct container *owner;
	struct engine_exec *next;
	unsigned number;
	pid_t pid;
	int pidfd;
	int env_fd;
	char *env_file; /* its name, when it has one */
	int tty;
	bool lost;
	bool ended;  /* its process is gone; only how it ended is still asked for */
	bool killed; /* it got SIGKILL from us */
	uv_poll_t exit;
	struct exec_status status;
};

static void forget(struct engine_exec *x)
{
	for (struct engine_exec **p = &x->owner->execs; *p; p = &(*p)->next) {
		if (*p == x) {
			*p = x->next;
			return;
		}
	}
}

static void exec_free(struct engine_exec *x)
{
	close_quietly(x->pidfd);
	close_quietly(x->env_fd);
	if (x->env_file)
		(void)unlink(x->env_file);
	free(x->env_file);
	close_quietly(x->tty);
	free(x);
}

static void on_closed(uv_handle_t *h)
{
	struct engine_exec *x = h->data;
	struct container *c = x->owner;

	if (!x->lost)
		x->base.done(x->base.arg, &x->status);
	exec_free(x);
	container_idle(c);
}

static void close_exec(struct engine_exec *x)
{
	if (!x->lost)
		forget(x);
	uv_close((uv_handle_t *)&x->exit, on_closed);
}

static void on_asked(void *arg, const struct cli_result *r)
{
	struct engine_exec *x = arg;
	struct container *c = x->owner;
	struct err e = ERR_INIT;

	if (!x->lost && !(cli_ok(r) && str_starts(r->out, "true"))) {
		(void)err_set(&e, ERR_SANDBOX, ECHILD, "the sandbox ended while the run went on");
		err_hint(&e, "It was removed from outside or ran out of memory: see the engine's log.");
		container_lost(c, &e);
	}
	close_exec(x);
	container_idle(c);
}

/* False when that could not be asked. */
static bool ask_alive(struct engine_exec *x)
{
	struct container *c = x->owner;
	const char *const argv[] = {c->program, "inspect", "--type=container", "--format", "{{.State.Running}}",
				    c->name,	NULL};
	const struct cli_opts o = {.argv = argv, .stdin_fd = -1, .out_limit = 16, .timeout_ms = SIGNAL_MS};

	uv_poll_stop(&x->exit);
	if (cli_start(c->loop, &o, on_asked, x, NULL, NULL) < 0)
		return false;
	c->busy++;
	return true;
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
	struct engine_exec *x = poll->data;
	struct spawn_status st = {0};

	(void)status;
	(void)events;
	if (spawn_reap(x->pid, &st) == 0)
		return;
	bool by_signal = st.signaled || (st.code >= FIRST_SIGNAL_CODE && st.code <= LAST_SIGNAL_CODE);
	x->status = (struct exec_status){
		.end = by_signal ? EXEC_SIGNALED : EXEC_EXITED,
		.code = by_signal && !st.signaled ? st.code - 128 : st.code,
	};
	x->ended = true;
	if (!x->lost && !x->killed && by_signal && x->status.code == SIGKILL && ask_alive(x))
		return;
	close_exec(x);
}

void engine_exec_lose_all(struct container *c)
{
	while (c->execs) {
		struct engine_exec *x = c->execs;
		c->execs = x->next;
		x->lost = true;
		if (!x->ended)
			(void)kill(-x->pid, SIGKILL);
		x->base.done(x->base.arg, &(struct exec_status){.end = EXEC_LOST});
	}
}

static char *number_file(const struct engine_exec *x)
{
	return xasprintf("/tmp/.iterion-exec-%u", x->number);
}

static void on_signaled(void *arg, const struct cli_result *r)
{
	(void)r;
	container_idle(arg);
}

/* To the whole group, as the guest does it; a program that has not begun yet, or has ended, is none. */
static void send_signal(struct exec *base, int sig)
{
	struct engine_exec *x = (struct engine_exec *)base;
	struct container *c = x->owner;
	auto_free char *file = number_file(x);
	x->killed |= sig == SIGKILL;
	auto_free char *command =
		xasprintf("p=$(cat %s) && { kill -%d -- -$p || kill -%d $p; } 2>/dev/null", file, sig, sig);
	const char *const argv[] = {c->program, "exec", c->name, "sh", "-c", command, NULL};
	const struct cli_opts o = {.argv = argv, .stdin_fd = -1, .timeout_ms = SIGNAL_MS};

	if (cli_start(c->loop, &o, on_signaled, c, NULL, NULL) == 0)
		c->busy++;
}

static void resize(struct exec *base, unsigned rows, unsigned cols)
{
	const struct engine_exec *x = (struct engine_exec *)base;
	const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

	if (x->tty >= 0)
		(void)ioctl(x->tty, TIOCSWINSZ, &size);
}

static const struct exec_ops exec_ops = {.signal = send_signal, .resize = resize};

/* Whether the variable means something to the engine's program, its loader or its language's run-time. */
static bool steers_program(const char *entry)
{
	static const char *const words[] = {
		"LD_",	   "GLIBC_",	"GCONV_PATH", "GODEBUG",   "PATH=",  "HOME=",	"TMPDIR", "XDG_",
		"DOCKER_", "CONTAINER", "BUILDAH_",   "REGISTRY_", "NOTIFY", "LISTEN_", "DBUS_",  "_CONTAINERS"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_starts(entry, words[i]))
			return true;
	return false;
}

/* What a killed iterion left holds keys, so the next one takes it away. */
static int named_file(struct engine_exec *x)
{
	const char *own = getenv("XDG_RUNTIME_DIR"), *folder = own && *own == '/' ? own : "/dev/shm";
	char owner[OWNER_SIZE];

	if (x->number == 1)
		labels_sweep(folder, env_prefix);
	label_owner(owner);
	auto_free char *path = xasprintf("%s/%s%s.XXXXXX", folder, env_prefix, owner);
	x->env_fd = mkostemp(path, O_CLOEXEC);
	if (x->env_fd < 0)
		return -errno;
	x->env_file = TAKE_PTR(path);
	return 0;
}

static int nameless_file(struct engine_exec *x)
{
	x->env_fd = memfd_create("iterion-env", MFD_CLOEXEC);
	return x->env_fd < 0 ? -errno : 0;
}

/* The variables' two ways: lines of a file, and names whose values the engine's program has in its own environment. */
static int add_env(struct engine_exec *x, const char *const *env, struct strv *argv, struct strv *own, struct err *e)
{
	auto_buf text = BUF_INIT(ENV_LIMIT);

	for (const char *const *v = env; *v; v++) {
		if (!strpbrk(*v, "\r\n")) {
			if (buf_printf(&text, "%s\n", *v) < 0)
				return err_set(e, ERR_INPUT, E2BIG, "the environment is over %d bytes", ENV_LIMIT);
			continue;
		}
		if (steers_program(*v)) {
			int bad = err_set(e, ERR_INPUT, EINVAL, "the variable %.*s holds a line break",
					  (int)strcspn(*v, "="), *v);
			err_hint(e, "Give it one line: iterion-guest does not run in this image, and without it such a "
				    "value cannot be handed over safely.");
			return bad;
		}
		const char *eq = strchrnul(*v, '=');
		auto_free char *name = xstrndup(*v, (size_t)(eq - *v));
		strv_add(argv, "--env");
		strv_add(argv, name);
		/* In place of the host's own of that name: with both there, which one counts is the engine's choice. */
		strv_set_env(own, name, *eq ? eq + 1 : "");
	}
	int r = x->owner->engine->keep_id && getuid() != 0 ? named_file(x) : nameless_file(x);
	if (r < 0)
		return err_sys(e, -r, "make the environment file");
	r = fd_write_all(x->env_fd, buf_str(&text), text.len);
	if (r < 0)
		return err_sys(e, -r, "write the environment file");
	strv_add(argv, "--env-file");
	strv_take(argv, x->env_file ? xstrdup(x->env_file) : xasprintf("/proc/%d/fd/%d", getpid(), x->env_fd));
	return 0;
}

static int make_words(struct engine_exec *x, const struct exec_opts *o, struct strv *argv, struct strv *own,
		      struct err *e)
{
	auto_free char *file = number_file(x);

	strv_add(argv, x->owner->program);
	strv_add(argv, "exec");
	strv_add(argv, o->tty ? "-it" : "-i");
	strv_add(argv, "--workdir");
	strv_add(argv, o->cwd ? o->cwd : x->owner->p->workspace_target);
	if (o->user) {
		strv_add(argv, "--user");
		strv_add(argv, o->user);
	}
	int r = add_env(x, o->env, argv, own, e);
	if (r < 0)
		return r;
	strv_add(argv, x->owner->name);
	strv_add(argv, "sh");
	strv_add(argv, "-c");
	strv_take(argv, xasprintf("echo $$ >%s && exec \"$@\"", file));
	strv_add(argv, "sh");
	for (const char *const *v = o->argv; *v; v++)
		strv_add(argv, *v);
	return 0;
}

static int spawn(struct engine_exec *x, const struct exec_opts *o, struct err *e)
{
	auto_strv argv = {0};
	auto_strv own = {0};

	for (char *const *v = environ; *v; v++)
		strv_add(&own, *v);
	int r = make_words(x, o, &argv, &own, e);
	if (r < 0)
		return r;
	const struct spawn_opts so = {
		.file = argv.v[0],
		.argv = argv.v,
		.envp = own.v,
		.stdio = {o->stdio[0], o->stdio[1], o->stdio[2]},
		.own_group = true,
		.controlling_tty = o->tty,
		.death_signal = SIGKILL,
	};
	return spawn_start(&so, &x->pid, &x->pidfd, e);
}

int engine_exec_start(struct container *c, const struct exec_opts *o, exec_done_cb done, void *arg, struct exec **ret,
		      struct err *e)
{
	struct engine_exec *x = xcalloc(1, sizeof *x);

	*x = (struct engine_exec){
		.base = {.ops = &exec_ops, .done = done, .arg = arg},
		.owner = c,
		.number = ++c->last_exec,
		.pidfd = -1,
		.env_fd = -1,
		.tty = o->tty ? fcntl(o->stdio[0], F_DUPFD_CLOEXEC, 3) : -1,
	};
	int r = spawn(x, o, e);
	if (r == 0) {
		r = uv_poll_init(c->loop, &x->exit, x->pidfd);
		if (r < 0) {
			(void)err_sys(e, -r, "watch %s", c->program);
			(void)kill(-x->pid, SIGKILL);
		}
	}
	if (r < 0) {
		exec_free(x);
		return err_wrap(e, r, "start %s in the sandbox", o->argv[0]);
	}
	x->exit.data = x;
	(void)uv_poll_start(&x->exit, UV_READABLE, on_ended);
	x->next = c->execs;
	c->execs = x;
	c->busy++;
	*ret = &x->base;
	return 0;
}
