/* Making the container: the control socket, the environment file, `run`, and the guest's connection.
 *
 * `run` and the connection are independent of each other: the connection usually comes first. The guest gets its
 * configuration, proves the walls from inside and hands out its listening sockets. When `run` has ended well and nobody
 * has connected, `wait` tells of the death of a PID 1 that could not even start.
 *
 * Where the guest cannot run (its file may not be executed in there, it died before it connected, or the engine does
 * not have this machine's files), the container is made again with `sleep` as PID 1 and the engine itself starts the
 * programs. Where its network may be entered from outside it gets its listening sockets so; elsewhere it has the
 * engine's network, and a policy is only offered to its programs. What it has is asked first (reach.c).
 *
 * A name that is in use is mostly that of a container whose run was killed: those are removed once, then it is tried
 * again. */
#include "args.h"
#include "container_priv.h"
#include "control.h"
#include "labels.h"
#include "leftovers.h"
#include "reach.h"
#include "words.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
	LINGER_MS = 60 * 1000,
	ENV_LIMIT = 4 * 1024 * 1024,
	MAKE_MS = 180 * 1000,
	CONNECT_MS = 60 * 1000,
};

static void make_or_lose(struct container *c)
{
	struct err e = ERR_INIT;

	if (container_make(c, &e) < 0)
		container_lost(c, &e);
}

/* A policy that may only be offered, and where its proxy is to be. */
static int offer_policy(struct container *c, const char *why, struct err *e)
{
	bool required;
	int r = proxy_place_required(&required, e);

	if (r == 0 && required) {
		r = err_set(e, ERR_SANDBOX, ENOTSUP,
			    "start the sandbox: iterion-guest cannot run in its container (%s), and without it the "
			    "network policy cannot be enforced, which ITERION_NETWORK_ENFORCEMENT=required asks for",
			    why);
		err_hint(e, "The engine must run on this machine itself, not in a virtual one (Docker Desktop), and "
			    "iterion-guest must be executable for it: not on a file system mounted noexec, and of its "
			    "architecture (ITERION_BIN names another one).");
	}
	if (r == 0)
		r = proxy_place_get(&c->place, e);
	c->advisory = r == 0;
	return r;
}

/* An engine in a virtual machine does not look like one. Nor does an image that keeps the guest from starting, so as to
 * be made again with a network: the container of an engine that may be here has none until it is known where it is. */
int container_without_guest(struct container *c, const char *why, struct err *e)
{
	c->enters = c->p->enforce_network && !engine_is_remote(c->engine);
	int r = c->p->enforce_network && !c->enters ? offer_policy(c, why, e) : 0;

	if (r < 0)
		return r;
	c->base.without_guest = true;
	auto_free char *message = xasprintf(
		"iterion-guest cannot run in the container (%s): %s itself starts the programs, which is slower", why,
		c->engine->program);
	container_warn(c, "no_guest", message);
	free(TAKE_PTR(c->guest));
	return 0;
}

static void on_cleared(void *arg, const struct cli_result *r)
{
	struct container *c = arg;

	(void)r;
	if (container_step_ended(c)) {
		c->made = false;
		container_name(c);
		make_or_lose(c);
	}
	container_idle(c);
}

void container_offer(struct container *c, const char *why)
{
	auto_strv argv = {0};
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = MAKE_MS};
	struct err e = ERR_INIT;

	c->enters = false;
	strv_add(&argv, c->program);
	for (size_t i = 0; i < ARRAY_LEN(c->engine->remove) && c->engine->remove[i]; i++)
		strv_add(&argv, c->engine->remove[i]);
	strv_add(&argv, c->name);
	if (offer_policy(c, why, &e) < 0 || container_step(c, &argv, &o, on_cleared, &e) < 0)
		container_lost(c, &e);
}

static void fall_back(struct container *c, const char *why)
{
	struct err e = ERR_INIT;

	if (container_without_guest(c, why, &e) < 0)
		container_lost(c, &e);
	else
		make_or_lose(c);
}

static void on_channel_ready(void *arg, int terminals, const int *listeners, size_t n)
{
	struct container *c = arg;

	c->terminals = terminals;
	container_ready(c, listeners, n);
}

static void on_channel_closed(void *arg, const struct err *e)
{
	container_lost(arg, e);
}

/* Writes to the tree that is shared of the user's home belong to whoever the programs are. */
static void check_user(const struct container *c, unsigned uid)
{
	const struct sandbox_spec *spec = c->p->spec;

	if (!spec->user || spec->host_state == HOST_STATE_NONE || uid == getuid())
		return;
	json_t *d = json_object();
	json_put_str(d, "spec_user", spec->user);
	json_put_int(d, "host_uid", getuid());
	container_emit(c, "sandbox_uid_mismatch_warning", d);
}

/* The guest is PID 1 of the container, so its cgroup is the container's. Where the engine is in another place than it
 * seems, there is no such process, and nothing is counted. */
static void count_limits(struct container *c, int fd)
{
	const struct sandbox_limits *l = &c->p->spec->limits;
	struct ucred who = {0};
	socklen_t len = sizeof who;

	if ((l->memory || l->pids) && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
		limit_counters_open(who.pid, &c->counters);
}

static void on_connected(void *arg, int fd, unsigned uid)
{
	struct container *c = arg;
	const struct channel_callbacks cb = {.on_ready = on_channel_ready, .on_closed = on_channel_closed, .arg = c};
	const struct guest_config cfg = {
		.checks = GUEST_CHECK_OWN_PIDS | GUEST_CHECK_CONTAINED |
			  (c->p->enforce_network ? GUEST_CHECK_NO_NETWORK : 0u),
		.ways = GUEST_WAY_OWN_ENV,
		.listen_port = c->p->enforce_network ? PROXY_PORT : 0,
		.linger_ms = LINGER_MS,
	};
	struct err e = ERR_INIT;

	if (c->over) {
		close_quietly(fd);
		return;
	}
	container_close_control(c);
	check_user(c, uid);
	count_limits(c, fd);
	c->channel = channel_new(fd, &cfg);
	if (channel_attach(c->channel, c->loop, &cb, &e) < 0)
		container_lost(c, &e);
	else if (c->step && !c->step_makes)
		/* The wait for its death is over. */
		cli_signal(c->step, SIGKILL);
}

static void on_waited(void *arg, const struct cli_result *r)
{
	struct container *c = arg;
	bool go_on = container_step_ended(c) && !c->channel;

	if (go_on && r->timed_out) {
		struct err e = ERR_INIT;
		(void)err_set(&e, ERR_SANDBOX, ETIMEDOUT, "start the sandbox: its init did not connect within %d s",
			      CONNECT_MS / 1000);
		err_hint(&e, "The engine must run on this machine and share %s; is it in a virtual machine?",
			 control_path(c->control));
		container_lost(c, &e);
	} else if (go_on) {
		c->made = false;
		container_close_control(c);
		container_name(c);
		fall_back(c, "it ended before it connected");
	}
	container_idle(c);
}

static void on_swept(void *arg, size_t n, const struct err *e)
{
	struct container *c = arg;
	struct err in_use = ERR_INIT;

	(void)e;
	if (!c->over && n > 0) {
		make_or_lose(c);
	} else if (!c->over) {
		(void)err_set(&in_use, ERR_SANDBOX, EEXIST, "start the sandbox: there is a container named %s already",
			      c->name);
		err_hint(&in_use,
			 "Its run still lives, or is not this machine's: `iterion sandbox ls` shows it. Give this "
			 "run another --run-id, or remove it with `%s rm -f %s`.",
			 c->engine->program, c->name);
		container_lost(c, &in_use);
	}
	container_idle(c);
}

static void sweep_name(struct container *c, const struct cli_result *r)
{
	struct err e = ERR_INIT;

	if (c->swept) {
		container_fail(c, r, "start the sandbox");
		return;
	}
	c->swept = true;
	if (leftovers_sweep(c->loop, c->engine, c->program, on_swept, c, &e) < 0)
		container_lost(c, &e);
	else
		c->busy++;
}

/* Whether the engine does not have what is mounted for the guest: it is in a virtual machine that shares other folders,
 * or behind a tunnel. */
static bool lacks_our_files(const struct container *c, const char *said)
{
	return c->guest && (strstr(said, c->guest) || (c->control && strstr(said, control_path(c->control))));
}

static void not_made(struct container *c, const struct cli_result *r)
{
	enum words_kind kind = words_classify(r->err);
	bool lacks = kind == WORDS_MOUNT_REFUSED && lacks_our_files(c, r->err);

	container_close_control(c);
	if (kind == WORDS_IMAGE_NOT_FOUND && !c->pulled) {
		c->made = false;
		container_pull(c);
	} else if (kind == WORDS_NAME_IN_USE) {
		c->made = false;
		sweep_name(c, r);
	} else if (kind == WORDS_GUEST_REFUSED && c->guest) {
		fall_back(c, "its file may not be executed there");
	} else if (lacks) {
		fall_back(c, "the engine does not have this machine's files");
	} else {
		container_fail(c, r, "start the sandbox");
	}
}

/* A container without a guest has no channel whose end would tell. */
static void on_died(void *arg, const struct cli_result *r)
{
	struct container *c = arg;
	struct err e = ERR_INIT;

	(void)r;
	if (container_step_ended(c)) {
		(void)err_set(&e, ERR_SANDBOX, ECHILD, "the sandbox ended while the run went on");
		err_hint(&e, "It was removed from outside or ran out of memory: see the engine's log.");
		container_lost(c, &e);
	}
	container_idle(c);
}

/* Waits for the container's end, at most for a time (0: as long as it lives). */
static int wait_for_end(struct container *c, unsigned timeout_ms, cli_done_cb done, struct err *e)
{
	const char *const wait[] = {"wait", c->name, NULL};
	const struct cli_opts o = {.stdin_fd = -1, .timeout_ms = timeout_ms};

	return container_step_words(c, wait, &o, done, e);
}

/* Limits that the kernel does not have are left out by the engine, which says so and goes on. */
static void tell_warnings(const struct container *c, const struct cli_result *r)
{
	auto_free char *text = xstrdup(r->err);
	char *save = NULL;

	for (char *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		if (!strstr(line, "discarded") && !strstr(line, "does not support"))
			continue;
		auto_buf clean = BUF_INIT(CLI_ERR_TAIL * 8);
		(void)text_neutralise(&clean, line, strlen(line));
		container_warn(c, "limits", buf_str(&clean));
	}
}

/* What a container without guest has is known now. */
static void on_reached(struct container *c, const int *listeners, size_t n)
{
	struct err e = ERR_INIT;

	if (wait_for_end(c, 0, on_died, &e) < 0) {
		for (size_t i = 0; i < n; i++)
			close_quietly(listeners[i]);
		container_lost(c, &e);
	} else {
		container_ready(c, listeners, n);
	}
}

static void on_made(void *arg, const struct cli_result *r)
{
	struct container *c = arg;
	struct err e = ERR_INIT;

	c->step_makes = false;
	close_quietly(TAKE_FD(c->env_fd));
	if (cli_ok(r))
		tell_warnings(c, r);
	if (!container_step_ended(c)) {
		container_remove(c);
	} else if (!cli_ok(r)) {
		not_made(c, r);
	} else if (!c->guest) {
		if (reach_start(c, on_reached, &e) < 0)
			container_lost(c, &e);
	} else if (!c->channel && wait_for_end(c, CONNECT_MS, on_waited, &e) < 0) {
		container_lost(c, &e);
	}
	container_idle(c);
}

/* Whether SELinux is enforced here and the workspace has a label that containers may not use: no relabelling, which
 * would change the user's own files for good. */
static bool is_kept_out(const struct container *c)
{
	char on = '0', label[256];
	auto_fd fd = open("/sys/fs/selinux/enforce", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, &on, 1) != 1 || on != '1')
		return false;
	ssize_t n = getxattr(c->p->workspace, "security.selinux", label, sizeof label - 1);
	label[n > 0 ? n : 0] = '\0';
	if (n <= 0 || strstr(label, ":container_file_t:"))
		return false;
	container_warn(c, "selinux",
		       "SELinux would keep a container from the workspace, so this one runs without a label "
		       "(label=disable); `chcon -Rt container_file_t` on the workspace makes that unnecessary");
	return true;
}

/* In memory: the values have no name in any file system. */
static int write_env(struct container *c, struct err *e)
{
	auto_buf text = BUF_INIT(ENV_LIMIT);

	if (args_env(c->p, &text) < 0)
		return err_set(e, ERR_INPUT, E2BIG, "start the sandbox: its environment is over %d bytes", ENV_LIMIT);
	auto_fd fd = memfd_create("iterion-env", MFD_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "make the sandbox's environment file");
	int r = fd_write_all(fd, buf_str(&text), text.len);
	if (r < 0)
		return err_sys(e, -r, "write the sandbox's environment file");
	c->env_fd = TAKE_FD(fd);
	return 0;
}

static int open_control(struct container *c, struct err *e)
{
	int r = control_new(&c->control, e);

	if (r < 0)
		return r;
	r = control_listen(c->control, c->loop, on_connected, c, e);
	if (r < 0)
		control_free(TAKE_PTR(c->control), NULL, NULL);
	else
		c->busy++;
	return r;
}

/* The files of certificates, beside the socket. */
static int write_certificates(struct container *c, const char **ret_authority, const char **ret_bundle, struct err *e)
{
	const struct certificates *own = c->p->certificates;

	if (!own)
		return 0;
	if (!c->control) {
		int r = err_set(
			e, ERR_UNSUPPORTED, ENOTSUP,
			"inspect TLS: iterion-guest cannot run in the container, which gets its certificates by the "
			"same way");
		err_hint(e, "Use an engine on this machine and an image in which it runs, or take tls_inspect and "
			    "secrets out of the block.");
		return r;
	}
	*ret_authority = control_add_file(c->control, "a", own->authority, e);
	*ret_bundle = *ret_authority ? control_add_file(c->control, "b", own->bundle, e) : NULL;
	return *ret_bundle ? 0 : -EIO;
}

int container_make(struct container *c, struct err *e)
{
	auto_strv argv = {0};
	char owner[OWNER_SIZE];
	const char *authority = NULL, *bundle = NULL;

	int r = c->guest ? open_control(c, e) : 0;
	if (r == 0)
		r = write_env(c, e);
	if (r == 0)
		r = write_certificates(c, &authority, &bundle, e);
	if (r < 0)
		return r;
	label_owner(owner);
	const struct args_facts f = {
		.engine = c->engine,
		.program = c->program,
		.name = c->name,
		.owner = owner,
		.image = c->image,
		.guest = c->guest,
		.socket = c->control ? control_path(c->control) : NULL,
		.authority = authority,
		.bundle = bundle,
		.env_file = "/dev/stdin",
		.uid = getuid(),
		.gid = getgid(),
		.unlabelled = is_kept_out(c),
		.advisory = c->advisory,
		.alias = str_eq(c->place.host, PROXY_HOST_ALIAS) ? PROXY_HOST_ALIAS : NULL,
	};
	r = args_run(c->p, &f, &argv, e);
	const struct cli_opts o = {.stdin_fd = c->env_fd, .timeout_ms = MAKE_MS};
	if (r == 0)
		r = container_step(c, &argv, &o, on_made, e);
	if (r == 0)
		c->made = c->step_makes = true;
	return r;
}
