/* A model's streamed answer, of any of the three interfaces (the first byte says which): it is read or refused, the
 * same way in one piece and in two, and what was read can be said to every provider again. The same bytes as a page. */
#include <stddef.h>
#include <stdint.h>

#include "claw/html.h"
#include "llm/llm.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void on_text(void *arg, bool thinking, const char *text, size_t len)
{
	(void)thinking;
	require(text && len > 0);
	*(size_t *)arg += len;
}

/* The answer as text, or NULL with what went wrong in *ret. */
static char *read_stream(enum llm_api api, const char *data, size_t len, size_t cut, int *ret)
{
	struct llm_answer a = {0};
	struct err e = ERR_INIT;
	size_t told = 0;
	int status = 0;
	struct llm_reader *r = llm_reader_new(api, NULL, on_text, &told);

	*ret = llm_reader_feed(r, data, cut, &status, &e);
	if (*ret == 0)
		*ret = llm_reader_feed(r, data + cut, len - cut, &status, &e);
	if (*ret == 0)
		*ret = llm_reader_end(r, &a, &e);
	require(told <= LLM_ANSWER_MAX);
	require(*ret == 0 || e.msg[0]);
	char *text = *ret == 0 ? json_compact(a.message) : NULL;
	llm_answer_done(&a);
	llm_reader_free(r);
	return text;
}

static void say_again(const char *message)
{
	auto_json one = json_parse(message, strlen(message), NULL);
	auto_json messages = json_array();

	require(one && json_array_append(messages, one) == 0);
	for (enum llm_api api = 0; api < N_LLM_APIS; api++) {
		const struct llm_ask ask = {.model = "claude-sonnet-4-5", .messages = messages, .effort = "high"};
		auto_json body = llm_body(api, &ask);
		auto_free char *text = json_compact(body);
		require(text[0] == '{');
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	enum llm_api api = data[0] % N_LLM_APIS;
	auto_free char *stream = xmemdup(data, size);
	int whole, halves;
	auto_free char *a = read_stream(api, stream + 1, size - 1, size - 1, &whole);
	auto_free char *b = read_stream(api, stream + 1, size - 1, (size - 1) / 2, &halves);

	require(whole == halves && str_eq(a, b));
	if (a)
		say_again(a);
	auto_free char *text = llm_error_text(stream, size);
	require(utf8_valid(text, strlen(text)));
	auto_buf page = BUF_INIT(4096);
	require(html_to_text(&page, stream, size) == 0 || page.len <= page.max);
	return 0;
}
