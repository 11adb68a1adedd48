/* Strings, string lists, and text as people read it. Everything here takes length-bounded input and no locale. */
#include <base/buf.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool str_eq(const char *a, const char *b)
{
	if (!a || !b)
		return a == b;
	return strcmp(a, b) == 0;
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

void strv_take(struct strv *l, char *s)
{
	l->v = grow_array(l->v, l->n + 1, &l->cap, sizeof *l->v);
	l->v[l->n++] = s;
	l->v[l->n] = NULL;
}

void strv_add(struct strv *l, const char *s)
{
	strv_take(l, xstrdup(s));
}

bool strv_has(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], s) == 0)
			return true;
	return false;
}

void strv_done(struct strv *l)
{
	int saved = errno;

	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct strv){0};
	errno = saved;
}

/* Index of NAME=… in the list, or n. */
static size_t env_index(const struct strv *l, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->v[i], name, len) == 0 && l->v[i][len] == '=')
			return i;
	return l->n;
}

void strv_set_env(struct strv *l, const char *name, const char *value)
{
	size_t i = env_index(l, name);
	char *entry = xasprintf("%s=%s", name, value);

	if (i == l->n) {
		strv_take(l, entry);
		return;
	}
	free(l->v[i]);
	l->v[i] = entry;
}

const char *strv_get_env(const struct strv *l, const char *name)
{
	size_t i = env_index(l, name);

	return i == l->n ? NULL : l->v[i] + strlen(name) + 1;
}

/* Length of the valid UTF-8 sequence at s (1..4), or 0. */
static size_t utf8_sequence(const unsigned char *s, size_t len)
{
	static const struct {
		unsigned char lo, hi, second_lo, second_hi, length;
	} rows[] = {
		{0x00, 0x7f, 0, 0, 1},	     {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (s[0] < rows[i].lo || s[0] > rows[i].hi)
			continue;
		size_t n = rows[i].length;
		if (n == 1)
			return 1;
		if (len < n || s[1] < rows[i].second_lo || s[1] > rows[i].second_hi)
			return 0;
		for (size_t k = 2; k < n; k++)
			if ((s[k] & 0xc0) != 0x80)
				return 0;
		return n;
	}
	return 0;
}

bool utf8_valid(const char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = utf8_sequence((const unsigned char *)s + i, len - i);
		if (!n)
			return false;
		i += n;
	}
	return true;
}

int utf8_sanitize(struct buf *to, const char *s, size_t len)
{
	size_t start = 0;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_sequence((const unsigned char *)s + i, len - i);
		if (n) {
			i += n;
			continue;
		}
		int r = buf_add(to, s + start, i - start);
		if (r == 0)
			r = buf_puts(to, "\xef\xbf\xbd");
		if (r < 0)
			return r;
		start = ++i;
	}
	return buf_add(to, s + start, len - start);
}

/* The code point when the three bytes are one that changes the order of what stands around it (an override, embedding
 * or isolate: text that reads as something else), or a line separator; else 0. */
static unsigned reordering(const unsigned char *p)
{
	unsigned c = (p[0] & 0x0fU) << 12 | (p[1] & 0x3fU) << 6 | (p[2] & 0x3fU);

	return (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ? c : 0;
}

int text_neutralise(struct buf *to, const char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		const unsigned char *p = (const unsigned char *)s + i;
		size_t n = utf8_sequence(p, len - i);
		unsigned bidi = n == 3 ? reordering(p) : 0;
		int r;
		/* U+0080..U+009F are control characters too: a terminal may take them for CSI and friends. */
		bool c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0;
		if (!n)
			r = buf_puts(to, "\xef\xbf\xbd");
		else if ((n == 1 && ((*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)) || c1)
			r = buf_printf(to, "\\x%02x", (unsigned)(c1 ? p[1] : p[0]));
		else if (bidi)
			r = buf_printf(to, "\\u%04x", bidi);
		else
			r = buf_add(to, p, n);
		if (r < 0)
			return r;
		i += n ? n : 1;
	}
	return 0;
}

/* Edit distance (insert, delete, replace), words up to 63 bytes. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m)
{
	size_t row[64];

	for (size_t j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t replace = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = MIN(replace, MIN(row[j], row[j - 1]) + 1);
		}
	}
	return row[m];
}

const char *str_nearest(const char *word, const char *const *candidates, size_t n)
{
	size_t len = strlen(word), best = len / 3 + 1;
	const char *found = NULL;

	if (len == 0 || len > 63)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t m = strlen(candidates[i]);
		if (m == 0 || m > 63)
			continue;
		size_t d = edit_distance(word, len, candidates[i], m);
		/* Something of the word must be left: of one letter any other is just one away. */
		if (d < MAX(len, m) && (d < best || (d == best && !found))) {
			best = d;
			found = candidates[i];
		}
	}
	return found;
}

int str_parse_uint(const char *s, unsigned long long min, unsigned long long max, unsigned long long *ret)
{
	unsigned long long v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		unsigned digit = (unsigned)(*s - '0');
		if (v > (ULLONG_MAX - digit) / 10)
			return -ERANGE;
		v = v * 10 + digit;
	}
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

/* One unit at *s: its length in microseconds, moving *s past it; 0 when there is none. */
static double duration_unit(const char **s)
{
	static const struct {
		const char *name;
		double us;
	} units[] = {
		{"ns", 1e-3}, {"us", 1},  {"\xc2\xb5s", 1}, {"\xce\xbcs", 1}, /* micro sign, and the Greek letter */
		{"ms", 1e3},  {"s", 1e6}, {"m", 60e6},	    {"h", 3600e6},
	};

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (str_starts(*s, units[i].name)) {
			*s += strlen(units[i].name);
			return units[i].us;
		}
	}
	return 0;
}

int str_parse_duration(const char *s, unsigned long long *ret_ms)
{
	double total = 0;

	if (str_eq(s, "0")) {
		*ret_ms = 0;
		return 0;
	}
	if (!*s)
		return -EINVAL;
	while (*s) {
		double v = 0, scale = 1;
		const char *start = s;
		for (; *s >= '0' && *s <= '9'; s++)
			v = v * 10 + (*s - '0');
		if (*s == '.')
			for (s++; *s >= '0' && *s <= '9'; s++)
				v += (*s - '0') * (scale /= 10);
		double unit = s == start || (s == start + 1 && *start == '.') ? 0 : duration_unit(&s);
		if (unit == 0)
			return -EINVAL;
		total += v * unit;
	}
	if (total > 1e18)
		return -ERANGE;
	*ret_ms = (unsigned long long)(total / 1e3 + 0.5);
	return 0;
}

bool str_has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

bool str_is_identifier(const char *s)
{
	for (size_t i = 0; s[i]; i++) {
		bool alpha = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
		bool digit = s[i] >= '0' && s[i] <= '9';
		if (!alpha && !(digit && i > 0))
			return false;
	}
	return s[0] != '\0';
}

int shell_quote(struct buf *to, const char *s, size_t len)
{
	int r = buf_putc(to, '\'');

	for (size_t i = 0; r == 0 && i < len; i++)
		r = s[i] == '\'' ? buf_puts(to, "'\\''") : buf_putc(to, s[i]);
	return r < 0 ? r : buf_putc(to, '\'');
}
