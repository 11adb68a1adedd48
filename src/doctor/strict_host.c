/* The checks that ask this machine, its engines and the registries that those know. */
#include "program.h"
#include "strict_checks.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <driver/driver.h>
#include <image/reference.h>
#include <image/store.h>
#include <image/worker.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { ANSWER_LIMIT = 1024 * 1024 };

static const unsigned long long MIB = 1024 * 1024;

static const struct driver *driver_named(const char *name)
{
	size_t n;
	const struct driver *const *list = driver_list(&n);

	for (size_t i = 0; name && i < n; i++)
		if (str_eq(driver_name(list[i]), name))
			return list[i];
	return NULL;
}

/* What this machine lacks says nothing about another one. */
static void lacks(const struct strict_params *p, struct finding *f)
{
	if (p->other_host && f->status == FINDING_NO)
		f->status = FINDING_UNKNOWN;
}

static void probe(const char *name, struct finding *f)
{
	const struct driver *d = driver_named(name);
	struct err e = ERR_INIT;

	if (!d) {
		finding_set(f, FINDING_NO, "this build has no %s driver", name);
		finding_hint(f, "Run it where one is, or choose another target.");
	} else if (driver_probe(d, &e) < 0) {
		finding_set(f, FINDING_NO, "%s", e.msg);
		finding_hint(f, "%s", e.hint);
	} else {
		finding_set(f, FINDING_YES, "%s can serve here", name);
	}
}

void strict_driver(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;

	if (p->cloud) {
		probe("kubernetes", f);
	} else if (!p->spec && p->why->kind == ERR_SANDBOX) {
		finding_set(f, FINDING_NO, "%s", p->why->msg);
		finding_hint(f, "%s", p->why->hint);
	} else if (!p->spec) {
		finding_set(f, FINDING_UNKNOWN, "not known, since the spec is not valid");
	} else if (p->spec->mode == SANDBOX_NONE) {
		finding_set(f, FINDING_YES, "no sandbox is asked for");
	} else if (str_eq(p->driver, "noop")) {
		finding_set(f, FINDING_UNKNOWN, "noop was asked for by name: nothing is isolated");
		finding_hint(f, "Leave --sandbox-driver=noop out to run in a sandbox.");
	} else {
		probe(p->driver, f);
	}
	lacks(p, f);
}

void strict_daemon(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;

	probe(p->driver, f);
	if (f->status == FINDING_YES)
		finding_set(f, FINDING_YES, "it answers");
	lacks(p, f);
}

/* The last line that says something. */
static char *last_line(const struct buf *b)
{
	const char *text = buf_str(b);
	size_t len = strlen(text);

	while (len && text[len - 1] == '\n')
		len--;
	size_t begin = len;
	while (begin && text[begin - 1] != '\n')
		begin--;
	return xstrndup(text + begin, len - begin);
}

static bool is_not_found(const char *text)
{
	static const char *const words[] = {"no such manifest", "manifest unknown", "name unknown", "not found",
					    "invalid reference format"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasestr(text, words[i]))
			return true;
	return false;
}

/* The native driver's images, by its own store and registry client; nothing is fetched. */
static void native_image(const struct strict_params *p, struct finding *f)
{
	auto_free char *dir = image_store_dir(getenv("ITERION_HOME"), getenv("HOME"));
	const struct image_request request = {.store = dir, .reference = p->spec->image, .base = p->workspace};
	struct image image = {.hold = -1};
	struct err e = ERR_INIT;
	auto_image_ref ref = {0};

	int r = image_ref_parse(p->spec->image, p->workspace, &ref, &e);
	if (r == 0 && dir && image_store_find(dir, &ref, &image, &e) == 0) {
		finding_set(f, FINDING_YES, "%.200s is on this machine", p->spec->image);
		image_done(&image);
		return;
	}
	if (r == 0)
		r = image_look(&request, &e);
	if (r == 0) {
		finding_set(f, FINDING_YES, "%.200s can be fetched", p->spec->image);
		return;
	}
	/* What is there and is not right will fail; a registry that cannot be asked may answer later. */
	finding_set(f, e.kind == ERR_INPUT || r == -ENOENT ? FINDING_NO : FINDING_UNKNOWN, "%s", e.msg);
	finding_hint(f, "%s", e.hint);
}

void strict_image(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;

	if (str_eq(p->driver, "native")) {
		native_image(p, f);
		return;
	}
	const char *image = p->spec->image;
	const char *const here[] = {p->driver, "image", "inspect", image, NULL};
	const char *const there[] = {p->driver, "manifest", "inspect", image, NULL};
	auto_free char *program = program_find(p->driver);
	auto_buf said = BUF_INIT(ANSWER_LIMIT);

	if (!program) {
		finding_set(f, FINDING_UNKNOWN, "%.200s: not looked for, since %s is not on PATH", image, p->driver);
		return;
	}
	if (program_ask(program, here, &said) == 0) {
		finding_set(f, FINDING_YES, "%.200s is on this machine", image);
		return;
	}
	buf_clear(&said);
	if (program_ask(program, there, &said) == 0) {
		finding_set(f, FINDING_YES, "%.200s is in its registry", image);
		return;
	}
	auto_free char *line = last_line(&said);
	bool missing = is_not_found(buf_str(&said));
	finding_set(f, missing ? FINDING_NO : FINDING_UNKNOWN, "%.200s: %.400s", image, line);
	finding_hint(f, missing ? "Check the name and the tag, or build and push it first."
				: "The registry could not be asked (no network, or no permission): log in, or pull the "
				  "image beforehand.");
}

void strict_k8s_context(const struct question *q, struct finding *f)
{
	static const char *const context[] = {"kubectl", "config", "current-context", NULL};
	/* cluster-info lists services of kube-system, which no runner has the right to; this everybody may ask. */
	static const char *const info[] = {"kubectl", "get", "--raw=/version", NULL};
	bool inside = getenv("KUBERNETES_SERVICE_HOST") != NULL;
	enum finding_status bad = inside ? FINDING_NO : FINDING_UNKNOWN;
	auto_free char *program = program_find("kubectl");
	auto_buf said = BUF_INIT(ANSWER_LIMIT);

	(void)q;
	if (!program) {
		finding_set(f, bad, "kubectl is not on PATH");
		finding_hint(f, "Install kubectl to check the cluster from here.");
	} else if (!inside && program_ask(program, context, &said) != 0) {
		finding_set(f, bad, "no context is selected");
		finding_hint(f, "Choose one with `kubectl config use-context NAME`.");
	} else if (program_ask(program, info, &said) != 0) {
		auto_free char *line = last_line(&said);
		finding_set(f, bad, "the cluster does not answer: %.400s", line);
		finding_hint(f,
			     "Check the context, the network and your permissions with `kubectl get --raw=/version`.");
	} else {
		finding_set(f, FINDING_YES, "the cluster answers");
	}
}

static void ask_host(const char *id, struct finding *f)
{
	for (size_t i = 0; i < n_host_questions; i++)
		if (str_eq(host_questions[i].id, id))
			host_questions[i].ask(&host_questions[i], f);
}

/* Limits that are asked for and would be weaker are a warning: a run goes on with them, and says so. */
static void add_limits(const struct buf *text, const struct buf *weaker, struct finding *f)
{
	size_t len = strlen(f->detail);

	if (f->status != FINDING_YES || text->len == 0)
		return;
	(void)snprintf(f->detail + len, sizeof f->detail - len, "; %s", buf_str(text));
	if (weaker->len == 0)
		return;
	f->status = FINDING_UNKNOWN;
	finding_hint(f, "%s", buf_str(weaker));
}

void strict_kernel(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;
	auto_buf text = BUF_INIT(ANSWER_LIMIT);
	auto_buf weaker = BUF_INIT(ANSWER_LIMIT);

	/* Before the question of user namespaces, which makes another user of this process. */
	(void)describe_limits(&p->spec->limits, &text, &weaker);
	ask_host("kernel", f);
	/* Root needs no user namespace. */
	if (f->status == FINDING_YES && geteuid() != 0)
		ask_host("user_namespaces", f);
	add_limits(&text, &weaker, f);
	lacks(p, f);
}

void strict_disk(const struct question *q, struct finding *f)
{
	const struct strict_params *p = q->arg;
	auto_free char *path = xstrdup(p->store_dir);
	struct statvfs st;

	/* The store is made by the first run. */
	while (access(path, F_OK) < 0 && !str_eq(path, "/")) {
		char *parent = path_parent(path);
		free(path);
		path = parent;
	}
	if (statvfs(path, &st) < 0) {
		finding_set(f, FINDING_UNKNOWN, "%.400s: how much is free is not known", path);
		return;
	}
	unsigned long long free_mib = (unsigned long long)st.f_bavail * st.f_frsize / MIB;
	finding_set(f,
		    free_mib < 100    ? FINDING_NO
		    : free_mib < 1024 ? FINDING_UNKNOWN
				      : FINDING_YES,
		    "%llu MiB are free where the store is (%.400s)", free_mib, path);
	finding_hint(f, "Free some, or put the store elsewhere with --store-dir.");
}
