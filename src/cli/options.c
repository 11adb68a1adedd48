/* The option parser over a command's table.
 *
 * Long options take their value behind "=" or as the next word, short ones directly behind the letter or as the next
 * word; letters of flags may be written together. Options and operands may be mixed; "--" ends the options: what
 * follows are operands, or the program and its arguments for a command that takes one. Nothing is guessed: an option
 * that the table does not have is an error that names the nearest one, never a prefix match. A single-valued option
 * that is given twice has its last value, so that a script can add one at the end. */
#include "command.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct parser {
	const struct command *c;
	const char *const *words;
	size_t n;
	size_t at; /* the word being read */
	struct parsed *to;
	struct err *e;
};

static int usage(struct parser *p, const char *what, const char *why)
{
	return err_set(p->e, ERR_USAGE, EINVAL, "%s: %s: %s", p->c->name, what, why);
}

static void hint_help(struct parser *p)
{
	err_hint(p->e, "See `iterion %s --help`.", p->c->name);
}

static int unknown(struct parser *p, const char *word)
{
	const char *names[64];
	size_t n = 0;
	char name[64];

	for (const struct option_row *o = p->c->options; o && o->name && n < ARRAY_LEN(names) - 1; o++)
		names[n++] = o->name;
	names[n++] = "help";
	int r = usage(p, word, "there is no such option");
	const char *bare = word + strspn(word, "-");
	size_t len = strcspn(bare, "=");
	if (len < sizeof name && str_starts(word, "--")) {
		memcpy(name, bare, len);
		name[len] = '\0';
		const char *near = str_nearest(name, names, n);
		if (near)
			err_hint(p->e, "Did you mean --%s? `iterion %s --help` lists the options.", near, p->c->name);
	}
	err_hint(p->e, "`iterion %s --help` lists the options.", p->c->name);
	return r;
}

/* The pointer that an options struct has at offset. */
static void *field(const struct parser *p, const struct option_row *o)
{
	return (char *)p->to->options + o->offset;
}

static int set_word(struct parser *p, const struct option_row *o, const char *shown, const char *value)
{
	size_t n = 0;

	for (; o->words[n]; n++) {
		if (str_eq(o->words[n], value)) {
			*(const char **)field(p, o) = value;
			return 0;
		}
	}
	const char *near = str_nearest(value, o->words, n);
	auto_buf known = BUF_INIT(512);
	for (size_t i = 0; i < n; i++)
		(void)buf_printf(&known, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", o->words[i]);
	int r = err_set(p->e, ERR_USAGE, EINVAL, "%s: %s %s: it must be %s", p->c->name, shown, value, buf_str(&known));
	if (near)
		err_hint(p->e, "Did you mean %s?", near);
	hint_help(p);
	return r;
}

static int set_number(struct parser *p, const struct option_row *o, const char *shown, const char *value)
{
	unsigned long long v;
	bool duration = o->kind == OPTION_DURATION;
	int r = duration ? str_parse_duration(value, &v) : str_parse_uint(value, 0, UINT32_MAX, &v);

	if (r == 0) {
		*(unsigned long long *)field(p, o) = v;
		return 0;
	}
	r = err_set(p->e, ERR_USAGE, EINVAL, "%s: %s %s: this is no %s", p->c->name, shown, value,
		    duration ? "duration" : "number in range");
	if (duration)
		err_hint(p->e, "Write numbers with units, such as 90s, 30m or 1h30m.");
	hint_help(p);
	return r;
}

static int set_value(struct parser *p, const struct option_row *o, const char *shown, const char *value)
{
	if (!*value) {
		int r = usage(p, shown, "its value is empty");
		err_hint(p->e, "Write %s %s, or leave the option out.", shown, o->value);
		return r;
	}
	switch (o->kind) {
	case OPTION_STRING:
		*(const char **)field(p, o) = value;
		return 0;
	case OPTION_LIST:
		strv_add(field(p, o), value);
		return 0;
	case OPTION_WORD:
		return set_word(p, o, shown, value);
	case OPTION_UINT:
	case OPTION_DURATION:
		return set_number(p, o, shown, value);
	case OPTION_FLAG:
		break;
	}
	return 0;
}

/* value: what stood behind "=" or the letter, NULL when nothing did. */
static int set(struct parser *p, const struct option_row *o, const char *shown, const char *value)
{
	if (o->kind == OPTION_FLAG) {
		if (value) {
			int r = usage(p, shown, "it takes no value");
			err_hint(p->e, "Write %s alone, or leave it out.", shown);
			return r;
		}
		*(bool *)field(p, o) = true;
		return 0;
	}
	if (!value) {
		if (p->at + 1 >= p->n || str_eq(p->words[p->at + 1], "--")) {
			int r = usage(p, shown, "its value is missing");
			err_hint(p->e, "Write %s %s.", shown, o->value);
			return r;
		}
		value = p->words[++p->at];
	}
	return set_value(p, o, shown, value);
}

static int long_option(struct parser *p, const char *word)
{
	size_t len = strcspn(word + 2, "=");
	const char *value = word[2 + len] == '=' ? word + 2 + len + 1 : NULL;

	for (const struct option_row *o = p->c->options; o && o->name; o++) {
		if (strlen(o->name) != len || memcmp(o->name, word + 2, len) != 0)
			continue;
		char shown[64];
		memcpy(shown, word, MIN(len + 2, sizeof shown - 1));
		shown[MIN(len + 2, sizeof shown - 1)] = '\0';
		return set(p, o, shown, value);
	}
	return unknown(p, word);
}

static int short_options(struct parser *p, const char *word)
{
	for (const char *s = word + 1; *s; s++) {
		const struct option_row *o = p->c->options;
		while (o && o->name && o->letter != *s)
			o++;
		if (!o || !o->name)
			return unknown(p, word);
		const char shown[] = {'-', *s, '\0'};
		bool flag = o->kind == OPTION_FLAG;
		int r = set(p, o, shown, flag || !s[1] ? NULL : s + 1);
		if (r < 0 || !flag)
			return r;
	}
	return 0;
}

static int check_count(struct parser *p, size_t n)
{
	if (n < p->c->min_args) {
		int r = err_set(p->e, ERR_USAGE, EINVAL, "%s: an operand is missing: it needs %s", p->c->name,
				p->c->operands);
		hint_help(p);
		return r;
	}
	if (n > p->c->max_args) {
		int r = err_set(p->e, ERR_USAGE, EINVAL, "%s: %s: there is one operand too many", p->c->name,
				p->to->args[p->c->max_args]);
		err_hint(p->e, "The command is written `iterion %s%s%s`; quote words that belong together.", p->c->name,
			 p->c->operands[0] ? " " : "", p->c->operands);
		return r;
	}
	return 0;
}

/* Whether help is asked for, wherever it stands before "--": then nothing else of the line has to be right. */
static bool wants_help(size_t n, const char *const *words)
{
	for (size_t i = 0; i < n && !str_eq(words[i], "--"); i++)
		if (str_eq(words[i], "--help") || str_eq(words[i], "-h"))
			return true;
	return false;
}

int options_parse(const struct command *c, size_t n, const char *const *words, struct parsed *ret, struct err *e)
{
	struct parser p = {.c = c, .words = words, .n = n, .to = ret, .e = e};
	size_t n_args = 0;
	int r = 0;

	*ret = (struct parsed){.command = c, .help = wants_help(n, words)};
	ret->options = xcalloc(1, c->options_size ? c->options_size : 1);
	ret->args = xcalloc(n + 1, sizeof *ret->args);
	for (; !ret->help && r == 0 && p.at < n; p.at++) {
		const char *word = words[p.at];
		if (str_eq(word, "--"))
			break;
		if (str_starts(word, "--"))
			r = long_option(&p, word);
		else if (word[0] == '-' && word[1])
			r = short_options(&p, word);
		else
			ret->args[n_args++] = word;
	}
	if (r < 0 || ret->help)
		return r;
	size_t rest = p.at < n ? p.at + 1 : n;
	for (size_t i = rest; !c->takes_program && i < n; i++)
		ret->args[n_args++] = words[i];
	ret->inv = (struct invocation){
		.command = c,
		.options = ret->options,
		.args = ret->args,
		.n_args = n_args,
		.program = c->takes_program ? words + rest : NULL,
		.n_program = c->takes_program ? n - rest : 0,
	};
	return check_count(&p, n_args);
}

void parsed_done(struct parsed *p)
{
	for (const struct option_row *o = p->command ? p->command->options : NULL; o && o->name; o++)
		if (o->kind == OPTION_LIST)
			strv_done((struct strv *)((char *)p->options + o->offset));
	free(p->options);
	free(p->args);
}
