/* HTML made readable, for a model: tags cost tokens and say little.
 *
 * This is no parser of HTML, and need not be one: whatever it makes of a page is only read. It goes over the bytes
 * once, without recursion, keeps no tree, and what is not closed ends with the page. */
#include "html.h"

#include <base/mem.h>
#include <base/str.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME = 16, HREF_MAX = 500, ENTITY_MAX = 10 };

struct page {
	struct buf *to;
	const char *p, *end;
	bool space;	   /* white space came since the last word */
	unsigned newlines; /* that stand at the end of the text */
	bool full;
	char href[HREF_MAX + 1]; /* of the link that is open */
};

static void put(struct page *g, const char *s, size_t len)
{
	if (!g->full && buf_add(g->to, s, len) < 0)
		g->full = true;
	g->newlines = 0;
	g->space = false;
}

/* A new line, and with two of them an empty one between; never more. */
static void break_line(struct page *g, unsigned wanted)
{
	g->space = false;
	if (!g->to->len)
		return;
	while (g->newlines < wanted && !g->full) {
		if (buf_putc(g->to, '\n') < 0)
			g->full = true;
		g->newlines++;
	}
}

static void put_word(struct page *g, const char *s, size_t len)
{
	if (g->space && g->to->len && !g->newlines)
		put(g, " ", 1);
	put(g, s, len);
}

/* --- entities --- */

static size_t utf8_of(unsigned long c, char to[4])
{
	if (c < 0x20 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n; i-- > 1; c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
	return n;
}

static const struct {
	const char *name, *text;
} entities[] = {
	{"amp", "&"},	{"lt", "<"},	 {"gt", ">"},	  {"quot", "\""},  {"apos", "'"},
	{"nbsp", " "},	{"copy", "(c)"}, {"ndash", "-"},  {"mdash", "-"},  {"hellip", "..."},
	{"lsquo", "'"}, {"rsquo", "'"},	 {"ldquo", "\""}, {"rdquo", "\""}, {"middot", "·"},
};

/* p stands at '&': writes what it means and moves on. */
static void take_entity(struct page *g)
{
	const char *semicolon = memchr(g->p, ';', MIN((size_t)(g->end - g->p), (size_t)ENTITY_MAX));
	size_t len = semicolon ? (size_t)(semicolon - g->p) - 1 : 0;
	char name[ENTITY_MAX] = "", code[4];

	memcpy(name, g->p + 1, len);
	if (name[0] == '#') {
		bool hex = (name[1] | 0x20) == 'x';
		size_t n = utf8_of(strtoul(name + (hex ? 2 : 1), NULL, hex ? 16 : 10), code);
		put_word(g, code, n);
		g->p = semicolon + 1;
		return;
	}
	for (size_t i = 0; len && i < ARRAY_LEN(entities); i++) {
		if (!str_eq(entities[i].name, name))
			continue;
		if (entities[i].text[0] == ' ')
			g->space = true;
		else
			put_word(g, entities[i].text, strlen(entities[i].text));
		g->p = semicolon + 1;
		return;
	}
	put_word(g, g->p++, 1);
}

/* --- tags --- */

/* Past "</name" of an element whose content is no text. */
static void skip_element(struct page *g, const char *name)
{
	size_t len = strlen(name);

	for (; g->p < g->end; g->p++)
		if (*g->p == '<' && (size_t)(g->end - g->p) > len + 2 && g->p[1] == '/' &&
		    strncasecmp(g->p + 2, name, len) == 0)
			return;
}

/* Behind the '>' that ends a tag; quotes may hold others. */
static const char *tag_end(const char *p, const char *end)
{
	char quote = '\0';

	for (; p < end; p++) {
		if (quote)
			quote = *p == quote ? '\0' : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		else if (*p == '>')
			return p + 1;
	}
	return end;
}

static void take_href(struct page *g, const char *tag, const char *end)
{
	g->href[0] = '\0';
	for (; end - tag > 6; tag++) {
		if (strncasecmp(tag, "href=", 5) != 0)
			continue;
		char quote = tag[5];
		const char *from = tag + 5 + (quote == '"' || quote == '\'');
		const char *to = from;
		while (to < end - 1 && (from == tag + 5 ? !isspace((unsigned char)*to) : *to != quote))
			to++;
		size_t len = MIN((size_t)(to - from), (size_t)HREF_MAX);
		/* What is no address of another page says nothing. */
		if (len && (*from == '#' || (len > 11 && strncasecmp(from, "javascript:", 11) == 0)))
			len = 0;
		memcpy(g->href, from, len);
		g->href[len] = '\0';
		return;
	}
}

static void end_link(struct page *g)
{
	if (g->href[0]) {
		put(g, " (", 2);
		put(g, g->href, strlen(g->href));
		put(g, ")", 1);
	}
	g->href[0] = '\0';
}

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (str_eq(*list, name))
			return true;
	return false;
}

static void act_on(struct page *g, const char *name, bool closing, const char *tag, const char *end)
{
	static const char *const silent[] = {"script", "style", "noscript", "template", "svg", "head", NULL};
	static const char *const blocks[] = {"p",	   "div",  "section", "article", "ul",	  "ol",	   "table",
					     "tr",	   "pre",  "header",  "footer",	 "main",  "aside", "nav",
					     "blockquote", "form", "figure",  "dl",	 "title", NULL};

	if (!closing && is_one_of(name, silent)) {
		skip_element(g, name);
	} else if (str_eq(name, "a")) {
		if (closing)
			end_link(g);
		else
			take_href(g, tag, end);
	} else if (name[0] == 'h' && name[1] >= '1' && name[1] <= '6' && !name[2]) {
		break_line(g, 2);
		for (char c = '0'; !closing && c < name[1]; c++)
			put(g, "#", 1);
		g->space = !closing;
	} else if (str_eq(name, "li") || str_eq(name, "dt") || str_eq(name, "dd")) {
		break_line(g, 1);
		if (!closing)
			put(g, "- ", 2);
	} else if (str_eq(name, "br")) {
		break_line(g, g->newlines + 1 > 2 ? 2 : g->newlines + 1);
	} else if (str_eq(name, "td") || str_eq(name, "th")) {
		g->space = true;
	} else if (is_one_of(name, blocks)) {
		break_line(g, str_eq(name, "tr") ? 1 : 2);
	}
}

/* p stands at '<'. */
static void take_tag(struct page *g)
{
	const char *tag = g->p;
	char name[NAME] = "";
	size_t n = 0;

	if (g->end - tag >= 4 && memcmp(tag, "<!--", 4) == 0) {
		const char *close = memmem(tag + 4, (size_t)(g->end - tag) - 4, "-->", 3);
		g->p = close ? close + 3 : g->end;
		return;
	}
	bool closing = tag + 1 < g->end && tag[1] == '/';
	const char *p = tag + 1 + closing;
	if (p >= g->end || (!isalpha((unsigned char)*p) && *p != '!' && *p != '?')) {
		put_word(g, g->p++, 1);
		return;
	}
	for (; p < g->end && isalnum((unsigned char)*p) && n < NAME - 1; p++)
		name[n++] = (char)tolower((unsigned char)*p);
	g->p = tag_end(p, g->end);
	act_on(g, name, closing, tag, g->p);
}

int html_to_text(struct buf *to, const char *html, size_t len)
{
	struct page g = {.to = to, .p = html, .end = html + len};

	while (g.p < g.end && !g.full) {
		const char *from = g.p;
		if (*g.p == '<') {
			take_tag(&g);
		} else if (*g.p == '&') {
			take_entity(&g);
		} else if (isspace((unsigned char)*g.p)) {
			g.space = true;
			g.p++;
		} else {
			while (g.p < g.end && !strchr("<& \t\r\n\f\v", *g.p))
				g.p++;
			/* strchr finds a NUL too: it is left out. */
			if (g.p == from)
				g.p++;
			else
				put_word(&g, from, (size_t)(g.p - from));
		}
	}
	return g.full ? -ENOBUFS : 0;
}

bool html_is(const char *type, const char *text, size_t len)
{
	size_t at = 0;

	if (type)
		return strncasecmp(type, "text/html", 9) == 0 || strncasecmp(type, "application/xhtml", 17) == 0;
	while (at < len && isspace((unsigned char)text[at]))
		at++;
	return len - at >= 6 && (strncasecmp(text + at, "<!doct", 6) == 0 || strncasecmp(text + at, "<html", 5) == 0);
}
