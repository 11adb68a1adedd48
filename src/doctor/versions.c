/* Which programs are there, and of which version: each is asked itself. */
#include "program.h"
#include "question.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/mem.h>

#include <string.h>

enum { ANSWER_LIMIT = 64 * 1024 };

struct program {
	const char *words[6];	  /* NULL-terminated */
	const char *otherwise[3]; /* asked when those fail, since a part of it may be missing; or empty */
};

static void version(const struct question *q, struct finding *f)
{
	const struct program *p = q->arg;
	auto_free char *file = program_find(p->words[0]);
	auto_buf said = BUF_INIT(ANSWER_LIMIT);

	if (!file) {
		finding_set(f, FINDING_NO, "not on PATH");
		return;
	}
	int r = program_ask(file, p->words, &said);
	if (r != 0 && p->otherwise[0]) {
		buf_clear(&said);
		r = program_ask(file, p->otherwise, &said);
	}
	auto_free char *line = xstrndup(buf_str(&said), strcspn(buf_str(&said), "\n"));
	if (r == 0)
		finding_set(f, FINDING_YES, "%.300s (%.300s)", line, file);
	else
		finding_set(f, FINDING_NO, "%.300s does not say: %.300s", file, *line ? line : "it failed");
}

static const struct program docker = {
	{"docker", "version", "--format", "client {{.Client.Version}}, server {{.Server.Version}}", NULL},
	{"docker", "--version", NULL},
};
static const struct program buildx = {{"docker", "buildx", "version", NULL}, {NULL}};
static const struct program podman = {{"podman", "--version", NULL}, {NULL}};
static const struct program kubectl = {{"kubectl", "version", "--client", NULL}, {NULL}};
static const struct program pasta = {{"pasta", "--version", NULL}, {NULL}};
static const struct program git = {{"git", "--version", NULL}, {NULL}};

const struct question version_questions[] = {
	{"docker", version, &docker},	{"docker_buildx", version, &buildx}, {"podman", version, &podman},
	{"kubectl", version, &kubectl}, {"pasta", version, &pasta},	     {"git", version, &git},
};
const size_t n_version_questions = ARRAY_LEN(version_questions);
