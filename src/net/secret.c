/* The set of a sandbox's secrets.
 *
 * Each value lies in pages of its own, which are locked and left out of core files, so that wiping it is one call and
 * nothing else shares its page. The run makes the set, forks the proxy, which then has a copy of the pages, and forgets
 * its own. Locking may fail where the limit of locked memory is small; the pages could then be swapped out, but nobody
 * can read them more easily, and a run that fails for that would help nobody. */
#include "secret_priv.h"

#include <base/err.h>
#include <base/mem.h>
#include <net/policy.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int secret_check_value(const char *value, size_t len, struct err *e)
{
	int r = 0;

	if (len < SECRET_MIN) {
		r = err_set(e, ERR_INPUT, EINVAL, "its value has %zu characters, and it needs %d at least", len,
			    SECRET_MIN);
		err_hint(e, "a shorter one stands in texts by chance; use a real token");
		return r;
	}
	if (len > SECRET_MAX) {
		r = err_set(e, ERR_INPUT, EINVAL, "its value has more than %d characters", SECRET_MAX);
		err_hint(e, "a secret is sent in a header of a request: name a token, not a whole file");
		return r;
	}
	for (size_t i = 0; i < len; i++) {
		if (value[i] >= 0x20 && value[i] < 0x7f)
			continue;
		r = err_set(e, ERR_INPUT, EINVAL, "its value has a character that no header can hold, at place %zu",
			    i + 1);
		err_hint(e, "the value is one line of printable ASCII; one newline at its end is taken off");
		return r;
	}
	return 0;
}

struct secrets *secrets_new(void)
{
	return xcalloc(1, sizeof(struct secrets));
}

static void forget(struct secret *s)
{
	secret_forms_forget(s);
	if (!s->value)
		return;
	explicit_bzero(s->value, s->len);
	(void)munmap(s->value, s->len + 1);
	s->value = NULL;
}

static void done(struct secret *s)
{
	forget(s);
	free(s->name);
	free(s->placeholder);
	strv_done(&s->hosts);
}

void secrets_free(struct secrets *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		done(&s->v[i]);
	free(s);
}

static void protect(const struct secret *s)
{
	(void)madvise(s->value, s->len + 1, MADV_DONTDUMP);
	(void)mlock(s->value, s->len + 1);
}

static int keep_value(struct secret *s, const char *value, size_t len, struct err *e)
{
	void *p = mmap(NULL, len + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return err_sys(e, errno, "keep its value");
	s->value = p;
	s->len = len;
	protect(s);
	memcpy(p, value, len);
	return 0;
}

static int keep_hosts(struct secret *s, const struct strv *hosts, struct err *e)
{
	for (size_t i = 0; i < hosts->n; i++) {
		struct host h;
		if (host_parse(hosts->v[i], strlen(hosts->v[i]), &h) < 0) {
			int r = err_set(e, ERR_INPUT, EINVAL, "\"%.100s\" is no host name", hosts->v[i]);
			err_hint(e, "name each host that may get the value");
			return r;
		}
		strv_add(&s->hosts, h.text);
	}
	return 0;
}

static bool is_taken(const struct secrets *s, const char *placeholder)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].placeholder, placeholder) == 0)
			return true;
	return false;
}

static int choose_placeholder(const struct secrets *s, struct secret *one, const char *value, struct err *e)
{
	int r;

	one->placeholder = xcalloc(1, one->len + 1);
	do
		r = secret_placeholder(value, one->len, one->placeholder, e);
	while (r == 0 && (memcmp(value, one->placeholder, one->len) == 0 || is_taken(s, one->placeholder)));
	return r;
}

int secrets_add(struct secrets *s, const char *name, const char *value, size_t len, const struct strv *hosts,
		struct err *e)
{
	struct secret one = {0};
	int r = secret_check_value(value, len, e);

	if (r == 0 && s->n == SECRETS_MAX) {
		r = err_set(e, ERR_INPUT, E2BIG, "a sandbox has at most %d secrets", SECRETS_MAX);
		err_hint(e, "give nodes that need different ones sandboxes of their own");
	}
	if (r == 0)
		r = keep_value(&one, value, len, e);
	if (r == 0)
		r = keep_hosts(&one, hosts, e);
	if (r == 0)
		r = choose_placeholder(s, &one, value, e);
	if (r < 0) {
		done(&one);
		return r;
	}
	one.name = xstrdup(name);
	secret_forms_make(&one);
	s->v[s->n++] = one;
	return 0;
}

int secrets_restore(struct secrets *s, const char *name, const char *placeholder, const char *value, size_t len,
		    const char *const *hosts)
{
	struct secret one = {0};

	if (s->n == SECRETS_MAX || secret_check_value(value, len, NULL) < 0 || strlen(placeholder) != len ||
	    keep_value(&one, value, len, NULL) < 0)
		return -EPROTO;
	one.name = xstrdup(name);
	one.placeholder = xstrdup(placeholder);
	for (; hosts && *hosts; hosts++)
		strv_add(&one.hosts, *hosts);
	secret_forms_make(&one);
	s->v[s->n++] = one;
	return 0;
}

size_t secrets_count(const struct secrets *s)
{
	return s ? s->n : 0;
}

const char *secrets_name(const struct secrets *s, size_t i)
{
	return s->v[i].name;
}

const char *secrets_placeholder_at(const struct secrets *s, size_t i)
{
	return s->v[i].placeholder;
}

const char *secrets_placeholder_of(const struct secrets *s, const char *name)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (str_eq(s->v[i].name, name))
			return s->v[i].placeholder;
	return NULL;
}

void secrets_hosts(const struct secrets *s, struct strv *to)
{
	for (size_t i = 0; s && i < s->n; i++)
		for (size_t k = 0; k < s->v[i].hosts.n; k++)
			if (!strv_has(to, s->v[i].hosts.v[k]))
				strv_add(to, s->v[i].hosts.v[k]);
}

void secrets_forget(struct secrets *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		forget(&s->v[i]);
}

void secrets_lock(const struct secrets *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (s->v[i].value) {
			protect(&s->v[i]);
			secret_forms_protect(&s->v[i]);
		}
}

bool secret_is_bound(const struct secret *s, const char *host)
{
	return strv_has(&s->hosts, host);
}
