/* What the probe's files share: an attempt is a row, and ends as "ok", "ok DETAIL" or "errno NAME". */
#pragma once

#include <stddef.h>

struct attempt {
	const char *name;
	const char *args;	 /* for the usage text; one word an argument */
	int (*run)(char **args); /* >= 0: it worked; -errno */
};

/* Each ends with a row whose name is NULL. */
extern const struct attempt file_attempts[];
extern const struct attempt kernel_attempts[];
extern const struct attempt namespace_attempts[];
extern const struct attempt net_attempts[];
extern const struct attempt process_attempts[];

/* What is printed behind "ok". */
void detail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* r of a call that returns -1 and sets errno, as an attempt returns it. */
int result(long r);

/* A whole decimal number; anything else ends the probe with a usage error. */
long number(const char *text);
