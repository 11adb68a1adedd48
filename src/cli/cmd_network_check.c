/* `sandbox network check`: what a policy says about hosts, without connecting or resolving anything. */
#include "commands.h"
#include "network_flags.h"
#include "output.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

enum { DEFAULT_PORT = 443 };

struct check_opts {
	struct network_flags network;
	bool json;
};

struct answer {
	const char *asked;
	struct host host;
	uint16_t port;
	struct policy_verdict verdict;
};

static void ask(const struct policy *p, const char *text, struct answer *ret)
{
	*ret = (struct answer){
		.asked = text,
		.verdict = {.rule = "default", .reason = "this is no host"},
	};
	if (host_port_parse(text, strlen(text), DEFAULT_PORT, &ret->host, &ret->port) < 0)
		return;
	policy_check_host(p, &ret->host, ret->port, &ret->verdict);
	/* For an address there is nothing left to be resolved: the second look is known too. */
	if (ret->verdict.allow && ret->host.family != AF_UNSPEC) {
		const struct policy_verdict first = ret->verdict;
		policy_check_address(p, &ret->host, &first, &ret->host, ret->port, &ret->verdict);
	}
}

static json_t *to_json(const struct answer *a)
{
	json_t *j = json_object();

	json_put_str(j, "host", a->host.text[0] ? a->host.text : a->asked);
	json_put_int(j, "port", a->port);
	json_put_str(j, "verdict", a->verdict.allow ? "allow" : "deny");
	json_put_str(j, "rule", a->verdict.rule);
	if (!a->verdict.allow) {
		json_put_str(j, "reason", a->verdict.reason);
		json_put_bool(j, "silent", a->verdict.silent);
	}
	return j;
}

static void show_json(const struct policy *p, const struct answer *answers, size_t n, bool ok)
{
	auto_json doc = json_object();
	json_t *rules = json_array(), *hosts = json_array();
	const char *const *texts;
	size_t n_rules = policy_rules(p, &texts);

	for (size_t i = 0; i < n_rules; i++)
		(void)json_array_append_new(rules, json_text(texts[i], strlen(texts[i])));
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(hosts, to_json(&answers[i]));
	json_put_str(doc, "mode", network_mode_name(policy_mode(p)));
	json_put(doc, "rules", rules);
	json_put(doc, "hosts", hosts);
	json_put_bool(doc, "ok", ok);
	out_json(doc);
}

static void show(const struct answer *a)
{
	out_style(a->verdict.allow ? STYLE_GREEN : STYLE_RED);
	out_printf("%s", a->verdict.allow ? "allow" : "deny ");
	out_style(STYLE_PLAIN);
	out_printf("  ");
	out_value(a->asked, 0);
	if (str_eq(a->verdict.rule, "default"))
		out_printf("  no rule names it");
	else
		out_printf("  rule %s", a->verdict.rule);
	if (!a->verdict.allow)
		out_printf(" (%s%s)", a->verdict.reason, a->verdict.silent ? "; refused without an event" : "");
	out_printf("\n");
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct check_opts *o = inv->options;
	auto_policy policy = NULL;
	bool ok = true;

	int r = network_flags_policy(&o->network, &policy, e);
	if (r < 0)
		return err_wrap(e, r, "%s", inv->command->name);
	auto_free struct answer *answers = xcalloc(inv->n_args, sizeof *answers);
	for (size_t i = 0; i < inv->n_args; i++) {
		ask(policy, inv->args[i], &answers[i]);
		ok = ok && answers[i].verdict.allow;
	}
	if (o->json)
		show_json(policy, answers, inv->n_args, ok);
	for (size_t i = 0; !o->json && i < inv->n_args; i++)
		show(&answers[i]);
	return ok ? 0 : 1;
}

static const struct option_row options[] = {
	NETWORK_FLAG_ROWS("mode", struct check_opts, network, "allowlist"),
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct check_opts, json),
	 .help = "print one JSON document: mode, rules, hosts with verdict and rule, ok"},
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion sandbox network check --preset iterion-default api.github.com evil.example",
	 "Which of the two a sandbox with the default list reaches."},
	{"iterion sandbox network check --rule '**.x.org' --rule '!ads.x.org' ads.x.org:80",
	 "Rules are read in order and the last one that matches decides. Without a port, 443 is meant."},
	{NULL, NULL},
};

static const struct help_row exits[] = {
	{"0", "every host is allowed"},
	{"1", "at least one is denied"},
	{"2", "a rule, a preset or the command line is wrong"},
	{NULL, NULL},
};

const struct command command_network_check = {
	.name = "sandbox network check",
	.operands = "HOST[:PORT]…",
	.summary = "say what a network policy does with hosts, and by which rule",
	.about =
		"Applies presets and rules to each HOST as the proxy of a sandbox would, and prints the verdict with "
		"the "
		"rule that decided. Nothing is resolved or connected; a name that is allowed here may still be refused "
		"when it turns out to resolve to a private address.",
	.examples = examples,
	.exits = exits,
	.options = options,
	.options_size = sizeof(struct check_opts),
	.min_args = 1,
	.max_args = 10000,
	.run = run,
};
