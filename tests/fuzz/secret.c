/* Fuzz target: what an attacker inside or a server writes, past the replacing of placeholders and values. A body must
 * come out the same however it was cut, and as long as it went in. */
#include "http_body.h"
#include "http_head.h"
#include "secret_swap.h"

#include <base/buf.h>
#include <base/mem.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct swap pairs[] = {
	{"abcabcab", "ABCABCAB", 8}, {"abcabcabcd", "0123456789", 10}, {"aaaaaaaa", "bbbbbbbb", 8}};

static void through(const char *text, size_t len, size_t step, struct buf *out)
{
	struct swap_stream *s = swap_stream_new(pairs, ARRAY_LEN(pairs));

	for (size_t i = 0; i < len; i += step)
		if (swap_stream_feed(s, text + i, MIN(step, len - i), out) < 0)
			abort();
	if (swap_stream_end(s, out) < 0)
		abort();
	swap_stream_free(s);
}

static void chunks(const char *text, size_t len)
{
	struct body b = {.kind = HTTP_BODY_CHUNKED};
	auto_buf from = BUF_INIT(1 << 20);
	auto_buf to = BUF_INIT(1 << 22);
	uint64_t count = 0;

	body_set_swap(&b, swap_stream_new(pairs, ARRAY_LEN(pairs)));
	(void)buf_add(&from, text, len);
	while (body_move(&b, &from, &to, 1 << 20, &count) > 0)
		;
	body_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buf whole = BUF_INIT(1 << 20);
	auto_buf cut = BUF_INIT(1 << 20);
	auto_buf target = BUF_INIT(1 << 22);
	size_t step = size ? 1 + data[0] % 13 : 1;

	if (size > 4096)
		return 0;
	char *copy = malloc(size + 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	copy[size] = '\0';
	through(copy, size, size + 1, &whole);
	through(copy, size, step, &cut);
	if (whole.len != size || cut.len != size || (size && memcmp(whole.data, cut.data, size) != 0))
		abort();
	chunks(copy, size);
	(void)swap_target(pairs, ARRAY_LEN(pairs), copy, size, &target);
	(void)swap_is_text((struct http_text){copy, size});
	(void)swap_header(pairs, ARRAY_LEN(pairs), copy, size);
	free(copy);
	return 0;
}
