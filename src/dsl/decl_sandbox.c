/* The sandbox: block. Its strings are kept as written (with ${NAME} expanded like everywhere): what images, mounts and
 * rules mean, and which of them are allowed, is the sandbox layer's to say. Here only what the block may hold. */
#include "parser.h"

#include <base/arena.h>
#include <base/mem.h>
#include <dsl/sandbox_block.h>

#include <string.h>

#define BOX(field) offsetof(struct dsl_sandbox, field)
#define BUILD(field) (BOX(build.field) - BOX(build))
#define NET(field) (BOX(network.field) - BOX(network))
#define LIMIT(field) (BOX(limits.field) - BOX(limits))

static const struct word mode_words[] = {
	{"inherit", DSL_SANDBOX_INHERIT},
	{"none", DSL_SANDBOX_NONE},
	{"auto", DSL_SANDBOX_AUTO},
	{"inline", DSL_SANDBOX_INLINE},
};
static const struct word host_state_words[] = {{"auto", DSL_HOST_STATE_AUTO}, {"none", DSL_HOST_STATE_NONE}};
static const struct word network_words[] = {
	{"open", DSL_NETWORK_OPEN},
	{"allowlist", DSL_NETWORK_ALLOWLIST},
	{"denylist", DSL_NETWORK_DENYLIST},
	{"learn", DSL_NETWORK_LEARN},
};
static const struct word inherit_words[] = {
	{"merge", DSL_NETWORK_MERGE},
	{"append", DSL_NETWORK_APPEND},
	{"replace", DSL_NETWORK_REPLACE},
};
static const struct word inspect_words[] = {
	{"off", DSL_TLS_INSPECT_OFF},
	{"secrets", DSL_TLS_INSPECT_SECRETS},
	{"all", DSL_TLS_INSPECT_ALL},
};

static const struct prop build_rows[] = {
	{"dockerfile", PROP_STRING, BUILD(dockerfile)},
	{"context", PROP_STRING, BUILD(context)},
	{"args", PROP_MAP, BUILD(args)},
	{"target", PROP_STRING, BUILD(target)},
};
static const struct props build_props = {"sandbox build", build_rows, ARRAY_LEN(build_rows), .code = "C044"};

static const struct prop network_rows[] = {
	{"mode", PROP_WORD, NET(mode), WORDS(network_words), .code = "C044"},
	{"preset", PROP_WORD_LIST, NET(preset)},
	{"rules", PROP_LIST, NET(rules)},
	{"inherit", PROP_WORD, NET(inherit), WORDS(inherit_words), .code = "C044"},
	{"tls_inspect", PROP_WORD, NET(tls_inspect), WORDS(inspect_words), .code = "C044"},
	{"strict_sni", PROP_BOOL, NET(strict_sni)},
};
static const struct props network_props = {"sandbox network", network_rows, ARRAY_LEN(network_rows), .code = "C044"};

static const struct prop limit_rows[] = {
	{"cpus", PROP_NUM, LIMIT(cpus)},
	{"memory", PROP_STRING, LIMIT(memory)},
	{"pids", PROP_INT, LIMIT(pids)},
};
static const struct props limit_props = {"sandbox limits", limit_rows, ARRAY_LEN(limit_rows), .code = "C044"};

static const struct prop secret_rows[] = {
	{"from", PROP_STRING, offsetof(struct dsl_secret, from)},
	{"hosts", PROP_LIST, offsetof(struct dsl_secret, hosts)},
};
static const struct props secret_props = {"a sandbox secret", secret_rows, ARRAY_LEN(secret_rows), .code = "C044"};

static void read_secrets(struct parser *p, const struct token *key, void *field)
{
	struct dsl_sandbox *s = (struct dsl_sandbox *)(void *)((char *)field - BOX(secrets));
	struct block b = BLOCK_BELOW(p->lx.indent);
	struct names names = {0};

	(void)key;
	if (!expect_block(p, "secrets"))
		return;
	while (block_next(p, &b)) {
		struct dsl_secret secret = {0};
		if (!read_key(p, &secret.name)) {
			skip_property(p);
			continue;
		}
		if (!expect_block(p, "a secret"))
			continue;
		read_props(p, &secret_props, &secret, NULL);
		if (names_add(&names, p->f->state->arena, secret.name.s, s))
			diag_error(p->f, "C044", secret.name.pos, "keep one of them",
				   "the secret \"%s\" is given twice", secret.name.s);
		ARENA_PUSH(p->f->state->arena, s->secrets, s->n_secrets, secret);
	}
}

static const struct prop sandbox_rows[] = {
	{"mode", PROP_WORD, BOX(mode), WORDS(mode_words), .code = "C044"},
	{"image", PROP_STRING, BOX(image)},
	{"build", PROP_BLOCK, BOX(build), .sub = &build_props},
	{"mounts", PROP_LIST, BOX(mounts)},
	{"env", PROP_MAP, BOX(env)},
	{"user", PROP_STRING, BOX(user)},
	{"workspace_folder", PROP_STRING, BOX(workspace_folder)},
	{"host_state", PROP_WORD, BOX(host_state), WORDS(host_state_words), .code = "C044"},
	{"post_create", PROP_STRING, BOX(post_create)},
	{"network", PROP_BLOCK, BOX(network), .sub = &network_props},
	{"secrets", PROP_READ, BOX(secrets), .read = read_secrets},
	{"limits", PROP_BLOCK, BOX(limits), .sub = &limit_props},
};
static const struct props sandbox_props = {"sandbox", sandbox_rows, ARRAY_LEN(sandbox_rows), .code = "C044"};

/* sandbox: WORD */
static void read_short_form(struct parser *p, struct dsl_sandbox *s)
{
	struct dsl_str word;
	const char *names[ARRAY_LEN(mode_words)];

	s->short_form = true;
	if (!read_string(p, EXPAND_EMPTY, &word)) {
		skip_property(p);
		return;
	}
	s->mode.pos = word.pos;
	for (size_t i = 0; i < ARRAY_LEN(mode_words); i++) {
		names[i] = mode_words[i].name;
		if (strcmp(word.s, names[i]) == 0)
			s->mode.v = mode_words[i].value;
	}
	if (!s->mode.v)
		diag_error(p->f, "C044", word.pos,
			   hint_nearest(p->f, word.s, names, ARRAY_LEN(names),
					"write auto, none or inherit, or a block of lines below"),
			   "\"%.100s\" is no sandbox mode", word.s);
	end_line(p);
}

/* What the block as a whole may be. */
static void finish_block(struct parser *p, struct dsl_sandbox *s, size_t n)
{
	if (n == 0)
		diag_error(p->f, "C044", s->pos, "write sandbox: auto, or give the block an image",
			   "an empty sandbox block");
	if (s->image.s && s->build.pos.line)
		diag_error(p->f, "C044", s->build.pos, "keep one of them", "a sandbox has an image and a build");
	if (s->image.s && !s->image.len)
		diag_error(p->f, "C044", s->image.pos, "name an image", "the image is empty");
	for (size_t i = 0; i < s->n_secrets; i++)
		if (!s->secrets[i].from.s)
			diag_error(p->f, "C044", s->secrets[i].name.pos,
				   "add from: \"env:NAME\", \"file:PATH\" or \"cmd:COMMAND\"",
				   "the secret \"%s\" does not say where it comes from", s->secrets[i].name.s);
}

void read_sandbox(struct parser *p, const struct token *key, void *field)
{
	struct dsl_sandbox *s = arena_alloc(p->f->state->arena, sizeof *s);
	size_t n = 0;

	s->pos = key->pos;
	*(struct dsl_sandbox **)field = s;
	if (lex_peek(&p->lx)->type != TOK_EOL) {
		read_short_form(p, s);
		return;
	}
	read_props(p, &sandbox_props, s, &n);
	finish_block(p, s, n);
}
