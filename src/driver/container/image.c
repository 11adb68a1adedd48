/* What an engine says about an image. Pure: text in, facts out; all of it is bounded, since a registry has a say in
 * what a pull prints.
 *
 * Without a terminal docker prints one line for each step of a layer ("1b930d010525: Pull complete"), podman one when
 * it begins to copy a layer ("Copying blob sha256:… ") and, in some versions, one when it is done or was there before.
 */
#include "image.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 512, SHORT_ID = 12 };

const char image_format[] = "[{{json .ID}},{{json .RepoDigests}},{{json .Architecture}},{{json .Config.Env}}]";

void image_facts_done(struct image_facts *f)
{
	free(f->digest);
	free(f->architecture);
	strv_done(&f->env);
	*f = (struct image_facts){0};
}

static bool is_digest(const char *s)
{
	static const char algorithm[] = "sha256:";
	size_t len = strlen(algorithm);

	return str_starts(s, algorithm) && strlen(s) == len + 64 && strspn(s + len, "0123456789abcdef") == 64;
}

/* The first of the repository's ("docker.io/library/debian@sha256:…"), else the image's own number. */
static char *digest_of(const json_t *row)
{
	const char *id = json_string_value(json_array_get(row, 0));
	const char *named = json_string_value(json_array_get(json_array_get(row, 1), 0));
	const char *at = named ? strchr(named, '@') : NULL;

	if (at && is_digest(at + 1))
		return xstrdup(at + 1);
	if (!id)
		return NULL;
	if (is_digest(id))
		return xstrdup(id);
	/* podman's has no algorithm in front. */
	auto_free char *full = xasprintf("sha256:%.64s", id);
	return is_digest(full) ? TAKE_PTR(full) : NULL;
}

int image_parse(const char *text, size_t len, struct image_facts *ret)
{
	auto_json row = json_parse(text, len, NULL);

	if (!json_is_array(row))
		return -EPROTO;
	const char *architecture = json_string_value(json_array_get(row, 2));
	*ret = (struct image_facts){
		.digest = digest_of(row),
		.architecture = architecture ? xstrdup(architecture) : NULL,
	};
	const json_t *env = json_array_get(row, 3);
	for (size_t i = 0; i < json_array_size(env); i++) {
		const char *entry = json_string_value(json_array_get(env, i));
		if (entry && strchr(entry, '=') > entry)
			strv_add(&ret->env, entry);
	}
	return 0;
}

/* Hexadecimal digits, at least as many as an abbreviated layer has; their number, or 0. */
static size_t hex_len(const char *s)
{
	size_t len = strspn(s, "0123456789abcdef");

	return len >= SHORT_ID && len <= 64 ? len : 0;
}

static bool docker_line(const char *line, struct pull_line *ret)
{
	static const char *const last[] = {"Pull complete", "Already exists"};
	size_t len = hex_len(line);

	if (!len || !str_starts(line + len, ": "))
		return false;
	*ret = (struct pull_line){0};
	(void)snprintf(ret->layer, sizeof ret->layer, "%.*s", (int)len, line);
	for (size_t i = 0; i < ARRAY_LEN(last); i++)
		ret->done |= str_starts(line + len + 2, last[i]);
	return true;
}

static bool podman_line(const char *line, struct pull_line *ret)
{
	static const char begin[] = "Copying blob ", algorithm[] = "sha256:";

	if (!str_starts(line, begin))
		return false;
	line += strlen(begin);
	line += str_starts(line, algorithm) ? strlen(algorithm) : 0;
	size_t len = hex_len(line);
	if (!len)
		return false;
	*ret = (struct pull_line){.done = strstr(line + len, "done") || strstr(line + len, "skipped")};
	(void)snprintf(ret->layer, sizeof ret->layer, "%.*s", SHORT_ID, line);
	return true;
}

bool image_pull_line(const char *line, struct pull_line *ret)
{
	return docker_line(line, ret) || podman_line(line, ret);
}

bool pull_count_line(struct pull_count *c, const char *line, const char **ret_layer)
{
	struct pull_line p;
	size_t i = 0;

	if (!image_pull_line(line, &p))
		return false;
	while (i < c->n && !str_eq(c->layers[i].id, p.layer))
		i++;
	bool is_new = i == c->n;
	if (is_new && c->n == MAX_LAYERS)
		return false;
	if (is_new) {
		c->layers = grow_array(c->layers, c->n, &c->cap, sizeof *c->layers);
		c->layers[c->n] = (struct pull_layer){0};
		memcpy(c->layers[c->n++].id, p.layer, sizeof p.layer);
	}
	bool ended = p.done && !c->layers[i].done;
	c->layers[i].done |= p.done;
	c->n_done += ended;
	if (!is_new && !ended)
		return false;
	*ret_layer = c->layers[i].id;
	return true;
}

void pull_count_done(struct pull_count *c)
{
	free(c->layers);
	*c = (struct pull_count){0};
}
