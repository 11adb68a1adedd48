/* What of an image concerns a native sandbox.
 *
 * Who the programs are: the user that the sandbox block names, else, when the host's state is shared and the run is not
 * root's, the host's own user (what is written there stays his), else the image's. An ordinary user has one user number
 * in his namespace, and becomes that user by its mapping; root becomes it by setresuid, and files of the image keep
 * their owners. */
#include "image.h"
#include "../container/cli.h"
#include "../ops.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <image/reference.h>
#include <image/worker.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char default_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

void native_image_done(struct native_image *i)
{
	image_done(&i->image);
	free(i->user.home);
	free(i->passwd);
	free(i->group);
	*i = (struct native_image){.image.hold = -1};
}

static char *store_dir(struct err *e)
{
	char *dir = image_store_dir(getenv("ITERION_HOME"), getenv("HOME"));

	if (!dir) {
		(void)err_set(e, ERR_INPUT, ENOENT, "find the image store: neither HOME nor ITERION_HOME is set");
		err_hint(e, "Set ITERION_HOME to a folder.");
	}
	return dir;
}

static int choose_user(const struct sandbox_params *p, struct native_image *i, struct err *e)
{
	const char *named = p->spec->user;

	i->remapped = !named && p->spec->host_state != HOST_STATE_NONE && geteuid() != 0;
	int r = image_user_find(named ? named : i->image.user, i->passwd, i->group, &i->user, e);
	if (r < 0 && i->remapped)
		r = 0;
	if (r == 0 && i->remapped) {
		i->user.uid = getuid();
		i->user.gid = getgid();
	}
	return r < 0 ? err_wrap(e, r, "image %s", p->spec->image) : 0;
}

int native_image_find(const struct sandbox_params *p, struct native_image *ret, struct err *e)
{
	auto_image_ref ref = {0};
	struct native_image i = {.image.hold = -1};
	auto_free char *dir = store_dir(e);

	int r = dir ? image_ref_parse(p->spec->image, p->workspace, &ref, e) : -EINVAL;
	if (r == 0)
		r = image_store_find(dir, &ref, &i.image, e);
	if (r < 0)
		return r;
	i.passwd = image_file(&i.image, "etc/passwd");
	i.group = image_file(&i.image, "etc/group");
	r = choose_user(p, &i, e);
	if (r < 0)
		native_image_done(&i);
	else
		*ret = i;
	return r == -ENOENT ? -EINVAL : r;
}

struct confine_ids native_image_ids(const struct native_image *i)
{
	return (struct confine_ids){.uid = i->user.uid, .gid = i->user.gid, .host_uid = getuid(), .host_gid = getgid()};
}

void native_image_env(const struct native_image *i, struct strv *to)
{
	for (size_t k = 0; k < i->image.env.n; k++)
		strv_add(to, i->image.env.v[k]);
	if (!strv_get_env(to, "PATH"))
		strv_add(to, default_path);
	if (!strv_get_env(to, "HOME"))
		strv_set_env(to, "HOME", i->user.home ? i->user.home : "/");
}

static void tell(const struct sandbox_callbacks *cb, const char *type, json_t *data)
{
	if (cb->on_event)
		cb->on_event(cb->arg, type, data);
	json_decref(data);
}

void native_image_tell(const struct native_image *i, const struct sandbox_callbacks *cb)
{
	if (i->image.hold < 0)
		return;
	if (i->remapped) {
		json_t *d = json_object();
		json_put_int(d, "uid", i->user.uid);
		json_put_int(d, "gid", i->user.gid);
		json_put_str(d, "reason",
			     "host_state is auto and no user is named: what programs write there stays the user's");
		tell(cb, "sandbox_user_remap", d);
	}
	if (i->image.foreign && geteuid() != 0) {
		json_t *d = json_object();
		json_put_str(d, "code", "image_owners");
		json_put_str(
			d, "message",
			"files of the image that belong to several users all belong to the sandbox's one user: an "
			"ordinary user has no more. Programs that check or change owners may fail; as root, or with "
			"docker or podman, files keep their owners");
		tell(cb, "sandbox_warning", d);
	}
}

struct native_fetch {
	struct native_fetch_callbacks cb;
	struct cli *cli;
	struct err why;
	bool done;
};

static void on_line(void *arg, const char *line)
{
	struct native_fetch *f = arg;
	struct image_line l;

	image_line_parse(line, &l, &f->why);
	if (l.word == IMAGE_WORD_PROGRESS)
		f->cb.on_progress(f->cb.arg, l.layer, l.current, l.total);
	f->done |= l.word == IMAGE_WORD_DONE;
}

static void on_ended(void *arg, const struct cli_result *r)
{
	struct native_fetch *f = arg;
	struct native_fetch_callbacks cb = f->cb;
	bool good = cli_ok(r) && f->done;
	struct err why = f->why;

	if (!good && why.kind == ERR_NONE) {
		(void)err_set(&why, ERR_SANDBOX, ECHILD, "fetch the image: the process that does it ended (%s %d)",
			      r->status.signaled ? "signal" : "exit code", r->status.code);
		err_hint(&why, "It was killed from outside or ran out of memory; run it again.");
	}
	free(f);
	cb.on_done(cb.arg, good ? NULL : &why);
}

/* In memory: it needs no name in any file system. */
static int request_file(const struct sandbox_params *p, const char *dir, struct err *e)
{
	const struct image_request request = {.store = dir, .reference = p->spec->image, .base = p->workspace};
	auto_free char *text = image_request_text(&request);
	auto_fd fd = memfd_create("iterion-image", MFD_CLOEXEC);

	int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? err_sys(e, -r, "prepare to fetch the image") : TAKE_FD(fd);
}

int native_fetch_start(uv_loop_t *loop, const struct sandbox_params *p, const struct native_fetch_callbacks *cb,
		       struct native_fetch **ret, struct err *e)
{
	/* This very program, whatever stands at its path by now. */
	static const char *const argv[] = {"/proc/self/exe", IMAGE_WORKER, NULL};
	auto_free char *dir = store_dir(e);
	auto_fd in = dir ? request_file(p, dir, e) : -ENOENT;

	if (in < 0)
		return in;
	struct native_fetch *f = xcalloc(1, sizeof *f);
	f->cb = *cb;
	const struct cli_opts o = {.argv = argv, .stdin_fd = in, .on_line = on_line, .line_arg = f};
	int r = cli_start(loop, &o, on_ended, f, &f->cli, e);
	if (r < 0)
		free(f);
	else
		*ret = f;
	return r;
}

void native_fetch_kill(struct native_fetch *f)
{
	cli_signal(f->cli, SIGKILL);
}
