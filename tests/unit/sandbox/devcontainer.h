/* What the tests of devcontainer.json share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>
#include <sandbox/block.h>
#include <sandbox/devcontainer.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The environment of the reference's answers (tests/data/devcontainer/README.md). */
static const char *const case_env[] = {
	"HOME=/home/truth",
	"PATH=/usr/bin:/bin",
	"DC_SET=setval",
	"DC_EMPTY=",
	"DC_REC=${localEnv:DC_SET}",
	"DC_MULTI=a\nb\"c\\d",
	NULL,
};

/* A file .devcontainer/devcontainer.json of the workspace /w/ws with these words. */
static inline int load_words(const char *text, struct devcontainer **ret, struct err *e)
{
	const struct devcontainer_params p = {
		.workspace = "/w/ws",
		.path = "/w/ws/.devcontainer/devcontainer.json",
		.env = case_env,
	};

	return devcontainer_load(&p, text, strlen(text), ret, e);
}

static inline int block_of(const char *text, struct sandbox_block *ret, struct err *e)
{
	struct devcontainer *d;
	int r = load_words(text, &d, e);

	if (r < 0)
		return r;
	r = devcontainer_to_block(d, ret, e);
	devcontainer_free(d);
	return r;
}
