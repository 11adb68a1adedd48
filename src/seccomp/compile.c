/* Rules to BPF.
 *
 * The numbers fall into runs with one answer each (most calls are allowed, and neighbours are alike), so the program
 * is a binary tree over the starts of the runs: six or seven comparisons for any call, where a list in order would take
 * hundreds. Calls whose answer hangs on an argument are runs of their own, with their rules behind the leaf. The kernel
 * finds by itself the calls that are allowed whatever their arguments and skips the filter for those (5.11 and later).
 *
 * BPF jumps go forward only and conditional ones reach 255 instructions. The program is therefore written from its end
 * to its start: every target exists before the jump to it, and how far it is away is known. Places are counted from the
 * end (the last instruction is place 1); a target out of reach gets a long jump beside its user. */
#include "gen.h"

#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>

enum { REACH = 255, MAX_RETURNS = 16 };

/* A run of numbers: from start up to the next run's start. */
struct run {
	uint32_t start;
	uint32_t action;
	const struct call *call; /* NULL: action whatever the arguments are */
};

struct code {
	struct sock_filter *end; /* one behind the room; instructions grow down from here */
	size_t n;
	/* Where each return was written last. */
	struct {
		uint32_t action;
		size_t place;
	} returns[MAX_RETURNS];
	size_t n_returns;
	uint32_t default_action;
};

static size_t put(struct code *c, uint16_t op, size_t jt, size_t jf, uint32_t k)
{
	if (c->n == MAX_INSNS)
		fail("seccomp-gen", 0, "the filter is longer than the kernel takes (%d)", MAX_INSNS);
	c->n++;
	*(c->end - c->n) = (struct sock_filter){.code = op, .jt = (uint8_t)jt, .jf = (uint8_t)jf, .k = k};
	return c->n;
}

/* How many instructions lie between the next one to be written and the target, when extra ones come between. */
static size_t distance(const struct code *c, size_t target, size_t extra)
{
	return c->n + extra - target;
}

/* The target itself, or a long jump to it when it may be out of reach for the instruction after next. */
static size_t near(struct code *c, size_t target)
{
	if (distance(c, target, 1) <= REACH)
		return target;
	return put(c, BPF_JMP | BPF_JA, 0, 0, (uint32_t)distance(c, target, 0));
}

static size_t put_branch(struct code *c, uint16_t op, uint32_t k, size_t yes, size_t no)
{
	if (yes == no)
		return yes;
	yes = near(c, yes);
	no = near(c, no);
	return put(c, (uint16_t)(BPF_JMP | op | BPF_K), distance(c, yes, 0), distance(c, no, 0), k);
}

static size_t put_return(struct code *c, uint32_t action)
{
	size_t i = 0;

	while (i < c->n_returns && c->returns[i].action != action)
		i++;
	if (i < c->n_returns && distance(c, c->returns[i].place, 1) <= REACH)
		return c->returns[i].place;
	if (i == MAX_RETURNS)
		fail("seccomp-gen", 0, "more than %d different answers", MAX_RETURNS);
	if (i == c->n_returns)
		c->n_returns++;
	c->returns[i].action = action;
	c->returns[i].place = put(c, BPF_RET | BPF_K, 0, 0, action);
	return c->returns[i].place;
}

static size_t put_load(struct code *c, size_t offset)
{
	return put(c, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

/* Goes to yes or no by one condition. */
static size_t put_cond(struct code *c, const struct cond *cond, size_t yes, size_t no)
{
	size_t hit = cond->negate ? no : yes, next = cond->negate ? yes : no;

	for (size_t i = cond->n; i > 0; i--)
		next = put_branch(c, BPF_JEQ, cond->values[i - 1], hit, next);
	if (cond->mask != UINT32_MAX)
		put(c, BPF_ALU | BPF_AND | BPF_K, 0, 0, cond->mask);
	/* The low half comes first on every architecture that is built for: all are little-endian. */
	return put_load(c, offsetof(struct seccomp_data, args) + cond->arg * sizeof(uint64_t));
}

/* The rules of one call, tried in order. */
static size_t put_call(struct code *c, const struct call *call)
{
	size_t next = put_return(c, c->default_action);

	for (size_t i = call->n; i > 0; i--) {
		const struct rule *r = &call->rules[i - 1];
		size_t at = put_return(c, r->action);
		for (size_t k = r->n; k > 0; k--)
			at = put_cond(c, &r->conds[k - 1], at, next);
		next = at;
	}
	return next;
}

/* The tree over runs[0..n). */
static size_t put_tree(struct code *c, const struct run *runs, size_t n)
{
	if (n == 1)
		return runs->call ? put_call(c, runs->call) : put_return(c, runs->action);
	size_t half = n / 2;
	size_t high = put_tree(c, runs + half, n - half);
	size_t low = put_tree(c, runs, half);
	return put_branch(c, BPF_JGE, runs[half].start, high, low);
}

static size_t add_run(struct run *runs, size_t n, struct run r)
{
	if (n && !runs[n - 1].call && !r.call && runs[n - 1].action == r.action)
		return n;
	runs[n] = r;
	return n + 1;
}

/* The calls are sorted; what lies between them has the default's answer. */
static size_t make_runs(const struct profile *p, struct run *runs)
{
	size_t n = 0;
	uint32_t next = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct call *c = &p->calls[i];
		bool constant = c->rules[0].n == 0;
		if (c->nr > next)
			n = add_run(runs, n, (struct run){.start = next, .action = p->default_action});
		n = add_run(runs, n,
			    (struct run){.start = c->nr,
					 .action = constant ? c->rules[0].action : 0,
					 .call = constant ? NULL : c});
		next = c->nr + 1;
	}
	return add_run(runs, n, (struct run){.start = next, .action = p->default_action});
}

size_t compile(const struct profile *p, struct sock_filter insns[MAX_INSNS])
{
	static struct run runs[2 * MAX_CALLS + 1];
	struct code c = {.end = insns + MAX_INSNS, .default_action = p->default_action};

	size_t tree = put_tree(&c, runs, make_runs(p, runs));
	if (tree != c.n)
		put(&c, BPF_JMP | BPF_JA, 0, 0, (uint32_t)distance(&c, tree, 0));
	size_t native = put_load(&c, offsetof(struct seccomp_data, nr));
	size_t foreign = put_return(&c, p->foreign_action);
	put_branch(&c, BPF_JEQ, p->arch, native, foreign);
	put_load(&c, offsetof(struct seccomp_data, arch));
	memmove(insns, c.end - c.n, c.n * sizeof *insns);
	return c.n;
}
