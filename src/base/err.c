/* Errors by value.
 *
 * An error is a plain struct on the caller's stack: nothing to free, nothing to own, and it crosses a pipe or a fork by
 * being copied. A function that fails fills it once, at the place that knows what the system said; the callers above
 * put the name of what they were doing in front (err_wrap), and the layer that knows the remedy sets the hint. Texts
 * that do not fit are cut, never overflow. */
#include <base/err.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int exit_code;
} kinds[] = {
#define ERR_ROW(name, text, code) [ERR_##name] = {text, code},
	ERR_KINDS(ERR_ROW)
#undef ERR_ROW
};

/* vsnprintf that tells how much stands in the buffer. */
static size_t format_into(char *to, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(to, size, fmt, ap);

	if (n < 0) {
		to[0] = '\0';
		return 0;
	}
	return (size_t)n < size ? (size_t)n : size - 1;
}

int err_set(struct err *e, enum err_kind kind, int errnum, const char *fmt, ...)
{
	int r = errnum > 0 ? -errnum : -EINVAL;

	if (!e)
		return r;
	e->kind = kind;
	e->errnum = errnum;
	e->hint[0] = '\0';
	va_list ap;
	va_start(ap, fmt);
	format_into(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	return r;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
	int r = errnum > 0 ? -errnum : -EIO;

	if (!e)
		return r;
	e->kind = ERR_SYSTEM;
	e->errnum = errnum;
	e->hint[0] = '\0';
	va_list ap;
	va_start(ap, fmt);
	size_t n = format_into(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(errnum));
	return r;
}

int err_wrap(struct err *e, int r, const char *fmt, ...)
{
	if (!e)
		return r;
	char old[sizeof e->msg];
	memcpy(old, e->msg, sizeof old);
	va_list ap;
	va_start(ap, fmt);
	size_t n = format_into(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	snprintf(e->msg + n, sizeof e->msg - n, ": %.*s", (int)(sizeof e->msg - n), old);
	return r;
}

void err_hint(struct err *e, const char *fmt, ...)
{
	if (!e || e->hint[0])
		return;
	va_list ap;
	va_start(ap, fmt);
	format_into(e->hint, sizeof e->hint, fmt, ap);
	va_end(ap);
}

void err_set_kind(struct err *e, enum err_kind kind)
{
	if (e)
		e->kind = kind;
}

void err_copy(struct err *dst, const struct err *src)
{
	if (dst && src)
		*dst = *src;
}

const char *err_kind_name(enum err_kind kind)
{
	return (size_t)kind < sizeof kinds / sizeof kinds[0] ? kinds[kind].name : "unknown";
}

int err_exit_code(enum err_kind kind)
{
	return (size_t)kind < sizeof kinds / sizeof kinds[0] ? kinds[kind].exit_code : 1;
}
