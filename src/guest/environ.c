/* `environ`: the environment that this program got, each entry with a NUL behind it. Started by init it is what the
 * image and the engine give every program; what a shell adds for itself on the way is left out. */
#include "guest.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int guest_environ(int argc, char **argv)
{
	static const char *const of_shell[] = {"PWD=", "OLDPWD=", "SHLVL=", "_="};

	(void)argc;
	(void)argv;
	for (char **v = environ; *v; v++) {
		bool skip = false;
		for (size_t i = 0; i < sizeof of_shell / sizeof of_shell[0]; i++)
			skip = skip || strncmp(*v, of_shell[i], strlen(of_shell[i])) == 0;
		if (!skip)
			fwrite(*v, 1, strlen(*v) + 1, stdout);
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
