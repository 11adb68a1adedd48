/* Who could hold a sandbox's limits here.
 *
 * In this order: a cgroup of version 2 that this user may make (a delegated subtree, or root without systemd); a unit
 * of systemd, where that owns the tree; cgroups of version 1 as root; else what a process can be given by itself, which
 * is weaker. Where systemd runs it is asked before a cgroup is made past it: it would take controllers away again that
 * none of its own units needs. Version 2 is taken as a whole or not at all, version 1 hierarchy by hierarchy. */
#include "hold_choose.h"
#include "cgroup.h"
#include "cgroup_find.h"
#include "child.h"
#include "hold_process.h"
#include "systemd.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	enum sandbox_limit which;
	const char *name;
} limits[] = {{LIMIT_CPUS, "limits.cpus"}, {LIMIT_MEMORY, "limits.memory"}, {LIMIT_PIDS, "limits.pids"}};

static bool systemd_owns(const struct cgroup_at *at)
{
	return strstr(at->own, ".slice") != NULL || access("/run/systemd/system", F_OK) == 0;
}

/* What this user's manager was given of the controllers: before systemd 252 without cpu, unless somebody set
 * Delegate=. It leaves out what it cannot set, without a word. */
static unsigned unit_controllers(const struct cgroup_at *at)
{
	auto_free char *folder =
		xasprintf("%s/user.slice/user-%u.slice/user@%u.service", at->top, geteuid(), geteuid());
	unsigned found = geteuid() == 0 ? 0 : cgroup_v2_controllers(folder);

	return found ? found : (unsigned)LIMIT_ALL;
}

/* Returns whether version 2 serves. */
static bool choose_v2(unsigned wanted, struct hold_choice *c, struct buf *why)
{
	auto_cgroup_at at = {0};
	auto_free char *parent = NULL;

	if (cgroup_find(NULL, &at) < 0) {
		(void)buf_puts(why, "version 2 is not mounted");
		return false;
	}
	if ((cgroup_v2_controllers(at.top) & wanted) != wanted) {
		(void)buf_puts(why, "version 2 has not all of the controllers here");
		return false;
	}
	bool ours = cgroup_v2_parent(&at, wanted, &parent, why) == 0;
	if (!ours || systemd_owns(&at)) {
		auto_free char *bus = unit_bus();
		unsigned can = wanted & unit_controllers(&at);
		if (bus && can && unit_bus_answers(bus)) {
			c->way = HOLD_UNIT;
			c->bus = TAKE_PTR(bus);
			c->by_cgroup = can;
			buf_clear(why);
			if (can != wanted)
				(void)buf_puts(why, "systemd was not given the controller for this user");
			return true;
		}
		if (!ours)
			(void)buf_puts(why,
				       bus ? ", and systemd cannot be asked" : ", and there is no bus to ask systemd");
	}
	if (!ours)
		return false;
	c->way = HOLD_V2;
	c->at[c->n].parent = TAKE_PTR(parent);
	c->at[c->n++].which = c->by_cgroup = wanted;
	return true;
}

static void add_v1(struct hold_choice *c, const char *parent, unsigned which)
{
	size_t i = 0;

	while (i < c->n && !str_eq(c->at[i].parent, parent))
		i++;
	if (i == c->n)
		c->at[c->n++].parent = xstrdup(parent);
	c->at[i].which |= which;
	c->by_cgroup |= which;
	c->way = HOLD_V1;
}

static void choose_v1(unsigned wanted, struct hold_choice *c, struct buf *why)
{
	if (!child_is_privileged()) {
		(void)buf_puts(why, "; version 1 needs root");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		auto_cgroup_at at = {0};
		if (!(wanted & limits[i].which))
			continue;
		const char *controller = cgroup_controller(limits[i].which);
		if (cgroup_find(controller, &at) < 0)
			(void)buf_printf(why, "; version 1 has no %s", controller);
		else if (access(at.own, W_OK) < 0)
			(void)buf_printf(why, "; the %s hierarchy of version 1 cannot be written (%s)", controller,
					 strerror(errno));
		else
			add_v1(c, at.own, limits[i].which);
	}
}

void hold_choose(unsigned wanted, struct hold_choice *ret)
{
	auto_buf why = BUF_INIT(HOLD_WHY - 1);

	*ret = (struct hold_choice){.way = HOLD_PROCESS};
	if (!choose_v2(wanted, ret, &why))
		choose_v1(wanted, ret, &why);
	(void)snprintf(ret->why, sizeof ret->why, "%s", buf_str(&why));
}

void hold_choice_done(struct hold_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->at[i].parent);
	free(c->bus);
	*c = (struct hold_choice){.way = HOLD_PROCESS};
}

static char *by_cgroup(const struct hold_choice *c, unsigned which)
{
	if (c->way == HOLD_UNIT)
		return xstrdup("cgroup v2, by a transient unit of systemd");
	for (size_t i = 0; i < c->n; i++)
		if (c->at[i].which & which)
			return xasprintf("cgroup %s, below %s", c->way == HOLD_V2 ? "v2" : "v1", c->at[i].parent);
	return xstrdup("nothing");
}

json_t *hold_describe(const struct sandbox_limits *l)
{
	const bool user_namespace = !child_is_privileged();
	unsigned wanted = limits_wanted(l);
	json_t *list = json_array();
	struct hold_choice c;

	hold_choose(wanted, &c);
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		enum sandbox_limit which = limits[i].which;
		if (!(wanted & which))
			continue;
		bool strong = c.by_cgroup & which;
		auto_free char *by = strong ? by_cgroup(&c, which) : xstrdup(process_holder(which, user_namespace));
		auto_free char *weaker = strong ? NULL : process_weaker(which, l, user_namespace, c.why);
		json_t *one = json_object();
		json_put_str(one, "limit", limits[i].name);
		json_put_str(one, "by", by);
		if (weaker)
			json_put_str(one, "note", weaker);
		(void)json_array_append_new(list, one);
	}
	hold_choice_done(&c);
	return list;
}
