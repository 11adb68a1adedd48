/* Private to the generator: what a profile says, and the program made of it. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_CALLS = 1024, MAX_RULES = 24, MAX_CONDS = 4, MAX_VALUES = 16, MAX_INSNS = BPF_MAXINSNS };

/* One test of an argument's low 32 bits: (arg & mask) is, or is not, one of the values. */
struct cond {
	unsigned arg;
	uint32_t mask;
	bool negate;
	size_t n;
	uint32_t values[MAX_VALUES];
};

/* All conditions hold: action. The first rule of a call that holds decides. */
struct rule {
	uint32_t action; /* SECCOMP_RET_… with its data */
	size_t n;
	struct cond conds[MAX_CONDS];
};

struct call {
	uint32_t nr;
	char name[32];
	size_t n;
	struct rule rules[MAX_RULES];
};

struct profile {
	uint32_t arch;		  /* AUDIT_ARCH_… */
	uint32_t libseccomp_arch; /* SCMP_ARCH_… */
	uint32_t default_action;  /* calls without a rule, and rules that ran out */
	uint32_t foreign_action;  /* calls of another architecture's table */
	struct call *calls;	  /* room for MAX_CALLS; sorted by number after profile_sort */
	size_t n;
};

/* Ends the program: "file:line: text" (line 0: no place). */
void fail(const char *file, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4), noreturn));

/* The value of a symbol (AF_UNIX, EPERM, …) or of a number in C's notation; false when it is neither. */
bool symbol_value(const char *word, uint32_t *ret);

/* Adds the rules of a profile file, or those in a source file's marks. Both end the program on any mistake. */
void profile_read(struct profile *p, const char *path);
void profile_read_marks(struct profile *p, const char *path);
/* "allow", "kill", "errno" NAME; false when it is none of them. */
bool action_parse(const char *word, const char *errno_name, uint32_t *ret);
void profile_sort(struct profile *p);

/* Writes the program and returns its length. */
size_t compile(const struct profile *p, struct sock_filter insns[MAX_INSNS]);

/* Runs the program against the profile over every number and the edges of every argument; ends the program when they
 * disagree. */
void prove(const struct profile *p, const struct sock_filter *insns, size_t n);
