/* What a sandbox can be when its engine is on another machine (DOCKER_HOST=ssh://…, or tcp:// to another host).
 *
 * The engine mounts paths of its own machine. Where both share a file system at the same path that is the same folder,
 * which is seen for the workspace when the container stands (reach.c); nothing can be said for the user's own state and
 * for other mounts, so those are refused. A container over there does not reach a proxy over here unless the user made
 * a way for it and says which; without one a network policy is refused, never dropped. */
#include "remote.h"
#include "engine.h"
#include "ops.h"
#include "proxy_place.h"

#include <base/err.h>
#include <sandbox/host_state.h>
#include <sandbox/spec.h>

#include <errno.h>

static int check_network(const struct container_engine *en, const struct proxy_place *place, bool required,
			 struct err *e)
{
	if (place->listens && !required)
		return 0;
	int r = err_set(e, ERR_UNSUPPORTED, ENOTSUP, "make the sandbox: %s names an engine on another machine, %s",
			en->host_variable,
			required ? "where the network policy cannot be enforced, which "
				   "ITERION_NETWORK_ENFORCEMENT=required asks for"
				 : "and its containers have no way to the egress proxy on this one");
	err_hint(e,
		 required ? "Unset %s, or choose another driver with --sandbox-driver."
			  : "Make one (such as `ssh -R`) and name its ends with ITERION_PROXY_LISTEN and "
			    "ITERION_PROXY_ADVERTISE (docs/network.md), or unset %s, or set network.mode: open.",
		 en->host_variable);
	return r;
}

static int check_mounts(const struct container_engine *en, const struct sandbox_params *p, struct err *e)
{
	const char *source = p->host_state && p->host_state->mounts.n ? p->host_state->mounts.v[0] : NULL;
	bool is_state = source != NULL;

	for (size_t i = 0; !source && i < p->spec->n_mounts; i++)
		if (p->spec->mounts[i].type == MOUNT_BIND)
			source = p->spec->mounts[i].source;
	if (!source)
		return 0;
	int r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			"make the sandbox: %s names an engine on another machine, which would mount its own %s",
			en->host_variable, source);
	err_hint(e, "%s, unset %s, or choose another driver with --sandbox-driver.",
		 is_state ? "Leave your own state out with --sandbox-host-state=none" : "Take the mount out",
		 en->host_variable);
	return r;
}

int remote_check(const struct container_engine *en, const struct sandbox_params *p, bool *ret_offered, struct err *e)
{
	struct proxy_place place;
	bool required, is_remote = engine_is_remote(en);

	/* What the user set is read here, also for an engine of this machine: it is used only when the guest cannot
	 * run, and a wrong word should not wait for that. */
	int r = p->enforce_network ? proxy_place_required(&required, e) : 0;
	if (r == 0 && p->enforce_network)
		r = proxy_place_get(&place, e);
	if (r == 0 && is_remote)
		r = check_mounts(en, p, e);
	if (r == 0 && is_remote && p->enforce_network)
		r = check_network(en, &place, required, e);
	*ret_offered = r == 0 && is_remote && p->enforce_network;
	return r;
}
