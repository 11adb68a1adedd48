/* The table of drivers and the choice of one. */
#include "ops.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>

/* In the order of choice; noop only by name, since it isolates nothing. */
static const struct driver *const drivers[] = {&driver_native, &driver_noop};

const struct driver *const *driver_list(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(drivers);
	return drivers;
}

const char *driver_name(const struct driver *d)
{
	return d->name;
}

const struct driver_caps *driver_caps(const struct driver *d)
{
	return &d->caps;
}

const char *driver_attachments(const struct driver *d)
{
	return d->attachments;
}

int driver_probe(const struct driver *d, struct err *e)
{
	return d->probe(e);
}

static int by_name(const char *name, const struct driver **ret, struct err *e)
{
	const char *names[ARRAY_LEN(drivers)];

	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		names[i] = drivers[i]->name;
		if (str_eq(names[i], name)) {
			*ret = drivers[i];
			return 0;
		}
	}
	const char *near = str_nearest(name, names, ARRAY_LEN(names));
	int r = err_set(e, ERR_USAGE, ENOENT, "sandbox driver %s: this build has none of that name", name);
	if (near)
		err_hint(e, "Did you mean %s? The drivers are native and noop.", near);
	else
		err_hint(e, "The drivers are native and noop.");
	return r;
}

/* Whether no driver after it isolates anything. */
static bool is_last(size_t i)
{
	for (i++; i < ARRAY_LEN(drivers); i++)
		if (drivers[i]->caps.network_policy)
			return false;
	return true;
}

int driver_choose(const char *name, const struct driver **ret, const char **ret_reason, struct err *e)
{
	struct err why = ERR_INIT;

	if (name) {
		*ret_reason = "asked for by name";
		return by_name(name, ret, e);
	}
	auto_buf tried = BUF_INIT(sizeof why.msg);
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		if (!drivers[i]->caps.network_policy)
			continue;
		/* The last one is not asked: when it cannot serve, its start says so as well, and asking costs time. */
		if (is_last(i) && tried.len == 0) {
			*ret = drivers[i];
			*ret_reason = "the only one that this build has for this machine";
			return 0;
		}
		if (drivers[i]->probe(&why) == 0) {
			*ret = drivers[i];
			*ret_reason = "the first that can serve here";
			return 0;
		}
		/* What does not fit any more is the least likely to be read. */
		(void)!buf_printf(&tried, "%s%s: %s", tried.len ? "; " : "", drivers[i]->name, why.msg);
	}
	int r = err_set(e, ERR_SANDBOX, ENOTSUP, "no sandbox driver can serve here: %s", buf_str(&tried));
	err_hint(e, "%s", why.hint);
	return r;
}

int driver_sweep_all(size_t *ret_n, struct err *e)
{
	*ret_n = 0;
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		size_t n = 0;
		int r = drivers[i]->sweep ? drivers[i]->sweep(&n, e) : 0;
		if (r < 0)
			return err_wrap(e, r, "clean up after the %s driver", drivers[i]->name);
		*ret_n += n;
	}
	return 0;
}
