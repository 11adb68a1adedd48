/* `__claw-runner`: for an image that brings iterion itself under the name that a launcher asks for. The agent loop is
 * in the guest program; this one only finds it and makes way. */
#include "claw_runner.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/agent.h>

#include <errno.h>
#include <unistd.h>

int claw_runner_exec(const char *const *words, struct err *e)
{
	char *found = NULL;
	int r = session_guest(NULL, &found, e);
	auto_free char *guest = found;
	auto_strv argv = {0};

	if (r < 0)
		return r;
	strv_add(&argv, guest);
	for (; *words; words++)
		strv_add(&argv, *words);
	(void)execv(guest, argv.v);
	r = err_sys(e, errno, "start %s", guest);
	err_hint(e, "Install iterion again (`make install`).");
	return r;
}
