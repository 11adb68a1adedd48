/* Random bytes, identifiers, and hex digits. */
#include <base/id.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *to, size_t len)
{
	unsigned char *p = to;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			abort();
		p += n;
		len -= (size_t)n;
	}
}

void hex_encode(char *to, const void *data, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *from = data;

	for (size_t i = 0; i < n; i++) {
		*to++ = digits[from[i] >> 4];
		*to++ = digits[from[i] & 15];
	}
	*to = '\0';
}

void id_hex(char *to, size_t bytes)
{
	unsigned char raw[64];

	if (bytes > sizeof raw)
		abort();
	random_bytes(raw, bytes);
	hex_encode(to, raw, bytes);
}

void id_uuid7(char ret[UUID_SIZE], uint64_t wall_ms)
{
	unsigned char u[16];
	char hex[33];

	random_bytes(u, sizeof u);
	for (size_t i = 0; i < 6; i++)
		u[i] = (unsigned char)(wall_ms >> (40 - 8 * i));
	u[6] = (unsigned char)(0x70 | (u[6] & 0x0f));
	u[8] = (unsigned char)(0x80 | (u[8] & 0x3f));
	hex_encode(hex, u, sizeof u);
	snprintf(ret, UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

bool equal_constant_time(const void *a, const void *b, size_t len)
{
	const volatile unsigned char *x = a, *y = b;
	unsigned char diff = 0;

	for (size_t i = 0; i < len; i++)
		diff |= x[i] ^ y[i];
	return diff == 0;
}
