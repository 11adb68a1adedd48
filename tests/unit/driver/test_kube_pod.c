/* What a pod is made of, what the cluster says of it, and what kubectl says: all without a cluster. */
#include "container/cli.h"
#include "kubernetes/pod_spec.h"
#include "kubernetes/pod_state.h"
#include "kubernetes/words.h"
#include "ops.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <guest/protocol.h>
#include <sandbox/mount.h>
#include <sandbox/spec.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char host[] = "0123456789abcdef:77:1234";

static void fill(struct sandbox_spec *spec, struct sandbox_params *p)
{
	*spec = (struct sandbox_spec){.mode = SANDBOX_INLINE, .image = xstrdup("r.example/i:1")};
	*p = (struct sandbox_params){
		.spec = spec, .workspace = "/w", .workspace_target = "/workspace", .run_id = "r1", .run_name = "n"};
}

static json_t *objects(const struct sandbox_params *p, struct pod_facts f)
{
	if (!f.name)
		f.name = "iterion-r1";
	f.owner = host;
	return pod_objects(p, &f);
}

/* The value at a path such as "spec.containers.0.name", as text; "-" when there is none. */
static const char *at(const json_t *j, const char *path)
{
	static char text[4096];
	char copy[256], *save = NULL;

	snprintf(copy, sizeof copy, "%s", path);
	for (char *part = strtok_r(copy, "/", &save); part && j; part = strtok_r(NULL, "/", &save))
		j = json_is_array(j) ? json_array_get(j, (size_t)(*part - '0')) : json_object_get(j, part);
	if (!j)
		return "-";
	char *out = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
	snprintf(text, sizeof text, "%s", out);
	free(out);
	return text;
}

struct wanted {
	const char *path, *value;
};

static void check_all(const json_t *j, const struct wanted *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(at(j, w[i].path), w[i].value) != 0)
			fail_msg("%s is %s, not %s", w[i].path, at(j, w[i].path), w[i].value);
	}
}

/* Every row of the table of security defaults, whatever the spec says. */
static void test_security(void **state)
{
	static const struct wanted always[] = {
		{"items/0/kind", "\"Pod\""},
		{"items/0/spec/restartPolicy", "\"Never\""},
		{"items/0/spec/automountServiceAccountToken", "false"},
		{"items/0/spec/enableServiceLinks", "false"},
		{"items/0/spec/securityContext/runAsNonRoot", "true"},
		{"items/0/spec/securityContext/seccompProfile", "{\"type\":\"RuntimeDefault\"}"},
		{"items/0/spec/containers/0/securityContext/allowPrivilegeEscalation", "false"},
		{"items/0/spec/containers/0/securityContext/capabilities", "{\"drop\":[\"ALL\"]}"},
		{"items/0/spec/containers/0/env", "-"},
		{"items/0/spec/containers/0/envFrom", "-"},
		{"items/0/spec/hostNetwork", "-"},
		{"items/0/spec/hostPID", "-"},
		{"items/0/spec/containers/1", "-"},
	};
	static const struct {
		const char *user, *uid, *gid;
	} users[] = {{NULL, "-", "-"}, {"1000", "1000", "1000"}, {"1000:2000", "1000", "2000"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(users); i++) {
		auto_sandbox_spec spec = {0};
		struct sandbox_params p;
		fill(&spec, &p);
		strv_set_env(&spec.env, "TOKEN", "hush-hush");
		spec.user = users[i].user ? xstrdup(users[i].user) : NULL;
		auto_json o = objects(&p, (struct pod_facts){0});
		auto_free char *text = json_compact(o);
		assert_null(strstr(text, "hush-hush"));
		check_all(o, always, ARRAY_LEN(always));
		const struct wanted own[] = {{"items/0/spec/securityContext/runAsUser", users[i].uid},
					     {"items/0/spec/securityContext/runAsGroup", users[i].gid}};
		check_all(o, own, ARRAY_LEN(own));
	}
}

static void test_pod(void **state)
{
	static const struct wanted wanted[] = {
		{"items/0/metadata/name", "\"iterion-r1\""},
		{"items/0/metadata/labels/iterion.io~managed", "-"},
		{"items/0/metadata/ownerReferences/0",
		 "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"runner-0\",\"uid\":\"u-1\"}"},
		{"items/0/spec/activeDeadlineSeconds", "90"},
		{"items/0/spec/terminationGracePeriodSeconds", "5"},
		{"items/0/spec/containers/0/image", "\"r.example/i:1\""},
		{"items/0/spec/containers/0/workingDir", "\"/workspace\""},
		{"items/0/spec/containers/0/resources", "{\"limits\":{\"cpu\":\"1500m\",\"memory\":\"64000\"}}"},
		{"items/0/spec/containers/0/volumeMounts/1", "{\"mountPath\":\"/workspace\",\"name\":\"workspace\"}"},
		{"items/0/spec/volumes/1", "{\"emptyDir\":{},\"name\":\"workspace\"}"},
		{"items/0/spec/initContainers", "-"},
		{"items/1", "-"},
	};
	auto_sandbox_spec spec = {0};
	struct sandbox_params p;

	(void)state;
	fill(&spec, &p);
	spec.limits = (struct sandbox_limits){.cpus = 1.5, .memory = 64000};
	p.deadline_s = 90;
	auto_json o = objects(&p, (struct pod_facts){.runner_name = "runner-0", .runner_uid = "u-1"});
	check_all(o, wanted, ARRAY_LEN(wanted));
	const json_t *labels =
		json_object_get(json_object_get(json_array_get(json_object_get(o, "items"), 0), "metadata"), "labels");
	assert_string_equal(json_get_str(labels, "iterion.io/managed"), "true");
	assert_string_equal(json_get_str(labels, "iterion.io/component"), "sandbox-run");
	assert_string_equal(json_get_str(labels, "iterion.io/run-id"), "r1");
	assert_string_equal(json_get_str(labels, "iterion.io/owner"), "0123456789abcdef.77.1234");
	auto_free char *owner = pod_owner(json_get_str(labels, "iterion.io/owner"));
	assert_string_equal(owner, host);
}

static void test_guest_image(void **state)
{
	static const struct wanted wanted[] = {
		{"items/0/spec/initContainers/0/image", "\"g:1\""},
		{"items/0/spec/initContainers/0/securityContext/allowPrivilegeEscalation", "false"},
		{"items/0/spec/initContainers/0/securityContext/runAsUser", "65532"},
		{"items/0/spec/containers/0/command", "[\"/run/iterion/bin/iterion\",\"init\",\"@\"]"},
		{"items/0/spec/containers/0/volumeMounts/0/readOnly", "true"},
	};
	auto_sandbox_spec spec = {0};
	struct sandbox_params p;

	(void)state;
	fill(&spec, &p);
	auto_json o = objects(&p, (struct pod_facts){.guest_image = "g:1"});
	check_all(o, wanted, ARRAY_LEN(wanted));
}

static void test_policy(void **state)
{
	static const struct wanted wanted[] = {
		{"items/0/kind", "\"NetworkPolicy\""},
		{"items/0/spec/podSelector/matchLabels", "{\"iterion.io/pod\":\"iterion-r1\"}"},
		{"items/0/spec/policyTypes", "[\"Ingress\",\"Egress\"]"},
		{"items/0/spec/egress", "[{\"ports\":[{\"port\":4711,\"protocol\":\"TCP\"}],\"to\":[{\"ipBlock\":{"
					"\"cidr\":\"10.1.2.3/32\"}}]}]"},
		{"items/0/spec/ingress", "[{\"from\":[{\"ipBlock\":{\"cidr\":\"10.1.2.3/32\"}}]}]"},
		{"items/1/kind", "\"Pod\""},
	};
	auto_sandbox_spec spec = {0};
	struct sandbox_params p;

	(void)state;
	fill(&spec, &p);
	auto_json o = objects(&p, (struct pod_facts){.proxy_address = "10.1.2.3", .proxy_port = 4711});
	check_all(o, wanted, ARRAY_LEN(wanted));
	auto_json six = objects(&p, (struct pod_facts){.proxy_address = "fd00::1", .proxy_port = 1});
	assert_string_equal(at(six, "items/0/spec/ingress/0/from/0/ipBlock/cidr"), "\"fd00::1/128\"");
}

static void test_mounts(void **state)
{
	static const struct {
		const char *mount, *volume, *at, *group;
	} rows[] = {
		{"type=pvc,source=c,target=/d",
		 "{\"name\":\"mount-0\",\"persistentVolumeClaim\":{\"claimName\":\"c\"}}",
		 "{\"mountPath\":\"/d\",\"name\":\"mount-0\"}", "65532"},
		{"type=pvc,source=c,target=/d,readonly",
		 "{\"name\":\"mount-0\",\"persistentVolumeClaim\":{\"claimName\":\"c\",\"readOnly\":true}}",
		 "{\"mountPath\":\"/d\",\"name\":\"mount-0\",\"readOnly\":true}", "65532"},
		{"type=configmap,source=c,target=/d", "{\"configMap\":{\"name\":\"c\"},\"name\":\"mount-0\"}",
		 "{\"mountPath\":\"/d\",\"name\":\"mount-0\",\"readOnly\":true}", "-"},
		{"type=configmap,source=c,key=k.x,target=/d",
		 "{\"configMap\":{\"items\":[{\"key\":\"k.x\",\"path\":\"k.x\"}],\"name\":\"c\"},\"name\":\"mount-0\"}",
		 "{\"mountPath\":\"/d\",\"name\":\"mount-0\",\"readOnly\":true,\"subPath\":\"k.x\"}", "-"},
		{"type=secret,source=s,target=/d",
		 "{\"name\":\"mount-0\",\"secret\":{\"defaultMode\":256,\"secretName\":\"s\"}}",
		 "{\"mountPath\":\"/d\",\"name\":\"mount-0\",\"readOnly\":true}", "65532"},
		{"type=tmpfs,target=/d", "{\"emptyDir\":{\"medium\":\"Memory\"},\"name\":\"mount-0\"}",
		 "{\"mountPath\":\"/d\",\"name\":\"mount-0\"}", "-"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_sandbox_spec spec = {0};
		struct sandbox_params p;
		struct err e = ERR_INIT;
		fill(&spec, &p);
		assert_int_equal(sandbox_mount_parse(rows[i].mount, sandbox_spec_add_mount(&spec), &e), 0);
		assert_int_equal(pod_check(&spec, &e), 0);
		auto_json o = objects(&p, (struct pod_facts){0});
		const struct wanted w[] = {{"items/0/spec/volumes/2", rows[i].volume},
					   {"items/0/spec/containers/0/volumeMounts/2", rows[i].at},
					   {"items/0/spec/securityContext/fsGroup", rows[i].group}};
		check_all(o, w, ARRAY_LEN(w));
	}
}

static void test_keys(void **state)
{
	static const char *const bad[] = {
		"type=pvc,source=c,key=k,target=/d",	      "type=bind,source=/c,key=k,target=/d",
		"type=secret,source=c,key=a/b,target=/d",     "type=secret,source=c,key=..,target=/d",
		"type=secret,source=c,key=k,key=l,target=/d",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sandbox_mount m;
		struct err e = ERR_INIT;
		assert_int_equal(sandbox_mount_parse(bad[i], &m, &e), -EINVAL);
		assert_non_null(strstr(e.msg, "key"));
		assert_true(*e.hint);
	}
}

static void test_names(void **state)
{
	static const struct {
		const char *run_id, *name, *label;
	} rows[] = {
		{"01a2298c-bee4", "iterion-01a2298c-bee4-a1b2c3", "01a2298c-bee4"},
		{"My Run_1.", "iterion-my-run-1-a1b2c3", "My-Run_1"},
		{"__", "iterion-a1b2c3", ""},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		 "iterion-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-a1b2c3",
		 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *name = pod_name(rows[i].run_id, "a1b2c3");
		auto_free char *label = pod_label(rows[i].run_id);
		assert_string_equal(name, rows[i].name);
		assert_string_equal(label, rows[i].label);
		assert_true(strlen(name) <= 63);
	}
}

static void test_agent_words(void **state)
{
	const char *words[POD_AGENT_WORDS];
	char text[POD_AGENT_TEXT];

	(void)state;
	pod_agent(0, words, text);
	assert_string_equal(words[0], GUEST_PATH);
	assert_string_equal(words[1], "agent");
	assert_null(words[2]);
	pod_agent(UINT64_MAX, words, text);
	assert_string_equal(words[0], "sh");
	assert_non_null(strstr(words[2], "head -c 18446744073709551615 >in"));
	assert_non_null(strstr(words[2], "agent; }"));
	assert_null(words[3]);
}

static void test_what_a_pod_cannot_be(void **state)
{
	static char image[] = "i", dockerfile[] = "D", name[] = "node", group[] = "1000:staff", root[] = "0";
	static const struct {
		struct sandbox_spec spec;
		const char *says, *hint;
	} rows[] = {
		{{.image = image, .build = {.dockerfile = dockerfile}}, "build", "push it"},
		{{0}, "image", "--sandbox-default-image"},
		{{.image = image, .host_state = HOST_STATE_AUTO}, "host_state: auto", "host_state: none"},
		{{.image = image, .limits = {.pids = 5}}, "limits.pids", "kubelet"},
		{{.image = image, .user = name}, "\"node\" is a name", "1000:1000"},
		{{.image = image, .user = group}, "1000:staff", "1000:1000"},
		{{.image = image, .user = root}, "root", "1000:1000"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		assert_int_equal(pod_check(&rows[i].spec, &e), -ENOTSUP);
		assert_int_equal(e.kind, ERR_UNSUPPORTED);
		if (!strstr(e.msg, rows[i].says) || !strstr(e.hint, rows[i].hint))
			fail_msg("%s (%s)", e.msg, e.hint);
	}
}

#define POD(type, status) "{\"type\":\"" type "\",\"object\":{\"kind\":\"Pod\",\"status\":{" status "}}}"
#define BOX(state) "\"containerStatuses\":[{\"name\":\"sandbox\",\"imageID\":\"" IMAGE_ID "\",\"state\":{" state "}}]"
#define IMAGE_ID "docker.io/b@sha256:a1d916f89380cd07a11052478d5899fdff7baeffced03be058d2b0dfb6315213"

static void test_states(void **state)
{
	static const struct {
		const char *event;
		enum pod_phase phase;
		const char *says, *hint;
	} rows[] = {
		{POD("ADDED", "\"phase\":\"Pending\""), POD_WAITING, NULL, NULL},
		{POD("MODIFIED", "\"phase\":\"Pending\"," BOX("\"waiting\":{\"reason\":\"ContainerCreating\"}")),
		 POD_WAITING, NULL, NULL},
		{POD("MODIFIED", "\"phase\":\"Running\"," BOX("\"running\":{}")), POD_RUNNING, NULL, NULL},
		{POD("MODIFIED", BOX("\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"no such tag\"}")),
		 POD_FAILED, "ErrImagePull: no such tag", "name and tag"},
		{POD("MODIFIED", BOX("\"waiting\":{\"reason\":\"ImagePullBackOff\",\"message\":\"Back-off\"}")),
		 POD_FAILED, "ImagePullBackOff: Back-off", "imagePullSecret"},
		{POD("MODIFIED", BOX("\"waiting\":{\"reason\":\"CreateContainerConfigError\",\"message\":\"container "
				     "has runAsNonRoot and image will run as root\"}")),
		 POD_FAILED, "runAsNonRoot", "1000:1000"},
		{POD("MODIFIED", "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
				 "\"Unschedulable\",\"message\":\"0/1 nodes are available\"}]"),
		 POD_FAILED, "Unschedulable: 0/1 nodes", "limits.memory"},
		{POD("MODIFIED", "\"phase\":\"Failed\"," BOX("\"terminated\":{\"reason\":\"OOMKilled\",\"exitCode\":"
							     "137}")),
		 POD_FAILED, "OOMKilled: exit code 137", "limits.memory"},
		{POD("MODIFIED", "\"phase\":\"Failed\",\"reason\":\"DeadlineExceeded\",\"message\":\"Pod was active\""),
		 POD_FAILED, "DeadlineExceeded: Pod was active", "max_duration"},
		{POD("MODIFIED", "\"phase\":\"Failed\",\"reason\":\"Evicted\",\"message\":\"low on memory\"," BOX(
					 "\"terminated\":{\"reason\":\"Error\",\"exitCode\":137}")),
		 POD_FAILED, "Evicted: low on memory", "resume"},
		{POD("MODIFIED", BOX("\"terminated\":{\"reason\":\"Error\",\"exitCode\":127}")), POD_FAILED,
		 "exit code 127", "ITERION_GUEST_IMAGE"},
		{POD("MODIFIED", "\"initContainerStatuses\":[{\"state\":{\"waiting\":{\"reason\":\"ErrImagePull\","
				 "\"message\":\"g\"}}}]"),
		 POD_FAILED, "ErrImagePull: g", "name and tag"},
		{POD("MODIFIED", "\"initContainerStatuses\":[{\"state\":{\"terminated\":{\"exitCode\":0}}}]"),
		 POD_WAITING, NULL, NULL},
		{POD("DELETED", "\"phase\":\"Running\"," BOX("\"running\":{}")), POD_GONE, "Deleted", "resume"},
		/* What a hostile registry says is safe to show. */
		{POD("MODIFIED", BOX("\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"\\u001b[2J\"}")),
		 POD_FAILED, "\\x1b[2J", "name and tag"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pod_news n;
		auto_json j = json_parse_value(rows[i].event, strlen(rows[i].event), NULL);
		assert_non_null(j);
		assert_int_equal(pod_read(j, &n), 0);
		if (n.phase != rows[i].phase)
			fail_msg("row %zu: phase %d", i, n.phase);
		if (rows[i].says && (!strstr(n.why.msg, rows[i].says) || !strstr(n.why.hint, rows[i].hint)))
			fail_msg("%s (%s)", n.why.msg, n.why.hint);
	}
	struct pod_news n;
	auto_json running = json_parse_value(rows[2].event, strlen(rows[2].event), NULL);
	assert_int_equal(pod_read(running, &n), 0);
	assert_string_equal(n.digest, strchr(IMAGE_ID, '@') + 1);
	static const char status[] = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}";
	auto_json other = json_parse_value(status, strlen(status), NULL);
	assert_non_null(other);
	assert_int_equal(pod_read(other, &n), -EPROTO);
	auto_json none = json_parse_value("[]", 2, NULL);
	assert_int_equal(pod_read(none, &n), -EPROTO);
}

static void test_pod_events(void **state)
{
	static const struct {
		const char *reason, *message;
		bool ends;
	} rows[] = {
		{"FailedMount", "MountVolume.SetUp failed for volume \\\"m\\\" : secret \\\"s\\\" not found", true},
		{"FailedMount", "configmap references non-existent config key: k", true},
		{"FailedMount", "Unable to attach or mount volumes: timed out waiting for the condition", false},
		{"Pulling", "Pulling image not found", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		auto_free char *text = xasprintf("{\"object\":{\"reason\":\"%s\",\"message\":\"%s\"}}", rows[i].reason,
						 rows[i].message);
		auto_json j = json_parse_value(text, strlen(text), NULL);
		assert_non_null(j);
		assert_int_equal(pod_read_event(j, &e), rows[i].ends);
		assert_int_equal(e.kind == ERR_SANDBOX, rows[i].ends);
	}
}

static void count(void *arg, const json_t *o)
{
	assert_true(json_is_object(o));
	++*(unsigned *)arg;
}

static void test_stream(void **state)
{
	static const struct {
		const char *text;
		int r;
		unsigned n;
	} rows[] = {
		{"", 0, 0},
		{"{}", 0, 1},
		{" {\"a\":{\"b\":[{}]}}\n{\"c\":\"}\"}\n\n{\"d\":\"\\\"}{\"}  ", 0, 3},
		{"{\"a\":\"\\\\\"}{", 0, 1},
		{"{\"a\":1}x{}", -EPROTO, 1},
		{"}", -EPROTO, 0},
		{"{]}", -EPROTO, 0},
		{"[{}]", -EPROTO, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* In one piece, and byte by byte. */
		for (int whole = 0; whole < 2; whole++) {
			struct pod_stream s = POD_STREAM_INIT;
			size_t len = strlen(rows[i].text), piece = whole ? MAX(len, 1u) : 1;
			unsigned n = 0;
			int r = 0;
			for (size_t k = 0; r == 0 && k < len; k += piece)
				r = pod_stream_feed(&s, rows[i].text + k, piece, count, &n);
			assert_int_equal(r, rows[i].r);
			assert_int_equal(n, rows[i].n);
			pod_stream_done(&s);
		}
	}
	struct pod_stream s = POD_STREAM_INIT;
	auto_free char *big = xcalloc(POD_STREAM_MAX, 1);
	memset(big, 'a', POD_STREAM_MAX);
	unsigned n = 0;
	assert_int_equal(pod_stream_feed(&s, "{\"", 2, count, &n), 0);
	assert_int_equal(pod_stream_feed(&s, big, POD_STREAM_MAX, count, &n), -ENOBUFS);
	pod_stream_done(&s);
}

static void test_words(void **state)
{
	static const struct {
		const char *text;
		enum kube_words kind;
		const char *says, *hint;
	} rows[] = {
		{"Error from server (Forbidden): error when creating \"STDIN\": pods is forbidden: User \"u\" cannot "
		 "create resource \"pods\" in API group \"\" in the namespace \"n\"",
		 KUBE_FORBIDDEN, "pods is forbidden", "rbac.yaml"},
		{"Error from server (Forbidden): pods \"p\" is forbidden: exceeded quota: q, requested: memory=1Gi",
		 KUBE_QUOTA, "exceeded quota", "limits.memory"},
		{"Error from server (Forbidden): pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": "
		 "x",
		 KUBE_POLICY, "restricted:latest", "1000:1000"},
		{"Error from server (NotFound): namespaces \"n\" not found", KUBE_NO_NAMESPACE, "not found",
		 "ITERION_KUBE_NAMESPACE"},
		{"Error from server (NotFound): pods \"p\" not found", KUBE_NOT_FOUND, "not found", "removed"},
		{"Error from server (AlreadyExists): error when creating \"STDIN\": pods \"p\" already exists",
		 KUBE_NAME_IN_USE, "already exists", "sandbox ls"},
		{"error: You must be logged in to the server (Unauthorized)", KUBE_UNAUTHORIZED, "logged in", "Log in"},
		{"The connection to the server localhost:8080 was refused - did you specify the right host or port?",
		 KUBE_NO_CONTEXT, "refused", "KUBECONFIG"},
		{"The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?",
		 KUBE_UNREACHABLE, "refused", "kubectl version"},
		{"Unable to connect to the server: dial tcp: lookup k8s.invalid: no such host", KUBE_UNREACHABLE,
		 "no such host", "network"},
		{"error: unable to upgrade connection: container not found (\"sandbox\")", KUBE_NO_EXEC,
		 "container not found", "pods/exec"},
		{"The Pod \"X\" is invalid: metadata.name: Invalid value", KUBE_INVALID, "is invalid", "sandbox block"},
		{"something new", KUBE_OTHER, "something new", "docs/kubernetes.md"},
		{"E1129 22:59:20.088 1 memcache.go:265] couldn't get API group list\nUnable to connect to the server: "
		 "x",
		 KUBE_UNREACHABLE, "kubectl: Unable to connect to the server: x", "network"},
		{"\x1b[31mred", KUBE_OTHER, "\\x1b[31mred", "docs"},
		{"", KUBE_OTHER, "said nothing", "docs"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = ERR_INIT;
		if (kube_classify(rows[i].text) != rows[i].kind)
			fail_msg("%s: %d", rows[i].text, kube_classify(rows[i].text));
		assert_true(kube_explain_text(rows[i].text, &e) < 0);
		if (!strstr(e.msg, rows[i].says) || !strstr(e.hint, rows[i].hint))
			fail_msg("%s (%s)", e.msg, e.hint);
	}
	const struct cli_result late = {.timed_out = true, .err = "", .out = ""};
	struct err e = ERR_INIT;
	assert_int_equal(kube_explain(&late, &e), -ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_security),
		cmocka_unit_test(test_pod),
		cmocka_unit_test(test_guest_image),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_agent_words),
		cmocka_unit_test(test_what_a_pod_cannot_be),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_pod_events),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
