/* ${NAME} and escapes: what happens to a string's text between the file and the tree. The environment is the caller's
 * callback and nothing else. A text may name a large value many times, so what it may grow to has a limit. */
#include "parser.h"

#include <base/arena.h>
#include <base/buf.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdint.h>
#include <string.h>

enum { EXPAND_DEPTH = 8 }; /* of ${A:-${B:-…}} */

static const char *lookup(const struct dsl_env *env, const char *name)
{
	if (!env)
		return NULL;
	if (env->project_dir && strcmp(name, "PROJECT_DIR") == 0)
		return env->project_dir;
	return env->get ? env->get(env->arg, name) : NULL;
}

/* One ${NAME} or ${NAME:-default} at text: its whole length, 0 when the text is something else (${localEnv:HOME}, a
 * shell's ${#x}). */
static size_t parse_reference(const char *s, size_t len, size_t *ret_name, size_t *ret_default, size_t *ret_end)
{
	size_t i = 2, depth = 1;

	while (i < len && (s[i] == '_' || (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
			   (i > 2 && s[i] >= '0' && s[i] <= '9')))
		i++;
	*ret_name = i - 2;
	*ret_default = 0;
	if (i == 2 || i >= len)
		return 0;
	if (s[i] == '}') {
		*ret_end = i;
		return i + 1;
	}
	if (s[i] != ':' || i + 1 >= len || s[i + 1] != '-')
		return 0;
	*ret_default = i += 2;
	for (; i < len && s[i] != '\n'; i++) {
		/* The limit also keeps a line of nothing but openings from being scanned again for each of them. */
		if (s[i] == '$' && i + 1 < len && s[i + 1] == '{' && ++depth > EXPAND_DEPTH)
			return 0;
		if (s[i] == '}' && --depth == 0) {
			*ret_end = i;
			return i + 1;
		}
	}
	return 0;
}

struct expansion {
	struct parser *p;
	enum expand how;
	struct dsl_pos pos;
	struct buf out;
};

static int expand_into(struct expansion *x, const char *s, size_t len, unsigned depth);

/* Appends what the reference of n bytes at s stands for. */
static int expand_one(struct expansion *x, const char *s, size_t n, size_t name_len, size_t from, size_t end,
		      unsigned depth)
{
	char name[256];
	const char *value = NULL;

	if (name_len < sizeof name) {
		memcpy(name, s + 2, name_len);
		name[name_len] = '\0';
		value = lookup(x->p->env, name);
	}
	if (value && (*value || !from))
		return buf_puts(&x->out, value);
	if (from)
		return expand_into(x, s + from, end - from, depth + 1);
	if (x->how == EXPAND_KEEP)
		return buf_add(&x->out, s, n);
	diag_warning(x->p->f, "P013", x->pos, "set it, or write ${NAME:-default}",
		     "the environment variable %.*s is not set", (int)MIN(name_len, (size_t)100), s + 2);
	return 0;
}

static int expand_into(struct expansion *x, const char *s, size_t len, unsigned depth)
{
	size_t name_len, from, end;
	int r = 0;

	while (r == 0 && len) {
		const char *dollar = memmem(s, len, "${", 2);
		size_t plain = dollar ? (size_t)(dollar - s) : len;
		r = buf_add(&x->out, s, plain);
		s += plain;
		len -= plain;
		if (r < 0 || !len)
			break;
		size_t n = depth < EXPAND_DEPTH ? parse_reference(s, len, &name_len, &from, &end) : 0;
		r = n ? expand_one(x, s, n, name_len, from, end, depth) : buf_add(&x->out, s, 2);
		s += n ? n : 2;
		len -= n ? n : 2;
	}
	return r;
}

void expand_string(struct parser *p, enum expand how, struct dsl_str *s)
{
	if (!s->s || !memmem(s->s, s->len, "${", 2))
		return;
	struct expansion x = {.p = p, .how = how, .pos = s->pos, .out = BUF_INIT(DSL_FILE_MAX)};
	if (expand_into(&x, s->s, s->len, 0) < 0) {
		diag_error(p->f, "P011", s->pos, NULL, "the text is larger than %d MiB with its ${…} expanded",
			   DSL_FILE_MAX >> 20);
	} else if (x.out.len != s->len || memcmp(buf_str(&x.out), s->s, s->len) != 0) {
		s->s = arena_strndup(p->f->state->arena, buf_str(&x.out), x.out.len);
		s->len = x.out.len;
		s->shifted = true;
	}
	buf_done(&x.out);
}

/* UTF-8 of a code point; returns its length. */
static size_t encode_utf8(uint32_t c, char to[4])
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | (c >> 6));
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	to[0] = (char)(0xe0 | (c >> 12));
	to[1] = (char)(0x80 | ((c >> 6) & 0x3f));
	to[2] = (char)(0x80 | (c & 0x3f));
	return 3;
}

/* Four hex digits at s; false when they are not. */
static bool parse_hex4(const char *s, size_t len, uint32_t *ret)
{
	uint32_t v = 0;

	if (len < 4)
		return false;
	for (size_t i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef", *d = strchr(digits, s[i] | 0x20);
		if (!s[i] || !d)
			return false;
		v = v << 4 | (uint32_t)(d - digits);
	}
	*ret = v;
	return true;
}

/* The escape behind a backslash: appends its meaning at `to`; returns how much of s it took, 0 for an unknown one. */
static size_t unescape_one(const char *s, size_t len, char *to, size_t *ret_written)
{
	static const char from[] = "\"\\ntr0", meaning[] = "\"\\\n\t\r";
	const char *known = len && *s ? strchr(from, *s) : NULL;
	uint32_t c;

	if (known) {
		*to = known - from < 5 ? meaning[known - from] : '\0';
		*ret_written = 1;
		return 1;
	}
	if (!len || *s != 'u' || !parse_hex4(s + 1, len - 1, &c) || (c >= 0xd800 && c < 0xe000))
		return 0;
	*ret_written = encode_utf8(c, to);
	return 5;
}

void unescape_string(struct parser *p, struct dsl_str *s)
{
	if (!memchr(s->s, '\\', s->len))
		return;
	/* No escape is longer than what it stands for. */
	char *to = arena_alloc(p->f->state->arena, s->len + 1);
	size_t n = 0;
	for (size_t i = 0; i < s->len;) {
		size_t written = 0, took = 0;
		if (s->s[i] != '\\') {
			to[n++] = s->s[i++];
			continue;
		}
		took = unescape_one(s->s + i + 1, s->len - i - 1, to + n, &written);
		if (!took) {
			diag_error(p->f, "P006", dsl_str_pos(s, i), "use \\\" \\\\ \\n \\t \\r \\0 or \\uXXXX",
				   "an unknown escape in a string (strict-escape is on)");
			to[n++] = s->s[i++];
			continue;
		}
		n += written;
		i += 1 + took;
	}
	s->s = to;
	s->len = n;
	s->shifted = true;
}
