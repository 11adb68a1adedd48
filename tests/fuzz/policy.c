/* Fuzz target: hosts and rules. The first line of the input is a host, with or without a port, each other line a rule.
 * Whatever they are: no crash, a canonical host is its own canonical form, a denied first look stays denied, and what a
 * policy calls its rules compiles again. */
#include <base/mem.h>
#include <base/str.h>
#include <net/policy.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void try_policy(enum network_mode mode, const struct strv *rules, const struct host *h, uint16_t port)
{
	static const char *const presets[] = {"iterion-default", NULL};
	const char *const *texts;
	struct policy *p, *again;
	struct policy_verdict first, second;

	if (policy_new(mode, mode == NETWORK_ALLOWLIST ? presets : NULL, (const char *const *)rules->v, &p, NULL) < 0)
		return;
	(void)policy_rules(p, &texts);
	require(policy_new(mode, NULL, texts, &again, NULL) == 0);
	policy_check_host(p, h, port, &first);
	policy_check_address(p, h, &first, h, port, &second);
	require(first.allow || !second.allow);
	require(first.rule && second.rule && (second.allow || second.reason));
	policy_check_host(again, h, port, &second);
	require(first.allow == second.allow);
	policy_free(again);
	policy_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end = text + size;
	const char *newline = size ? memchr(text, '\n', size) : NULL;
	size_t len = newline ? (size_t)(newline - text) : size;
	struct host h, same;
	uint16_t port = 443;
	auto_strv rules = {0};

	if (host_port_parse(text, len, 443, &h, &port) < 0 && host_parse(text, len, &h) < 0)
		return 0;
	require(host_parse(h.text, strlen(h.text), &same) == 0);
	require(strcmp(h.text, same.text) == 0 && h.family == same.family);
	for (const char *line = newline ? newline + 1 : end; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		size_t n = stop ? (size_t)(stop - line) : (size_t)(end - line);
		strv_take(&rules, xstrndup(line, n));
		line += n + 1;
	}
	for (enum network_mode m = NETWORK_OPEN; m <= NETWORK_LEARN; m++)
		try_policy(m, &rules, &h, port);
	return 0;
}
