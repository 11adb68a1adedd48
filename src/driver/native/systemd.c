/* Asking systemd for a scope (org.freedesktop.systemd1(5), StartTransientUnit).
 *
 * On a machine that systemd runs, cgroups are its own to make, and a user who logged in may make none; but each user's
 * manager makes them when it is asked by D-Bus. The asking is done by the process that is to be limited, while it still
 * stands in the host's file system and before anything foreign runs in it. So nobody's loop waits, and no moment exists
 * at which a program of the sandbox is outside of the unit. The unit goes when its last process does: nothing of it has
 * to be removed. Four calls are sent at once; then answers are read until the unit's job is done, one call failed, or
 * time is over. */
#include "systemd.h"
#include "dbus.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/str.h>
#include <driver/limits.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { WAIT_MS = 5000, LINE_MAX_LEN = 1024 };
enum { SERIAL_HELLO = 1, SERIAL_MATCH, SERIAL_SUBSCRIBE, SERIAL_START };

static const char manager[] = "org.freedesktop.systemd1", manager_path[] = "/org/freedesktop/systemd1",
		  manager_interface[] = "org.freedesktop.systemd1.Manager";
static const char bus_name[] = "org.freedesktop.DBus", bus_path[] = "/org/freedesktop/DBus";

/* The path of the first address that is a socket with a name in the file system (D-Bus Specification, "Server
 * Addresses"). Abstract names belong to a network namespace, and the asking process has another one. */
static char *socket_path(const char *addresses)
{
	static const char unix_path[] = "unix:path=";

	for (const char *a = addresses; a && *a; a += strcspn(a, ";"), a += *a == ';')
		if (str_starts(a, unix_path) && !memchr(a, '%', strcspn(a, ";,")))
			return xstrndup(a + strlen(unix_path), strcspn(a, ";,") - strlen(unix_path));
	return NULL;
}

static bool is_socket(const char *path)
{
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

char *unit_bus(void)
{
	bool root = geteuid() == 0;
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	auto_free char *path = socket_path(getenv(root ? "DBUS_SYSTEM_BUS_ADDRESS" : "DBUS_SESSION_BUS_ADDRESS"));

	if (!path && root)
		path = xstrdup("/run/dbus/system_bus_socket");
	else if (!path && runtime && runtime[0] == '/')
		path = xasprintf("%s/bus", runtime);
	else if (!path)
		path = xasprintf("/run/user/%u/bus", geteuid());
	return is_socket(path) ? TAKE_PTR(path) : NULL;
}

static int dial(const char *bus)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	union {
		const struct sockaddr_un *un;
		const struct sockaddr *sa;
	} u = {.un = &to};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (strlen(bus) >= sizeof to.sun_path)
		return -ENAMETOOLONG;
	memcpy(to.sun_path, bus, strlen(bus) + 1);
	return connect(fd, u.sa, sizeof to) < 0 ? -errno : TAKE_FD(fd);
}

bool unit_bus_answers(const char *bus)
{
	auto_fd fd = dial(bus);

	return fd >= 0;
}

struct dialogue {
	int fd;
	uint64_t end_ms;
	struct buf in;
	const char *unit;
};

static int wait_for(const struct dialogue *d, short events)
{
	struct pollfd p = {.fd = d->fd, .events = events};
	uint64_t now = clock_ms();
	int r;

	do
		r = now < d->end_ms ? poll(&p, 1, (int)(d->end_ms - now)) : 0;
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

static int send_all(const struct dialogue *d, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = send(d->fd, p, len, MSG_NOSIGNAL);
		int r = n < 0 && errno == EAGAIN ? wait_for(d, POLLOUT) : n < 0 ? -errno : 0;
		if (r < 0)
			return r;
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int receive(struct dialogue *d)
{
	if (buf_reserve(&d->in, 4096) < 0)
		return -EMSGSIZE;
	int r = wait_for(d, POLLIN);
	if (r < 0)
		return r;
	ssize_t n = recv(d->fd, d->in.data + d->in.len, 4096, 0);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	d->in.len += (size_t)n;
	d->in.data[d->in.len] = '\0';
	return 0;
}

/* Says who this is; the bus asks the kernel whether it is true (D-Bus Specification, "EXTERNAL"). */
static int authenticate(struct dialogue *d, uid_t user)
{
	auto_buf line = BUF_INIT(LINE_MAX_LEN);
	char uid[16];

	(void)snprintf(uid, sizeof uid, "%u", user);
	(void)buf_putc(&line, '\0');
	(void)buf_puts(&line, "AUTH EXTERNAL ");
	for (const char *c = uid; *c; c++)
		(void)buf_printf(&line, "%02x", (unsigned)(unsigned char)*c);
	(void)buf_puts(&line, "\r\n");
	int r = send_all(d, line.data, line.len);
	const char *end = NULL;
	while (r == 0 && !(end = d->in.len ? memmem(d->in.data, d->in.len, "\r\n", 2) : NULL))
		r = d->in.len < LINE_MAX_LEN ? receive(d) : -EPROTO;
	if (r < 0)
		return r;
	if (!str_starts(d->in.data, "OK "))
		return -EACCES;
	buf_consume(&d->in, (size_t)(end + 2 - d->in.data));
	return send_all(d, "BEGIN\r\n", 7);
}

static void property(struct buf *b, const char *name, const char *type)
{
	dbus_align(b, 8);
	dbus_put_string(b, name);
	dbus_put_signature(b, type);
}

static void property_u64(struct buf *b, const char *name, uint64_t v)
{
	property(b, name, "t");
	dbus_put_u64(b, v);
}

static void property_string(struct buf *b, const char *name, const char *v)
{
	property(b, name, "s");
	dbus_put_string(b, v);
}

/* ssa(sv)a(sa(sv)): name, mode, properties, other units. */
static void put_unit(struct buf *b, const struct unit_params *p)
{
	auto_free char *description = xasprintf("iterion sandbox of run %s", p->run_id);

	dbus_put_string(b, p->name);
	dbus_put_string(b, "fail");
	size_t at = dbus_array_begin(b, 8);
	property_string(b, "Description", description);
	property_string(b, "CollectMode", "inactive-or-failed");
	property(b, "Delegate", "b");
	dbus_put_u32(b, 1);
	property(b, "PIDs", "au");
	size_t pids = dbus_array_begin(b, 4);
	dbus_put_u32(b, (uint32_t)p->pid);
	dbus_array_end(b, pids, 4);
	if (p->which & LIMIT_MEMORY) {
		property_u64(b, "MemoryMax", p->limits.memory);
		property_u64(b, "MemorySwapMax", 0);
	}
	if (p->which & LIMIT_PIDS)
		property_u64(b, "TasksMax", p->limits.pids);
	if (p->which & LIMIT_CPUS)
		property_u64(b, "CPUQuotaPerSecUSec", (uint64_t)(p->limits.cpus * 1e6 + 0.5));
	dbus_array_end(b, at, 8);
	dbus_array_end(b, dbus_array_begin(b, 8), 8);
}

static int put_calls(struct buf *to, const struct unit_params *p)
{
	static const char match[] = "type='signal',interface='org.freedesktop.systemd1.Manager',member='JobRemoved'";
	const struct dbus_call hello = {SERIAL_HELLO, bus_name, bus_path, bus_name, "Hello", NULL},
			       add_match = {SERIAL_MATCH, bus_name, bus_path, bus_name, "AddMatch", "s"},
			       subscribe = {SERIAL_SUBSCRIBE,  manager,	    manager_path,
					    manager_interface, "Subscribe", NULL},
			       start = {SERIAL_START,	      manager,		 manager_path, manager_interface,
					"StartTransientUnit", "ssa(sv)a(sa(sv))"};
	auto_buf none = BUF_INIT(1);
	auto_buf rule = BUF_INIT(512);
	auto_buf unit = BUF_INIT(DBUS_MESSAGE_MAX / 2);

	dbus_put_string(&rule, match);
	put_unit(&unit, p);
	int r = dbus_put_call(to, &hello, &none);
	if (r == 0)
		r = dbus_put_call(to, &add_match, &rule);
	if (r == 0)
		r = dbus_put_call(to, &subscribe, &none);
	return r < 0 ? r : dbus_put_call(to, &start, &unit);
}

/* What one message means: 1 the unit stands, 0 nothing yet, or -errno. */
static int judge(const struct dialogue *d, const struct dbus_message *m, struct err *e)
{
	const char *said = dbus_body_string(m, 0);

	if (m->type == DBUS_ERROR && m->reply_to >= SERIAL_HELLO && m->reply_to <= SERIAL_START) {
		auto_buf shown = BUF_INIT(1024);
		(void)text_neutralise(&shown, said ? said : m->error, strnlen(said ? said : m->error, 200));
		return err_set(e, ERR_SANDBOX, EREMOTEIO, "systemd refused: %s", buf_str(&shown));
	}
	if (m->type != DBUS_SIGNAL || !str_eq(m->member, "JobRemoved"))
		return 0;
	/* The job's path, the unit, the result. */
	const char *unit = dbus_body_string(m, 1), *result = dbus_body_string(m, 2);
	if (!unit || !result || !str_eq(unit, d->unit))
		return 0;
	return str_eq(result, "done")
		       ? 1
		       : err_set(e, ERR_SANDBOX, EREMOTEIO, "systemd's job for the unit failed (%.40s)", result);
}

static int listen_for_end(struct dialogue *d, struct err *e)
{
	struct dbus_message m;

	for (;;) {
		int n = d->in.len ? dbus_parse(d->in.data, d->in.len, &m) : 0;
		int r = n < 0 ? n : n > 0 ? judge(d, &m, e) : receive(d);
		if (r > 0)
			return 0;
		if (r < 0)
			return r;
		if (n > 0)
			buf_consume(&d->in, (size_t)n);
	}
}

int unit_start(const char *bus, const struct unit_params *p, struct err *e)
{
	struct dialogue d = {
		.fd = dial(bus), .end_ms = clock_ms() + WAIT_MS, .in = BUF_INIT(DBUS_MESSAGE_MAX), .unit = p->name};
	auto_buf calls = BUF_INIT(2 * DBUS_MESSAGE_MAX);
	struct err why = ERR_INIT;

	int r = d.fd < 0 ? d.fd : authenticate(&d, p->uid);
	if (r == 0)
		r = put_calls(&calls, p);
	if (r == 0)
		r = send_all(&d, calls.data, calls.len);
	if (r == 0)
		r = listen_for_end(&d, &why);
	if (r < 0 && why.kind == ERR_NONE)
		(void)err_sys(&why, -r, "the bus %s", bus);
	if (r < 0)
		err_copy(e, &why);
	buf_done(&d.in);
	close_quietly(d.fd);
	return r;
}
