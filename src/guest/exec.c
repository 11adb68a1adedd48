/* The guest's exec server: starts programs, reports how they ended.
 *
 * The three descriptors of an exec came with its frame and leave with the child: bytes never pass through here. Each
 * program leads a process group of its own, so that a signal reaches the whole of it and none of its neighbours, and is
 * kept apart from them (apart.c). As PID 1 the guest also adopts orphans: one loop of waitid reaps all, and only those
 * in the table are reported. */
#include "guest.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>
#include <base/pack.h>
#include <base/spawn.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

struct running {
	uint32_t stream;
	pid_t pid;
	bool told_to_end; /* it got TERM, INT or KILL: nothing of its group may stay */
};

struct exec_table {
	struct frame_conn *conn;
	bool own_env;
	int apart; /* guest_apart's */
	struct running *v;
	size_t n;
	size_t cap;
};

struct exec_table *exec_table_new(struct frame_conn *conn, uint32_t ways)
{
	struct exec_table *t = xcalloc(1, sizeof *t);

	t->conn = conn;
	t->own_env = ways & GUEST_WAY_OWN_ENV;
	t->apart = guest_apart();
	return t;
}

void exec_table_free(struct exec_table *t)
{
	if (t->apart)
		close_quietly(t->apart);
	free(t->v);
	free(t);
}

static int report(struct exec_table *t, uint32_t stream, struct guest_exec_end end)
{
	auto_buf b = BUF_INIT(64);
	int r = guest_end_pack(&b, &end);

	return r < 0 ? r : frame_send(t->conn, GUEST_EXEC_ENDED, stream, b.data, b.len, NULL, 0);
}

static struct running *find(struct exec_table *t, uint32_t stream)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].stream == stream)
			return &t->v[i];
	return NULL;
}

/* The host's null device comes by a mount on which root inside, who owns it, could change its mode for everybody; the
 * sandbox's own (-1 for spawn_start) is read-only. */
static int own_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) ? -1 : fd;
}

static bool has_name(char *const *env, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;

	for (; *env; env++)
		if (strncmp(*env, entry, len) == 0)
			return true;
	return false;
}

/* The exec's environment with what only init's has behind it, and a PATH in any case; the array is the caller's, its
 * strings are not. */
static char **over_own_env(char *const *env)
{
	static char default_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	size_t n = 0, own = 0;

	while (env[n])
		n++;
	while (environ[own])
		own++;
	char **all = xcalloc(n + own + 2, sizeof *all);
	memcpy(all, env, n * sizeof *all);
	for (char *const *v = environ; *v; v++)
		if (strchr(*v, '=') && !has_name(env, *v))
			all[n++] = *v;
	if (!has_name(all, default_path))
		all[n] = default_path;
	return all;
}

int exec_table_start(struct exec_table *t, const struct frame *f)
{
	struct guest_exec x;
	auto_free char **env = NULL;
	pid_t pid;

	int r = guest_exec_unpack(f, &x);
	if (r < 0 || find(t, f->stream)) {
		if (r == 0)
			guest_exec_done(&x);
		return -EPROTO;
	}
	if (t->own_env)
		env = over_own_env(x.env);
	struct spawn_opts o = {
		.file = x.argv[0],
		.argv = x.argv,
		.envp = env ? env : x.env,
		.stdio = {own_null(f->fds[0]), own_null(f->fds[1]), own_null(f->fds[2])},
		.cwd = x.cwd[0] ? x.cwd : NULL,
		.own_group = true,
		.controlling_tty = x.flags & GUEST_EXEC_TTY,
		.landlock = x.flags & GUEST_EXEC_OVERSEES ? 0 : t->apart,
	};
	r = spawn_start(&o, &pid, NULL, NULL);
	guest_exec_done(&x);
	if (r < 0)
		return report(t, f->stream, (struct guest_exec_end){.end = GUEST_NOT_STARTED, .code = (uint32_t)-r});
	t->v = grow_array(t->v, t->n, &t->cap, sizeof *t->v);
	t->v[t->n++] = (struct running){.stream = f->stream, .pid = pid};
	return 0;
}

int exec_table_signal(struct exec_table *t, const struct frame *f)
{
	struct unpack u = {.p = f->payload, .left = f->len};
	uint32_t sig = unpack_u32(&u);
	struct running *x = find(t, f->stream);

	if (!unpack_end(&u) || sig >= (uint32_t)NSIG)
		return -EPROTO;
	if (x)
		x->told_to_end |= sig == SIGTERM || sig == SIGINT || sig == SIGKILL;
	/* It may have ended meanwhile: its pid is not reused before we reap it, and then it is no longer in the table.
	 */
	if (x && kill(-x->pid, (int)sig) < 0)
		(void)kill(x->pid, (int)sig);
	return 0;
}

static int ended(struct exec_table *t, const siginfo_t *si)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].pid != si->si_pid)
			continue;
		uint32_t stream = t->v[i].stream;
		if (t->v[i].told_to_end)
			(void)kill(-si->si_pid, SIGKILL);
		t->v[i] = t->v[--t->n];
		return report(t, stream,
			      (struct guest_exec_end){
				      .end = si->si_code == CLD_EXITED ? GUEST_EXITED : GUEST_SIGNALED,
				      .code = (uint32_t)si->si_status,
				      .core = si->si_code == CLD_DUMPED,
			      });
	}
	return 0;
}

int exec_table_reap(struct exec_table *t)
{
	for (int r = 0; r >= 0;) {
		siginfo_t si = {0};
		/* Looked at first, reaped after: until then the number of its group cannot belong to another. */
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid == 0)
			return 0;
		r = ended(t, &si);
		(void)waitid(P_PID, (id_t)si.si_pid, &si, WEXITED | WNOHANG);
	}
	return 0;
}
