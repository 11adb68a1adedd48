/* `report`: one run as a page, Markdown or HTML.
 *
 * The page is made in memory and goes out whole: into a file in one step, so that whoever reads it sees the old page or
 * the new one, or to standard output. */
#include "commands.h"
#include "output.h"
#include "place.h"
#include "report.h"
#include "run_choice.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <store/read.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MAX_PAGE = 256 * 1024 * 1024 };

struct report_opts {
	const char *store_dir;
	const char *format;
	const char *output;
};

static bool wants_html(const struct report_opts *o)
{
	if (o->format)
		return str_eq(o->format, "html");
	return o->output && (str_ends(o->output, ".html") || str_ends(o->output, ".htm"));
}

/* A device or a pipe cannot be replaced in one step, and replacing one would do harm. */
static int write_file(const char *path, const struct buf *b, struct err *e)
{
	auto_free char *real = realpath(path, NULL);
	struct stat st;
	int r;

	if (real && stat(real, &st) == 0 && !S_ISREG(st.st_mode)) {
		r = err_set(e, ERR_INPUT, EINVAL, "report: write %s: not a regular file", path);
		err_hint(e, "Without --output the page is printed; send that where it is to go.");
		return r;
	}
	r = file_replace(AT_FDCWD, real ? real : path, b->data, b->len, 0644, FILE_NO_SYNC, e);
	if (r < 0) {
		err_set_kind(e, ERR_INPUT);
		err_hint(e, "Name a file in a folder that exists, where there is room and that you may write.");
	}
	return r;
}

static int write_page(const struct report_opts *o, const struct page *p, struct err *e)
{
	if (p->failed) {
		int r = err_set(e, ERR_UNSUPPORTED, EFBIG, "report: the page is larger than %d MiB",
				MAX_PAGE / 1024 / 1024);
		err_hint(e, "`iterion inspect --json` and `iterion logs --json` give the same piece by piece.");
		return r;
	}
	if (o->output && !str_eq(o->output, "-"))
		return write_file(o->output, &p->b, e);
	out_raw(p->b.data, p->b.len);
	return 0;
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct report_opts *o = inv->options;
	auto_free char *store = NULL, *id = NULL;
	struct page page = {.b = BUF_INIT(MAX_PAGE)};

	int r = place_store_here(o->store_dir, &store, e);
	if (r == 0)
		r = run_choose(store, inv->n_args ? inv->args[0] : NULL, &id, e);
	if (r < 0)
		return r;
	auto_json record = store_read_run(store, id, e);
	if (!record)
		return -EIO;
	struct report report = {.record = record};
	r = report_read(&report, store, id, e);
	if (r == 0) {
		if (wants_html(o))
			report_html(&report, &page);
		else
			report_markdown(&report, &page);
		r = write_page(o, &page, e);
	}
	report_done(&report);
	buf_done(&page.b);
	return r;
}

static const char *const formats[] = {"md", "html", NULL};

static const struct option_row options[] = {
	{.name = "format",
	 .kind = OPTION_WORD,
	 .value = "FORMAT",
	 .words = formats,
	 .offset = offsetof(struct report_opts, format),
	 .help = "md or html (default: html when FILE ends so, else md)"},
	{.name = "output",
	 .letter = 'o',
	 .kind = OPTION_STRING,
	 .value = "FILE",
	 .offset = offsetof(struct report_opts, output),
	 .help = "write the page to FILE, whole or not at all (default: standard output)"},
	STORE_DIR_ROW(struct report_opts, store_dir),
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion report >report.md", "The newest run."},
	{"iterion report nightly -o nightly.html", "The run named nightly as one HTML file."},
	{NULL, NULL},
};

const struct command command_report = {
	.name = "report",
	.operands = "[RUN]",
	.summary = "one run as a Markdown or HTML page",
	.about =
		"What the run was and how it ended, the edges it took, when each node ran and what it put out, and the "
		"hosts it asked for. Markdown draws its diagrams by Mermaid; the HTML page is one file with its "
		"drawings "
		"in it, without scripts and without anything from elsewhere. RUN is a run's id, the beginning of one, "
		"or "
		"a run's name; without it the newest run is meant.",
	.examples = examples,
	.options = options,
	.options_size = sizeof(struct report_opts),
	.max_args = 1,
	.run = run,
};
