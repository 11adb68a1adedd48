/* Names that need no look-up. c-ares would open /etc/hosts anew at each question, which a confined process cannot; so
 * the file is read once at start, into a table that is searched from front to back. */
#include "dns_hosts.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <fcntl.h>
#include <string.h>

enum { HOSTS_MAX_BYTES = 1024 * 1024, HOSTS_MAX_ENTRIES = 16384 };

static void add(struct dns_hosts *t, const struct host *name, const struct host *address)
{
	if (t->n == HOSTS_MAX_ENTRIES)
		return;
	t->v = grow_array(t->v, t->n, &t->cap, sizeof *t->v);
	t->v[t->n++] = (struct dns_host){.name = xstrdup(name->text), .address = *address};
}

int dns_hosts_add_override(struct dns_hosts *t, const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');
	struct host name, address;

	if (!colon || host_parse(text, (size_t)(colon - text), &name) < 0 ||
	    host_parse(colon + 1, strlen(colon + 1), &address) < 0 || address.family == AF_UNSPEC) {
		int r = err_set(e, ERR_INPUT, EINVAL, "resolve entry \"%s\": not of the form HOST:IP", text);
		err_hint(e, "write a name, a colon and an address, such as api.example.com:127.0.0.1");
		return r;
	}
	add(t, &name, &address);
	return 0;
}

/* The next word of a line; its length is 0 at the end. */
static size_t next_word(const char **p, const char *end, const char **ret)
{
	const char *s = *p;

	while (s < end && (*s == ' ' || *s == '\t' || *s == '\r'))
		s++;
	*ret = s;
	while (s < end && *s != ' ' && *s != '\t' && *s != '\r' && *s != '#')
		s++;
	*p = s;
	return (size_t)(s - *ret);
}

static void parse_line(struct dns_hosts *t, const char *p, const char *end)
{
	struct host address, name;
	const char *word;
	size_t n = next_word(&p, end, &word);

	if (n == 0 || host_parse(word, n, &address) < 0 || address.family == AF_UNSPEC)
		return;
	while ((n = next_word(&p, end, &word)) > 0)
		if (host_parse(word, n, &name) == 0 && name.family == AF_UNSPEC)
			add(t, &name, &address);
}

void dns_hosts_parse(struct dns_hosts *t, const char *text, size_t len)
{
	const char *end = text + len;

	for (const char *p = text; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *stop = nl ? nl : end;
		parse_line(t, p, stop);
		p = stop + 1;
	}
}

void dns_hosts_read(struct dns_hosts *t, const char *path)
{
	auto_free char *text = NULL;
	size_t len;

	/* Like the C library, a hosts file that cannot be read counts as empty. */
	if (file_read(AT_FDCWD, path, HOSTS_MAX_BYTES, &text, &len, NULL) == 0)
		dns_hosts_parse(t, text, len);
}

size_t dns_hosts_find(const struct dns_hosts *t, const struct host *name, int family, struct host *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n && n < max; i++)
		if ((family == AF_UNSPEC || t->v[i].address.family == family) && strcmp(t->v[i].name, name->text) == 0)
			ret[n++] = t->v[i].address;
	return n;
}

void dns_hosts_done(struct dns_hosts *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].name);
	free(t->v);
	*t = (struct dns_hosts){0};
}
