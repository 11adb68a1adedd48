/* A shell command, as far as a policy has to understand it. */
#pragma once

#include <base/str.h>

struct command {
	struct strv parts; /* the simple commands, in their order, quotes taken away */
	bool unclear;	   /* holds what is only known when it runs: $( ), ` `, <( ), a here-document, an open quote */
	bool writes;	   /* redirects output to a file other than /dev/null */
};

/* Cuts a command line at ; & | && || newlines and parentheses. */
void command_split(const char *line, struct command *ret);
void command_done(struct command *c);
