/* runArgs, capAdd, securityOpt, init, privileged: words for a container engine's command line.
 *
 * What is taken stands in one table with what becomes of it; everything else is an error, and for what people really
 * write a second table says why and what to do instead. An engine's word is never passed on as it came: it is checked
 * and written anew as one "--option=value", so that no value can become an option. Capabilities and security options
 * are looked into, because --cap-add=ALL is --privileged by another name. */
#include "check.h"
#include "devcontainer_priv.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUN_ARGS = 4096 };

/* Where a value stands, for messages. */
struct place {
	const json_t *at;
	const char *field;
};

static int keep(const struct dc_reader *r, const struct place *p, const char *option, const char *value)
{
	struct strv *to = &r->out->spec.run_args;

	if (to->n >= MAX_RUN_ARGS)
		return dc_bad(r, p->at, p->field, "is it the right file?", "more than %d arguments", MAX_RUN_ARGS);
	dc_source(r, "run_args");
	strv_take(to, value ? xasprintf("%s=%s", option, value) : xstrdup(option));
	return 0;
}

static int add_cap(const struct dc_reader *r, const struct place *p, const char *value)
{
	static const struct {
		const char *name, *why;
	} refused[] = {
		{"ALL", "it is --privileged by another name"},
		{"SYS_ADMIN", "with it a container can mount, and from there leave"},
		{"SYS_MODULE", "it loads code into the host's kernel"},
		{"SYS_RAWIO", "it reaches the host's devices and memory"},
		{"SYS_BOOT", "it restarts the host"},
		{"SYS_TIME", "it sets the host's clock"},
		{"DAC_READ_SEARCH", "it opens the host's files by their handles"},
		{"BPF", "it loads programs into the host's kernel"},
		{"MAC_ADMIN", "it changes the host's security policy"},
		{"MAC_OVERRIDE", "it passes by the host's security policy"},
		{"SYSLOG", "it reads the host's kernel log"},
	};
	auto_free char *cap = xstrdup(value);
	size_t len = strlen(cap);

	for (char *c = cap; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	const char *bare = str_starts(cap, "CAP_") ? cap + 4 : cap;
	if (len == 0 || len > 40 || strspn(cap, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != len)
		return dc_bad(r, p->at, p->field, "write its name, such as SYS_PTRACE (capabilities(7))",
			      "\"%.60s\" is no capability", value);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (str_eq(bare, refused[i].name))
			return dc_bad(r, p->at, p->field,
				      "name a capability that stays inside, such as SYS_PTRACE or "
				      "NET_ADMIN, or take it out",
				      "the capability %s is not given: %s", bare, refused[i].why);
	return keep(r, p, "--cap-add", bare);
}

static int drop_cap(const struct dc_reader *r, const struct place *p, const char *value)
{
	size_t len = strlen(value);

	for (size_t i = 0; i < len; i++)
		if (!isalpha((unsigned char)value[i]) && value[i] != '_')
			len = 0;
	if (len == 0 || len > 40)
		return dc_bad(r, p->at, p->field, "write its name, such as NET_RAW (capabilities(7)), or ALL",
			      "\"%.60s\" is no capability", value);
	return keep(r, p, "--cap-drop", value);
}

static int add_security(const struct dc_reader *r, const struct place *p, const char *value)
{
	static const char *const kinds[] = {"seccomp", "apparmor", "label"};
	static const char hint[] = "the options are no-new-privileges, seccomp=…, apparmor=… and label=…";
	size_t len = strcspn(value, "=:");
	const char *rest = value[len] ? value + len + 1 : "";

	if (str_starts(value, "systempaths"))
		return dc_bad(r, p->at, p->field, "take it out",
			      "systempaths is not taken: it lays open the parts of /proc that reach the host's kernel");
	if (len == strlen("no-new-privileges") && str_starts(value, "no-new-privileges")) {
		if (*rest && !str_eq(rest, "true"))
			return dc_bad(r, p->at, p->field, "take it out",
				      "no-new-privileges stays on: nothing in a sandbox may gain rights");
		return keep(r, p, "--security-opt", "no-new-privileges");
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (len != strlen(kinds[i]) || !str_starts(value, kinds[i]) || !*rest)
			continue;
		if (str_eq(rest, "unconfined") || str_eq(rest, "disable"))
			dc_warn(r, "devcontainer_security_opt", "%s=%s makes the container's walls thinner", kinds[i],
				rest);
		else if (i == 0)
			return dc_bad(r, p->at, p->field, hint,
				      "a seccomp profile is a file of the host, which is not read for a repository");
		auto_free char *anew = xasprintf("%s=%s", kinds[i], rest);
		return keep(r, p, "--security-opt", anew);
	}
	return dc_bad(r, p->at, p->field, hint, "\"%.60s\" is no security option", value);
}

static int set_memory(const struct dc_reader *r, const struct place *p, const char *value)
{
	if (parse_memory(value, &r->out->spec.limits.memory, r->e) < 0)
		return dc_wrap(r, p->at, p->field, -EINVAL);
	dc_source(r, "limits.memory");
	return 0;
}

static int set_cpus(const struct dc_reader *r, const struct place *p, const char *value)
{
	char *end;
	double v = strtod(value, &end);

	/* A word that is no number is out of range too. */
	if (check_cpus(*value && !*end ? v : -1, r->e) < 0)
		return dc_wrap(r, p->at, p->field, -EINVAL);
	r->out->spec.limits.cpus = v;
	dc_source(r, "limits.cpus");
	return 0;
}

static int set_pids(const struct dc_reader *r, const struct place *p, const char *value)
{
	unsigned long long v;

	if (check_pids(str_parse_uint(value, 0, 1ull << 40, &v) < 0 ? 0 : v, r->e) < 0)
		return dc_wrap(r, p->at, p->field, -EINVAL);
	r->out->spec.limits.pids = v;
	dc_source(r, "limits.pids");
	return 0;
}

static int add_mount(const struct dc_reader *r, const struct place *p, const char *value)
{
	return dc_add_mount(r, p->at, p->field, value);
}

/* "NAME=value", or "NAME" for the host's value. */
static int add_env(const struct dc_reader *r, const struct place *p, const char *value)
{
	size_t len = strcspn(value, "=");
	auto_free char *name = xstrndup(value, len);
	const char *v = value[len] ? value + len + 1 : NULL;

	for (const char *const *env = r->d->env; !v && env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			v = *env + len + 1;
	int bad = dc_set_env(r, p->at, p->field, &r->out->spec.env, name, v ? v : "");
	if (bad < 0)
		return bad;
	auto_free char *of = xasprintf("env.%.60s", name);
	dc_source(r, of);
	return 0;
}

static int set_shm(const struct dc_reader *r, const struct place *p, const char *value)
{
	uint64_t bytes;

	if (parse_memory(value, &bytes, r->e) < 0)
		return dc_wrap(r, p->at, p->field, -EINVAL);
	return keep(r, p, "--shm-size", value);
}

static int set_init(const struct dc_reader *r, const struct place *p, const char *value)
{
	if (value && !str_eq(value, "true") && !str_eq(value, "false"))
		return dc_bad(r, p->at, p->field, "write --init alone", "\"%.60s\" is neither true nor false", value);
	return value && *value == 'f' ? 0 : keep(r, p, "--init", NULL);
}

/* Letters, digits and what else a value of the option may hold. */
static int keep_word(const struct dc_reader *r, const struct place *p, const char *option, const char *value,
		     const char *more, const char *example)
{
	size_t len = strlen(value), i = 0;

	while (i < len && (isalnum((unsigned char)value[i]) || strchr(more, value[i])))
		i++;
	if (len == 0 || i < len || len > 253)
		return dc_bad(r, p->at, p->field, example, "\"%.60s\" is no value for %s", value, option);
	return keep(r, p, option, value);
}

static int set_hostname(const struct dc_reader *r, const struct place *p, const char *value)
{
	return keep_word(r, p, "--hostname", value, "-.", "write a name such as --hostname=box");
}

static int add_host(const struct dc_reader *r, const struct place *p, const char *value)
{
	return keep_word(r, p, "--add-host", value, "-.:[]=", "write --add-host=NAME:ADDRESS");
}

static int set_ulimit(const struct dc_reader *r, const struct place *p, const char *value)
{
	return keep_word(r, p, "--ulimit", value, "-=:", "write --ulimit=nofile=1024:2048");
}

static const struct option {
	const char *name, *letter;
	int (*set)(const struct dc_reader *r, const struct place *p, const char *value);
	bool flag; /* no value, or one behind '=' */
} taken[] = {
	{"--cap-add", NULL, add_cap},	    {"--cap-drop", NULL, drop_cap},   {"--security-opt", NULL, add_security},
	{"--shm-size", NULL, set_shm},	    {"--ulimit", NULL, set_ulimit},   {"--init", NULL, set_init, true},
	{"--volume", "-v", add_mount},	    {"--mount", NULL, add_mount},     {"--env", "-e", add_env},
	{"--hostname", "-h", set_hostname}, {"--add-host", NULL, add_host},   {"--memory", "-m", set_memory},
	{"--cpus", NULL, set_cpus},	    {"--pids-limit", NULL, set_pids},
};

/* What people write and do not get. */
static const struct {
	const char *name, *why, *hint;
} refused[] = {
	{"--privileged", "it gives the container every right over the host",
	 "add the one capability that is needed with --cap-add"},
	{"--pid", "it would show, and let it end, processes outside the container", "take it out"},
	{"--ipc", "it would share memory with processes outside the container",
	 "take it out; --shm-size sets its size"},
	{"--uts", "it would set the host's name", "use --hostname"},
	{"--userns", "it would make the container's root the host's", "take it out"},
	{"--cgroupns", "it would show the host's groups of processes", "take it out"},
	{"--cgroup-parent", "it would leave the run's limits", "use --memory, --cpus and --pids-limit"},
	{"--network", "the network of a sandbox is its policy's",
	 "write a network: block in the workflow's sandbox: block"},
	{"--net", "the network of a sandbox is its policy's",
	 "write a network: block in the workflow's sandbox: block"},
	{"--dns", "names are looked up by the egress proxy", "take it out; --add-host names single hosts"},
	{"--link", "it would reach another container past the network policy", "name the host in network.rules"},
	{"--publish", "no port of a sandbox is opened on the host", "take it out"},
	{"-p", "no port of a sandbox is opened on the host", "take it out"},
	{"--publish-all", "no port of a sandbox is opened on the host", "take it out"},
	{"-P", "no port of a sandbox is opened on the host", "take it out"},
	{"--device", "it would give a device of the host to whatever runs in the container", "take it out"},
	{"--device-cgroup-rule", "it would give devices of the host", "take it out"},
	{"--gpus", "it would give devices of the host", "take it out"},
	{"--volumes-from", "it would mount what another container has, unseen and unchecked",
	 "name the folders in mounts"},
	{"--sysctl", "it would change the kernel's settings", "take it out"},
	{"--group-add", "a group can be the key to a device or socket of the host", "take it out"},
	{"--env-file", "it would read a file of the host", "write the variables in containerEnv"},
	{"--user", "programs run as the user that the file names", "use remoteUser or containerUser"},
	{"-u", "programs run as the user that the file names", "use remoteUser or containerUser"},
	{"--workdir", "programs start in the workspace", "use workspaceFolder"},
	{"-w", "programs start in the workspace", "use workspaceFolder"},
	{"--entrypoint", "the container's first program is iterion's own", "use onCreateCommand or postStartCommand"},
	{"--name", "each run's container has a name of its own", "take it out"},
	{"--rm", "the container is removed with the run in any case", "take it out"},
	{"--restart", "a sandbox that ends has ended its run", "take it out"},
	{"--runtime", "it would choose another program to make the container with", "take it out"},
	{"--oom-score-adj", "it would save the container at the cost of the host", "use --memory"},
	{"--oom-kill-disable", "it would save the container at the cost of the host", "use --memory"},
	{"--platform", "the image's own platform is used", "name an image of the platform"},
};

/* Whether an argument is this option; *ret_value then points behind '=' (or a letter), or is NULL. */
static bool is_option(const char *arg, const char *name, const char **ret_value)
{
	size_t len = strlen(name);

	if (strncmp(arg, name, len) != 0)
		return false;
	bool letter = name[1] != '-';
	if (arg[len] && arg[len] != '=' && !letter)
		return false;
	*ret_value = arg[len] ? arg + len + (arg[len] == '=') : NULL;
	return true;
}

static const struct option *find_option(const char *arg, const char **ret_value)
{
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (is_option(arg, taken[i].name, ret_value) ||
		    (taken[i].letter && is_option(arg, taken[i].letter, ret_value)))
			return &taken[i];
	return NULL;
}

static int refuse(const struct dc_reader *r, const struct place *p, const char *arg)
{
	static const char list[] = "taken are --cap-add, --cap-drop, --security-opt, --shm-size, --ulimit, --init, -v, "
				   "--mount, -e, --hostname, --add-host, --memory, --cpus, --pids-limit";
	const char *value;

	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (is_option(arg, refused[i].name, &value))
			return dc_bad(r, p->at, p->field, refused[i].hint, "%.60s is not taken: %s", arg,
				      refused[i].why);
	return dc_bad(r, p->at, p->field, list, "\"%.60s\" is not among the arguments that are taken from here", arg);
}

int dc_read_run_args(struct dc_reader *r, json_t *v, const char *field)
{
	if (!json_is_array(v))
		return dc_bad(r, v, field, "write a list: [\"--cap-add=SYS_PTRACE\"]", "it is not a list");
	for (size_t i = 0; i < json_array_size(v); i++) {
		const struct place p = {json_array_get(v, i), field};
		const char *arg, *value = NULL;
		int bad = dc_text(r, json_array_get(v, i), field, &arg);
		if (bad < 0)
			return bad;
		const struct option *o = find_option(arg, &value);
		if (!o)
			return refuse(r, &p, arg);
		if (!value && !o->flag) {
			if (i + 1 >= json_array_size(v))
				return dc_bad(r, p.at, field, "write its value behind it", "%s has no value", o->name);
			bad = dc_text(r, json_array_get(v, ++i), field, &value);
		}
		if (bad == 0)
			bad = o->set(r, &p, value);
		if (bad < 0)
			return bad;
	}
	return 0;
}

static int read_list(const struct dc_reader *r, json_t *v, const char *field,
		     int (*set)(const struct dc_reader *r, const struct place *p, const char *value))
{
	json_t *one;
	size_t i;

	if (!json_is_array(v))
		return dc_bad(r, v, field, "write a list of strings", "it is not a list");
	json_array_foreach(v, i, one)
	{
		const struct place p = {one, field};
		const char *text;
		int bad = dc_text(r, one, field, &text);
		if (bad == 0)
			bad = set(r, &p, text);
		if (bad < 0)
			return bad;
	}
	return 0;
}

int dc_read_cap_add(struct dc_reader *r, json_t *v, const char *field)
{
	return read_list(r, v, field, add_cap);
}

int dc_read_security_opt(struct dc_reader *r, json_t *v, const char *field)
{
	return read_list(r, v, field, add_security);
}

int dc_read_init(struct dc_reader *r, json_t *v, const char *field)
{
	const struct place p = {v, field};

	if (!json_is_boolean(v))
		return dc_bad(r, v, field, "write true or false", "it is no boolean");
	return json_is_true(v) ? keep(r, &p, "--init", NULL) : 0;
}

int dc_read_privileged(struct dc_reader *r, json_t *v, const char *field)
{
	if (json_is_false(v))
		return 0;
	return dc_bad(r, v, field, "name the one capability that is needed in capAdd",
		      "it gives the container every right over the host");
}
