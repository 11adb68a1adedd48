/* Makes a seccomp filter when iterion is built, as a C header.
 *
 * A run must not pay for building a filter, and a sandbox must not depend on a library being there, so the finished
 * program is part of the binary. The call numbers of the target come from libseccomp's tables, which know every
 * architecture on every other. The rest is ours because a profile needs what libseccomp's rules cannot say: rules of
 * one call that are tried in order, each with its own answer (an unknown address family gets EAFNOSUPPORT, a raw
 * socket EPERM), beside a default for calls that did not exist when the profile was written (ENOSYS).
 *
 *   profile.c   text to rules          compile.c   rules to BPF
 *   symbols.c   names to numbers       prove.c     BPF against the rules, for every call number
 *
 * It runs on the machine that builds, so any mistake ends it with a message, and the build with it. */
#include "gen.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *file, unsigned line, const char *fmt, ...)
{
	va_list ap;

	if (line)
		fprintf(stderr, "%s:%u: ", file, line);
	else
		fprintf(stderr, "%s: ", file);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

struct options {
	const char *name;
	const char *output;
	const char *arch;
	const char *profile;
	const char *default_errno;
	char **marks;
	int n_marks;
};

static const char usage[] = "usage: seccomp-gen --name NAME --arch x86_64|aarch64 --output FILE\n"
			    "                   [--default ERRNO] [--profile FILE] [--marks FILE...]\n";

static struct options parse_options(int argc, char **argv)
{
	struct options o = {0};
	const struct {
		const char *word;
		const char **to;
	} rows[] = {
		{"--name", &o.name},	   {"--output", &o.output},	    {"--arch", &o.arch},
		{"--profile", &o.profile}, {"--default", &o.default_errno},
	};

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--marks") == 0) {
			o.marks = argv + i + 1;
			o.n_marks = argc - i - 1;
			break;
		}
		const char **to = NULL;
		for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
			if (strcmp(argv[i], rows[k].word) == 0)
				to = rows[k].to;
		if (!to || i + 1 == argc)
			fail("seccomp-gen", 0, "unknown or incomplete option %s\n%s", argv[i], usage);
		*to = argv[++i];
	}
	if (!o.name || !o.output || !o.arch || (!o.profile && !o.n_marks))
		fail("seccomp-gen", 0, "too few options\n%s", usage);
	return o;
}

static void set_arch(struct profile *p, const char *arch)
{
	static const struct {
		const char *name;
		uint32_t audit;
		uint32_t libseccomp;
	} rows[] = {
		{"x86_64", AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64},
		{"aarch64", AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (strcmp(arch, rows[i].name) == 0) {
			p->arch = rows[i].audit;
			p->libseccomp_arch = rows[i].libseccomp;
			return;
		}
	}
	fail("seccomp-gen", 0, "no filter is made for the architecture %s", arch);
}

/* Lists what the tables know and the profile leaves to its default: whoever changes the profile wants to see it. */
static void write_unlisted(FILE *f, const struct profile *p)
{
	size_t k = 0;
	int column = 0;

	fputs("/* Left to the default:", f);
	for (uint32_t nr = 0; nr < MAX_CALLS; nr++) {
		while (k < p->n && p->calls[k].nr < nr)
			k++;
		if (k < p->n && p->calls[k].nr == nr)
			continue;
		char *name = seccomp_syscall_resolve_num_arch(p->libseccomp_arch, (int)nr);
		if (name) {
			fprintf(f, "%s%s", column % 8 ? " " : "\n * ", name);
			column++;
		}
		free(name);
	}
	fputs(" */\n", f);
}

static void write_header(const struct options *o, const struct profile *p, const struct sock_filter *insns, size_t n)
{
	FILE *f = fopen(o->output, "we");

	if (!f)
		fail(o->output, 0, "%s", strerror(errno));
	fprintf(f,
		"/* Seccomp filter for %s, made by seccomp-gen: change the profile or the marks, not this file.\n"
		" * %zu instructions, %zu calls with rules. */\n",
		o->arch, n, p->n);
	write_unlisted(f, p);
	fputs("#pragma once\n\n#include <linux/filter.h>\n\n", f);
	fprintf(f, "enum { %s_filter_len = %zu };\n\n", o->name, n);
	fprintf(f, "static const struct sock_filter %s_filter[] = {\n", o->name);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s{0x%02x, %u, %u, 0x%08x},%s", i % 4 ? "" : "\t", insns[i].code, insns[i].jt, insns[i].jf,
			insns[i].k, i % 4 == 3 || i + 1 == n ? "\n" : " ");
	fputs("};\n", f);
	if (fclose(f) != 0)
		fail(o->output, 0, "%s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct options o = parse_options(argc, argv);
	struct profile p = {.default_action = SECCOMP_RET_ERRNO | EPERM, .foreign_action = SECCOMP_RET_KILL_PROCESS};
	static struct sock_filter insns[MAX_INSNS];

	set_arch(&p, o.arch);
	p.calls = calloc(MAX_CALLS, sizeof *p.calls);
	if (!p.calls)
		fail("seccomp-gen", 0, "out of memory");
	if (o.default_errno && !action_parse("errno", o.default_errno, &p.default_action))
		fail("seccomp-gen", 0, "--default: no errno is named %s", o.default_errno);
	if (o.profile)
		profile_read(&p, o.profile);
	for (int i = 0; i < o.n_marks; i++)
		profile_read_marks(&p, o.marks[i]);
	profile_sort(&p);
	size_t n = compile(&p, insns);
	prove(&p, insns, n);
	write_header(&o, &p, insns, n);
	free(p.calls);
	return 0;
}
