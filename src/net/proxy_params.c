/* The parameters of a proxy as a record. Both ends are one version of one program, but a record that is cut or torn is
 * an error all the same, never half a policy. The policy goes as its rules with the presets expanded, and is compiled
 * again. */
#include "proxy_params.h"
#include "secret_priv.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/pack.h>
#include <net/policy.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RULES_MAX = 64 * 1024, RESOLVE_MAX = 1024, LEARN = 1, STRICT_SNI = 2, ALL = 4, HAS_TOKEN = 8 };

static size_t count(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static int pack_secrets(struct buf *to, const struct secrets *s)
{
	int r = pack_u32(to, (uint32_t)secrets_count(s));

	for (size_t i = 0; r == 0 && i < secrets_count(s); i++) {
		const struct secret *x = &s->v[i];
		r = pack_str(to, x->name);
		if (r == 0)
			r = pack_str(to, x->placeholder);
		if (r == 0)
			r = pack_bytes(to, x->value, x->len);
		if (r == 0)
			r = pack_strv(to, (const char *const *)x->hosts.v, x->hosts.n);
	}
	return r;
}

int proxy_params_pack(struct buf *to, const struct proxy_params *p, int parent_pid)
{
	const char *const *rules = NULL;
	size_t n = policy_rules(p->policy, &rules);
	uint32_t flags = (p->learn ? LEARN : 0u) | (p->strict_sni ? STRICT_SNI : 0u) | (p->inspect->all ? ALL : 0u) |
			 (p->token ? HAS_TOKEN : 0u);
	/* At once: a buffer that grows leaves copies of what it held. */
	int r = buf_reserve(to, PROXY_PARAMS_MAX / 2);

	if (r == 0)
		r = pack_u32(to, (uint32_t)parent_pid);
	if (r == 0)
		r = pack_u32(to, flags);
	if (r == 0)
		r = pack_secrets(to, p->inspect->secrets);
	if (r == 0)
		r = pack_str(to, p->inspect->trust);
	if (r == 0)
		r = pack_str(to, p->token ? p->token : "");
	if (r == 0)
		r = pack_strv(to, p->resolve, count(p->resolve));
	if (r == 0)
		r = pack_u32(to, policy_mode(p->policy));
	return r == 0 ? pack_strv(to, rules, n) : r;
}

static int unpack_secret(struct unpack *u, struct secrets *s)
{
	char *name = unpack_str(u), *placeholder = unpack_str(u);
	size_t len = 0, n = 0;
	const char *value = unpack_bytes(u, &len);
	char **hosts = unpack_strv(u, RULES_MAX, &n);
	int r = u->bad ? -EPROTO : secrets_restore(s, name, placeholder, value, len, (const char *const *)hosts);

	free(name);
	free(placeholder);
	unpack_strv_free(hosts);
	return r;
}

static int unpack_all(struct unpack *u, struct proxy_params *ret, int *ret_parent, struct err *e)
{
	struct proxy_inspect *inspect = xcalloc(1, sizeof *inspect);
	struct secrets *secrets = secrets_new();
	struct policy *policy = NULL;
	size_t n = 0;
	int r = 0;

	*ret_parent = (int)unpack_u32(u);
	uint32_t flags = unpack_u32(u), n_secrets = unpack_u32(u);
	for (uint32_t i = 0; r == 0 && i < n_secrets && !u->bad; i++)
		r = unpack_secret(u, secrets);
	inspect->secrets = secrets;
	inspect->all = flags & ALL;
	inspect->trust = unpack_str(u);
	ret->token = unpack_str(u);
	if (!(flags & HAS_TOKEN))
		ret->token = NULL;
	ret->resolve = (const char *const *)unpack_strv(u, RESOLVE_MAX, &n);
	uint32_t mode = unpack_u32(u);
	char **rules = unpack_strv(u, RULES_MAX, &n);
	ret->learn = flags & LEARN;
	ret->strict_sni = flags & STRICT_SNI;
	ret->inspect = inspect;
	if (r == 0 && (!unpack_end(u) || mode > NETWORK_LEARN))
		r = -EPROTO;
	if (r == 0)
		r = policy_new((enum network_mode)mode, NULL, (const char *const *)rules, &policy, e);
	else
		(void)err_set(e, ERR_INTERNAL, -r, "start the proxy: its parameters are malformed");
	ret->policy = policy;
	unpack_strv_free(rules);
	return r;
}

int proxy_params_unpack(const char *data, size_t len, struct proxy_params *ret, int *ret_parent_pid, struct err *e)
{
	struct unpack u = {.p = data, .left = len};

	*ret = (struct proxy_params){0};
	return unpack_all(&u, ret, ret_parent_pid, e);
}
