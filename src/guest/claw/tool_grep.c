/* Grep: searching the text of a tree. Binary files, files past a size, and what walk.c passes over are left out. */
#include "args.h"
#include "ere.h"
#include "glob.h"
#include "grep.h"
#include "walk.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>
#include <base/path.h>

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 16 * 1024 * 1024, SNIFF = 8 * 1024, SHOWN = 30000, CONTEXT = 100 };

struct request {
	char *pattern, *path, *glob, *type, *mode;
	bool multiline;
};

static void request_done(struct request *q)
{
	free(q->pattern);
	free(q->path);
	free(q->glob);
	free(q->type);
	free(q->mode);
}

struct search {
	struct grep grep;
	struct glob *glob, *type;
	const char *root;
	struct tool_result *r;
	size_t large; /* files that were left out for their size */
};

static void search_file(struct search *s, int dirfd, const char *name, const char *shown)
{
	char *got = NULL;
	size_t len;

	int read = file_read(dirfd, name, FILE_MAX, &got, &len, NULL);
	auto_free char *text = got;
	if (read == -EFBIG)
		s->large++;
	if (read < 0 || memchr(text, '\0', MIN(len, (size_t)SNIFF)))
		return;
	s->grep.name = shown;
	size_t found = grep_text(&s->grep, text, len);
	if (!found || s->grep.mode == GREP_CONTENT)
		return;
	if (s->grep.to->len >= SHOWN || (s->grep.limit && s->grep.lines >= s->grep.limit)) {
		s->grep.full = true;
		return;
	}
	if (s->grep.mode == GREP_FILES)
		(void)buf_printf(s->grep.to, "%s\n", shown);
	else
		(void)buf_printf(s->grep.to, "%s:%zu\n", shown, found);
	s->grep.lines++;
}

static bool on_file(void *arg, int dirfd, const char *name, const char *path, const struct stat *st)
{
	struct search *s = arg;
	(void)st;

	/* A pattern without a slash means the name, wherever the file is. */
	if ((s->glob && !glob_match(s->glob, path) && !glob_match(s->glob, name)) ||
	    (s->type && !glob_match(s->type, name)))
		return true;
	auto_free char *shown = path_join(s->root, path);
	search_file(s, dirfd, name, shown);
	return !s->grep.full;
}

static bool set_mode(struct grep *g, const char *mode, struct tool_result *r)
{
	static const char *const names[] = {"files_with_matches", "content", "count"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (mode && strcmp(mode, names[i]) != 0)
			continue;
		g->mode = (enum grep_mode)i;
		return true;
	}
	return tool_fail(r, "output_mode must be files_with_matches, content or count.");
}

static const struct {
	const char *type;
	const char *glob;
} types[] = {
	{"c", "*.{c,h}"},
	{"cpp", "*.{cpp,cc,cxx,hpp,hh,h}"},
	{"css", "*.{css,scss}"},
	{"go", "*.go"},
	{"html", "*.{html,htm}"},
	{"java", "*.java"},
	{"js", "*.{js,jsx,mjs,cjs}"},
	{"json", "*.json"},
	{"md", "*.{md,markdown}"},
	{"php", "*.php"},
	{"py", "*.{py,pyi}"},
	{"ruby", "*.rb"},
	{"rust", "*.rs"},
	{"sh", "*.{sh,bash}"},
	{"toml", "*.toml"},
	{"ts", "*.{ts,tsx,mts,cts}"},
	{"yaml", "*.{yaml,yml}"},
};

static bool set_filters(struct search *s, const struct request *q, struct tool_result *r)
{
	if (q->glob && !(s->glob = glob_new(q->glob)))
		return tool_fail(r, "glob is malformed or longer than %d characters.", GLOB_MAX);
	for (size_t i = 0; q->type && !s->type && i < ARRAY_LEN(types); i++)
		if (strcmp(q->type, types[i].type) == 0)
			s->type = glob_new(types[i].glob);
	return !q->type || s->type || tool_fail(r, "type %.50s is unknown: use glob instead.", q->type);
}

static bool compile(struct grep *g, const char *pattern, char **ret_must, struct tool_result *r)
{
	auto_buf ere = BUF_INIT(64 * 1024);
	const char *why = NULL;
	char text[200];

	if (strlen(pattern) > 4000)
		return tool_fail(r, "pattern is longer than 4000 characters.");
	if (!ere_write(&ere, pattern, &why))
		return tool_fail(r, "%s", why);
	int bad = regcomp(&g->re, buf_str(&ere), REG_EXTENDED | REG_NOSUB | (g->ignore_case ? REG_ICASE : 0));
	if (bad) {
		regerror(bad, &g->re, text, sizeof text);
		return tool_fail(r, "pattern is no regular expression: %s.", text);
	}
	*ret_must = ere_must(pattern);
	g->must = (*ret_must)[0] ? *ret_must : NULL;
	g->literal = g->must && ere_is_literal(pattern);
	return true;
}

static bool read_request(struct tools *t, struct jv input, struct request *q, struct grep *g, struct tool_result *r)
{
	long long context = -1;

	if (!arg_str(input, "pattern", &q->pattern, r) || !arg_opt_path(t, input, "path", &q->path, r) ||
	    !arg_opt_str(input, "glob", &q->glob, r) || !arg_opt_str(input, "type", &q->type, r) ||
	    !arg_opt_str(input, "output_mode", &q->mode, r) || !arg_opt_bool(input, "-i", &g->ignore_case, r) ||
	    !arg_opt_bool(input, "-n", &g->numbers, r) || !arg_opt_int(input, "-B", 0, CONTEXT, &g->before, r) ||
	    !arg_opt_int(input, "-A", 0, CONTEXT, &g->after, r) || !arg_opt_int(input, "-C", 0, CONTEXT, &context, r) ||
	    !arg_opt_int(input, "head_limit", 0, 1000 * 1000, &g->limit, r) ||
	    !arg_opt_bool(input, "multiline", &q->multiline, r))
		return false;
	if (context >= 0)
		g->before = g->after = context;
	if (q->multiline)
		return tool_fail(r, "multiline is not supported: search for one line and read the file there.");
	if (!q->pattern[0])
		return tool_fail(r, "pattern is empty.");
	return set_mode(g, q->mode, r);
}

static void write_notes(const struct search *s, int walked, struct tool_result *r)
{
	if (!r->text.len)
		(void)buf_puts(&r->text, s->grep.mode == GREP_FILES ? "No files found.\n" : "No matches found.\n");
	if (s->grep.full)
		(void)buf_puts(&r->text, "[there is more: narrow the pattern or the path]\n");
	if (s->large)
		(void)buf_printf(&r->text, "[%zu files larger than %d bytes were not searched]\n", s->large, FILE_MAX);
	if (walked == -EFBIG)
		(void)buf_printf(&r->text, "[the search ended after %d entries: narrow the path]\n", WALK_ENTRIES);
}

static void search(struct search *s, const struct request *q, const char *root, struct tool_result *r)
{
	struct walk_opts o = {.file = on_file, .arg = s};
	struct stat st;
	int walked = 0;

	if (stat(root, &st) < 0) {
		tool_fail(r, "%s cannot be searched: %s.", root, strerror(errno));
		return;
	}
	s->root = root;
	o.everything = q->glob && (strstr(q->glob, "node_modules") || strstr(q->glob, ".git/"));
	if (S_ISDIR(st.st_mode))
		walked = walk_tree(root, &o);
	else
		search_file(s, AT_FDCWD, root, root);
	if (walked < 0 && walked != -EFBIG)
		tool_fail(r, "%s cannot be searched: %s.", root, strerror(-walked));
	else
		write_notes(s, walked, r);
}

static void grep_run(struct tools *t, struct jv input, struct tool_result *r)
{
	struct request q = {0};
	char *must = NULL;
	struct search s = {.r = r, .grep = {.numbers = true, .to = &r->text}};

	if (read_request(t, input, &q, &s.grep, r) && set_filters(&s, &q, r) && compile(&s.grep, q.pattern, &must, r)) {
		search(&s, &q, q.path ? q.path : t->work_dir, r);
		regfree(&s.grep.re);
	}
	free(must);
	glob_free(s.glob);
	glob_free(s.type);
	request_done(&q);
}

const struct tool tool_grep = {
	.name = "Grep",
	.description =
		"Searches the text of files for a regular expression, line by line. output_mode files_with_matches "
		"(the usual) names the files, content shows the lines, count counts them. .git, node_modules "
		"and binary files are passed over.",
	.schema =
		"{\"type\":\"object\",\"properties\":{\"pattern\":{\"type\":\"string\",\"description\":\"regular "
		"expression; no look-around, no back "
		"references\"},\"path\":{\"type\":\"string\",\"description\":\"file "
		"or folder; the working folder when absent\"},\"glob\":{\"type\":\"string\",\"description\":\"only "
		"files that match, such as *.js or src/**/*.c\"},\"type\":{\"type\":\"string\",\"description\":\"only "
		"files of a type: c, cpp, go, java, js, json, md, py, rust, sh, ts, yaml, ...\"},\"output_mode\":{"
		"\"type\":\"string\",\"enum\":[\"files_with_matches\",\"content\",\"count\"]},\"-i\":{\"type\":"
		"\"boolean\",\"description\":\"ignore case\"},\"-n\":{\"type\":\"boolean\",\"description\":\"line "
		"numbers with content; true when absent\"},\"-A\":{\"type\":\"number\",\"description\":\"lines "
		"after\"},"
		"\"-B\":{\"type\":\"number\",\"description\":\"lines before\"},\"-C\":{\"type\":\"number\","
		"\"description\":\"lines before and "
		"after\"},\"head_limit\":{\"type\":\"number\",\"description\":\"most "
		"lines of output\"}},\"required\":[\"pattern\"]}",
	.flags = TOOL_READS | TOOL_WORKER,
	.run = grep_run,
};
