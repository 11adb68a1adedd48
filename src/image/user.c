/* Accounts of an image. The files are the image's, so they are bounded text and nothing more; a line that is not one is
 * passed over. */
#include <image/user.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 7 };

static const unsigned long long max_id = 4294967294u;

struct line {
	const char *at[FIELDS];
	size_t len[FIELDS];
	size_t n;
};

static const char *split(const char *text, struct line *ret)
{
	const char *end = strchrnul(text, '\n');

	ret->n = 0;
	for (const char *p = text; p <= end && ret->n < FIELDS;) {
		const char *colon = memchr(p, ':', (size_t)(end - p));
		const char *stop = colon ? colon : end;
		ret->at[ret->n] = p;
		ret->len[ret->n++] = (size_t)(stop - p);
		p = stop + 1;
	}
	return *end ? end + 1 : end;
}

static bool field_is(const struct line *l, size_t i, const char *want)
{
	return i < l->n && l->len[i] == strlen(want) && memcmp(l->at[i], want, l->len[i]) == 0;
}

static bool field_id(const struct line *l, size_t i, unsigned long long *ret)
{
	auto_free char *s = i < l->n ? xstrndup(l->at[i], l->len[i]) : NULL;

	return s && str_parse_uint(s, 0, max_id, ret) == 0;
}

/* The line whose name (field 0) or number (field 2) is this. */
static bool find_line(const char *text, const char *want, struct line *ret)
{
	while (text && *text) {
		struct line l;
		text = split(text, &l);
		if (l.n > 2 && (field_is(&l, 0, want) || field_is(&l, 2, want))) {
			*ret = l;
			return true;
		}
	}
	return false;
}

static int unknown(const char *kind, const char *name, struct err *e)
{
	int r = err_set(e, ERR_INPUT, ENOENT, "the image has no %s %.100s", kind, name);

	err_hint(e, "Name one of the image's, or a number.");
	return r;
}

int image_user_find(const char *user, const char *passwd, const char *group, struct image_user *ret, struct err *e)
{
	auto_free char *name = xstrdup(user && *user ? user : "0");
	char *colon = strchr(name, ':');
	unsigned long long uid, gid = 0;
	struct line l;

	if (colon)
		*colon++ = '\0';
	bool known = find_line(passwd, name, &l) && field_id(&l, 2, &uid);
	if (known)
		(void)!field_id(&l, 3, &gid);
	else if (str_parse_uint(name, 0, max_id, &uid) < 0)
		return unknown("user", name, e);
	auto_free char *home = known && l.n > 5 && l.len[5] && l.at[5][0] == '/' ? xstrndup(l.at[5], l.len[5]) : NULL;
	if (colon && *colon && !(find_line(group, colon, &l) && field_id(&l, 2, &gid)) &&
	    str_parse_uint(colon, 0, max_id, &gid) < 0)
		return unknown("group", colon, e);
	*ret = (struct image_user){.uid = (uid_t)uid, .gid = (gid_t)gid, .home = TAKE_PTR(home)};
	return 0;
}
