/* Fuzz target: what whoever makes an image, or a registry, writes. The first byte of the input chooses the reader of
 * the rest. Whatever it is: no crash, a name that is taken is its own canonical form, and a sparse file's pieces are in
 * order within it. */
#include "auth.h"
#include "challenge.h"
#include "input.h"
#include "manifest.h"
#include "tar.h"

#include <base/cleanup.h>
#include <base/mem.h>
#include <image/reference.h>
#include <image/user.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 8 * 1024 * 1024 };

static void require(bool what)
{
	if (!what)
		abort();
}

struct bytes {
	const uint8_t *p;
	size_t left;
};

static ssize_t read_bytes(void *arg, void *to, size_t n, struct err *e)
{
	struct bytes *b = arg;

	(void)e;
	n = MIN(n, b->left);
	memcpy(to, b->p, n);
	b->p += n;
	b->left -= n;
	return (ssize_t)n;
}

static void check_entry(const struct tar_entry *n)
{
	uint64_t end = 0;

	require(n->name && n->link && strlen(n->name) <= TAR_MAX_PATH);
	for (size_t i = 0; i < n->n_pieces; i++) {
		require(n->pieces[i].offset >= end && n->pieces[i].len <= n->size);
		end = n->pieces[i].offset + n->pieces[i].len;
		require(end <= n->size);
	}
}

static void try_tar(const struct input *in)
{
	struct tar t;
	char waste[4096];
	uint64_t all = 0;

	tar_begin(&t, in);
	while (all < MOST && tar_next(&t, NULL) == 1) {
		check_entry(&t.entry);
		for (ssize_t got = 1; got > 0 && all < MOST; all += (uint64_t)MAX(got, (ssize_t)0))
			got = tar_read(&t, waste, sizeof waste, NULL);
		all++;
	}
	tar_done(&t);
}

static void try_layer(const uint8_t *data, size_t size)
{
	struct bytes b = {data, size};
	const struct input raw = {.read = read_bytes, .arg = &b};
	struct expand *x = expand_new(&raw);
	const struct input in = {.read = expand_read, .arg = x};

	try_tar(&in);
	expand_free(x);
}

static void try_plain(const uint8_t *data, size_t size)
{
	struct bytes b = {data, size};
	const struct input in = {.read = read_bytes, .arg = &b};

	try_tar(&in);
}

static void try_documents(const uint8_t *data, size_t size)
{
	const struct platform p = platform_here();
	const char *text = (const char *)data;
	struct manifest m = {0};
	struct image_config c = {0};
	struct blob_ref b = {0};

	(void)manifest_is_index(text, size);
	if (index_choose(text, size, NULL, &p, &b, NULL) == 0)
		require(image_digest_valid(b.digest));
	free(b.digest);
	if (manifest_parse(text, size, &m, NULL) == 0)
		require(image_digest_valid(m.config.digest) && m.n_layers <= IMAGE_MAX_LAYERS);
	manifest_done(&m);
	if (image_config_parse(text, size, &c, NULL) == 0)
		require(c.diff_ids.n <= IMAGE_MAX_LAYERS);
	image_config_done(&c);
}

static void try_words(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);
	struct challenge c;
	struct image_user u = {0};
	auto_image_ref r = {0};
	auto_image_ref again = {0};
	auto_free char *next = url_resolve("https://host/v2/", text);

	(void)url_is_private(text, true);
	if (challenge_parse(text, &c) == 0)
		challenge_done(&c);
	if (image_user_find("dev:staff", text, text, &u, NULL) == 0)
		free(u.home);
	if (image_ref_parse(text, "/base", &r, NULL) < 0)
		return;
	require(image_ref_parse(r.text, "/base", &again, NULL) == 0 && strcmp(r.text, again.text) == 0);
}

static void try_credentials(const uint8_t *data, size_t size)
{
	struct credentials_entry e = {0};
	struct credentials c = {0};

	if (credentials_parse((const char *)data, size, "docker.io", "a/b", &e, NULL) == 0)
		credentials_entry_done(&e);
	if (credentials_parse_helper((const char *)data, size, &c) == 0)
		credentials_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(const uint8_t *data, size_t size) = {try_plain, try_layer, try_documents,
									    try_words, try_credentials};

	if (size)
		readers[data[0] % ARRAY_LEN(readers)](data + 1, size - 1);
	return 0;
}
