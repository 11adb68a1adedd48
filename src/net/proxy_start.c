/* Starting the proxy's process: a fork of this one, or the program of a proxy that inspects TLS. What that must know
 * goes into memory without a name, which the program reads and wipes; nothing of it stands in its arguments or
 * environment. */
#include "proxy_start.h"
#include "proxy_child.h"
#include "proxy_params.h"
#include "proxy_wire.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/spawn.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { KEEP_STDERR = 1 }; /* for the sanitizer's reports */
#else
enum { KEEP_STDERR = 0 };
#endif

/* A proxy that inspects is a program of its own: what it must know goes into memory without a name. */
static int start_program(const struct proxy_params *params, int control, pid_t *ret, struct err *e)
{
	auto_buf b = BUF_INIT(PROXY_PARAMS_MAX);
	char *argv[] = {(char[]){"iterion-proxy"}, NULL}, *envp[] = {NULL};
	auto_fd memory = memfd_create("iterion-proxy", MFD_CLOEXEC);
	int r = memory < 0 ? -errno : proxy_params_pack(&b, params, getpid());

	if (r == 0)
		r = fd_write_all(memory, b.data, b.len);
	if (b.data)
		explicit_bzero(b.data, b.len);
	if (r == 0 && lseek(memory, 0, SEEK_SET) < 0)
		r = -errno;
	if (r < 0)
		return err_sys(e, -r, "start the proxy: tell it its policy");
	const struct spawn_opts o = {
		.file = params->inspect->program,
		.argv = argv,
		.envp = envp,
		.stdio = {memory, control, KEEP_STDERR ? STDERR_FILENO : -1},
		.death_signal = SIGKILL,
	};
	r = spawn_start(&o, ret, NULL, e);
	return r < 0 ? err_wrap(e, r, "start the proxy") : 0;
}

int proxy_start_process(const struct proxy_params *params, int control, pid_t *ret, struct err *e)
{
	pid_t self = getpid();

	if (params->inspect)
		return start_program(params, control, ret, e);
	*ret = fork();
	if (*ret < 0)
		return err_sys(e, errno, "start the proxy: fork");
	if (*ret == 0)
		proxy_child_main(params, control, self);
	return 0;
}

bool proxy_is_certificate(const char *s, size_t len)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----\n", end[] = "-----END CERTIFICATE-----\n";
	size_t nb = sizeof begin - 1, ne = sizeof end - 1;

	if (len < nb + ne || len > PROXY_MAX_PEM || memcmp(s, begin, nb) != 0 || memcmp(s + len - ne, end, ne) != 0)
		return false;
	for (size_t i = nb; i < len - ne; i++)
		if (!s[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n", s[i]))
			return false;
	return true;
}
