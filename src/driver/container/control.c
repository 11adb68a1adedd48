/* The listening control socket of a container.
 *
 * The socket's file is bind-mounted into the container, so it must have a name on this host; it stands in a folder of
 * mode 0700 that only we can enter, while the file itself can be connected to by whoever the container's user is. The
 * first connection is PID 1's, since nothing else runs in there yet; then the listener is closed and its name removed,
 * so that no program inside can ever connect to it. The folder's name holds our process number and start: a later run
 * removes what a killed one left. */
#include "control.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include "labels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char prefix[] = "iterion-control.";

struct control {
	char *dir;
	char *path;
	char *files[CONTROL_FILES];
	size_t n_files;
	int fd;
	uv_poll_t poll;
	bool watching;
	bool there; /* the folder, and perhaps the socket in it */
	void (*on_connected)(void *arg, int fd, unsigned uid);
	void *arg;
	void (*closed)(void *arg);
	void *closed_arg;
};

/* A folder of this user's alone when there is one, so that the names are short and nobody else sees them. */
static char *base_folder(void)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (dir && dir[0] == '/' && strlen(dir) < 40 && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
	    st.st_uid == geteuid() && access(dir, W_OK | X_OK) == 0)
		return xstrdup(dir);
	return xstrdup("/tmp");
}

static int make_folder(struct control *c, struct err *e)
{
	auto_free char *base = base_folder();
	char owner[OWNER_SIZE];

	label_owner(owner);
	auto_free char *dir = xasprintf("%s/%s%s.XXXXXX", base, prefix, owner);
	if (!mkdtemp(dir)) {
		int r = err_sys(e, errno, "make a folder for the sandbox's control socket in %s", base);
		err_hint(e, "Make the folder writable, or set XDG_RUNTIME_DIR to one that is.");
		return r;
	}
	c->dir = TAKE_PTR(dir);
	c->there = true;
	c->path = path_join(c->dir, "s");
	return 0;
}

static int bind_there(struct control *c, struct err *e)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	if (strlen(c->path) >= sizeof sa.sun_path)
		return err_set(e, ERR_SYSTEM, ENAMETOOLONG, "make the control socket %s: the path is too long",
			       c->path);
	memcpy(sa.sun_path, c->path, strlen(c->path) + 1);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || bind(c->fd, (const struct sockaddr *)&sa, sizeof sa) < 0 || chmod(c->path, 0666) < 0 ||
	    listen(c->fd, 1) < 0)
		return err_sys(e, errno, "make the control socket %s", c->path);
	return 0;
}

int control_new(struct control **ret, struct err *e)
{
	struct control *c = xcalloc(1, sizeof *c);

	c->fd = -1;
	int r = make_folder(c, e);
	if (r == 0)
		r = bind_there(c, e);
	if (r < 0)
		control_free(c, NULL, NULL);
	else
		*ret = c;
	return r;
}

const char *control_path(const struct control *c)
{
	return c->path;
}

const char *control_add_file(struct control *c, const char *name, const char *text, struct err *e)
{
	auto_free char *path = path_join(c->dir, name);
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

	if (fd >= 0)
		c->files[c->n_files++] = xstrdup(path);
	/* By descriptor: umask must not keep the container's user from it. */
	if (r == 0 && fchmod(fd, 0444) < 0)
		r = -errno;
	if (r < 0) {
		(void)err_sys(e, -r, "write %s", path);
		err_hint(e, "The sandbox needs a folder for its own files: make room there, or set XDG_RUNTIME_DIR.");
		return NULL;
	}
	return c->files[c->n_files - 1];
}

/* From here on there is no way to it any more. */
static void take_away(struct control *c)
{
	close_quietly(TAKE_FD(c->fd));
	if (!c->there)
		return;
	c->there = false;
	(void)unlink(c->path);
	for (size_t i = 0; i < c->n_files; i++)
		(void)unlink(c->files[i]);
	(void)rmdir(c->dir);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct control *c = poll->data;
	struct ucred who = {0};
	socklen_t len = sizeof who;

	(void)status;
	(void)events;
	int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	uv_poll_stop(poll);
	take_away(c);
	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
	c->on_connected(c->arg, fd, who.uid);
}

int control_listen(struct control *c, uv_loop_t *loop, void (*on_connected)(void *arg, int fd, unsigned uid), void *arg,
		   struct err *e)
{
	int r = uv_poll_init(loop, &c->poll, c->fd);

	if (r < 0)
		return err_sys(e, -r, "watch the sandbox's control socket");
	c->on_connected = on_connected;
	c->arg = arg;
	c->poll.data = c;
	c->watching = true;
	(void)uv_poll_start(&c->poll, UV_READABLE, on_connection);
	return 0;
}

void control_hold(struct control *c)
{
	if (c->watching)
		uv_poll_stop(&c->poll);
}

static void destroy(struct control *c)
{
	void (*closed)(void *arg) = c->closed;
	void *arg = c->closed_arg;

	for (size_t i = 0; i < c->n_files; i++)
		free(c->files[i]);
	free(c->dir);
	free(c->path);
	free(c);
	if (closed)
		closed(arg);
}

static void on_closed(uv_handle_t *h)
{
	destroy(h->data);
}

void control_free(struct control *c, void (*closed)(void *arg), void *arg)
{
	c->closed = closed;
	c->closed_arg = arg;
	if (c->watching)
		uv_poll_stop(&c->poll);
	take_away(c);
	if (c->watching)
		uv_close((uv_handle_t *)&c->poll, on_closed);
	else
		destroy(c);
}

void control_sweep(void)
{
	auto_free char *base = base_folder();

	labels_sweep(base, prefix);
}
