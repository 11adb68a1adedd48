/* The attack suite's one program inside the sandbox: it really tries the forbidden thing that its first argument names,
 * and says in one line what the kernel answered.
 *
 * It is static, so that it runs in a sandbox that has no libraries, and it is the same file that the tests run outside
 * to show that the attempt means something there. It never decides what is right: the tests compare. An attempt that
 * may be answered by a fatal signal (a seccomp filter can kill) is made in a child, whose signal is reported as
 * "signal NAME". */
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct attempt *const tables[] = {
	file_attempts, kernel_attempts, namespace_attempts, net_attempts, process_attempts,
};

static char detail_text[4096];

void detail(const char *fmt, ...)
{
	size_t used = strlen(detail_text);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(detail_text + used, sizeof detail_text - used, fmt, ap);
	va_end(ap);
}

int result(long r)
{
	if (r >= 0)
		return 0;
	return errno ? -errno : -EIO;
}

long number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end) {
		fprintf(stderr, "probe: '%s' is no number\n", text);
		exit(2);
	}
	return n;
}

static size_t words(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += s[0] != ' ' && (s[1] == ' ' || !s[1]);
	return n;
}

static const struct attempt *find(const char *name)
{
	for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
		for (const struct attempt *a = tables[t]; a->name; a++)
			if (strcmp(a->name, name) == 0)
				return a;
	return NULL;
}

static int usage(void)
{
	fputs("usage: probe ATTEMPT [ARGUMENT]...\n", stderr);
	for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
		for (const struct attempt *a = tables[t]; a->name; a++)
			fprintf(stderr, "  %s %s\n", a->name, a->args);
	return 2;
}

static int attempt(const struct attempt *a, char **args)
{
	int r = a->run(args);

	if (r < 0)
		printf("errno %s\n", strerrorname_np(-r) ? strerrorname_np(-r) : "?");
	else
		printf("ok%s%s\n", detail_text[0] ? " " : "", detail_text);
	return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const struct attempt *a = argc > 1 ? find(argv[1]) : NULL;

	if (!a || words(a->args) != (size_t)argc - 2)
		return usage();
	pid_t pid = fork();
	if (pid < 0)
		return perror("probe: fork"), 1;
	if (pid == 0) {
		/* Whoever ends the probe means the attempt too. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(attempt(a, argv + 2));
	}
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status)) {
		printf("signal SIG%s\n", sigabbrev_np(WTERMSIG(status)));
		return 0;
	}
	return WEXITSTATUS(status);
}
