/* Questions to the machine, each asked in a process of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;

enum finding_status { FINDING_UNKNOWN, FINDING_YES, FINDING_NO };

/* Small enough for one atomic write into a pipe. */
struct finding {
	enum finding_status status;
	char detail[1024];
	char hint[512]; /* empty: nothing to do */
};

struct question {
	const char *id;
	/* Fills ret, which is unknown at first. Runs in a child that is ended behind it, so it may change its own
	 * process as it likes, wait, and leave things behind. */
	void (*ask)(const struct question *q, struct finding *ret);
	const void *arg;
};

void finding_set(struct finding *f, enum finding_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void finding_hint(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *finding_status_name(enum finding_status s);

/* Asks all at the same time; answers[i] is that of v[i]. One that does not come within the time is unknown, and says
 * so. Returns 0, or -errno when no process could be made for one. */
int questions_ask(const struct question *v, size_t n, unsigned timeout_ms, struct finding *answers, struct err *e)
	__attribute__((warn_unused_result));

struct buf;
struct sandbox_limits;
/* Appends who would hold these limits of a native sandbox, and to weaker how the first that is weaker is. Returns false
 * when there is no such driver. */
bool describe_limits(const struct sandbox_limits *l, struct buf *to, struct buf *weaker);

/* The tables of the other files. */
extern const struct question host_questions[];
extern const size_t n_host_questions;
extern const struct question version_questions[];
extern const size_t n_version_questions;
