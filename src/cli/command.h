/* Commands and their options as rows of tables: one row gives the parser, --help and what is made of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;

enum option_kind {
	OPTION_FLAG,	 /* bool */
	OPTION_STRING,	 /* const char *, borrowed from argv */
	OPTION_LIST,	 /* struct strv; may be given again */
	OPTION_WORD,	 /* const char *, one of words */
	OPTION_UINT,	 /* unsigned long long */
	OPTION_DURATION, /* unsigned long long, milliseconds */
};

/* A table of these ends with a row whose name is NULL. */
struct option_row {
	const char *name; /* without dashes */
	char letter;	  /* its short form, 0: none */
	enum option_kind kind;
	size_t offset;		  /* of its field in the command's options */
	const char *value;	  /* what help calls its value; NULL for a flag */
	const char *help;	  /* a sentence without its full stop */
	const char *const *words; /* OPTION_WORD: what it may be, NULL-terminated */
};
#define OPTIONS_END                                                                                                    \
	{                                                                                                              \
		.name = NULL                                                                                           \
	}

/* Two columns of help text; a list ends with a row whose left is NULL. */
struct help_row {
	const char *left;
	const char *text;
};

struct invocation {
	const struct command *command;
	const void *options; /* the command's own struct */
	const char *const *args;
	size_t n_args;
	const char *const *program; /* the words behind "--" of a command that takes a program; NULL-terminated */
	size_t n_program;
};

struct command {
	const char *name;		 /* its words, separated by one space */
	const char *operands;		 /* "FILE", "[RUN]", … */
	const char *summary;		 /* one line */
	const char *about;		 /* paragraphs, separated by an empty line */
	const struct help_row *examples; /* left: the command line, text: what it does */
	const struct help_row *exits;	 /* NULL: the usual three */
	const struct option_row *options;
	size_t options_size;
	size_t min_args;
	size_t max_args;
	bool takes_program; /* what follows "--" is a program with its arguments */
	/* The exit code, or -errno with the whole message in e. */
	int (*run)(const struct invocation *inv, struct err *e);
};

/* All of them, in the order of help. */
extern const struct command *const commands[];
extern const size_t n_commands;

/* The command that the first words name; *ret_words: how many they are. NULL with e set; e stays unset when the words
 * are only the beginning of names ("sandbox"): then *ret_words are those words. */
const struct command *command_find(size_t n, const char *const *words, size_t *ret_words, struct err *e);

/* Whether the command's name begins with the first n words (n 0: always). */
bool command_in_group(const struct command *c, size_t n, const char *const *words);

/* What the parser found; the caller calls parsed_done in any case. */
struct parsed {
	struct invocation inv;
	bool help; /* --help was among the words: nothing else was checked */
	const struct command *command;
	void *options;
	const char **args;
};

/* Words behind the command's name, into its options. Refuses what the table does not know: -EINVAL with the nearest
 * known option in the hint. */
int options_parse(const struct command *c, size_t n, const char *const *words, struct parsed *ret, struct err *e)
	__attribute__((warn_unused_result));
void parsed_done(struct parsed *p);
#define auto_parsed __attribute__((cleanup(parsed_done))) struct parsed

void help_command(const struct command *c);
/* The commands below a group; n 0: all of them. */
void help_group(size_t n, const char *const *words);
