/* Search patterns as models write them.
 *
 * Models write the dialect of Perl; the C library matches POSIX's. What the two share in other words is rewritten here,
 * and what POSIX lacks is refused by name, so that the model can ask otherwise: a pattern that silently means something
 * else would be worse. */
#include "ere.h"

#include <base/mem.h>

#include <stdint.h>
#include <string.h>

struct walk_state {
	const char *p;
	struct buf *to;
	const char *why;
};

static bool refuse(struct walk_state *s, const char *why)
{
	s->why = why;
	return false;
}

/* A class's members, as they stand inside brackets. */
static const char *members(char c)
{
	switch (c) {
	case 'd':
		return "0-9";
	case 'w':
		return "[:alnum:]_";
	case 's':
		return "[:space:]";
	default:
		return NULL;
	}
}

static char control(char c)
{
	static const char from[] = "tnrfv", to[] = "\t\n\r\f\v";
	const char *at = c ? strchr(from, c) : NULL;

	return at ? to[at - from] : '\0';
}

/* p stands on the backslash, outside brackets. */
static bool escape(struct walk_state *s)
{
	char c = s->p[1], low = (char)(c | 0x20);

	if (!c)
		return refuse(s, "The pattern ends in a backslash.");
	s->p += 2;
	if (members(low) && (c == low || strchr("DWS", c))) {
		(void)buf_printf(s->to, "[%s%s]", c == low ? "" : "^", members(low));
	} else if (control(c)) {
		(void)buf_putc(s->to, control(c));
	} else if (c == 'b' || c == 'B' || c == '<' || c == '>') {
		(void)buf_printf(s->to, "\\%c", c);
	} else if (c >= '1' && c <= '9') {
		return refuse(s, "Back references (\\1) are not supported.");
	} else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '0') {
		return refuse(s, "The pattern has an escape that is not supported: \\d \\w \\s \\b \\t \\n are.");
	} else if (strchr(".[]{}()*+?|^$\\", c)) {
		(void)buf_printf(s->to, "\\%c", c);
	} else {
		(void)buf_putc(s->to, c); /* an escape without need */
	}
	return true;
}

/* A backslash inside brackets, which for POSIX is a character like others. */
static bool bracket_escape(struct walk_state *s, bool *close, bool *dash)
{
	char c = s->p[1];

	if (!c)
		return refuse(s, "The pattern ends inside brackets.");
	s->p += 2;
	if (members(c))
		(void)buf_puts(s->to, members(c));
	else if (control(c))
		(void)buf_putc(s->to, control(c));
	else if (c == ']')
		*close = true;
	else if (c == '-')
		*dash = true;
	else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return refuse(s, "The pattern has an escape in brackets that is not supported.");
	else
		(void)buf_putc(s->to, c);
	return true;
}

/* The members up to the closing bracket, on which p stands then. */
static bool bracket_members(struct walk_state *s, bool *close, bool *dash)
{
	if (*s->p == ']') {
		*close = true;
		s->p++;
	}
	while (*s->p && *s->p != ']') {
		const char *end = s->p[0] == '[' && s->p[1] == ':' ? strstr(s->p, ":]") : NULL;
		if (end) {
			(void)buf_add(s->to, s->p, (size_t)(end + 2 - s->p));
			s->p = end + 2;
		} else if (*s->p != '\\') {
			(void)buf_putc(s->to, *s->p++);
		} else if (!bracket_escape(s, close, dash)) {
			return false;
		}
	}
	return *s->p || refuse(s, "A bracket in the pattern is not closed.");
}

/* p stands on the opening bracket. ] goes to the front and - to the end, where POSIX takes them as they are. */
static bool bracket(struct walk_state *s)
{
	bool negated = s->p[1] == '^', close = false, dash = false;
	struct buf *outer = s->to;
	auto_buf inner = BUF_INIT(SIZE_MAX);

	s->p += 1 + negated;
	s->to = &inner;
	bool good = bracket_members(s, &close, &dash);
	s->to = outer;
	if (!good)
		return false;
	s->p++;
	/* An escaped ^ that comes first would turn the meaning: it goes behind the others. */
	bool hat = !negated && !close && inner.len > 0 && inner.data[0] == '^';
	if (hat && inner.len == 1 && !dash)
		(void)buf_puts(outer, "\\^");
	else
		(void)buf_printf(outer, "[%s%s%s%s%s]", negated ? "^" : "", close ? "]" : "", buf_str(&inner) + hat,
				 hat ? "^" : "", dash ? "-" : "");
	return true;
}

static bool group(struct walk_state *s)
{
	if (s->p[1] != '?') {
		(void)buf_putc(s->to, *s->p++);
		return true;
	}
	if (s->p[2] != ':')
		return refuse(s, "Groups with (? are not supported, but (?: ) is; -i ignores case.");
	(void)buf_putc(s->to, '(');
	s->p += 3;
	return true;
}

/* Behind a quantifier a ? or + says how much it takes, which does not change whether a line matches. */
static void quantifier(struct walk_state *s)
{
	(void)buf_putc(s->to, *s->p++);
	if (*s->p == '?' || *s->p == '+')
		s->p++;
}

/* A { that does not open a count is itself. */
static bool is_count(const char *p)
{
	size_t n = strspn(p + 1, "0123456789,");

	return n > 0 && p[1] != ',' && p[1 + n] == '}';
}

static void brace(struct walk_state *s)
{
	if (!is_count(s->p)) {
		(void)buf_puts(s->to, "\\{");
		s->p++;
		return;
	}
	size_t n = strcspn(s->p, "}");
	(void)buf_add(s->to, s->p, n);
	s->p += n;
	quantifier(s);
}

bool ere_write(struct buf *to, const char *pattern, const char **ret_why)
{
	struct walk_state s = {.p = pattern, .to = to};
	bool good = true;

	while (good && *s.p) {
		switch (*s.p) {
		case '\\':
			good = escape(&s);
			break;
		case '[':
			good = bracket(&s);
			break;
		case '(':
			good = group(&s);
			break;
		case '*':
		case '+':
		case '?':
			quantifier(&s);
			break;
		case '{':
			brace(&s);
			break;
		case '}':
			(void)buf_puts(to, "\\}");
			s.p++;
			break;
		default:
			(void)buf_putc(to, *s.p++);
		}
	}
	if (!good)
		*ret_why = s.why;
	return good;
}

static const char *skip_bracket(const char *p)
{
	p += 1 + (p[1] == '^');
	p += *p == ']';
	while (*p && *p != ']') {
		const char *end = p[0] == '[' && p[1] == ':' ? strstr(p, ":]") : NULL;
		p = end ? end + 2 : p + 1 + (*p == '\\' && p[1]);
	}
	return p + (*p == ']');
}

static const char *skip_group(const char *p)
{
	int depth = 0;

	do {
		if (*p == '[') {
			p = skip_bracket(p);
			continue;
		}
		depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
		p += 1 + (*p == '\\' && p[1]);
	} while (*p && depth > 0);
	return p;
}

/* The texts between what is not plain: the current one, and the longest so far. */
struct runs {
	struct buf now;
	struct buf best;
};

/* undo: the last character is not needed after all. */
static void end_run(struct runs *r, bool undo)
{
	if (undo && r->now.len)
		r->now.data[--r->now.len] = '\0';
	if (r->now.len > r->best.len) {
		buf_clear(&r->best);
		(void)buf_add(&r->best, r->now.data, r->now.len);
	}
	buf_clear(&r->now);
}

/* Steps over one element of the pattern. */
static const char *step_run(struct runs *r, const char *p)
{
	if (*p == '\\' && (!((p[1] | 0x20) >= 'a' && (p[1] | 0x20) <= 'z') && !strchr("<>", p[1]))) {
		(void)buf_putc(&r->now, p[1]);
		return p + 2;
	}
	if (strchr("*?", *p) || (*p == '{' && is_count(p))) {
		end_run(r, true);
		return *p == '{' ? strchr(p, '}') + 1 : p + 1;
	}
	if (strchr("\\[(.^$+)", *p)) {
		end_run(r, false);
		return *p == '\\' ? p + 2 : *p == '[' ? skip_bracket(p) : *p == '(' ? skip_group(p) : p + 1;
	}
	(void)buf_putc(&r->now, *p);
	return p + 1;
}

char *ere_must(const char *pattern)
{
	struct runs r = {BUF_INIT(SIZE_MAX), BUF_INIT(SIZE_MAX)};

	for (const char *p = pattern; *p;) {
		if (*p == '|') {
			/* One side of an alternative is enough. */
			buf_clear(&r.now);
			buf_clear(&r.best);
			break;
		}
		p = step_run(&r, p);
	}
	end_run(&r, false);
	buf_done(&r.now);
	return buf_steal(&r.best);
}

bool ere_is_literal(const char *pattern)
{
	return !strpbrk(pattern, ".[]{}()*+?|^$\\\n");
}
