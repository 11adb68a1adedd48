/* A small pool of empty pipes for the tunnels. */
#include "proxy_child.h"

#include <base/cleanup.h>

#include <fcntl.h>
#include <unistd.h>

enum { PIPE_BYTES = 256 * 1024 };

int proxy_pipe_take(struct proxy_child *p, int ret[2])
{
	if (p->n_spare_pipes > 0) {
		p->n_spare_pipes--;
		ret[0] = p->spare_pipes[p->n_spare_pipes][0];
		ret[1] = p->spare_pipes[p->n_spare_pipes][1];
		return 0;
	}
	/* #syscalls: pipe2 */
	if (pipe2(ret, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	/* Fewer, larger moves. Past the user's share of pipe memory it stays at the default, which works too. */
	(void)fcntl(ret[1], F_SETPIPE_SZ, PIPE_BYTES);
	return 0;
}

void proxy_pipe_give(struct proxy_child *p, int pipe[2])
{
	if (p->n_spare_pipes == PROXY_SPARE_PIPES) {
		close_quietly(pipe[0]);
		close_quietly(pipe[1]);
		return;
	}
	p->spare_pipes[p->n_spare_pipes][0] = pipe[0];
	p->spare_pipes[p->n_spare_pipes][1] = pipe[1];
	p->n_spare_pipes++;
}
