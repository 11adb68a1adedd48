/* Help, made from the tables that the parser works from, so that the two cannot differ. */
#include "command.h"
#include "output.h"

#include <base/buf.h>
#include <base/mem.h>
#include <base/str.h>

#include <string.h>

enum { WIDTH = 80, COLUMN = 30 };

static const struct help_row usual_exits[] = {
	{"0", "success"},
	{"1", "it failed; standard error says why"},
	{"2", "bad usage or bad input; nothing was done"},
	{NULL, NULL},
};

static void heading(const char *text)
{
	out_style(STYLE_BOLD);
	out_printf("%s", text);
	out_style(STYLE_PLAIN);
	out_printf("\n");
}

/* Breaks text into lines of WIDTH, the first beginning at column `at`, the others at `indent`. A newline in the text
 * begins a new line. */
static void wrapped(const char *text, size_t at, size_t indent)
{
	while (*text) {
		size_t len = strcspn(text, " \n");
		if (at > indent && at + len > WIDTH) {
			out_printf("\n%*s", (int)indent, "");
			at = indent;
		}
		out_printf("%.*s", (int)len, text);
		at += len;
		text += len;
		if (*text == '\n') {
			out_printf("\n%*s", text[1] == '\n' ? 0 : (int)indent, "");
			at = indent;
			text++;
		} else if (*text == ' ') {
			text++;
			if (at + 1 + strcspn(text, " \n") <= WIDTH) {
				out_printf(" ");
				at++;
			} else {
				out_printf("\n%*s", (int)indent, "");
				at = indent;
			}
		}
	}
	out_printf("\n");
}

static void two_columns(const char *left, const char *text, size_t column)
{
	size_t used = 2 + strlen(left);

	out_printf("  %s", left);
	if (used + 2 > column) {
		out_printf("\n");
		used = 0;
	}
	out_printf("%*s", (int)(column - used), "");
	wrapped(text, column, column);
}

static void option(const struct option_row *o)
{
	auto_buf left = BUF_INIT(512), text = BUF_INIT(4096);

	/* The rows are ours: nothing here comes near the limits. */
	(void)(o->letter ? buf_printf(&left, "-%c, ", o->letter) : buf_puts(&left, "    "));
	(void)buf_printf(&left, "--%s", o->name);
	if (o->value)
		(void)buf_printf(&left, " %s", o->value);
	(void)buf_puts(&text, o->help);
	if (o->kind == OPTION_WORD) {
		(void)buf_puts(&text, "; one of ");
		for (size_t i = 0; o->words[i]; i++)
			(void)buf_printf(&text, "%s%s", i == 0 ? "" : !o->words[i + 1] ? " or " : ", ", o->words[i]);
	}
	if (o->kind == OPTION_LIST)
		(void)buf_puts(&text, " (may be given again)");
	two_columns(buf_str(&left), buf_str(&text), COLUMN);
}

void help_command(const struct command *c)
{
	static const struct option_row help_row = {
		.name = "help", .letter = 'h', .kind = OPTION_FLAG, .help = "show this text"};
	const struct help_row *exits = c->exits ? c->exits : usual_exits;
	bool operands = c->operands[0] != '\0';

	out_printf("iterion %s: %s\n\n", c->name, c->summary);
	heading("Usage:");
	out_printf("  iterion %s%s%s%s\n\n", c->name, c->options ? " [options]" : "", operands ? " " : "", c->operands);
	wrapped(c->about, 0, 0);
	out_printf("\n");
	heading("Options:");
	for (const struct option_row *o = c->options; o && o->name; o++)
		option(o);
	option(&help_row);
	if (c->examples) {
		out_printf("\n");
		heading("Examples:");
		for (const struct help_row *x = c->examples; x->left; x++) {
			out_printf("  %s\n      ", x->left);
			wrapped(x->text, 6, 6);
		}
	}
	out_printf("\n");
	heading("Exit codes:");
	for (const struct help_row *x = exits; x->left; x++)
		two_columns(x->left, x->text, 12);
}

void help_group(size_t n, const char *const *words)
{
	out_printf("iterion: runs workflows of coding agents and tools, each run in a sandbox of its own\n\n");
	heading("Usage:");
	out_printf("  iterion ");
	for (size_t i = 0; i < n; i++)
		out_printf("%s ", words[i]);
	out_printf("COMMAND [options] …\n\n");
	heading("Commands:");
	for (size_t i = 0; i < n_commands; i++)
		if (command_in_group(commands[i], n, words))
			two_columns(commands[i]->name, commands[i]->summary, COLUMN - 4);
	out_printf("\n`iterion COMMAND --help` explains a command, its options and exit codes, with examples.\n");
}
