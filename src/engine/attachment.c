/* Files that a run is given.
 *
 * They are opened once, before anything is made: what was looked at through the descriptor (a regular file, its kind)
 * is what the store copies into the run's folder, beside the loop, since it may be much, and no name is resolved twice.
 * From then on the run knows its own
 * copies only; run.json says what they are, so that a run which goes on has them again. Inside a sandbox their folder
 * is mounted read-only; the path that a template sees is the one that is right for the node that sees it. */
#include "attachment.h"
#include "mime.h"
#include "place.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { ENDING_MAX = 16 };

static const struct dsl_attachment *find(const struct dsl_file *f, const char *name, struct err *e)
{
	const struct dsl_attachment *a = dsl_find_attachment(f, name);
	auto_free const char **names = xcalloc(f->n_attachments + 1, sizeof *names);

	if (a)
		return a;
	for (size_t i = 0; i < f->n_attachments; i++)
		names[i] = f->attachments[i]->name.s;
	const char *near = str_nearest(name, names, f->n_attachments);
	(void)err_set(e, ERR_USAGE, ENOENT, "attachment %.80s: the workflow declares no such attachment", name);
	if (near)
		err_hint(e, "did you mean %s?", near);
	else
		err_hint(e, "declare it in the attachments: block of the file, or leave it out");
	return NULL;
}

static int unusable(const char *name, int errnum, const char *path, struct err *e)
{
	int r = errnum ? err_sys(e, errnum, "attachment %s: read %.400s", name, path)
		       : err_set(e, ERR_INPUT, EINVAL, "attachment %s: %.400s is no regular file", name, path);

	err_set_kind(e, ERR_INPUT);
	err_hint(e, "name a file that exists and that you may read, as --attachment %s=FILE", name);
	return r;
}

static int open_file(const char *name, const char *path, int *ret, struct err *e)
{
	/* Without blocking: a FIFO that nobody writes to must be refused, not waited for. */
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st = {0};
	int errnum = fd < 0 || fstat(fd, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;

	if (!errnum && S_ISREG(st.st_mode) && (unsigned long long)st.st_size > STORE_ATTACHMENT_MAX)
		return unusable(name, EFBIG, path, e);
	if (!errnum && S_ISREG(st.st_mode)) {
		*ret = TAKE_FD(fd);
		return 0;
	}
	return unusable(name, errnum, path, e);
}

/* The declared kind and types against what the file is. */
static int check_kind(const struct dsl_attachment *a, const char *path, const char *mime, struct err *e)
{
	auto_buf wanted = BUF_INIT(300);
	bool good = a->accept_mime.n == 0;

	if (a->kind.v == DSL_ATTACHMENT_IMAGE && !mime_accepts("image/*", mime)) {
		int r = err_set(e, ERR_INPUT, EINVAL, "attachment %s: %.400s is no image but %s", a->name.s, path,
				mime);
		err_hint(e, "give an image, or declare the attachment as a file");
		return r;
	}
	for (size_t i = 0; i < a->accept_mime.n; i++) {
		good |= mime_accepts(a->accept_mime.v[i].s, mime);
		(void)!buf_printf(&wanted, "%s%s", i ? ", " : "", a->accept_mime.v[i].s);
	}
	if (good)
		return 0;
	int r = err_set(e, ERR_INPUT, EINVAL, "attachment %s: %.400s is %s, which accept_mime does not have", a->name.s,
			path, mime);
	err_hint(e, "give a file of type %s", buf_str(&wanted));
	return r;
}

/* The name of the copy: the declared name, with the original's ending, by which programs know what to do with it. */
static char *copy_name(const char *name, const char *path)
{
	const char *dot = strrchr(path_base(path), '.');
	size_t len = dot ? strlen(dot + 1) : 0;

	for (size_t i = 1; i <= len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", dot[i]))
			len = 0;
	return len > 0 && len <= ENDING_MAX && dot != path_base(path) ? xasprintf("%s%s", name, dot) : xstrdup(name);
}

/* Of one that is given twice the last counts, as with variables. */
static struct store_attachment *slot(struct attachments *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, name))
			return &l->v[i];
	l->v = grow_array(l->v, l->n, &l->cap, sizeof *l->v);
	l->v[l->n] = (struct store_attachment){.name = name, .fd = -1};
	return &l->v[l->n++];
}

static int add(const struct dsl_file *f, const char *text, struct attachments *to, struct err *e)
{
	const char *eq = strchr(text, '=');
	char head[MIME_HEAD];

	if (!eq || eq == text || !eq[1]) {
		int r = err_set(e, ERR_USAGE, EINVAL, "attachment \"%.80s\": no name=file", text);
		err_hint(e, "write --attachment NAME=FILE");
		return r;
	}
	auto_free char *name = xstrndup(text, (size_t)(eq - text));
	const struct dsl_attachment *a = find(f, name, e);
	if (!a)
		return -ENOENT;
	auto_fd fd = -1;
	int r = open_file(a->name.s, eq + 1, &fd, e);
	if (r < 0)
		return r;
	ssize_t n = pread(fd, head, sizeof head, 0);
	if (n < 0)
		return unusable(a->name.s, errno, eq + 1, e);
	const char *mime = mime_of(path_base(eq + 1), head, (size_t)n, (size_t)n < sizeof head);
	r = check_kind(a, eq + 1, mime, e);
	if (r < 0)
		return r;
	struct store_attachment *s = slot(to, a->name.s);
	close_quietly(s->fd);
	/* The list owns it; its readers only borrow. */
	union {
		const char *is;
		char *owned;
	} file = {.is = s->file};
	free(file.owned);
	*s = (struct store_attachment){
		.name = a->name.s, .file = copy_name(a->name.s, eq + 1), .mime = mime, .fd = TAKE_FD(fd)};
	return 0;
}

static int is_missing(const struct dsl_attachment *a, struct err *e)
{
	const char *what = a->description.s;

	return err_set(e, ERR_USAGE, ENOENT, "attachment %s: it is required and was not given%s%.200s%s", a->name.s,
		       what ? " (" : "", what ? what : "", what ? ")" : "");
}

static bool has(const struct attachments *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, name))
			return true;
	return false;
}

int attachments_open(const struct engine_params *p, struct attachments *ret, struct err *e)
{
	const struct dsl_file *f = p->file;
	int r = 0;

	for (const char *const *v = p->attachments; r == 0 && v && *v; v++)
		r = add(f, *v, ret, e);
	for (size_t i = 0; r == 0 && i < f->n_attachments; i++) {
		if (!f->attachments[i]->required.v || has(ret, f->attachments[i]->name.s))
			continue;
		r = is_missing(f->attachments[i], e);
		err_hint(e, "give it with --attachment %s=FILE", f->attachments[i]->name.s);
	}
	return r;
}

void attachments_done(struct attachments *l)
{
	for (size_t i = 0; i < l->n; i++) {
		union {
			const char *is;
			char *owned;
		} file = {.is = l->v[i].file};
		close_quietly(l->v[i].fd);
		free(file.owned);
	}
	free(l->v);
	*l = (struct attachments){0};
}

/* Together; what a file is now may not be what is copied. */
static unsigned long long bytes_of(const struct attachments *l)
{
	unsigned long long sum = 0;
	struct stat st;

	for (size_t i = 0; i < l->n; i++)
		sum += fstat(l->v[i].fd, &st) == 0 && st.st_size > 0 ? (unsigned long long)st.st_size : 0;
	return sum;
}

static void copy_work(uv_work_t *w)
{
	const struct engine *en = w->data;

	store_attach_work(en->attach);
}

static void not_copied(struct engine *en, struct err *e)
{
	err_hint(e, "check the file, and the free space on the file system of the store");
	engine_end(en, RUN_FAILED, e, NULL);
}

static void copy_done(uv_work_t *w, int status)
{
	struct engine *en = w->data;
	struct err e = ERR_INIT;

	(void)status;
	int r = store_attach_end(TAKE_PTR(en->attach), &e);
	attachments_done(&en->given);
	if (r < 0)
		not_copied(en, &e);
	else if (en->phase == PHASE_STARTING)
		engine_go_on(en);
	engine_check_end(en);
}

void attachments_copy(struct engine *en)
{
	struct err e = ERR_INIT;
	json_t *d = json_object();

	json_put_int(d, "files", (long long)en->given.n);
	json_put_int(d, "bytes", (long long)bytes_of(&en->given));
	engine_emit(en, "attachments_copying", NULL, NULL, d);
	if (store_attach_begin(en->run, en->given.v, en->given.n, &en->attach, &e) < 0) {
		not_copied(en, &e);
		return;
	}
	en->attach_work.data = en;
	(void)uv_queue_work(en->p.loop, &en->attach_work, copy_work, copy_done);
}

static const json_t *noted(const struct engine *en)
{
	return en->run ? json_object_get(store_run_record(en->run), "attachments") : NULL;
}

/* run.json is the user's own, and may have been changed by hand. */
static bool is_plain(const char *file)
{
	return file && *file && *file != '.' && !strchr(file, '/');
}

static int check_copy(const struct engine *en, const char *name, const json_t *a, struct err *e)
{
	const char *file = json_get_str(a, "file");
	auto_free char *path = xasprintf("%s/attachments/%s", store_run_dir(en->run), is_plain(file) ? file : "");
	struct stat st;

	const json_t *size = json_object_get(a, "size");

	if (is_plain(file) && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && json_is_integer(size) &&
	    st.st_size == json_integer_value(size))
		return 0;
	int r = err_set(e, ERR_INPUT, ESTALE, "attachment %.80s: the run's copy is gone or has changed", name);
	err_hint(e, "start a new run with `iterion run`; %s was the copy", path);
	return r;
}

int attachments_resume(const struct engine *en, struct err *e)
{
	union {
		const json_t *is;
		json_t *wanted; /* jansson's iteration takes no const, and changes nothing */
	} all = {.is = noted(en)};
	const struct dsl_file *f = en->p.file;
	const char *name;
	json_t *a;

	json_object_foreach(all.wanted, name, a)
	{
		int r = check_copy(en, name, a, e);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < f->n_attachments; i++) {
		if (!f->attachments[i]->required.v || json_object_get(all.is, f->attachments[i]->name.s))
			continue;
		int r = is_missing(f->attachments[i], e);
		err_hint(e, "start a new run with it: iterion run --attachment %s=FILE", f->attachments[i]->name.s);
		return r;
	}
	return 0;
}

char *attachments_folder(const struct engine *en)
{
	return json_object_size(noted(en)) ? xasprintf("%s/attachments", store_run_dir(en->run)) : NULL;
}

/* A path as a URL: https://www.rfc-editor.org/rfc/rfc8089, and what RFC 3986 leaves as it is. */
static char *url_of(const char *path)
{
	auto_buf b = BUF_INIT(64 * 1024);
	int r = buf_puts(&b, "file://");

	for (; r == 0 && *path; path++) {
		bool plain = (*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z') ||
			     (*path >= '0' && *path <= '9') || strchr("/-._~", *path);
		r = plain ? buf_putc(&b, *path) : buf_printf(&b, "%%%02X", (unsigned char)*path);
	}
	return buf_steal(&b);
}

static json_t *describe(const char *folder, const json_t *a)
{
	const char *file = json_get_str(a, "file"), *sha256 = json_get_str(a, "sha256"),
		   *mime = json_get_str(a, "mime");

	if (!is_plain(file))
		return NULL;
	auto_free char *path = path_join(folder, file);
	auto_free char *url = url_of(path);
	json_t *o = json_object();
	json_put(o, "path", json_text(path, strlen(path)));
	json_put_str(o, "url", url);
	json_put_str(o, "mime", mime);
	json_put_int(o, "size", (long long)json_integer_value(json_object_get(a, "size")));
	json_put_str(o, "sha256", sha256);
	return o;
}

json_t *attachments_value(const struct engine *en, const struct place *place, const char *name)
{
	union {
		const json_t *is;
		json_t *wanted;
	} all = {.is = noted(en)};
	auto_free char *host = attachments_folder(en);
	const char *inside = place ? place_attachments(place) : NULL;
	const char *folder = inside ? inside : host, *each;
	json_t *a;

	if (!folder)
		return NULL;
	if (name)
		return describe(folder, json_object_get(all.is, name));
	json_t *list = json_object();
	json_object_foreach(all.wanted, each, a)
	{
		json_t *o = describe(folder, a);
		if (o)
			json_put(list, each, o);
	}
	return list;
}
