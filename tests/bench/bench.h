/* Private to the measurements. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whoever the programs of a row run as, in folders of his own. */
struct person {
	const char *name;
	uid_t uid;
	gid_t gid;
	char *workspace;
	char *home;
	char *store;	    /* on the disk */
	char *memory_store; /* on a tmpfs; NULL: there is none */
	char **env;	    /* the environment of what is measured */
};

struct bench {
	const char *iterion; /* a copy that anybody may run, with the guest beside it */
	const char *guest;
	const struct person *who;
};

enum verdict {
	MISSING, /* not measured; note says why */
	SHOWN,	 /* measured; nothing was promised */
	GOOD,
	OVER,
};

/* What a row found. Goes through a pipe as it is. */
struct result {
	double ours;   /* in unit */
	double peer;   /* in unit; 0: none */
	double figure; /* what the bar speaks of: a ratio, or ours */
	double bar;    /* 0: none */
	char unit[8];  /* of ours and peer: us, MiB, calls */
	enum verdict verdict;
	char note[256];
};

struct row {
	const char *what;
	double bar;
	void (*measure)(const struct bench *b, const char *arg, struct result *ret);
	const char *arg;
};

enum { MAX_ROUNDS = 401 };

/* Not measured, for this reason. */
void miss(struct result *ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

double median(double *v, size_t n);

/* Starts argv as posix_spawnp does, stdio on /dev/null, waits for its end. Microseconds, or -1 when it did not end with
 * status 0. */
double time_command(const struct bench *b, const char *const *argv);

/* Runs argv once to see that it works; else the reason (the last line it wrote to stderr) goes to ret and the answer is
 * false. */
bool works(const struct bench *b, const char *const *argv, struct result *ret);

/* Both in turn, rounds times; the medians and their ratio. */
void compare(const struct bench *b, const char *const *ours, const char *const *peer, size_t rounds,
	     struct result *ret);

/* Whether a run's store lies on the disk, where the checkpoint's one fsync takes as long as the disk likes (often
 * longer than all else together), or on a tmpfs, where what remains is our own work. */
#define STORE_ON_DISK "disk"
#define STORE_IN_MEMORY "memory"

/* Appends bubblewrap's options for exactly the mounts that a native sandbox has here; false with the reason in ret. */
struct strv;
bool same_view(const struct bench *b, struct strv *l, struct result *ret);

/* The folder of that store; NULL with the reason in ret. */
const char *store_folder(const struct bench *b, const char *where, struct result *ret);

/* Puts a file into the person's workspace; the answer is its path, which the caller frees. */
char *workspace_file(const struct bench *b, const char *name, const char *text, size_t len);

/* A workflow of n tool nodes that run `command` one after the other; the caller frees it. */
char *workflow_text(size_t n, const char *command, const char *sandbox_block);

extern const char allowlist_block[];

/* Rows; `arg` is said where there is one. */
void measure_run(const struct bench *b, const char *store, struct result *ret);
void measure_version(const struct bench *b, const char *arg, struct result *ret);
void measure_validate(const struct bench *b, const char *arg, struct result *ret);
void measure_node(const struct bench *b, const char *store, struct result *ret);
void measure_syncs(const struct bench *b, const char *arg, struct result *ret);
void measure_crowd(const struct bench *b, const char *store, struct result *ret);
void measure_parse(const struct bench *b, const char *arg, struct result *ret);
void measure_linear(const struct bench *b, const char *arg, struct result *ret);
void measure_exec(const struct bench *b, const char *driver, struct result *ret);
void measure_host_memory(const struct bench *b, const char *command, struct result *ret);
void measure_guest_memory(const struct bench *b, const char *command, struct result *ret);
void measure_runner_start(const struct bench *b, const char *arg, struct result *ret);
void measure_runner_memory(const struct bench *b, const char *arg, struct result *ret);
void measure_engine_run(const struct bench *b, const char *engine, struct result *ret);
void measure_native_to_engine(const struct bench *b, const char *engine, struct result *ret);
void measure_engine_exec(const struct bench *b, const char *engine, struct result *ret);

/* An image that is on this machine already, for an engine that answers; NULL with the reason in ret. The caller frees.
 */
char *engine_image(const struct bench *b, const char *engine, struct result *ret);
/* A session of this driver (NULL: native without an image): the median of one more exec of /bin/true, against what
 * time_command says of peer in the same rounds. */
void compare_exec(const struct bench *b, const char *driver, const char *image, const char *const *peer,
		  struct result *ret);
