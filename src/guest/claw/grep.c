/* The search in one file: line by line, with context lines, bounded output.
 *
 * Most patterns hold some plain text, and most files do not: those are passed over by memmem before any line is looked
 * at, and most lines of the others before the matcher is, which is many times slower. The matcher wants strings that
 * end in NUL, so the newlines of the text, which is ours, are written over.
 */
#include "grep.h"

#include <base/mem.h>

#include <string.h>

enum { SHOWN = 30000, LINE_SHOWN = 500 };

static bool matches(const struct grep *g, const char *line)
{
	if (g->must && !(g->ignore_case ? strcasestr(line, g->must) : strstr(line, g->must)))
		return false;
	return g->literal || regexec(&g->re, line, 0, NULL, 0) == 0;
}

static void show(struct grep *g, const char *line, size_t number, char mark)
{
	size_t len = strlen(line);

	if (g->to->len >= SHOWN || (g->limit && g->lines >= g->limit)) {
		g->full = true;
		return;
	}
	(void)buf_printf(g->to, "%s%c", g->name, mark);
	if (g->numbers)
		(void)buf_printf(g->to, "%zu%c", number, mark);
	(void)buf_add(g->to, line, MIN(len, (size_t)LINE_SHOWN));
	(void)buf_puts(g->to, len > LINE_SHOWN ? "… [the line goes on]\n" : "\n");
	g->lines++;
}

/* The last lines, which become context when the next one matches. */
struct window {
	size_t shown;	 /* lines up to this number were shown */
	size_t until;	 /* context goes on to this number */
	const char **at; /* of the last g->before lines, as a ring */
};

static void show_match(struct grep *g, struct window *w, const char *line, size_t number)
{
	size_t before = (size_t)g->before, first = number > before ? number - before : 1;

	first = MAX(first, w->shown + 1);
	if (w->shown && first > w->shown + 1 && (g->before || g->after))
		(void)buf_puts(g->to, "--\n");
	for (size_t i = first; i < number; i++)
		show(g, w->at[i % before], i, '-');
	show(g, line, number, ':');
	w->shown = number;
	w->until = number + (size_t)g->after;
}

static void note_line(const struct grep *g, struct window *w, const char *line, size_t number)
{
	if (g->before)
		w->at[number % (size_t)g->before] = line;
}

size_t grep_text(struct grep *g, char *text, size_t len)
{
	const char *ring[101] = {0};
	struct window w = {.at = ring};
	size_t number = 0, found = 0;

	if (g->must && !g->ignore_case && !memmem(text, len, g->must, strlen(g->must)))
		return 0;
	for (char *line = text, *end = text + len; line < end && !g->full;) {
		char *nl = memchr(line, '\n', (size_t)(end - line));
		char *next = nl ? nl + 1 : end;
		if (nl)
			*nl = '\0';
		if (nl && nl > line && nl[-1] == '\r')
			nl[-1] = '\0';
		number++;
		bool hit = matches(g, line);
		found += hit;
		if (g->mode == GREP_FILES && hit)
			return found;
		if (g->mode == GREP_CONTENT && hit) {
			show_match(g, &w, line, number);
		} else if (g->mode == GREP_CONTENT && number <= w.until) {
			show(g, line, number, '-');
			w.shown = number;
		}
		note_line(g, &w, line, number);
		line = next;
	}
	return found;
}
