/* The validity of single values of a sandbox.
 *
 * Most of these end as arguments of a container engine's program, lines of an environment or fields of a pod, so what
 * is refused here is what would turn into something else there: a leading '-' into an option, a line break into another
 * entry, a path with ".." into another folder. Whether an image exists or a host answers is not known here. */
#include "check.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <math.h>
#include <string.h>

static const char memory_hint[] = "memory is a number of bytes, or has a unit: \"512m\", \"2g\", \"1.5GiB\"";

static int bad(struct err *e, const char *hint, const char *why)
{
	int r = err_set(e, ERR_INPUT, EINVAL, "%s", why);

	err_hint(e, "%s", hint);
	return r;
}

/* What every word on an engine's command line must hold. */
static int check_word(const char *s, const char *hint, struct err *e)
{
	if (!*s)
		return bad(e, hint, "it is empty");
	if (*s == '-')
		return bad(e, hint, "it begins with '-', which would be read as an option");
	if (str_has_control(s))
		return bad(e, hint, "it holds a control character");
	if (strchr(s, ' '))
		return bad(e, hint, "it holds a space");
	return 0;
}

int check_image(const char *image, struct err *e)
{
	return check_word(image, "an image is a reference such as debian:12 or ghcr.io/acme/tools@sha256:…", e);
}

static bool is_account(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool alnum =
			(s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9');
		if (!alnum && s[i] != '_' && (i == 0 || !strchr(".-$", s[i])))
			return false;
	}
	return len > 0;
}

int check_user(const char *user, struct err *e)
{
	static const char hint[] = "a user is a name or number, with or without a group: node, 1000, 1000:1000";
	int r = check_word(user, hint, e);
	size_t len = strcspn(user, ":");

	if (r < 0)
		return r;
	if (!is_account(user, len) || (user[len] && !is_account(user + len + 1, strlen(user + len + 1))))
		return bad(e, hint, "it is no user or user:group");
	return 0;
}

int check_workspace_folder(const char *path, struct err *e)
{
	static const char hint[] = "it is where the workspace stands inside the sandbox, such as /workspace";
	static const char *const own[] = {"/proc", "/sys", "/dev", "/run/iterion"};

	if (str_has_control(path))
		return bad(e, hint, "it holds a control character");
	auto_free char *clean = path_clean(path);
	if (!clean)
		return bad(e, hint, "it is not an absolute path");
	if (str_eq(clean, "/"))
		return bad(e, hint, "it is the root folder");
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (path_within(clean, own[i]))
			return bad(e, hint, "it lies in a folder that is the sandbox's own");
	return 0;
}

int check_env_name(const char *name, size_t len, struct err *e)
{
	auto_free char *copy = xstrndup(name, len);

	if (strlen(copy) == len && str_is_identifier(copy))
		return 0;
	int r = err_set(e, ERR_INPUT, EINVAL, "\"%.60s\" is no name of a variable", copy);
	err_hint(e, "names are letters, digits and '_', and do not begin with a digit");
	return r;
}

int check_env_value(const char *value, struct err *e)
{
	if (strpbrk(value, "\r\n"))
		return bad(e, "put the text in a file of the workspace and name that", "the value holds a line break");
	return 0;
}

int check_build_path(const char *path, struct err *e)
{
	static const char hint[] = "the Dockerfile and the context lie in the workspace; write their path from there";

	if (!*path)
		return bad(e, hint, "it is empty");
	if (str_has_control(path))
		return bad(e, hint, "it holds a control character");
	if (*path == '/' || *path == '-')
		return bad(e, hint, *path == '/' ? "it is an absolute path" : "it begins with '-'");
	/* As text: never more steps up than down, at any point. What symlinks do to it is the driver's to see. */
	long depth = 0;
	for (const char *s = path; *s; s += strspn(s, "/")) {
		size_t len = strcspn(s, "/");
		if (len == 2 && s[0] == '.' && s[1] == '.')
			depth--;
		else if (!(len == 1 && *s == '.'))
			depth++;
		if (depth < 0)
			return bad(e, hint, "it leaves the workspace");
		s += len;
	}
	return 0;
}

int check_build_target(const char *target, struct err *e)
{
	return check_word(target, "it is the name of a stage of the Dockerfile", e);
}

int check_secret_from(const char *from, struct err *e)
{
	static const char hint[] = "a secret comes from env:NAME, file:/PATH or cmd:COMMAND of the host";

	if (str_starts(from, "env:"))
		return str_is_identifier(from + 4) ? 0 : bad(e, hint, "behind env: stands no name of a variable");
	if (str_starts(from, "file:"))
		return from[5] == '/' ? 0 : bad(e, hint, "behind file: stands no absolute path");
	if (str_starts(from, "cmd:"))
		return from[4 + strspn(from + 4, " \t")] ? 0 : bad(e, hint, "behind cmd: stands no command");
	return bad(e, hint, "it is not known where the value comes from");
}

int check_secret_host(const char *host, struct err *e)
{
	struct host h;

	if (host_parse(host, strlen(host), &h) < 0)
		return bad(e,
			   "name each host that may get the value: [\"api.github.com\"]; wildcards and ports are not "
			   "taken",
			   "it is no host name");
	if (h.family != AF_UNSPEC)
		return bad(e, "name the host: the secret is bound to the name in its certificate", "it is an address");
	return 0;
}

int check_cpus(double cpus, struct err *e)
{
	if (isfinite(cpus) && cpus >= 0.01 && cpus <= 10000)
		return 0;
	return bad(e, "cpus is a number of processors, such as 2 or 0.5", "it is out of range");
}

int check_memory(uint64_t bytes, struct err *e)
{
	/* The least that the engines take (docker refuses less). */
	if (bytes >= UINT64_C(6) << 20 && bytes <= UINT64_C(1) << 50)
		return 0;
	return bad(e, memory_hint, bytes < UINT64_C(6) << 20 ? "it is less than 6 MiB" : "it is out of range");
}

int check_pids(uint64_t pids, struct err *e)
{
	/* The kernel's own limit of process numbers (PID_MAX_LIMIT). */
	if (pids >= 1 && pids <= 4194304)
		return 0;
	return bad(e, "pids is the most processes at once, from 1 to 4194304", "it is out of range");
}

/* k, m, g, t, with or without "b" or "ib" behind, in any case; b alone; nothing. -1: no unit. */
static int memory_shift(const char *unit)
{
	static const char letters[] = "kmgt";

	if (!*unit || strcasecmp(unit, "b") == 0)
		return 0;
	const char *letter = strchr(letters, *unit | 0x20);
	if (!letter || (unit[1] && strcasecmp(unit + 1, "b") != 0 && strcasecmp(unit + 1, "ib") != 0))
		return -1;
	return 10 * (int)(letter - letters + 1);
}

int parse_memory(const char *text, uint64_t *ret, struct err *e)
{
	const char *s = text;
	double v = 0, scale = 1;

	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (*s - '0');
	if (s == text)
		return bad(e, memory_hint, "it does not begin with a number");
	if (*s == '.')
		for (s++; *s >= '0' && *s <= '9'; s++)
			v += (*s - '0') * (scale /= 10);
	int shift = memory_shift(s + strspn(s, " "));
	if (shift < 0)
		return bad(e, memory_hint, "its unit is not known");
	v = ldexp(v, shift);
	if (v > 0x1p50)
		return bad(e, memory_hint, "it is out of range");
	*ret = (uint64_t)v;
	return check_memory(*ret, e);
}
