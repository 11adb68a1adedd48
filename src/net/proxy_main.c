/* iterion-proxy: a proxy that inspects TLS, as a program of its own.
 *
 * A proxy that does not is forked from iterion and needs no program. This one has the TLS library, which iterion should
 * not load for every start; and having begun with an exec it has nothing of iterion's memory but what it is told: the
 * parameters come by standard input, in memory that nobody else can open, and are wiped once they are read; standard
 * output is the control socket. Only iterion starts it. */
#include "proxy_child.h"
#include "proxy_params.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONTROL = STDOUT_FILENO };

/* Whether iterion started it, and not somebody who wonders what it is. */
static bool is_started_right(void)
{
	int type = 0;
	socklen_t len = sizeof type;

	return getsockopt(CONTROL, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

int main(void)
{
	/* Reserved at once, so that no copy is left behind by growing. */
	auto_buf b = BUF_INIT(PROXY_PARAMS_MAX);
	struct proxy_params params;
	struct err e = ERR_INIT;
	int parent = 0;

	/* From the first moment on nobody else of this user may look into it. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (!is_started_right()) {
		fputs("iterion-proxy: iterion starts this program for a sandbox whose TLS is inspected\n", stderr);
		return 2;
	}
	if (buf_reserve(&b, PROXY_PARAMS_MAX / 2) < 0 || fd_read_all(STDIN_FILENO, &b) < 0)
		return 1;
	if (proxy_params_unpack(b.data, b.len, &params, &parent, &e) < 0)
		return 1;
	explicit_bzero(b.data, b.len);
	buf_done(&b);
	proxy_child_main(&params, CONTROL, parent);
}
