/* The finished program against the profile.
 *
 * The compiler's mistakes would be holes, so every filter is run here, in an interpreter of the few instructions it
 * uses, before it is written: each number up to MAX_CALLS, the numbers of the x32 table and the negative ones, each
 * with every combination of the values that its conditions speak of and their neighbours, with the high half of the
 * argument clear and set. The answer must be the one that the rules give when read in order. */
#include "gen.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>

enum { MAX_EDGES = 4 * MAX_VALUES * MAX_RULES };

static uint32_t by_program(const struct sock_filter *insns, size_t n, const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sock_filter *s = &insns[i];
		switch (s->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (s->k % 4 || s->k + sizeof a > sizeof *d)
				fail("seccomp-gen", 0, "load out of bounds at %zu", i);
			memcpy(&a, (const char *)d + s->k, sizeof a);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= s->k;
			break;
		case BPF_JMP | BPF_JA:
			i += s->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			i += a == s->k ? s->jt : s->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			i += a >= s->k ? s->jt : s->jf;
			break;
		case BPF_RET | BPF_K:
			return s->k;
		default:
			fail("seccomp-gen", 0, "unknown instruction 0x%x at %zu", s->code, i);
		}
	}
	fail("seccomp-gen", 0, "the program runs past its end");
}

static bool cond_holds(const struct cond *c, const struct seccomp_data *d)
{
	uint32_t v = (uint32_t)d->args[c->arg] & c->mask;

	for (size_t i = 0; i < c->n; i++)
		if (v == c->values[i])
			return !c->negate;
	return c->negate;
}

static uint32_t by_rules(const struct profile *p, const struct call *call, const struct seccomp_data *d)
{
	if (d->arch != p->arch)
		return p->foreign_action;
	for (size_t i = 0; call && i < call->n; i++) {
		size_t held = 0;
		while (held < call->rules[i].n && cond_holds(&call->rules[i].conds[held], d))
			held++;
		if (held == call->rules[i].n)
			return call->rules[i].action;
	}
	return p->default_action;
}

static void compare(const struct profile *p, const struct call *call, const struct sock_filter *insns, size_t n,
		    const struct seccomp_data *d)
{
	uint32_t want = by_rules(p, call, d), got = by_program(insns, n, d);

	if (want != got)
		fail("seccomp-gen", 0, "call %d (%s): the program answers 0x%x, the rules say 0x%x", d->nr,
		     call ? call->name : "no rule", got, want);
}

/* The values worth trying for one argument of a call. */
static size_t edges_of(const struct call *call, unsigned arg, uint64_t *edges)
{
	size_t n = 0;

	edges[n++] = 0;
	edges[n++] = UINT64_MAX;
	for (size_t i = 0; i < call->n; i++) {
		for (size_t k = 0; k < call->rules[i].n; k++) {
			const struct cond *c = &call->rules[i].conds[k];
			for (size_t v = 0; c->arg == arg && v < c->n; v++) {
				edges[n++] = c->values[v];
				edges[n++] = c->values[v] | ~c->mask | (uint64_t)1 << 32;
				edges[n++] = c->values[v] + 1;
				edges[n++] = c->values[v] ^ (c->mask & (0u - c->mask));
			}
		}
	}
	return n;
}

/* Every combination of the edges of the arguments from arg on; the depth is the number of arguments. */
static void try_args(const struct profile *p, const struct call *call, const struct sock_filter *insns, size_t n,
		     struct seccomp_data *d, unsigned arg)
{
	static uint64_t edges[6][MAX_EDGES];

	if (arg == 6) {
		compare(p, call, insns, n, d);
		return;
	}
	size_t count = edges_of(call, arg, edges[arg]);
	for (size_t i = 0; i < count; i++) {
		d->args[arg] = edges[arg][i];
		try_args(p, call, insns, n, d, arg + 1);
	}
}

void prove(const struct profile *p, const struct sock_filter *insns, size_t n)
{
	static const uint32_t far_numbers[] = {0x40000000, 0x40000001, 0x40000208, 0x7fffffff, 0x80000000, 0xffffffff};
	size_t k = 0;

	for (uint32_t nr = 0; nr < MAX_CALLS; nr++) {
		while (k < p->n && p->calls[k].nr < nr)
			k++;
		const struct call *call = k < p->n && p->calls[k].nr == nr ? &p->calls[k] : NULL;
		struct seccomp_data d = {.nr = (int)nr, .arch = p->arch};
		compare(p, call, insns, n, &d);
		if (call)
			try_args(p, call, insns, n, &d, 0);
		d.arch = AUDIT_ARCH_I386;
		compare(p, call, insns, n, &d);
		d.arch = AUDIT_ARCH_ARM;
		compare(p, call, insns, n, &d);
	}
	for (size_t i = 0; i < sizeof far_numbers / sizeof far_numbers[0]; i++) {
		struct seccomp_data d = {.nr = (int)far_numbers[i], .arch = p->arch};
		compare(p, NULL, insns, n, &d);
	}
}
