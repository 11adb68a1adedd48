/* sha256 and sha512 as text, by nettle: the names of everything in an image. */
#include "digest.h"

#include <base/str.h>

#include <stdint.h>
#include <stdio.h>

void digester_init(struct digester *d, const char *like)
{
	d->wide = str_starts(like, "sha512:");
	if (d->wide)
		sha512_init(&d->sha512);
	else
		sha256_init(&d->sha256);
}

void digester_add(struct digester *d, const void *data, size_t len)
{
	if (d->wide)
		sha512_update(&d->sha512, len, data);
	else
		sha256_update(&d->sha256, len, data);
}

void digester_end(struct digester *d, char ret[DIGEST_SIZE])
{
	uint8_t bytes[SHA512_DIGEST_SIZE];
	size_t n = d->wide ? SHA512_DIGEST_SIZE : SHA256_DIGEST_SIZE;
	size_t at = (size_t)snprintf(ret, DIGEST_SIZE, "%s:", d->wide ? "sha512" : "sha256");

	if (d->wide)
		sha512_digest(&d->sha512, n, bytes);
	else
		sha256_digest(&d->sha256, n, bytes);
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(ret + at, DIGEST_SIZE - at, "%02x", bytes[i]);
}

void digest_of(const void *data, size_t len, char ret[DIGEST_SIZE])
{
	struct digester d;

	digester_init(&d, "sha256:");
	digester_add(&d, data, len);
	digester_end(&d, ret);
}
