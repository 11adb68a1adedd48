/* A shell command, as far as a policy has to understand it.
 *
 * A pattern such as git * is meant for one program's command line, and `git status; rm -rf .` is two. The line is cut
 * where a shell cuts it. This is no shell: what it cannot be sure about makes the whole "unclear", and an allow list
 * then says no. A deny list alone is a reminder for the model, not a wall: that is the sandbox. */
#include "command.h"

#include <base/buf.h>
#include <base/mem.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct splitter {
	const char *p;
	struct buf part;
	struct command *to;
};

static const char ends_word[] = " \t\n;&|()<>";

static void end_part(struct splitter *s)
{
	char *text = buf_steal(&s->part), *from = text + strspn(text, " \t");
	size_t len = strlen(from);

	while (len > 0 && strchr(" \t", from[len - 1]))
		len--;
	if (len)
		strv_take(&s->to->parts, xstrndup(from, len));
	free(text);
}

static void put(struct splitter *s, char c)
{
	(void)buf_putc(&s->part, c);
}

static void single_quotes(struct splitter *s)
{
	const char *end = strchr(s->p + 1, '\'');

	if (!end) {
		s->to->unclear = true;
		s->p += strlen(s->p);
		return;
	}
	(void)buf_add(&s->part, s->p + 1, (size_t)(end - s->p - 1));
	s->p = end + 1;
}

/* A variable's value may be anything: as the name of a program, as a word of an option. */
static void dollar(struct splitter *s)
{
	s->to->unclear = true;
	put(s, *s->p++);
}

static void double_quotes(struct splitter *s)
{
	for (s->p++; *s->p && *s->p != '"';) {
		if (*s->p == '\\' && s->p[1]) {
			put(s, s->p[1]);
			s->p += 2;
		} else if (*s->p == '$' || *s->p == '`') {
			dollar(s);
		} else {
			put(s, *s->p++);
		}
	}
	if (*s->p)
		s->p++;
	else
		s->to->unclear = true;
}

/* p stands on < or >. Only >/dev/null and copies of descriptors (2>&1) write nowhere. */
static void redirect(struct splitter *s)
{
	bool out = *s->p == '>';

	if (s->p[1] == '(' || (!out && s->p[1] == '<'))
		s->to->unclear = true;
	s->p++;
	if (*s->p == '>' || *s->p == '|') {
		out = true;
		s->p++;
	}
	size_t copied = *s->p == '&' ? strspn(s->p + 1, "0123456789-") : 0;
	if (copied && (!s->p[1 + copied] || strchr(ends_word, s->p[1 + copied]))) {
		s->p += 1 + copied;
		return;
	}
	if (*s->p == '&')
		s->p++;
	s->p += strspn(s->p, " \t");
	static const char null[] = "/dev/null";
	size_t n = strcspn(s->p, ends_word);
	bool nowhere = n == sizeof null - 1 && memcmp(s->p, null, n) == 0;
	if (out && !nowhere)
		s->to->writes = true;
	if (nowhere || !out)
		put(s, ' ');
	if (nowhere)
		s->p += n;
}

static bool separator(struct splitter *s)
{
	if (!strchr(";&|\n()", *s->p))
		return false;
	/* &> is a redirection of both outputs. */
	if (*s->p == '&' && s->p[1] == '>') {
		s->p++;
		redirect(s);
		return true;
	}
	end_part(s);
	s->p++;
	return true;
}

void command_split(const char *line, struct command *ret)
{
	struct splitter s = {.p = line, .part = BUF_INIT(SIZE_MAX), .to = ret};

	*ret = (struct command){0};
	while (*s.p) {
		if (*s.p == '\\' && s.p[1] == '\n') {
			s.p += 2;
		} else if (*s.p == '\\' && s.p[1]) {
			put(&s, s.p[1]);
			s.p += 2;
		} else if (*s.p == '\'') {
			single_quotes(&s);
		} else if (*s.p == '"') {
			double_quotes(&s);
		} else if (*s.p == '$' || *s.p == '`') {
			dollar(&s);
		} else if (*s.p == '<' || *s.p == '>') {
			redirect(&s);
		} else if (!separator(&s)) {
			put(&s, *s.p == '\t' ? ' ' : *s.p);
			s.p++;
		}
	}
	end_part(&s);
	buf_done(&s.part);
}

void command_done(struct command *c)
{
	strv_done(&c->parts);
}
