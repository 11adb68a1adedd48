/* Rows that need no container engine: whole runs against bubblewrap, the engine's own cost, short commands. */
#include "bench.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
	ROUNDS_RUN = 61,
	ROUNDS_SHORT = 101,
	ROUNDS_LONG = 11,
	ROUNDS_CHAIN = 25,
	CHAIN = 50,
	FEW = 10,
	MANY = 200,
	CROWD_ROUNDS = 3
};

/* bubblewrap with the view of the native sandbox. */
static bool bubblewrap(const struct bench *b, struct strv *l, struct result *ret)
{
	const char *const rest[] = {"--chdir", b->who->workspace, "--unshare-all", "sh", "-c", "true"};

	strv_add(l, "bwrap");
	if (!same_view(b, l, ret))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(rest); i++)
		strv_add(l, rest[i]);
	return true;
}

static const char *const *words(const struct strv *l)
{
	return (const char *const *)l->v;
}

void measure_run(const struct bench *b, const char *store, struct result *ret)
{
	const char *folder = store_folder(b, store, ret);
	auto_strv peer = {0};
	auto_free char *text = workflow_text(1, "true", allowlist_block);
	auto_free char *file = workspace_file(b, "run.bot", text, strlen(text));
	const char *const ours[] = {b->iterion,	       "run", "--quiet", "--sandbox-driver", "native", "--workspace",
				    b->who->workspace, file,  NULL};

	if (!folder || !bubblewrap(b, &peer, ret))
		return;
	compare(b, ours, words(&peer), ROUNDS_RUN, ret);
}

void measure_version(const struct bench *b, const char *arg, struct result *ret)
{
	(void)arg;
	const char *const ours[] = {b->iterion, "version", NULL};
	const char *const peer[] = {"true", NULL};

	compare(b, ours, peer, ROUNDS_SHORT, ret);
}

void measure_validate(const struct bench *b, const char *arg, struct result *ret)
{
	(void)arg;
	auto_free char *text = workflow_text(3, "echo one", allowlist_block);
	auto_free char *file = workspace_file(b, "small.bot", text, strlen(text));
	const char *const ours[] = {b->iterion, "validate", file, NULL};
	const char *const peer[] = {"true", NULL};

	compare(b, ours, peer, ROUNDS_SHORT, ret);
	ret->figure = ret->ours / (2 * ret->peer + 1000);
}

/* A workflow file of n nodes, three lines each and one an edge; the caller frees its path. */
static char *long_file(const struct bench *b, const char *name, size_t n, size_t *ret_lines)
{
	auto_free char *text = workflow_text(n, "echo {{vars.v}}", "  sandbox: none\n");
	auto_buf whole = BUF_INIT(16 * 1024 * 1024);

	(void)buf_puts(&whole, "vars:\n  v: string = \"x\"\n\n");
	(void)buf_puts(&whole, text);
	*ret_lines = 0;
	for (const char *p = buf_str(&whole); (p = strchr(p, '\n')); p++)
		++*ret_lines;
	return workspace_file(b, name, buf_str(&whole), whole.len);
}

void measure_linear(const struct bench *b, const char *arg, struct result *ret)
{
	(void)arg;
	size_t many, few;
	auto_free char *large = long_file(b, "large.bot", 24999, &many), *small = long_file(b, "small.bot", 1249, &few);
	const char *const ours[] = {b->iterion, "validate", large, NULL};
	const char *const peer[] = {b->iterion, "validate", small, NULL};

	compare(b, ours, peer, ROUNDS_LONG, ret);
	if (ret->verdict == MISSING)
		return;
	ret->figure = (ret->ours / (double)many) / (ret->peer / (double)few);
	(void)snprintf(ret->note, sizeof ret->note, "%zu to %zu lines, by the line", many, few);
}

void measure_parse(const struct bench *b, const char *arg, struct result *ret)
{
	(void)arg;
	size_t lines;
	auto_free char *file = long_file(b, "long.bot", 1249, &lines);
	const char *const ours[] = {b->iterion, "validate", file, NULL};
	const char *const peer[] = {b->iterion, "version", NULL};

	compare(b, ours, peer, ROUNDS_SHORT, ret);
	if (ret->verdict == MISSING)
		return;
	ret->figure = (ret->ours - ret->peer) / 1e3;
	(void)snprintf(ret->note, sizeof ret->note, "%zu lines; ms above a start of the program", lines);
}

static const char noop_block[] = "";

void measure_node(const struct bench *b, const char *store, struct result *ret)
{
	const char *folder = store_folder(b, store, ret);
	double per_node[ROUNDS_CHAIN], spawn[ROUNDS_CHAIN];
	auto_free char *one = workflow_text(1, "true", noop_block);
	auto_free char *chain = workflow_text(CHAIN, "true", noop_block);
	auto_free char *one_file = workspace_file(b, "one.bot", one, strlen(one));
	auto_free char *chain_file = workspace_file(b, "chain.bot", chain, strlen(chain));
	const char *const run_one[] = {b->iterion,	   "run",    "--quiet",
				       "--sandbox-driver", "noop",   "--workspace",
				       b->who->workspace,  one_file, NULL};
	const char *const run_chain[] = {b->iterion,	     "run",	 "--quiet",
					 "--sandbox-driver", "noop",	 "--workspace",
					 b->who->workspace,  chain_file, NULL};
	const char *const sh[] = {"/bin/sh", "-c", "true", NULL};

	if (!folder || !works(b, run_one, ret) || !works(b, run_chain, ret))
		return;
	for (size_t i = 0; i < ROUNDS_CHAIN; i++) {
		double first = time_command(b, run_one), all = time_command(b, run_chain);
		if (first < 0 || all < 0) {
			miss(ret, "a run failed in round %zu", i + 1);
			return;
		}
		spawn[i] = 0;
		for (size_t k = 1; k < CHAIN; k++)
			spawn[i] += time_command(b, sh) / (CHAIN - 1);
		per_node[i] = (all - first) / (CHAIN - 1);
	}
	ret->ours = median(per_node, ROUNDS_CHAIN);
	ret->peer = median(spawn, ROUNDS_CHAIN);
	ret->figure = ret->ours / ret->peer;
	ret->verdict = SHOWN;
}

/* How often a run of n nodes asks the disk to write; -1 when it cannot be counted. */
static int count_syncs(const struct bench *b, size_t n, struct result *ret)
{
	auto_free char *text = workflow_text(n, "true", noop_block);
	auto_free char *file = workspace_file(b, "syncs.bot", text, strlen(text));
	auto_free char *out = path_join(b->who->workspace, "syncs.txt");
	const char *const argv[] = {"strace",
				    "-f",
				    "-qq",
				    "-e",
				    "trace=fsync,fdatasync,sync_file_range,syncfs",
				    "-o",
				    out,
				    b->iterion,
				    "run",
				    "--quiet",
				    "--sandbox-driver",
				    "noop",
				    "--workspace",
				    b->who->workspace,
				    file,
				    NULL};
	auto_free char *log = NULL;
	int calls = 0;

	if (!works(b, argv, ret) || file_read(AT_FDCWD, out, 1 << 24, &log, NULL, NULL) < 0)
		return -1;
	for (const char *p = log; (p = strstr(p, "sync(")); p++)
		calls++;
	return calls;
}

void measure_syncs(const struct bench *b, const char *arg, struct result *ret)
{
	(void)arg;
	int one = count_syncs(b, 1, ret), chain = one < 0 ? -1 : count_syncs(b, CHAIN, ret);

	if (one < 0 || chain < 0)
		return;
	(void)snprintf(ret->unit, sizeof ret->unit, "calls");
	ret->ours = ret->figure = (double)(chain - one) / (CHAIN - 1);
	ret->verdict = SHOWN;
	(void)snprintf(ret->note, sizeof ret->note, "%d in a run of one node", one);
}

/* n runs at once: microseconds a run, or -1. */
static double crowd(const struct bench *b, const char *const *argv, size_t n)
{
	pid_t pids[MANY];
	bool good = true;
	posix_spawn_file_actions_t quiet;
	union {
		const char *const *is;
		char *const *wanted;
	} words_of = {.is = argv};

	posix_spawn_file_actions_init(&quiet);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", O_RDWR, 0);
	uint64_t begin = clock_ns();
	size_t started = 0;
	while (started < n && posix_spawn(&pids[started], argv[0], &quiet, NULL, words_of.wanted, b->who->env) == 0)
		started++;
	for (size_t i = 0; i < started; i++) {
		int status;
		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		good = good && status == 0;
	}
	posix_spawn_file_actions_destroy(&quiet);
	return good && started == n ? (double)(clock_ns() - begin) / 1e3 / (double)n : -1;
}

void measure_crowd(const struct bench *b, const char *store, struct result *ret)
{
	const char *folder = store_folder(b, store, ret);
	double few[CROWD_ROUNDS], many[CROWD_ROUNDS];
	auto_free char *text = workflow_text(1, "true", allowlist_block);
	auto_free char *file = workspace_file(b, "crowd.bot", text, strlen(text));
	const char *const argv[] = {b->iterion,	       "run", "--quiet", "--sandbox-driver", "native", "--workspace",
				    b->who->workspace, file,  NULL};

	if (!folder || !works(b, argv, ret))
		return;
	for (size_t i = 0; i < CROWD_ROUNDS; i++) {
		double three[3];
		for (size_t k = 0; k < ARRAY_LEN(three); k++)
			three[k] = crowd(b, argv, FEW);
		few[i] = median(three, ARRAY_LEN(three));
		many[i] = crowd(b, argv, MANY);
		if (three[0] < 0 || many[i] < 0) {
			miss(ret, "not all of %d runs at once ended well", three[0] < 0 ? FEW : MANY);
			return;
		}
	}
	ret->ours = median(many, CROWD_ROUNDS);
	ret->peer = median(few, CROWD_ROUNDS);
	ret->figure = ret->ours / ret->peer;
	ret->verdict = SHOWN;
}
