/* `completion`: a shell's completion of commands and options, made from the tables.
 *
 * The script knows the tables as they were when it was made and asks nothing while one types; operands complete as file
 * names. Words in it are ours (names of commands and options), so they need no quoting. */
#include "commands.h"
#include "output.h"

#include <base/err.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

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

static void bash_group(const char *prefix)
{
	out_printf("\t\t'%.*s') words='", (int)strlen(prefix) - 1, prefix);
	print_next_words(prefix);
	out_printf("' ;;\n");
}

/* Bash, and zsh through bashcompinit. */
static void bash(void)
{
	out_printf("_iterion() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} path= words= w\n"
		   "\tfor w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
		   "\t\tcase $w in -*) continue ;; esac\n\t\tcase \"${path:+$path }$w\" in\n");
	out_printf("\t\t");
	for (size_t i = 0; i < n_commands; i++) {
		const char *name = commands[i]->name;
		for (size_t at = strcspn(name, " ");; at += 1 + strcspn(name + at + 1, " ")) {
			if (first_with_prefix(i, at))
				out_printf("'%.*s' | ", (int)at, name);
			if (!name[at])
				break;
		}
	}
	out_printf("'') path=\"${path:+$path }$w\" ;;\n\t\tesac\n\tdone\n\tcase $path in\n\t\t'') words='");
	print_next_words("");
	out_printf("--help --version' ;;\n");
	each_group(bash_group);
	for (size_t i = 0; i < n_commands; i++) {
		out_printf("\t\t'%s') [[ $cur != -* ]] || words='", commands[i]->name);
		print_options(commands[i]);
		out_printf("' ;;\n");
	}
	out_printf("\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
		   "complete -o default -o bashdefault -F _iterion iterion\n");
}

static void zsh(void)
{
	out_printf("#compdef iterion\nautoload -U +X bashcompinit && bashcompinit\n");
	bash();
}

/* The condition under which command i, or its next word, is completed in fish. */
static void fish_command(const struct command *c)
{
	const char *last = strrchr(c->name, ' ');
	size_t before = last ? (size_t)(last - c->name) : 0;

	out_printf("complete -c iterion -n '");
	if (last)
		out_printf("__iterion_at \"%.*s\"", (int)before, c->name);
	else
		out_printf("__fish_use_subcommand");
	out_printf("' -a '%s' -d '%s'\n", last ? last + 1 : c->name, c->summary);
	for (const struct option_row *o = c->options; o && o->name; o++) {
		out_printf("complete -c iterion -n '__iterion_at \"%s\"' -l %s", c->name, o->name);
		if (o->letter)
			out_printf(" -s %c", o->letter);
		if (o->words) {
			out_printf(" -x -a '");
			for (size_t i = 0; o->words[i]; i++)
				out_printf("%s%s", i ? " " : "", o->words[i]);
			out_printf("'");
		} else if (o->value) {
			out_printf(" -r");
		}
		out_printf("\n");
	}
}

static void fish_group(const char *prefix)
{
	const char *blank = strchr(prefix, ' ');

	if (blank[1]) {
		/* A group in a group is a word behind the outer one. */
		const char *inner = blank + 1;
		out_printf("complete -c iterion -n '__iterion_at \"%.*s\"' -a '%.*s'\n", (int)(blank - prefix), prefix,
			   (int)strcspn(inner, " "), inner);
		return;
	}
	out_printf("complete -c iterion -n '__fish_use_subcommand' -a '%.*s'\n", (int)(blank - prefix), prefix);
}

static void fish(void)
{
	out_printf("function __iterion_at\n\tset -l words (string match -v -- '-*' (commandline -opc)[2..-1])\n"
		   "\tstring match -q -- \"$argv[1]*\" \"$words\"\nend\n");
	each_group(fish_group);
	for (size_t i = 0; i < n_commands; i++)
		fish_command(commands[i]);
}

static int run(const struct invocation *inv, struct err *e)
{
	static const struct {
		const char *shell;
		void (*print)(void);
	} rows[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (str_eq(rows[i].shell, inv->args[0])) {
			rows[i].print();
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
