/* The table of commands, and finding one by its words. */
#include "commands.h"
#include "command.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

const struct command *const commands[] = {
	&command_init,
	&command_run,
	&command_resume,
	&command_validate,
	&command_inspect,
	&command_logs,
	&command_report,
	&command_diagram,
	&command_sandbox_exec,
	&command_sandbox_shell,
	&command_sandbox_plan,
	&command_sandbox_doctor,
	&command_sandbox_ls,
	&command_sandbox_gc,
	&command_sandbox_images,
	&command_sandbox_images_pull,
	&command_sandbox_images_prune,
	&command_network_check,
	&command_proxy,
	&command_completion,
	&command_version,
};
const size_t n_commands = ARRAY_LEN(commands);

/* How many of the words are the first words of the name; *ret_all: whether they are the whole name. */
static size_t words_matched(const char *name, size_t n, const char *const *words, bool *ret_all)
{
	size_t i = 0;

	while (i < n && *name) {
		size_t len = strcspn(name, " ");
		if (strlen(words[i]) != len || memcmp(words[i], name, len) != 0)
			break;
		i++;
		name += len;
		name += *name == ' ';
	}
	*ret_all = *name == '\0';
	return i;
}

bool command_in_group(const struct command *c, size_t n, const char *const *words)
{
	bool all;

	return words_matched(c->name, n, words, &all) == n;
}

/* The word after the first `depth` of a name, cut out of it; NULL when there is none. */
static char *word_at(const char *name, size_t depth)
{
	for (; depth && *name; depth--) {
		name += strcspn(name, " ");
		name += *name == ' ';
	}
	return *name ? xstrndup(name, strcspn(name, " ")) : NULL;
}

/* The word behind the group of `depth` words is none of its commands. */
static int unknown(size_t depth, const char *const *words, struct err *e)
{
	auto_strv next = {0};
	auto_buf group = BUF_INIT(4096);

	for (size_t i = 0; i < depth; i++)
		(void)buf_printf(&group, "%s ", words[i]);
	for (size_t i = 0; i < n_commands; i++) {
		char *w = command_in_group(commands[i], depth, words) ? word_at(commands[i]->name, depth) : NULL;
		if (w)
			strv_take(&next, w);
	}
	int r = err_set(e, ERR_USAGE, EINVAL, "%s%s: there is no such command", buf_str(&group), words[depth]);
	const char *near = str_nearest(words[depth], (const char *const *)next.v, next.n);
	if (near)
		err_hint(e, "Did you mean `iterion %s%s`? `iterion %s--help` lists the commands.", buf_str(&group),
			 near, buf_str(&group));
	err_hint(e, "`iterion %s--help` lists the commands.", buf_str(&group));
	return r;
}

const struct command *command_find(size_t n, const char *const *words, size_t *ret_words, struct err *e)
{
	const struct command *found = NULL;
	size_t best = 0, deepest = 0;

	for (size_t i = 0; i < n_commands; i++) {
		bool all;
		size_t matched = words_matched(commands[i]->name, n, words, &all);
		if (all && matched > best) {
			best = matched;
			found = commands[i];
		}
		deepest = MAX(deepest, matched);
	}
	*ret_words = found ? best : deepest;
	if (!found && deepest < n && words[deepest][0] != '-')
		(void)unknown(deepest, words, e);
	return found;
}
