/* `completion`: a shell's completion of commands and options, made from the tables.
 *
 * The script knows the tables as they were when it was made and asks nothing while one types; operands complete as file
 * names. Names of commands and options are ours and need no quoting; what a command is about is prose, and does.
 *
 * bash and zsh share one function, which says what may stand at the cursor; it is written in what both understand, and
 * gives its variables no name that means something to zsh (path, words). */
#include "commands.h"
#include "output.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

static void print_words(const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		out_printf("%s%s", i ? " " : "", words[i]);
}

static void print_options(const struct command *c)
{
	for (const struct option_row *o = c->options; o && o->name; o++)
		out_printf("--%s ", o->name);
	out_printf("--help");
}

/* The next words after a prefix of `depth` words that command i has, each once: whether command i is the first. */
static bool first_with_prefix(size_t i, size_t len)
{
	for (size_t k = 0; k < i; k++)
		if (strncmp(commands[k]->name, commands[i]->name, len) == 0 &&
		    (commands[k]->name[len] == ' ' || !commands[k]->name[len]))
			return false;
	return true;
}

/* The words that can follow `prefix` (with its blank at the end, or empty). */
static void print_next_words(const char *prefix)
{
	size_t n = strlen(prefix);

	for (size_t i = 0; i < n_commands; i++) {
		if (!str_starts(commands[i]->name, prefix))
			continue;
		size_t len = strcspn(commands[i]->name + n, " ");
		if (first_with_prefix(i, n + len))
			out_printf("%.*s ", (int)len, commands[i]->name + n);
	}
}

/* Calls print for each group ("", "sandbox ", "sandbox network ") once. */
static void each_group(void (*print)(const char *prefix))
{
	char prefix[64];

	for (size_t i = 0; i < n_commands; i++) {
		const char *name = commands[i]->name;
		for (const char *blank = strchr(name, ' '); blank; blank = strchr(blank + 1, ' ')) {
			size_t len = (size_t)(blank - name);
			if (len + 2 > sizeof prefix || !first_with_prefix(i, len))
				continue;
			memcpy(prefix, name, len + 1);
			prefix[len + 1] = '\0';
			print(prefix);
		}
	}
}

/* Every name of a command and of a group once, between the strings. */
static void print_places(const char *before, const char *after)
{
	for (size_t i = 0; i < n_commands; i++) {
		const char *name = commands[i]->name;
		for (size_t at = strcspn(name, " ");; at += 1 + strcspn(name + at + 1, " ")) {
			if (first_with_prefix(i, at))
				out_printf("%s%.*s%s", before, (int)at, name, after);
			if (!name[at])
				break;
		}
	}
}

static void offer_in_group(const char *prefix)
{
	out_printf("\t'%.*s') offer='", (int)strlen(prefix) - 1, prefix);
	print_next_words(prefix);
	out_printf("' ;;\n");
}

static void offer_words_of_options(const struct command *c)
{
	for (const struct option_row *o = c->options; o && o->name; o++) {
		if (!o->words)
			continue;
		out_printf("\t'%s --%s') offer='", c->name, o->name);
		print_words(o->words);
		out_printf("'; return ;;\n");
	}
}

/* _iterion_offer PREVIOUS CURRENT WORD…: sets offer; the words are those between the program and the cursor. */
static void offer(void)
{
	out_printf("_iterion_offer() {\n\tlocal prev=$1 cur=$2 at= w=\n\tshift 2\n\toffer=\n\tfor w in \"$@\"; do\n"
		   "\t\tcase $w in -*) continue ;; esac\n\t\tcase \"${at:+$at }$w\" in\n\t\t");
	print_places("'", "' | ");
	out_printf("'') at=\"${at:+$at }$w\" ;;\n\t\tesac\n\tdone\n\tcase \"$at $prev\" in\n");
	for (size_t i = 0; i < n_commands; i++)
		offer_words_of_options(commands[i]);
	out_printf("\tesac\n\tcase $at in\n\t'') offer='");
	print_next_words("");
	out_printf("--help --version' ;;\n");
	each_group(offer_in_group);
	for (size_t i = 0; i < n_commands; i++) {
		out_printf("\t'%s') case $cur in -*) offer='", commands[i]->name);
		print_options(commands[i]);
		out_printf("' ;;");
		if (commands[i] == &command_completion) {
			out_printf(" *) offer='");
			print_words(shells);
			out_printf("' ;;");
		}
		out_printf(" esac ;;\n");
	}
	out_printf("\tesac\n}\n");
}

/* Bash takes --name=value apart: the = is a word of its own. */
static void bash(void)
{
	offer();
	out_printf("_iterion() {\n\tlocal offer= cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		   "\tif [[ $cur == '=' ]]; then\n\t\tcur=\n"
		   "\telif [[ $prev == '=' ]]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
		   "\t_iterion_offer \"$prev\" \"$cur\" \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"\n"
		   "\tCOMPREPLY=($(compgen -W \"$offer\" -- \"$cur\"))\n}\n"
		   "complete -o default -o bashdefault -F _iterion iterion\n");
}

/* It may be found in fpath, where the first completion runs the file as the function, or be read by `source`. */
static void zsh(void)
{
	out_printf("#compdef iterion\n");
	offer();
	out_printf("_iterion() {\n\tlocal offer= cur=${words[CURRENT]} prev=${words[CURRENT-1]}\n"
		   "\tif [[ $cur == --*=* ]]; then\n\t\tprev=${cur%%%%=*}\n\t\tcompset -P '*='\n\t\tcur=$PREFIX\n\tfi\n"
		   "\t_iterion_offer \"$prev\" \"$cur\" \"${(@)words[2,CURRENT-1]}\"\n"
		   "\tif [[ -n $offer ]]; then\n\t\tcompadd -- ${=offer}\n\telse\n\t\t_files\n\tfi\n}\n"
		   "if [[ ${funcstack[1]} == _iterion ]]; then\n\t_iterion \"$@\"\nelse\n\tcompdef _iterion "
		   "iterion\nfi\n");
}

/* In single quotes of fish, where a backslash keeps quotes and itself. */
static void fish_quoted(const char *text)
{
	out_printf("'");
	for (; *text; text++)
		out_printf("%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
	out_printf("'");
}

static void fish_command(const struct command *c)
{
	const char *last = strrchr(c->name, ' ');

	out_printf("complete -c iterion -f -n '__iterion_at \"%.*s\"' -a '%s' -d ", last ? (int)(last - c->name) : 0,
		   c->name, last ? last + 1 : c->name);
	fish_quoted(c->summary);
	out_printf("\n");
	for (const struct option_row *o = c->options; o && o->name; o++) {
		out_printf("complete -c iterion -n '__iterion_at \"%s\"' -l %s", c->name, o->name);
		if (o->letter)
			out_printf(" -s %c", o->letter);
		if (o->words) {
			out_printf(" -x -a '");
			print_words(o->words);
			out_printf("'");
		} else if (o->value) {
			out_printf(" -r");
		}
		out_printf("\n");
	}
}

/* The last word of a group, behind the outer ones. */
static void fish_group(const char *prefix)
{
	auto_free char *name = xstrndup(prefix, strlen(prefix) - 1);
	const char *last = strrchr(name, ' ');

	out_printf("complete -c iterion -f -n '__iterion_at \"%.*s\"' -a '%s'\n", last ? (int)(last - name) : 0, name,
		   last ? last + 1 : name);
}

/* __iterion_at PLACE: whether the words before the cursor lead to this command or group. */
static void fish(void)
{
	out_printf("function __iterion_at\n\tset -l at ''\n\tfor w in (commandline -opc)[2..-1]\n"
		   "\t\tset -l next (string trim -- \"$at $w\")\n\t\tif contains -- $next");
	print_places(" '", "'");
	out_printf("\n\t\t\tset at $next\n\t\tend\n\tend\n\ttest \"$at\" = \"$argv[1]\"\nend\n");
	each_group(fish_group);
	for (size_t i = 0; i < n_commands; i++)
		fish_command(commands[i]);
	out_printf("complete -c iterion -f -n '__iterion_at \"completion\"' -a '");
	print_words(shells);
	out_printf("'\n");
}

static int run(const struct invocation *inv, struct err *e)
{
	static void (*const print[])(void) = {bash, zsh, fish};

	for (size_t i = 0; i < ARRAY_LEN(print); i++) {
		if (str_eq(shells[i], inv->args[0])) {
			print[i]();
			return 0;
		}
	}
	int r = err_set(e, ERR_USAGE, EINVAL, "completion: %s: there is none for this shell", inv->args[0]);
	err_hint(e, "The shells are bash, zsh and fish.");
	return r;
}

static const struct help_row examples[] = {
	{"iterion completion bash >~/.local/share/bash-completion/completions/iterion",
	 "For bash, from the next shell on."},
	{"iterion completion zsh >\"${fpath[1]}/_iterion\"", "For zsh."},
	{"iterion completion fish >~/.config/fish/completions/iterion.fish", "For fish."},
	{NULL, NULL},
};

const struct command command_completion = {
	.name = "completion",
	.operands = "SHELL",
	.summary = "print a completion script for bash, zsh or fish",
	.about = "The script completes commands, options and the words that an option takes; operands complete as file "
		 "names. It "
		 "is made from this version's own tables: make it again after an update.",
	.examples = examples,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
