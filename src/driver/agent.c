/* What the host does for an agent that runs in a session, under the session's rules.
 *
 * An agent inside has no network but the proxy. When the host fetches something for it, the host's own network must not
 * become a way round: the same policy looks twice, at the name and at each address that DNS gave for it, so that a name
 * which leads to the host's loopback or to a metadata service gains nothing. */
#include <driver/agent.h>

#include "guest_path.h"
#include "session_priv.h"

#include <base/clock.h>
#include <base/err.h>
#include <base/mem.h>
#include <guest/protocol.h>

#include <errno.h>
#include <string.h>

int session_guest(const struct session *s, char **ret, struct err *e)
{
	if (!s || s->driver == &driver_noop)
		return guest_path_find(ret, e);
	if (s->sandbox && s->sandbox->without_guest) {
		int r = err_set(e, ERR_SANDBOX, ENOEXEC, "iterion-guest cannot run in this sandbox");
		err_hint(e, "See the sandbox_warning no_guest: use an image and an engine of this machine's kind, or "
			    "--sandbox-driver=native.");
		return r;
	}
	*ret = xstrdup(GUEST_PATH);
	return 0;
}

static int deny(const struct egress *g, const struct policy_verdict *v, const char *what, struct err *e)
{
	const uint64_t now = clock_ms();
	const struct proxy_blocked b = {.host = g->host.text,
					.port = g->port,
					.reason = v->reason,
					.rule = v->rule,
					.count = 1,
					.first_ms = now,
					.last_ms = now};

	if (!v->silent)
		session_emit_blocked(g->session, &b);
	int r = err_set(e, ERR_NETWORK, EACCES, "%s: the sandbox's network policy denies %s (rule %s: %s)",
			g->host.text, what, v->rule, v->reason);
	err_hint(e, "add a rule for it to network.rules of the sandbox block");
	return r;
}

int egress_check_host(const struct session *s, const char *host, uint16_t port, struct egress *ret, struct err *e)
{
	*ret = (struct egress){.session = s, .port = port};
	if (host_parse(host, strlen(host), &ret->host) < 0) {
		int r = err_set(e, ERR_INPUT, EINVAL, "%.200s is no name or address of a host", host);
		err_hint(e, "write a host's name");
		return r;
	}
	if (!s->policy)
		return 0;
	policy_check_host(s->policy, &ret->host, port, &ret->first);
	return ret->first.allow ? 0 : deny(ret, &ret->first, "it", e);
}

int egress_check_address(const struct egress *g, const struct sockaddr *sa, socklen_t len, struct err *e)
{
	struct host address;
	struct policy_verdict v;

	if (!g->session->policy)
		return 0;
	if (host_from_sockaddr(sa, len, &address, NULL) < 0)
		return err_set(e, ERR_NETWORK, EACCES, "%s: it leads to something that is no address of IP",
			       g->host.text);
	policy_check_address(g->session->policy, &g->host, &g->first, &address, g->port, &v);
	return v.allow ? 0 : deny(g, &v, address.text, e);
}

bool egress_is_open(const struct session *s)
{
	return !s->policy;
}

const char *const *session_resolve(const struct session *s)
{
	return s->p.resolve;
}
