/* Choosing the provider.
 *
 * A prefix that names a provider decides, then the node's provider:, then what the name looks like, then which keys are
 * there. A provider without a key gives way to the other one when that has a base URL of its own: such servers
 * (OpenRouter and its like) know the models of all makers by their full names. */
#include "target.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct provider {
	const char *name;
	const char *keys[2]; /* the first that is set counts */
	const char *bearer;  /* the one of them that goes into Authorization; others have a header of their own */
	const char *base_name, *base;
	const char *model; /* when none is named */
};

enum { ANTHROPIC, OPENAI };
static const struct provider providers[] = {
	[ANTHROPIC] = {.name = "anthropic",
		       .keys = {"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"},
		       .bearer = "ANTHROPIC_AUTH_TOKEN",
		       .base_name = "ANTHROPIC_BASE_URL",
		       .base = "https://api.anthropic.com",
		       .model = "claude-sonnet-4-5"},
	[OPENAI] = {.name = "openai",
		    .keys = {"OPENAI_API_KEY"},
		    .bearer = "OPENAI_API_KEY",
		    .base_name = "OPENAI_BASE_URL",
		    .base = "https://api.openai.com/v1",
		    .model = "gpt-5.1"},
};

/* What may stand before a slash, or behind provider:. */
static const struct word {
	const char *word;
	unsigned provider;
	int api; /* -1: by the server */
} words[] = {
	{"anthropic", ANTHROPIC, LLM_ANTHROPIC},
	{"openai", OPENAI, -1},
	{"openai-chat", OPENAI, LLM_CHAT},
	{"openai-responses", OPENAI, LLM_RESPONSES},
};

static const char *value_of(const char *const *env, const char *name)
{
	size_t len = name ? strlen(name) : 0;

	for (; name && env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return (*env)[len + 1] ? *env + len + 1 : NULL;
	return NULL;
}

static const char *key_name(const struct provider *p, const char *const *env)
{
	for (size_t i = 0; i < ARRAY_LEN(p->keys); i++)
		if (value_of(env, p->keys[i]))
			return p->keys[i];
	return NULL;
}

/* Servers of one's own need no key. */
static bool is_there(unsigned provider, const char *const *env)
{
	const struct provider *p = &providers[provider];

	return key_name(p, env) || (provider == OPENAI && value_of(env, p->base_name));
}

static const struct word *word_of(const char *text, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strlen(words[i].word) == len && strncmp(words[i].word, text, len) == 0)
			return &words[i];
	return NULL;
}

static const struct word *by_name(const char *model)
{
	static const char *const ours[] = {"gpt", "chatgpt", "codex", "o1", "o3", "o4"};

	if (str_starts(model, "claude"))
		return &words[ANTHROPIC];
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (str_starts(model, ours[i]))
			return &words[OPENAI];
	return NULL;
}

static const struct word *by_keys(const char *const *env)
{
	bool openai = is_there(OPENAI, env), anthropic = is_there(ANTHROPIC, env);

	if (openai && (!anthropic || value_of(env, providers[OPENAI].base_name)))
		return &words[OPENAI];
	return &words[ANTHROPIC];
}

/* The other provider, when this one has no key and that one is asked at a server of its own choice. */
static const struct word *stand_in(const struct word *w, const char *const *env)
{
	unsigned other = w->provider == OPENAI ? ANTHROPIC : OPENAI;

	return !is_there(w->provider, env) && is_there(other, env) && value_of(env, providers[other].base_name)
		       ? &words[other]
		       : NULL;
}

static int no_key(const struct provider *p, struct err *e)
{
	int r = err_set(e, ERR_PREFLIGHT, ENOKEY, "ask a model of %s: no key is set", p->name);

	err_hint(e, "set %s%s in the environment of iterion, or name a model of a provider whose key is set",
		 p->keys[1] ? "ANTHROPIC_API_KEY or " : "", p->keys[0]);
	return r;
}

static const struct word *choose(const char **model, const char *provider, const char *const *env, struct err *e)
{
	const char *slash = *model ? strchr(*model, '/') : NULL;
	const struct word *prefix = slash ? word_of(*model, (size_t)(slash - *model)) : NULL;
	const struct word *asked = provider ? word_of(provider, strlen(provider)) : NULL;

	if (provider && !asked) {
		(void)err_set(e, ERR_INPUT, EINVAL, "provider %.80s: claw does not know it", provider);
		err_hint(e, "one of anthropic, openai, openai-chat and openai-responses; any compatible server is "
			    "named by OPENAI_BASE_URL or ANTHROPIC_BASE_URL");
		return NULL;
	}
	const struct word *w = asked ? asked : prefix ? prefix : *model ? by_name(*model) : NULL;
	if (!w)
		w = by_keys(env);
	const struct word *other = asked ? NULL : stand_in(w, env);
	if (other)
		return other;
	if (prefix && prefix->provider == w->provider)
		*model = slash + 1;
	return w;
}

static bool is_official(unsigned provider, const char *base)
{
	const char *host = provider == OPENAI ? "https://api.openai.com" : "https://api.anthropic.com";
	size_t len = strlen(host);

	return strncmp(base, host, len) == 0 && (base[len] == '\0' || base[len] == '/');
}

static void fill_url(struct llm_target *t, const char *base)
{
	static const char *const paths[N_LLM_APIS] = {"/v1/messages", "/responses", "/chat/completions"};
	size_t len = strlen(base);

	while (len > 0 && base[len - 1] == '/')
		len--;
	t->url = xasprintf("%.*s%s", (int)len, base, paths[t->api]);
}

static void fill_headers(struct llm_target *t, const struct provider *p)
{
	strv_add(&t->headers, "Content-Type: application/json");
	strv_add(&t->headers, "Accept: text/event-stream");
	if (t->api == LLM_ANTHROPIC)
		strv_add(&t->headers, "anthropic-version: 2023-06-01");
	if (t->key && str_eq(t->key_name, p->bearer))
		strv_take(&t->headers, xasprintf("Authorization: Bearer %s", t->key));
	else if (t->key)
		strv_take(&t->headers, xasprintf("x-api-key: %s", t->key));
}

int llm_target_find(const char *model, const char *provider, const char *const *env, struct llm_target *ret,
		    struct err *e)
{
	const struct word *w = choose(&model, provider, env, e);

	if (!w)
		return -EINVAL;
	const struct provider *p = &providers[w->provider];
	if (!is_there(w->provider, env))
		return no_key(p, e);
	const char *base = value_of(env, p->base_name);
	bool official = is_official(w->provider, base ? base : p->base);
	if (!model && !official && w->provider == OPENAI) {
		int r = err_set(e, ERR_INPUT, EINVAL,
				"no model is named, and the server of OPENAI_BASE_URL has no "
				"default one");
		err_hint(e, "write `model: NAME` at the node");
		return r;
	}
	*ret = (struct llm_target){
		.api = w->api >= 0 ? (enum llm_api)w->api
		       : official  ? LLM_RESPONSES
				   : LLM_CHAT,
		.provider = p->name,
		.key_name = key_name(p, env),
		.official = official,
		.model = xstrdup(model ? model : p->model),
	};
	const char *key = value_of(env, ret->key_name);
	ret->key = key ? xstrdup(key) : NULL;
	fill_url(ret, base ? base : p->base);
	fill_headers(ret, p);
	return 0;
}

void llm_target_done(struct llm_target *t)
{
	if (t->key)
		explicit_bzero(t->key, strlen(t->key));
	for (size_t i = 0; i < t->headers.n; i++)
		explicit_bzero(t->headers.v[i], strlen(t->headers.v[i]));
	strv_done(&t->headers);
	free(t->key);
	free(t->model);
	free(t->url);
	*t = (struct llm_target){0};
}
