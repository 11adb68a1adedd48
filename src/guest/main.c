/* iterion-guest: the program inside a sandbox. One static file without needs, whose jobs are chosen by the first
 * argument. */
#include "guest.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} jobs[] = {
	{"init", guest_init},	      {"agent", guest_agent},
	{"relay", guest_relay},	      {"connect", guest_connect},
	{"identify", guest_identify}, {"environ", guest_environ},
	{"install", guest_install},   {"pack", guest_pack},
	{"unpack", guest_unpack},     {"__claw-runner", guest_claw_runner},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof jobs / sizeof jobs[0]; i++)
		if (strcmp(argv[1], jobs[i].name) == 0)
			return jobs[i].run(argc - 1, argv + 1);
	fputs("usage: iterion-guest connect HOST PORT\n"
	      "  Connects stdin and stdout to HOST:PORT through the sandbox's egress proxy, as a ProxyCommand for "
	      "ssh.\n",
	      stderr);
	return 2;
}
