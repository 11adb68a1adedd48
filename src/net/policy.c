/* The verdict: may a sandbox speak with this host?
 *
 * Pure: rules and a host in, a verdict out; no look-up, no clock, no environment, so that the proxy, the checking
 * command and the tests cannot differ. The last rule that speaks of a host decides; a list holds what its mode is named
 * after, so a rule allows in an allowlist and denies in a denylist, and "!" turns either around.
 *
 * It is asked twice. First about what the client named, before any DNS. A literal address is judged by address rules;
 * a wildcard that allows never covers one in an allowlist, or "**" would open the metadata service. Then about each
 * address that the name resolved to, because the owner of a zone points its names wherever he likes: ranges that are
 * not the public internet (host_range.c) need an address rule, or a rule that names this very host, which is its
 * author's word that he knows where it lives. The second look never allows what the first denied.
 *
 * Modes open and learn deny nothing that is a host at all; malformed text never gets here (host_parse refused it). */
#include "host_range.h"
#include "policy_index.h"
#include "preset.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

enum { MAX_RULES = 100000 };

static const char default_rule[] = "default";

struct policy {
	enum network_mode mode;
	struct rule_index rules;
	struct rule_index silent;
	const char **texts; /* of the rules, borrowed from them */
};

static const char *const mode_names[] = {
	[NETWORK_OPEN] = "open",
	[NETWORK_ALLOWLIST] = "allowlist",
	[NETWORK_DENYLIST] = "denylist",
	[NETWORK_LEARN] = "learn",
};

const char *network_mode_name(enum network_mode m)
{
	return mode_names[m];
}

int network_mode_parse(const char *word, enum network_mode *ret)
{
	for (unsigned i = 0; i < ARRAY_LEN(mode_names); i++) {
		if (str_eq(word, mode_names[i])) {
			*ret = (enum network_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int unknown_preset(const char *name, struct err *e)
{
	const char *const *known = policy_preset_names();
	auto_buf list = BUF_INIT(256);
	size_t n = 0;

	for (; known[n]; n++)
		(void)buf_printf(&list, "%s%s", n ? ", " : "", known[n]);
	int r = err_set(e, ERR_INPUT, EINVAL, "network preset \"%.60s\" does not exist", name);
	const char *near = str_nearest(name, known, n);
	if (near)
		err_hint(e, "did you mean \"%s\"? The presets are %s", near, buf_str(&list));
	else
		err_hint(e, "the presets are %s", buf_str(&list));
	return r;
}

static int expand_presets(enum network_mode mode, const char *const *presets, struct strv *texts, struct err *e)
{
	for (; presets && *presets; presets++)
		if (preset_expand(*presets, texts) < 0)
			return unknown_preset(*presets, e);
	if (mode == NETWORK_DENYLIST && texts->n > 0) {
		int r = err_set(e, ERR_INPUT, EINVAL,
				"a network preset cannot be used in mode denylist: presets list "
				"hosts to allow, and a denylist denies what is listed");
		err_hint(e, "use mode: allowlist with the preset, or drop the preset and list the hosts to deny");
		return r;
	}
	return 0;
}

/* Parses all texts into a new array in ret. */
static int compile(const char *const *texts, size_t n, struct rule_index *ret, struct err *e)
{
	struct rule *rules = xcalloc(n + 1, sizeof *rules);
	int r = 0;
	size_t done = 0;

	for (; done < n; done++) {
		r = rule_parse(texts[done], &rules[done], e);
		if (r < 0)
			break;
	}
	/* Also on error, so that one function frees what was parsed. */
	rule_index_build(ret, rules, done);
	return r;
}

/* A denylist of exceptions only: whoever wrote it meant the opposite of what it does. */
static int check_denylist(const struct policy *p, struct err *e)
{
	if (p->mode != NETWORK_DENYLIST || p->rules.n == 0)
		return 0;
	for (size_t i = 0; i < p->rules.n; i++)
		if (!p->rules.rules[i].negated)
			return 0;
	int r = err_set(e, ERR_INPUT, EINVAL,
			"network mode denylist with negated rules only denies nothing (first rule: "
			"\"%.100s\")",
			p->rules.rules[0].text);
	err_hint(e, "in a denylist a plain rule denies and \"!\" makes an exception: write \"%.100s\" to deny it",
		 p->rules.rules[0].text + 1);
	return r;
}

static size_t count(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static int fill(struct policy *p, const char *const *presets, const char *const *rules, struct err *e)
{
	auto_strv texts = {0};

	int r = expand_presets(p->mode, presets, &texts, e);
	if (r < 0)
		return r;
	if (texts.n + count(rules) > MAX_RULES) {
		r = err_set(e, ERR_INPUT, EINVAL, "a network policy has at most %d rules", MAX_RULES);
		err_hint(e, "\"**.example.com\" covers all hosts below a name, a CIDR all addresses of a network");
		return r;
	}
	for (; rules && *rules; rules++)
		strv_add(&texts, *rules);
	r = compile((const char *const *)texts.v, texts.n, &p->rules, e);
	if (r == 0)
		r = check_denylist(p, e);
	if (r == 0)
		r = compile(preset_silent(), count(preset_silent()), &p->silent, e);
	return r;
}

int policy_new(enum network_mode mode, const char *const *presets, const char *const *rules, struct policy **ret,
	       struct err *e)
{
	struct policy *p = xcalloc(1, sizeof *p);

	p->mode = mode;
	int r = fill(p, presets, rules, e);
	if (r < 0) {
		policy_free(p);
		return r;
	}
	p->texts = xcalloc(p->rules.n + 1, sizeof *p->texts);
	for (size_t i = 0; i < p->rules.n; i++)
		p->texts[i] = p->rules.rules[i].text;
	*ret = p;
	return 0;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	rule_index_done(&p->rules);
	rule_index_done(&p->silent);
	free(p->texts);
	free(p);
}

enum network_mode policy_mode(const struct policy *p)
{
	return p->mode;
}

size_t policy_rules(const struct policy *p, const char *const **ret)
{
	*ret = p->texts;
	return p->rules.n;
}

static bool filters(const struct policy *p)
{
	return p->mode == NETWORK_ALLOWLIST || p->mode == NETWORK_DENYLIST;
}

static bool rule_allows(const struct policy *p, const struct rule *r)
{
	return r->negated == (p->mode == NETWORK_DENYLIST);
}

/* The later of two rules, either of which may be NULL. */
static const struct rule *later(const struct rule *a, const struct rule *b)
{
	if (!a || !b)
		return a ? a : b;
	return a > b ? a : b;
}

/* The last rule that speaks of the host, or NULL. */
static const struct rule *deciding_rule(const struct policy *p, const struct host *h, uint16_t port)
{
	if (h->family == AF_UNSPEC)
		return rule_index_name(&p->rules, h->text, port);
	/* "**" never allows an address in an allowlist; "!**" denies one, and in a denylist both cover everything. */
	const struct rule *r = later(rule_index_address(&p->rules, h, port), rule_index_any(&p->rules, true, port));
	return p->mode == NETWORK_ALLOWLIST ? r : later(r, rule_index_any(&p->rules, false, port));
}

static struct policy_verdict denial(const char *reason, const char *rule)
{
	return (struct policy_verdict){.reason = reason, .rule = rule};
}

/* What the rules say of an address in itself: allowed unless it is special or a rule denies it. first_rule is what
 * decided the first look. */
static void check_address(const struct policy *p, const struct policy_verdict *first, const struct rule *first_rule,
			  const struct host *address, uint16_t port, struct policy_verdict *ret)
{
	const struct rule *r = rule_index_address(&p->rules, address, port);

	if (r) {
		bool overruled = first->exact && first_rule && first_rule > r;
		*ret = rule_allows(p, r) || overruled ? *first : denial("resolved address: a rule denies it", r->text);
		return;
	}
	const struct special_range *special = first->exact ? NULL : host_special_range(address);
	*ret = special ? denial(special->resolved, default_rule) : *first;
}

/* A literal, or a name that means this machine, is its own resolved address. */
static void check_local(const struct policy *p, const struct host *h, uint16_t port, const struct rule *rule,
			struct policy_verdict *v)
{
	static const struct host v4 = {.text = "127.0.0.1", .family = AF_INET, .addr = {127, [3] = 1}};
	static const struct host v6 = {.text = "::1", .family = AF_INET6, .addr = {[15] = 1}};
	struct policy_verdict first = *v;

	if (h->family != AF_UNSPEC) {
		const struct special_range *special = host_special_range(h);
		if (special && !rule_index_address(&p->rules, h, port))
			*v = denial(special->literal, default_rule);
		return;
	}
	check_address(p, &first, rule, &v4, port, v);
	if (!v->allow) {
		struct policy_verdict other;
		check_address(p, &first, rule, &v6, port, &other);
		if (other.allow)
			*v = other;
	}
}

/* Whether the rule names one host and no other. */
static bool is_exact(const struct rule *r)
{
	return r->kind == RULE_NAME || (r->kind == RULE_ADDRESS && r->bits == (r->family == AF_INET ? 32 : 128));
}

void policy_check_host(const struct policy *p, const struct host *h, uint16_t port, struct policy_verdict *ret)
{
	if (!filters(p)) {
		*ret = (struct policy_verdict){.allow = true, .rule = default_rule};
		return;
	}
	const struct rule *r = deciding_rule(p, h, port);
	bool allow = r ? rule_allows(p, r) : p->mode == NETWORK_DENYLIST;

	if (!allow) {
		*ret = denial("policy denial", r ? r->text : default_rule);
		ret->silent = h->family == AF_UNSPEC && rule_index_name(&p->silent, h->text, port);
		return;
	}
	*ret = (struct policy_verdict){.allow = true, .rule = r ? r->text : default_rule, .exact = r && is_exact(r)};
	if (h->family != AF_UNSPEC || host_is_local_name(h))
		check_local(p, h, port, r, ret);
}

void policy_check_address(const struct policy *p, const struct host *h, const struct policy_verdict *first,
			  const struct host *address, uint16_t port, struct policy_verdict *ret)
{
	if (!first->allow || !filters(p)) {
		*ret = *first;
		return;
	}
	check_address(p, first, deciding_rule(p, h, port), address, port, ret);
}
