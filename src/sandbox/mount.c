/* Mounts as people write them.
 *
 * Two notations, told apart by the first field: "key=value" is docker's --mount (CSV: a field may stand in double
 * quotes, a doubled quote inside is one), anything else is -v. An option that would be quietly without effect is an
 * error, except the ones that docker itself ignores on Linux. The text is bounded by the workflow file. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <sandbox/mount.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <string.h>

static const char example[] = "write \"type=bind,source=/absolute/path,target=/inside\", with \",readonly\" when it is "
			      "only read";

static int bad(struct err *e, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int bad(struct err *e, const char *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	auto_free char *msg = xvasprintf(fmt, ap);
	va_end(ap);
	int r = err_set(e, ERR_INPUT, EINVAL, "%s", msg);
	err_hint(e, "%s", hint);
	return r;
}

/* Letters, digits, and _ . - behind the first. */
static bool is_name(const char *s)
{
	for (size_t i = 0; s[i]; i++) {
		bool alnum =
			(s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9');
		if (!alnum && (i == 0 || !strchr("_.-", s[i])))
			return false;
	}
	return *s != '\0';
}

/* One of a configmap's or secret's: any of those characters in any order, but no name of a folder. */
static bool is_key(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")] == '\0' &&
	       !str_eq(s, ".") && !str_eq(s, "..") && *s;
}

static int check_target(const char *target, struct err *e)
{
	/* The sandbox's own: what is mounted over them decides what the inside believes of itself. */
	static const char *const own[] = {"/proc", "/sys", "/dev", "/run/iterion"};

	if (!target || !*target)
		return bad(e, example, "a target is missing");
	if (str_has_control(target))
		return bad(e, "remove it", "a control character in the target");
	auto_free char *clean = path_clean(target);
	if (!clean)
		return bad(e, "a target is an absolute path inside the sandbox, such as /data",
			   "the target \"%.100s\" is not absolute", target);
	if (str_eq(clean, "/"))
		return bad(e, "mount it at a folder of its own, such as /data", "the target is the root folder");
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (path_within(clean, own[i]) && !path_within(clean, "/dev/shm"))
			return bad(e, "mount it at a folder of its own, such as /data",
				   "the target %.100s lies in %s, which is the sandbox's own", clean, own[i]);
	return 0;
}

static int check_bind_source(const char *s, struct err *e)
{
	if (s && *s == '/')
		return 0;
	if (s && *s == '~')
		return bad(e, "write ${localEnv:HOME} for the home folder", "the source \"%.100s\" is not absolute", s);
	return bad(e, "a bind source is an absolute path of this machine; ${PROJECT_DIR} stands for the workspace",
		   "the source \"%.100s\" is not absolute", s ? s : "");
}

int sandbox_mount_check(const struct sandbox_mount *m, struct err *e)
{
	const char *s = m->source;

	if (s && str_has_control(s))
		return bad(e, "remove it", "a control character in the source");
	if (s && strstr(s, "${"))
		return bad(e, "the variables are ${localEnv:NAME}, ${NAME} and ${PROJECT_DIR}",
			   "an unknown variable in the source \"%.100s\"", s);
	switch (m->type) {
	case MOUNT_BIND: {
		int r = check_bind_source(s, e);
		if (r < 0)
			return r;
		break;
	}
	case MOUNT_TMPFS:
		if (s)
			return bad(e, "leave the source out", "a tmpfs has no source");
		break;
	case MOUNT_VOLUME:
		if (s && *s == '/')
			return bad(e, "write type=bind for a folder of this machine",
				   "the source \"%.100s\" is a path, and the type is volume", s);
		if (s && !is_name(s))
			return bad(e, "a volume's name has letters, digits, '_', '.' and '-'",
				   "\"%.100s\" is no name of a volume", s);
		break;
	case MOUNT_PVC:
	case MOUNT_CONFIGMAP:
	case MOUNT_SECRET:
		if (!s || !is_name(s))
			return bad(e, "write source=NAME of an object in the runner's namespace",
				   "\"%.100s\" is no name of a %s", s ? s : "", mount_type_name(m->type));
		break;
	}
	if (m->key && m->type != MOUNT_CONFIGMAP && m->type != MOUNT_SECRET)
		return bad(e, "leave it out: only a configmap and a secret have keys", "a %s has no key",
			   mount_type_name(m->type));
	if (m->key && !is_key(m->key))
		return bad(e, "a key has letters, digits, '_', '.' and '-'", "\"%.100s\" is no key", m->key);
	return check_target(m->target, e);
}

static int set_type(struct sandbox_mount *m, const char *value, struct err *e)
{
	for (enum mount_type t = MOUNT_BIND; t <= MOUNT_SECRET; t++) {
		if (str_eq(value, mount_type_name(t))) {
			m->type = t;
			return 0;
		}
	}
	return bad(e, "the types are bind, volume and tmpfs; on kubernetes also pvc, configmap and secret",
		   "\"%.60s\" is no type of mount", value);
}

static int set_text(char **field, const char *key, const char *value, struct err *e)
{
	if (*field)
		return bad(e, "keep one of them", "\"%s\" is given twice", key);
	if (!*value)
		return bad(e, example, "\"%s\" is empty", key);
	*field = xstrdup(value);
	return 0;
}

static int set_readonly(struct sandbox_mount *m, const char *value, struct err *e)
{
	if (value && !str_eq(value, "true") && !str_eq(value, "1") && !str_eq(value, "false") && !str_eq(value, "0"))
		return bad(e, "write \"readonly\" alone, or readonly=true", "\"%.60s\" is neither true nor false",
			   value);
	m->readonly = !value || str_eq(value, "true") || str_eq(value, "1");
	return 0;
}

/* What the parser keeps beside the mount. */
struct draft {
	struct sandbox_mount m;
	bool typed;
	char *field; /* owned */
};

static void draft_done(struct draft *d)
{
	free(d->m.source);
	free(d->m.key);
	free(d->m.target);
	free(d->field);
}

static int unknown_key(const char *key, struct err *e)
{
	static const char *const keys[] = {"type", "source",   "src", "target", "destination",
					   "dst",  "readonly", "ro",  "key"};
	const char *near = str_nearest(key, keys, ARRAY_LEN(keys));
	auto_free char *hint = near ? xasprintf("did you mean \"%s\"?", near)
				    : xstrdup("a mount has type, source, target and readonly");

	return bad(e, hint, "\"%.60s\" is no option of a mount here", key);
}

static int propagation(const char *value, struct err *e)
{
	if (str_eq(value, "private") || str_eq(value, "rprivate"))
		return 0;
	return bad(e, "leave it out: mounts are private, so that what is mounted inside never shows on the host",
		   "the propagation \"%.60s\" would reach the host", value);
}

/* One field "key" or "key=value" of --mount. */
static int set_field(struct draft *d, char *field, struct err *e)
{
	char *value = strchr(field, '=');

	if (value)
		*value++ = '\0';
	if (str_eq(field, "readonly") || str_eq(field, "ro"))
		return set_readonly(&d->m, value, e);
	if (!value)
		return unknown_key(field, e);
	if (str_eq(field, "type")) {
		d->typed = true;
		return set_type(&d->m, value, e);
	}
	if (str_eq(field, "source") || str_eq(field, "src"))
		return set_text(&d->m.source, "source", value, e);
	if (str_eq(field, "target") || str_eq(field, "destination") || str_eq(field, "dst"))
		return set_text(&d->m.target, "target", value, e);
	if (str_eq(field, "key"))
		return set_text(&d->m.key, "key", value, e);
	if (str_eq(field, "bind-propagation"))
		return propagation(value, e);
	if (str_eq(field, "consistency"))
		return 0; /* a hint for Docker Desktop */
	return unknown_key(field, e);
}

/* Cuts the next CSV field off *rest; *rest is NULL behind the last. */
static int next_field(const char **rest, char **ret, struct err *e)
{
	struct buf out = BUF_INIT(SIZE_MAX);
	const char *s = *rest;
	bool quoted = *s == '"';

	for (s += quoted; *s && (quoted || *s != ','); s++) {
		if (*s == '"' && quoted && s[1] != '"') {
			quoted = false;
			s++;
			break;
		}
		s += *s == '"' && quoted;
		(void)buf_putc(&out, *s);
	}
	*ret = buf_steal(&out);
	if (quoted)
		return bad(e, "close the double quote", "a quoted field has no end");
	if (*s && *s != ',')
		return bad(e, "quote the whole field: \"source=/a,b\"", "text behind a quoted field");
	*rest = *s ? s + 1 : NULL;
	return 0;
}

static int parse_long(const char *text, struct draft *d, struct err *e)
{
	int r = 0;

	while (r == 0 && text) {
		free(TAKE_PTR(d->field));
		r = next_field(&text, &d->field, e);
		if (r == 0)
			r = set_field(d, d->field, e);
	}
	if (r == 0 && !d->typed) {
		if (d->m.source && strchr("/.~", *d->m.source))
			return bad(e, "write type=bind in front", "the type is missing");
		d->m.type = MOUNT_VOLUME;
	}
	return r;
}

static int set_short_option(struct sandbox_mount *m, const char *word, struct err *e)
{
	/* Labels of SELinux and hints for Docker Desktop: without effect on what is seen. */
	static const char *const ignored[] = {"rw",	    "z",      "Z",	 "cached",  "delegated",
					      "consistent", "nocopy", "private", "rprivate"};

	if (str_eq(word, "ro")) {
		m->readonly = true;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		if (str_eq(word, ignored[i]))
			return 0;
	return bad(e, "behind the target stand ro or rw", "\"%.60s\" is no option of a mount here", word);
}

/* [SOURCE:]TARGET[:OPTIONS] */
static int parse_short(const char *text, struct draft *d, struct err *e)
{
	char *rest = d->field = xstrdup(text);
	char *part[3] = {strsep(&rest, ":")};
	size_t n = 1;
	int r = 0;

	while (rest && n < ARRAY_LEN(part))
		part[n++] = strsep(&rest, ":");
	if (rest)
		return bad(e, "a path with ':' needs the form type=bind,source=…,target=…", "more than two colons");
	if (n == 1) {
		d->m.type = MOUNT_VOLUME;
		return set_text(&d->m.target, "target", part[0], e);
	}
	d->m.type = strchr("/.~", *part[0]) ? MOUNT_BIND : MOUNT_VOLUME;
	r = set_text(&d->m.source, "source", part[0], e);
	if (r == 0)
		r = set_text(&d->m.target, "target", part[1], e);
	while (r == 0 && part[2])
		r = set_short_option(&d->m, strsep(&part[2], ","), e);
	return r;
}

/* --mount's fields are key=value; a path of -v begins with '/' or holds ':' before any '='. */
static bool is_long(const char *text)
{
	size_t n = strcspn(text, "=,:/");

	return text[n] == '=' || text[n] == ',' || *text == '"';
}

int sandbox_mount_parse(const char *text, struct sandbox_mount *ret, struct err *e)
{
	__attribute__((cleanup(draft_done))) struct draft d = {0};
	int r;

	if (!*text)
		r = bad(e, example, "it is empty");
	else if (is_long(text))
		r = parse_long(text, &d, e);
	else
		r = parse_short(text, &d, e);
	if (r == 0)
		r = sandbox_mount_check(&d.m, e);
	if (r < 0) {
		auto_buf shown = BUF_INIT(512);
		(void)text_neutralise(&shown, text, strnlen(text, 120));
		return err_wrap(e, r, "mount \"%s\"", buf_str(&shown));
	}
	char *source = d.m.type == MOUNT_BIND ? path_clean(d.m.source) : TAKE_PTR(d.m.source);
	char *key = TAKE_PTR(d.m.key);
	*ret = (struct sandbox_mount){
		.type = d.m.type,
		.readonly = d.m.readonly,
		.source = source,
		.key = key,
		.target = path_clean(d.m.target),
	};
	return 0;
}
