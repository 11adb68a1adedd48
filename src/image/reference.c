/* References of images, by the grammar of Docker's distribution project: [DOMAIN/]PATH[:TAG][@DIGEST].
 *
 * The first part of a name is a domain when it has a dot or a colon, is "localhost", or has a capital letter; else the
 * name belongs to docker.io, and without a slash to its library. The text is hostile (a repository's file has it): it
 * becomes part of addresses and of file names, so nothing passes that the grammar does not name. */
#include <image/reference.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 255, TAG_MAX_LEN = 128 };

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

void image_ref_done(struct image_ref *r)
{
	free(r->text);
	free(r->domain);
	free(r->repository);
	free(r->tag);
	free(r->digest);
	free(r->path);
	*r = (struct image_ref){0};
}

bool image_digest_valid(const char *s)
{
	static const struct {
		const char *algorithm;
		size_t digits;
	} rows[] = {{"sha256:", 64}, {"sha512:", 128}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].algorithm);
		if (str_starts(s, rows[i].algorithm))
			return strspn(s + len, "abcdef" DIGITS) == rows[i].digits && !s[len + rows[i].digits];
	}
	return false;
}

static bool tag_valid(const char *s)
{
	size_t len = strlen(s);

	return len > 0 && len <= TAG_MAX_LEN && *s != '.' && *s != '-' && strspn(s, LOWER UPPER DIGITS "_.-") == len;
}

/* One part of a path: words of [a-z0-9] with ".", "_", "__" or any number of "-" between them. */
static bool part_valid(const char *s, size_t len)
{
	size_t i = 0;

	while (i < len) {
		size_t word = strspn(s + i, LOWER DIGITS);
		if (word == 0)
			return false;
		i += word;
		if (i >= len)
			return i == len;
		if (s[i] == '-') {
			i += strspn(s + i, "-");
		} else if (s[i] == '.' || s[i] == '_') {
			i += s[i] == '_' && s[i + 1] == '_' ? 2 : 1;
		} else {
			return false;
		}
	}
	return false;
}

static bool repository_valid(const char *s)
{
	for (;;) {
		size_t len = strcspn(s, "/");
		if (!part_valid(s, len))
			return false;
		if (!s[len])
			return true;
		s += len + 1;
	}
}

/* A name or address, and a port. */
static bool domain_valid(const char *s)
{
	const char *colon;

	if (*s == '[') {
		size_t len = strspn(s + 1, "abcdefABCDEF:." DIGITS);
		if (len < 2 || s[1 + len] != ']')
			return false;
		colon = s + len + 2;
	} else {
		size_t len = strspn(s, LOWER UPPER DIGITS ".-");
		if (len == 0 || s[0] == '-' || s[0] == '.' || s[len - 1] == '-' || s[len - 1] == '.')
			return false;
		colon = s + len;
	}
	unsigned long long port;
	return !*colon || (*colon == ':' && str_parse_uint(colon + 1, 1, 65535, &port) == 0);
}

static bool is_domain(const char *s, size_t len)
{
	if (len == strlen("localhost") && strncmp(s, "localhost", len) == 0)
		return true;
	for (size_t i = 0; i < len; i++)
		if (strchr(".:[" UPPER, s[i]))
			return true;
	return false;
}

static int bad(const char *text, const char *why, struct err *e)
{
	int r = err_set(e, ERR_INPUT, EINVAL, "image %.300s: %s", text, why);

	err_hint(e, "Write it as NAME[:TAG][@sha256:DIGEST], such as debian:12 or ghcr.io/owner/name:1.0, or as "
		    "oci:FOLDER[:TAG] or docker-archive:FILE.");
	return r;
}

static void split_domain(const char *name, struct image_ref *r)
{
	size_t first = strcspn(name, "/");

	if (name[first] && is_domain(name, first)) {
		r->domain = xstrndup(name, first);
		r->repository = xstrdup(name + first + 1);
	} else {
		r->domain = xstrdup("docker.io");
		r->repository = name[first] ? xstrdup(name) : xasprintf("library/%s", name);
	}
	if (str_eq(r->domain, "index.docker.io") || str_eq(r->domain, "registry-1.docker.io")) {
		free(r->domain);
		r->domain = xstrdup("docker.io");
	}
	if (str_eq(r->domain, "docker.io") && !strchr(r->repository, '/')) {
		char *full = xasprintf("library/%s", r->repository);
		free(r->repository);
		r->repository = full;
	}
}

static int parse_registry(const char *text, struct image_ref *r, struct err *e)
{
	auto_free char *name = xstrdup(text);
	char *at = strchr(name, '@');

	r->kind = IMAGE_REGISTRY;
	if (at) {
		*at = '\0';
		r->digest = xstrdup(at + 1);
	}
	char *slash = strrchr(name, '/'), *colon = strrchr(slash ? slash : name, ':');
	if (colon) {
		*colon = '\0';
		r->tag = xstrdup(colon + 1);
	} else if (!r->digest) {
		r->tag = xstrdup("latest");
	}
	split_domain(name, r);
	if (r->digest && !image_digest_valid(r->digest))
		return bad(text, "its digest is not sha256: and 64 hexadecimal digits (or sha512: and 128)", e);
	if (r->tag && !tag_valid(r->tag))
		return bad(text, "its tag may have letters, digits, '_', '.' and '-', at most 128", e);
	if (!domain_valid(r->domain))
		return bad(text, "the registry's name is no host", e);
	if (!repository_valid(r->repository))
		return bad(text, "its name may have lower-case letters and digits, joined by '.', '_', '-' and '/'", e);
	if (strlen(r->domain) + strlen(r->repository) + 1 > NAME_MAX_LEN)
		return bad(text, "its name is longer than 255 characters", e);
	r->text = xasprintf("%s/%s%s%s%s%s", r->domain, r->repository, r->tag ? ":" : "", r->tag ? r->tag : "",
			    r->digest ? "@" : "", r->digest ? r->digest : "");
	return 0;
}

/* FOLDER[:TAG] and FILE[:NAME]: what stands behind the last colon is no path when no slash is in it; a name of an
 * archive may have slashes, and begins at the first colon. */
static int parse_local(const char *text, enum image_kind kind, const char *base, struct image_ref *r, struct err *e)
{
	const char *prefix = kind == IMAGE_OCI_DIR ? "oci:" : "docker-archive:";
	auto_free char *path = xstrdup(text + strlen(prefix));
	char *colon = kind == IMAGE_OCI_DIR ? strrchr(path, ':') : strchr(path, ':');

	r->kind = kind;
	if (colon && (kind == IMAGE_DOCKER_ARCHIVE || !strchr(colon, '/'))) {
		*colon = '\0';
		r->tag = xstrdup(colon + 1);
	}
	if (!*path)
		return bad(text, "no path stands behind the colon", e);
	if (r->tag && (!*r->tag || strspn(r->tag, LOWER UPPER DIGITS "_.-/:+@") != strlen(r->tag)))
		return bad(text, "the name behind its path has other characters than letters, digits and _.-/:+@", e);
	auto_free char *full = path_join(base, path);
	r->path = path_clean(full);
	if (!r->path || strlen(r->path) >= PATH_MAX)
		return bad(text, "its path is too long, or not absolute where no folder is known", e);
	/* It would read as a tag in the canonical form. */
	if (strchr(path_base(r->path), ':'))
		return bad(text, "the last part of its path has a colon in it", e);
	r->text = xasprintf("%s%s%s%s", prefix, r->path, r->tag ? ":" : "", r->tag ? r->tag : "");
	return 0;
}

int image_ref_parse(const char *text, const char *base, struct image_ref *ret, struct err *e)
{
	auto_image_ref r = {0};
	int bad_name;

	if (str_starts(text, "oci:"))
		bad_name = parse_local(text, IMAGE_OCI_DIR, base, &r, e);
	else if (str_starts(text, "docker-archive:"))
		bad_name = parse_local(text, IMAGE_DOCKER_ARCHIVE, base, &r, e);
	else
		bad_name = parse_registry(text, &r, e);
	if (bad_name < 0)
		return bad_name;
	*ret = r;
	r = (struct image_ref){0};
	return 0;
}

bool image_ref_is_loopback(const struct image_ref *r)
{
	size_t len = r->domain[0] == '[' ? strcspn(r->domain, "]") + 1 : strcspn(r->domain, ":");
	auto_free char *host = xstrndup(r->domain, len);

	/* Digits and dots only: 127.example.net is somebody else's machine. */
	return str_eq(host, "localhost") || str_eq(host, "[::1]") ||
	       (str_starts(host, "127.") && strspn(host, DIGITS ".") == strlen(host));
}
