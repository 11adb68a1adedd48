/* The table of drivers and the choice of one. */
#include "ops.h"

#include <base/buf.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <errno.h>

/* In the order of choice; noop only by name, since it isolates nothing. */
static const struct driver *const drivers[] = {&driver_kubernetes, &driver_docker, &driver_podman, &driver_native,
					       &driver_noop};

const struct driver *const *driver_list(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(drivers);
	return drivers;
}

const char *driver_name(const struct driver *d)
{
	return d->name;
}

bool driver_wanted(const struct driver *d)
{
	return d->caps.network_policy && (!d->wanted || d->wanted());
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

/* "docker, podman, native and noop". */
static void list_names(struct buf *to)
{
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
		(void)buf_printf(to, "%s%s",
				 i == 0			      ? ""
				 : i + 1 < ARRAY_LEN(drivers) ? ", "
							      : " and ",
				 drivers[i]->name);
}

static int by_name(const char *name, const struct driver **ret, struct err *e)
{
	const char *names[ARRAY_LEN(drivers)];
	auto_buf all = BUF_INIT(sizeof e->hint);

	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		names[i] = drivers[i]->name;
		if (str_eq(names[i], name)) {
			*ret = drivers[i];
			return 0;
		}
	}
	const char *near = str_nearest(name, names, ARRAY_LEN(names));
	int r = err_set(e, ERR_USAGE, ENOENT, "sandbox driver %s: this build has none of that name", name);
	list_names(&all);
	if (near)
		err_hint(e, "Did you mean %s? The drivers are %s.", near, buf_str(&all));
	else
		err_hint(e, "The drivers are %s.", buf_str(&all));
	return r;
}

/* Whether it isolates, is one for this host, and can do without an image when there is none. noop is never chosen. */
static bool can_serve(const struct driver *d, bool without_image)
{
	return driver_wanted(d) && (d->caps.host_toolchain || !without_image);
}

static bool is_last(size_t i, bool without_image)
{
	for (i++; i < ARRAY_LEN(drivers); i++)
		if (can_serve(drivers[i], without_image))
			return false;
	return true;
}

static int none_serves(const struct buf *tried, const struct err *why, struct err *e)
{
	int r = err_set(e, ERR_SANDBOX, ENOTSUP, "no sandbox driver can serve here: %s", buf_str(tried));

	err_hint(e, "%s", why->hint);
	return r;
}

int driver_choose(const char *name, bool without_image, const struct driver **ret, const char **ret_reason,
		  struct err *e)
{
	struct err why = ERR_INIT;

	if (name) {
		*ret_reason = "asked for by name";
		return by_name(name, ret, e);
	}
	auto_buf tried = BUF_INIT(sizeof why.msg);
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		const struct driver *d = drivers[i];
		if (!can_serve(d, without_image))
			continue;
		/* The last one is asked when there is a reason to: its start tells as well, and asking costs time. */
		if ((is_last(i, without_image) && d->doubtful && !d->doubtful()) || d->probe(&why) == 0) {
			*ret = d;
			*ret_reason = "the first that can serve here";
			return 0;
		}
		/* What does not fit any more is the least likely to be read. */
		(void)!buf_printf(&tried, "%s%s: %s", tried.len ? "; " : "", d->name, why.msg);
	}
	return none_serves(&tried, &why, e);
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

int driver_list_all(json_t *rows, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		int r = drivers[i]->list ? drivers[i]->list(rows, e) : 0;
		if (r < 0)
			return err_wrap(e, r, "list the sandboxes of the %s driver", drivers[i]->name);
	}
	return 0;
}
