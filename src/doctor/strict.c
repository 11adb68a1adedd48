/* The checks of `sandbox doctor --strict`, and which of them apply.
 *
 * What can be decided by the code that a run uses is: the spec's safety and the driver's abilities are what
 * session_plan says. Each check is a question in a process of its own (question.h); yes is a pass, no a failure, and
 * unknown, which an answer that does not come in time is too, a warning. */
#include "strict_checks.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

static bool is_active(const struct strict_params *p)
{
	return p->spec && p->spec->mode != SANDBOX_NONE;
}

static bool always(const struct strict_params *p)
{
	(void)p;
	return true;
}

static bool is_container(const struct strict_params *p)
{
	return !p->cloud && is_active(p) && (str_eq(p->driver, "docker") || str_eq(p->driver, "podman"));
}

static bool is_docker(const struct strict_params *p)
{
	return is_container(p) && str_eq(p->driver, "docker");
}

static bool has_image(const struct strict_params *p)
{
	bool images = is_container(p) || (!p->cloud && is_active(p) && str_eq(p->driver, "native"));

	return images && p->spec->image;
}

static bool is_cloud(const struct strict_params *p)
{
	return p->cloud && p->spec;
}

static bool is_native(const struct strict_params *p)
{
	return !p->cloud && is_active(p) && str_eq(p->driver, "native");
}

static bool has_secrets(const struct strict_params *p)
{
	return is_active(p) && p->spec->n_secrets > 0;
}

static bool is_local(const struct strict_params *p)
{
	return !p->cloud && is_active(p) && !str_eq(p->driver, "noop");
}

static const struct {
	const char *id;
	bool (*applies)(const struct strict_params *p);
	void (*ask)(const struct question *q, struct finding *f);
} checks[] = {
	{"driver_available", always, strict_driver},
	{"spec_valid", always, strict_spec},
	{"docker_daemon", is_docker, strict_daemon},
	{"spec_safety", is_local, strict_safety},
	{"image_resolvable", has_image, strict_image},
	{"k8s_spec", is_cloud, strict_k8s_spec},
	{"k8s_context", is_cloud, strict_k8s_context},
	{"network_allowlist", is_active, strict_network},
	{"driver_capabilities", is_local, strict_capabilities},
	{"native_kernel", is_native, strict_kernel},
	{"workspace", is_local, strict_workspace},
	{"secrets", has_secrets, strict_secrets},
	{"disk", is_local, strict_disk},
};

static json_t *check_json(const char *id, const struct finding *f)
{
	static const char *const words[] = {[FINDING_UNKNOWN] = "warn", [FINDING_YES] = "pass", [FINDING_NO] = "fail"};
	json_t *o = json_object();

	json_put_str(o, "id", id);
	json_put_str(o, "status", words[f->status]);
	json_put_str(o, "detail", f->detail);
	if (*f->hint && f->status != FINDING_YES)
		json_put_str(o, "remedy", f->hint);
	return o;
}

int doctor_strict(const struct strict_params *p, json_t **ret, bool *ret_ok, struct err *e)
{
	struct question v[ARRAY_LEN(checks)];
	struct finding f[ARRAY_LEN(checks)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (checks[i].applies(p))
			v[n++] = (struct question){checks[i].id, checks[i].ask, p};
	int r = questions_ask(v, n, p->timeout_ms, f, e);
	if (r < 0)
		return r;
	*ret = json_array();
	*ret_ok = true;
	for (size_t i = 0; i < n; i++) {
		(void)json_array_append_new(*ret, check_json(v[i].id, &f[i]));
		*ret_ok = *ret_ok && f[i].status != FINDING_NO;
	}
	return 0;
}
