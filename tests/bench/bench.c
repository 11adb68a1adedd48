/* iterion-bench: what spec and docs promise about speed and memory, measured on this machine.
 *
 * Every row is measured in a process of its own, so that one which fails or leaks says nothing about the next, and as
 * root first for root and then for an ordinary user, who has other ways to a sandbox. A row that cannot be measured
 * says why. The table goes to stdout, the figures as JSON to a file. The exit code is 0 also when a bar is passed: the
 * reader decides what a figure from a busy machine means; 1 is for a bench that did not work. */
#include "bench.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

#define GIBIBYTE "head -c 1073741824 /dev/zero | tr '\\0' x"

static const struct row rows[] = {
	{"run of one true node, native, to bwrap", 1.2, measure_run, STORE_ON_DISK},
	{"run of one true node, store in memory", 1.2, measure_run, STORE_IN_MEMORY},
	{"one more exec, native, to posix_spawn", 1.5, measure_exec, NULL},
	{"version, to a spawn of true", 2, measure_version, NULL},
	{"validate a small file, to 2 of true + 1 ms", 1, measure_validate, NULL},
	{"parse and check of a long file, ms", 10, measure_parse, NULL},
	{"validate of a longer file, to a long one", 1.2, measure_linear, NULL},
	{"one more node, noop, to posix_spawn", 1.3, measure_node, STORE_ON_DISK},
	{"one more node, noop, store in memory", 1.3, measure_node, STORE_IN_MEMORY},
	{"fsyncs a node", 1, measure_syncs, NULL},
	{"200 sandboxes at once, each, to 10", 1.3, measure_crowd, STORE_ON_DISK},
	{"peak memory of iterion, true", 12, measure_host_memory, "true"},
	{"peak memory of iterion, a node prints 1 GiB", 12, measure_host_memory, GIBIBYTE},
	{"peak memory of the guest, true", 2, measure_guest_memory, "true"},
	{"peak memory of the guest, 1 GiB", 2, measure_guest_memory, GIBIBYTE},
	{"claw runner, start to its first question", 5, measure_runner_start, NULL},
	{"peak memory of the claw runner", 4, measure_runner_memory, NULL},
	{"run, docker driver, to docker run", 1.3, measure_engine_run, "docker"},
	{"run, native, to the docker driver", 0.05, measure_native_to_engine, "docker"},
	{"one more exec, docker, to docker exec", 0.05, measure_engine_exec, "docker"},
	{"run, podman driver, to podman run", 1.3, measure_engine_run, "podman"},
	{"one more exec, podman, to podman exec", 0.05, measure_engine_exec, "podman"},
};

struct options {
	const char *iterion;
	const char *guest;
	const char *json;
	const char *only;
};

static const char *const verdict_words[] = {[MISSING] = "not available", [SHOWN] = "", [GOOD] = "ok", [OVER] = "over"};

static int parse_options(int argc, char **argv, struct options *ret)
{
	const struct {
		const char *word;
		const char **to;
	} known[] = {
		{"--iterion", &ret->iterion}, {"--guest", &ret->guest}, {"--json", &ret->json}, {"--only", &ret->only}};

	for (int i = 1; i < argc; i += 2) {
		const char **to = NULL;
		for (size_t k = 0; k < ARRAY_LEN(known); k++)
			if (strcmp(argv[i], known[k].word) == 0)
				to = known[k].to;
		if (!to || i + 1 == argc)
			return -EINVAL;
		*to = argv[i + 1];
	}
	return ret->iterion && ret->guest ? 0 : -EINVAL;
}

/* A copy that every user may run: the build folder may lie where others cannot look. */
static char *copy_program(const char *from, const char *folder, const char *name, struct err *e)
{
	auto_free char *data = NULL;
	size_t len;
	char *to = path_join(folder, name);

	if (file_read(AT_FDCWD, from, 256 << 20, &data, &len, e) < 0 ||
	    file_replace(AT_FDCWD, to, data, len, 0755, FILE_NO_SYNC, e) < 0) {
		free(to);
		return NULL;
	}
	return to;
}

static char *own_folder(const struct person *p, const char *base, const char *name)
{
	char *path = xasprintf("%s/%s-%s", base, p->name, name);

	if (mkdir(path, 0755) < 0 || (geteuid() == 0 && chown(path, p->uid, p->gid) < 0))
		fprintf(stderr, "iterion-bench: create %s: %s\n", path, strerror(errno));
	return path;
}

/* Where the container engines are, when not in their usual places. */
static const char *const engine_names[] = {
	"DOCKER_HOST",	   "DOCKER_CONFIG", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF",
	"XDG_RUNTIME_DIR",
};

static void person_init(struct person *p, const char *base, const char *memory)
{
	char **env = xcalloc(6 + ARRAY_LEN(engine_names), sizeof *env);
	size_t n = 5;

	p->workspace = own_folder(p, base, "workspace");
	p->home = own_folder(p, base, "home");
	p->store = own_folder(p, base, "store");
	p->memory_store = memory ? own_folder(p, memory, "store") : NULL;
	env[0] = xasprintf("HOME=%s", p->home);
	env[1] = xasprintf("ITERION_HOME=%s", p->store);
	env[2] = xasprintf("USER=%s", p->name);
	env[3] = xstrdup("PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
	env[4] = xstrdup("LANG=C.UTF-8");
	for (size_t i = 0; i < ARRAY_LEN(engine_names); i++)
		if (getenv(engine_names[i]))
			env[n++] = xasprintf("%s=%s", engine_names[i], getenv(engine_names[i]));
	p->env = env;
}

static void person_done(struct person *p)
{
	for (size_t i = 0; p->env[i]; i++)
		free(p->env[i]);
	free(p->env);
	free(p->workspace);
	free(p->home);
	free(p->store);
	free(p->memory_store);
}

static void become(const struct person *p)
{
	if (geteuid() != 0 || p->uid == 0)
		return;
	if (setgroups(0, NULL) < 0 || setresgid(p->gid, p->gid, p->gid) < 0 || setresuid(p->uid, p->uid, p->uid) < 0) {
		fprintf(stderr, "iterion-bench: become %s: %s\n", p->name, strerror(errno));
		_exit(1);
	}
	/* Given up by the change of user; without it /proc/self of what is forked here belongs to root. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static void judge(const struct row *row, struct result *r)
{
	if (r->verdict == MISSING || row->bar == 0)
		return;
	r->bar = row->bar;
	r->verdict = r->figure <= row->bar ? GOOD : OVER;
}

static struct result measure_row(const struct bench *b, const struct row *row)
{
	struct result r = {.verdict = MISSING, .note = "the measurement ended early", .unit = "us"};
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return r;
	pid_t pid = fork();
	if (pid == 0) {
		become(b->who);
		if (chdir(b->who->workspace) < 0)
			_exit(1);
		r.note[0] = '\0';
		row->measure(b, row->arg, &r);
		_exit(fd_write_all(p[1], &r, sizeof r) < 0);
	}
	close_quietly(p[1]);
	struct result got;
	if (read(p[0], &got, sizeof got) == (ssize_t)sizeof got)
		r = got;
	close_quietly(p[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	judge(row, &r);
	return r;
}

static void print_result(const struct row *row, const struct result *r)
{
	if (r->verdict == MISSING) {
		printf("  %-46s not available: %s\n", row->what, r->note);
		return;
	}
	char peer[32] = "", bar[32] = "";
	if (r->peer > 0)
		(void)snprintf(peer, sizeof peer, "%.1f", r->peer);
	if (r->bar > 0)
		(void)snprintf(bar, sizeof bar, "<= %g", r->bar);
	printf("  %-46s %10.1f %10s %-5s %8.3f %8s  %-5s%s\n", row->what, r->ours, peer, r->unit, r->figure, bar,
	       verdict_words[r->verdict], r->note);
}

static void put_result(json_t *list, const struct bench *b, const struct row *row, const struct result *r)
{
	json_t *o = json_object();

	json_put_str(o, "user", b->who->name);
	json_put_str(o, "what", row->what);
	json_put_str(o, "verdict", r->verdict == SHOWN ? "no bar" : verdict_words[r->verdict]);
	if (r->note[0])
		json_put_str(o, "note", r->note);
	if (r->verdict != MISSING) {
		json_put_str(o, "unit", r->unit);
		json_put(o, "ours", json_real(r->ours));
		if (r->peer > 0)
			json_put(o, "peer", json_real(r->peer));
		json_put(o, "figure", json_real(r->figure));
		if (r->bar > 0)
			json_put(o, "bar", json_real(r->bar));
	}
	json_array_append_new(list, o);
}

static void measure_all(struct bench *b, const struct options *o, json_t *list)
{
	printf("as %s (uid %d)\n  %-46s %10s %10s %-5s %8s %8s\n", b->who->name, (int)b->who->uid, "", "ours", "peer",
	       "", "figure", "bar");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (o->only && !strstr(rows[i].what, o->only))
			continue;
		(void)fflush(stdout);
		struct result r = measure_row(b, &rows[i]);
		print_result(&rows[i], &r);
		put_result(list, b, &rows[i], &r);
	}
}

static int write_json(const char *path, json_t *list)
{
	auto_json doc = json_object();
	struct utsname u;
	struct err e = ERR_INIT;

	(void)uname(&u);
	json_put_str(doc, "kernel", u.release);
	json_put_str(doc, "machine", u.machine);
	json_put_int(doc, "processors", sysconf(_SC_NPROCESSORS_ONLN));
	json_put(doc, "rows", json_incref(list));
	auto_free char *text = json_compact(doc);
	if (file_replace(AT_FDCWD, path, text, strlen(text), 0644, FILE_NO_SYNC, &e) == 0)
		return 0;
	fprintf(stderr, "iterion-bench: %s\n", e.msg);
	return -1;
}

static int run(const struct options *o, const char *base, const char *memory)
{
	const struct passwd *ordinary = getpwnam("iterion-test");
	struct person people[2] = {
		{.name = geteuid() ? "user" : "root", .uid = geteuid(), .gid = getegid()},
		{.name = "ordinary",
		 .uid = ordinary ? ordinary->pw_uid : NOBODY,
		 .gid = ordinary ? ordinary->pw_gid : NOBODY},
	};
	struct err e = ERR_INIT;
	auto_free char *iterion = copy_program(o->iterion, base, "iterion", &e);
	auto_free char *guest = iterion ? copy_program(o->guest, base, "iterion-guest", &e) : NULL;
	auto_json list = json_array();

	if (!guest) {
		fprintf(stderr, "iterion-bench: %s\n", e.msg);
		return 1;
	}
	for (size_t i = 0; i < (geteuid() == 0 ? 2 : 1); i++) {
		struct bench b = {.iterion = iterion, .guest = guest, .who = &people[i]};
		person_init(&people[i], base, memory);
		measure_all(&b, o, list);
		person_done(&people[i]);
	}
	return o->json && write_json(o->json, list) < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct options o = {0};
	char base[] = "/tmp/iterion-bench-XXXXXX", memory[] = "/dev/shm/iterion-bench-XXXXXX";
	struct err e = ERR_INIT;

	if (parse_options(argc, argv, &o) < 0) {
		fputs("usage: iterion-bench --iterion FILE --guest FILE [--json FILE] [--only WORD]\n", stderr);
		return 2;
	}
	umask(022);
	if (!mkdtemp(base) || chmod(base, 0755) < 0) {
		fprintf(stderr, "iterion-bench: create %s: %s\n", base, strerror(errno));
		return 1;
	}
	bool in_memory = mkdtemp(memory) && chmod(memory, 0755) == 0;
	int code = run(&o, base, in_memory ? memory : NULL);
	if (tree_remove(AT_FDCWD, base, &e) < 0 || (in_memory && tree_remove(AT_FDCWD, memory, &e) < 0))
		fprintf(stderr, "iterion-bench: %s\n", e.msg);
	return code;
}
