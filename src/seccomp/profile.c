/* Reading of profiles and marks.
 *
 *   ACTION NAME... [if COND [and COND]...]
 *   ACTION   allow | errno NAME | kill
 *   NAME     a system call; ?NAME: one that the target may lack (open on aarch64); NAME=NUMBER: one younger than the
 *            oldest libseccomp that builds this, with the number it has on every architecture (424 and up)
 *   COND     argN [& MASK] == VALUE | != VALUE | in VALUE,VALUE,...     MASK, VALUE: A or A|B|... of names and numbers
 *   default ACTION    answer to calls without a rule
 *   foreign ACTION    answer to calls of another architecture's table
 *
 * '#' starts a comment. The rules of one call are tried in order; a rule after one without conditions could never
 * hold and is a mistake, unless it says the same again. Arguments are compared in their low 32 bits, which is what the
 * kernel reads of every argument that a profile speaks of (int, unsigned int, mode_t, and the flags of clone): a
 * comparison of all 64 could be passed by setting a high bit that the kernel then drops (CVE-2019-10063).
 *
 * In a source file the same rules stand in comments beside the code that makes the calls, one mark a line:
 * "#syscalls:" (allow) or "#syscalls-kill:", then names and conditions. */
#include "gen.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_COMMON_NR = 424 }; /* pidfd_send_signal: from here on all architectures share their numbers */

/* The words of one line, and where it stands. */
struct line {
	const char *file;
	unsigned no;
	char *rest;
};

static char *next_word(struct line *l)
{
	return strtok_r(NULL, " \t\n", &l->rest);
}

bool action_parse(const char *word, const char *errno_name, uint32_t *ret)
{
	uint32_t errnum;

	if (strcmp(word, "allow") == 0)
		*ret = SECCOMP_RET_ALLOW;
	else if (strcmp(word, "kill") == 0)
		*ret = SECCOMP_RET_KILL_PROCESS;
	else if (strcmp(word, "errno") == 0 && errno_name && errno_name[0] == 'E' && symbol_value(errno_name, &errnum))
		*ret = SECCOMP_RET_ERRNO | errnum;
	else
		return false;
	return true;
}

static uint32_t read_action(struct line *l, const char *word)
{
	uint32_t action;
	const char *errno_name = word && strcmp(word, "errno") == 0 ? next_word(l) : NULL;

	if (!word || !action_parse(word, errno_name, &action))
		fail(l->file, l->no, "not an action: %s %s", word ? word : "(nothing)", errno_name ? errno_name : "");
	return action;
}

/* A|B|C as the or of its parts. */
static uint32_t read_value(const struct line *l, char *text)
{
	uint32_t all = 0;
	char *rest;

	for (char *part = strtok_r(text, "|", &rest); part; part = strtok_r(NULL, "|", &rest)) {
		uint32_t v;
		if (!symbol_value(part, &v))
			fail(l->file, l->no, "neither a number nor a known name: %s", part);
		all |= v;
	}
	return all;
}

static char *need_word(struct line *l, const char *what)
{
	char *w = next_word(l);

	if (!w)
		fail(l->file, l->no, "the line ends where %s is expected", what);
	return w;
}

static struct cond read_cond(struct line *l)
{
	struct cond c = {.mask = UINT32_MAX};
	const char *arg = need_word(l, "argN");

	if (strncmp(arg, "arg", 3) != 0 || arg[3] < '0' || arg[3] > '5' || arg[4])
		fail(l->file, l->no, "not an argument (arg0 to arg5): %s", arg);
	c.arg = (unsigned)(arg[3] - '0');
	const char *op = need_word(l, "an operator");
	if (strcmp(op, "&") == 0) {
		c.mask = read_value(l, need_word(l, "a mask"));
		op = need_word(l, "an operator");
	}
	char *values = need_word(l, "a value");
	if (strcmp(op, "in") == 0) {
		char *rest;
		for (char *v = strtok_r(values, ",", &rest); v; v = strtok_r(NULL, ",", &rest)) {
			/* read_value splits at '|' with its own state, so v may be cut. */
			if (c.n == MAX_VALUES)
				fail(l->file, l->no, "more than %d values", MAX_VALUES);
			c.values[c.n++] = read_value(l, v);
		}
	} else if (strcmp(op, "==") == 0 || strcmp(op, "!=") == 0) {
		c.negate = op[0] == '!';
		c.values[c.n++] = read_value(l, values);
	} else {
		fail(l->file, l->no, "not an operator (==, !=, in): %s", op);
	}
	for (size_t i = 0; i < c.n; i++)
		if (c.values[i] & ~c.mask)
			fail(l->file, l->no, "a value has bits outside its mask: the condition could never hold");
	return c;
}

/* The number of NAME, ?NAME or NAME=NUMBER; -1: the target has no such call, and that is fine. */
static int resolve(const struct profile *p, const struct line *l, char *name)
{
	bool optional = name[0] == '?';
	char *number = strchr(name, '=');
	uint32_t given = 0;

	if (number) {
		*number++ = '\0';
		if (!symbol_value(number, &given) || given < FIRST_COMMON_NR || given >= MAX_CALLS)
			fail(l->file, l->no, "%s: a number is given to calls from %d on only", name, FIRST_COMMON_NR);
	}
	int nr = seccomp_syscall_resolve_name_arch(p->libseccomp_arch, name + optional);
	if (nr >= 0 && number && nr != (int)given)
		fail(l->file, l->no, "%s has number %d, not %s", name, nr, number);
	if (nr < 0 && number)
		return (int)given;
	/* A name that no architecture knows is a mistake in the profile, also behind a question mark. */
	if (nr == __NR_SCMP_ERROR)
		fail(l->file, l->no, "no system call is named %s", name + optional);
	if (nr < 0 && !optional)
		fail(l->file, l->no, "the target has no %s; write ?%s when it may be missing", name, name);
	return nr < 0 ? -1 : nr;
}

static struct call *find_call(struct profile *p, uint32_t nr)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->calls[i].nr == nr)
			return &p->calls[i];
	return NULL;
}

static void add_rule(struct profile *p, const struct line *l, uint32_t nr, const char *name, const struct rule *r)
{
	struct call *c = find_call(p, nr);

	if (!c) {
		if (p->n == MAX_CALLS)
			fail(l->file, l->no, "more than %d system calls", MAX_CALLS);
		c = &p->calls[p->n++];
		*c = (struct call){.nr = nr};
		snprintf(c->name, sizeof c->name, "%s", name);
	}
	if (c->n && c->rules[c->n - 1].n == 0) {
		if (c->rules[c->n - 1].action == r->action && r->n == 0)
			return;
		fail(l->file, l->no, "%s: a rule without conditions before it: this one can never hold", name);
	}
	if (c->n == MAX_RULES)
		fail(l->file, l->no, "%s: more than %d rules", name, MAX_RULES);
	c->rules[c->n++] = *r;
}

/* NAME... [if COND [and COND]...] */
static void read_rule(struct profile *p, struct line *l, uint32_t action)
{
	char *names[256];
	size_t n = 0;
	struct rule r = {.action = action};
	char *w;

	while ((w = next_word(l)) && strcmp(w, "if") != 0) {
		if (n == sizeof names / sizeof names[0])
			fail(l->file, l->no, "too many names in a line");
		names[n++] = w;
	}
	if (n == 0)
		fail(l->file, l->no, "no system call is named");
	while (w) {
		if (r.n == MAX_CONDS)
			fail(l->file, l->no, "more than %d conditions", MAX_CONDS);
		r.conds[r.n++] = read_cond(l);
		w = next_word(l);
		if (w && strcmp(w, "and") != 0)
			fail(l->file, l->no, "\"and\" is expected, not %s", w);
	}
	for (size_t i = 0; i < n; i++) {
		int nr = resolve(p, l, names[i]);
		if (nr >= 0)
			add_rule(p, l, (uint32_t)nr, names[i] + (names[i][0] == '?'), &r);
	}
}

static void read_profile_line(struct profile *p, struct line *l, char *text)
{
	text[strcspn(text, "#")] = '\0';
	const char *word = strtok_r(text, " \t\n", &l->rest);
	if (!word)
		return;
	if (strcmp(word, "default") == 0)
		p->default_action = read_action(l, next_word(l));
	else if (strcmp(word, "foreign") == 0)
		p->foreign_action = read_action(l, next_word(l));
	else
		read_rule(p, l, read_action(l, word));
}

static void read_mark_line(struct profile *p, struct line *l, char *text)
{
	static const struct {
		const char *mark;
		uint32_t action;
	} marks[] = {
		{"#syscalls:", SECCOMP_RET_ALLOW},
		{"#syscalls-kill:", SECCOMP_RET_KILL_PROCESS},
	};

	char *at = strstr(text, "#syscalls");
	if (!at)
		return;
	char *end = strstr(at, "*/");
	if (end)
		*end = '\0';
	const char *word = strtok_r(at, " \t\n", &l->rest);
	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
		if (strcmp(word, marks[i].mark) == 0) {
			read_rule(p, l, marks[i].action);
			return;
		}
	}
	fail(l->file, l->no, "not a mark (#syscalls: or #syscalls-kill:): %s", word);
}

static void read_lines(struct profile *p, const char *path,
		       void (*read_line)(struct profile *p, struct line *l, char *text))
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t cap = 0;
	struct line l = {.file = path};

	if (!f)
		fail(path, 0, "%s", strerror(errno));
	while (getline(&text, &cap, f) >= 0) {
		l.no++;
		read_line(p, &l, text);
	}
	free(text);
	if (ferror(f))
		fail(path, 0, "cannot be read");
	fclose(f);
}

void profile_read(struct profile *p, const char *path)
{
	read_lines(p, path, read_profile_line);
}

void profile_read_marks(struct profile *p, const char *path)
{
	read_lines(p, path, read_mark_line);
}

static int by_number(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	return x->nr < y->nr ? -1 : x->nr > y->nr;
}

void profile_sort(struct profile *p)
{
	qsort(p->calls, p->n, sizeof *p->calls, by_number);
}
