/* Which provider a model is asked of, and with what key. */
#pragma once

#include "llm.h"

#include <base/str.h>

struct llm_target {
	enum llm_api api;
	const char *provider; /* static: "anthropic", "openai" */
	const char *key_name; /* static: the variable that the key is from; NULL: there is none */
	bool official;	      /* the maker's own server */
	char *model;	      /* as the provider knows it */
	char *url;	      /* of the requests */
	char *key;	      /* NULL: none, which servers of one's own may not want */
	struct strv headers;  /* with the key */
};

/* Decides by the model ("PROVIDER/NAME" or a bare name; NULL: the default), the node's provider (NULL: none) and the
 * keys that the user's environment holds. Providers are anthropic, openai (Responses at OpenAI itself, Chat Completions
 * at any other OPENAI_BASE_URL), openai-chat and openai-responses. Free with llm_target_done. Returns 0, or -errno with
 * what is missing. Keys stand in memory only, and are overwritten at the end. */
int llm_target_find(const char *model, const char *provider, const char *const *env, struct llm_target *ret,
		    struct err *e) __attribute__((warn_unused_result));
void llm_target_done(struct llm_target *t);
