/* The objects that a sandbox is made of in a cluster: a pure function from the spec to JSON, so that what a pod gets
 * can be read off a table of tests.
 *
 * The pod runs no service account's token, no root, no capability, under the runtime's own seccomp filter, and may not
 * gain privileges; those five are constants here and nothing of a spec changes them. No value of the environment is in
 * it: whoever may read pods would see it. Variables go with each program instead, through the agent.
 *
 * PID 1 is the guest. It comes from an image of its own by a container that runs before (then the sandbox has it
 * read-only), or else by the pod's own shell, which takes it from a FIFO: `head` counts its bytes off the agent's
 * stdin, `cat` puts them in place, and a line in the second FIFO tells that PID 1 listens. Both sides make the FIFOs,
 * since either may be first. */
#include "pod_spec.h"
#include "../container/labels.h"
#include "../ops.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>
#include <guest/protocol.h>
#include <sandbox/spec.h>

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 63, GRACE_S = 5, SECRET_MODE = 0400, NOBODY = 65532 };

static const char from_fifo[] = "cd " GUEST_DIR " && { mkfifo in ready 2>/dev/null; cat in >.new && chmod 755 .new && "
				"mv .new iterion && exec ./iterion init @ ready; }";

void pod_agent(uint64_t n, const char *ret[POD_AGENT_WORDS], char text[POD_AGENT_TEXT])
{
	size_t i = 0;

	if (n) {
		(void)snprintf(text, POD_AGENT_TEXT,
			       "cd " GUEST_DIR " && { mkfifo in ready 2>/dev/null; head -c %" PRIu64
			       " >in && read x <ready && exec ./iterion agent; }",
			       n);
		ret[i++] = "sh";
		ret[i++] = "-c";
		ret[i++] = text;
	} else {
		ret[i++] = GUEST_PATH;
		ret[i++] = "agent";
	}
	ret[i] = NULL;
}

char *pod_name(const char *run_id, const char *mark)
{
	auto_free char *name = xasprintf("iterion-%s", run_id);
	size_t most = NAME_MAX_LEN - strlen(mark) - 1;

	if (strlen(name) > most)
		name[most] = '\0';
	for (char *c = name; *c; c++)
		*c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
	for (size_t len = strlen(name); len && name[len - 1] == '-'; len--)
		name[len - 1] = '\0';
	return xasprintf("%s-%s", name, mark);
}

char *pod_label(const char *text)
{
	char *label = xstrndup(text, NAME_MAX_LEN);
	char *begin = label;

	for (char *c = label; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
			*c = *c == ':' ? '.' : '-';
	while (*begin && !isalnum((unsigned char)*begin))
		begin++;
	memmove(label, begin, strlen(begin) + 1);
	for (size_t len = strlen(label); len && !isalnum((unsigned char)label[len - 1]); len--)
		label[len - 1] = '\0';
	return label;
}

char *pod_owner(const char *label)
{
	char *owner = xstrdup(label);

	for (char *c = owner; *c; c++)
		*c = *c == '.' ? ':' : *c;
	return owner;
}

static json_t *object_of(json_t *array)
{
	json_t *o = json_object();

	(void)json_array_append_new(array, o);
	return o;
}

static json_t *member(json_t *o, const char *key)
{
	json_t *m = json_object();

	json_put(o, key, m);
	return m;
}

static json_t *list(json_t *o, const char *key)
{
	json_t *l = json_array();

	json_put(o, key, l);
	return l;
}

static void put_text(json_t *o, const char *key, const char *text)
{
	json_put(o, key, json_text(text, strlen(text)));
}

static void put_label(json_t *labels, const char *key, const char *text)
{
	auto_free char *value = pod_label(text);

	json_put_str(labels, key, value);
}

static void add_metadata(const struct sandbox_params *p, const struct pod_facts *f, json_t *to)
{
	json_t *m = member(to, "metadata"), *labels = member(m, "labels"), *notes = member(m, "annotations");

	json_put_str(m, "name", f->name);
	json_put_str(labels, LABEL_MANAGED, "true");
	json_put_str(labels, LABEL_COMPONENT, COMPONENT);
	json_put_str(labels, LABEL_POD, f->name);
	put_label(labels, LABEL_RUN_ID, p->run_id);
	put_label(labels, LABEL_RUN_NAME, p->run_name ? p->run_name : "");
	put_label(labels, LABEL_OWNER, f->owner);
	/* A label cannot hold every text. */
	put_text(notes, LABEL_RUN_ID, p->run_id);
	put_text(notes, LABEL_RUN_NAME, p->run_name ? p->run_name : "");
	if (!f->runner_name || !f->runner_uid)
		return;
	json_t *owner = object_of(list(m, "ownerReferences"));
	json_put_str(owner, "apiVersion", "v1");
	json_put_str(owner, "kind", "Pod");
	json_put_str(owner, "name", f->runner_name);
	json_put_str(owner, "uid", f->runner_uid);
}

/* "UID" or "UID:GID"; false when it is not written so. */
static bool parse_user(const char *user, unsigned long long *ret_uid, unsigned long long *ret_gid)
{
	const char *colon = strchrnul(user, ':');
	auto_free char *first = xstrndup(user, (size_t)(colon - user));

	if (str_parse_uint(first, 0, INT32_MAX, ret_uid) < 0)
		return false;
	*ret_gid = *ret_uid;
	return !*colon || str_parse_uint(colon + 1, 0, INT32_MAX, ret_gid) == 0;
}

/* Volumes that belong to root unless the pod's programs have a group in common with them. */
static bool has_owned_volumes(const struct sandbox_spec *spec)
{
	for (size_t i = 0; i < spec->n_mounts; i++)
		if (spec->mounts[i].type == MOUNT_PVC || spec->mounts[i].type == MOUNT_SECRET)
			return true;
	return false;
}

static void add_pod_security(const struct sandbox_spec *spec, json_t *to)
{
	json_t *s = member(to, "securityContext");
	unsigned long long uid, gid = NOBODY;

	json_put_bool(s, "runAsNonRoot", true);
	json_put_str(member(s, "seccompProfile"), "type", "RuntimeDefault");
	if (spec->user && parse_user(spec->user, &uid, &gid)) {
		json_put_int(s, "runAsUser", (long long)uid);
		json_put_int(s, "runAsGroup", (long long)gid);
	}
	if (has_owned_volumes(spec))
		json_put_int(s, "fsGroup", (long long)gid);
}

static json_t *add_container_security(json_t *to)
{
	json_t *s = member(to, "securityContext"), *drop = list(member(s, "capabilities"), "drop");

	json_put_bool(s, "allowPrivilegeEscalation", false);
	(void)json_array_append_new(drop, json_string("ALL"));
	return s;
}

static json_t *add_volume(json_t *volumes, const char *name)
{
	json_t *v = object_of(volumes);

	json_put_str(v, "name", name);
	return v;
}

static json_t *add_mount(json_t *mounts, const char *name, const char *path, bool readonly)
{
	json_t *m = object_of(mounts);

	json_put_str(m, "name", name);
	put_text(m, "mountPath", path);
	if (readonly)
		json_put_bool(m, "readOnly", true);
	return m;
}

static void add_empty(json_t *volumes, json_t *mounts, const char *name, const char *path, bool readonly)
{
	(void)member(add_volume(volumes, name), "emptyDir");
	(void)add_mount(mounts, name, path, readonly);
}

/* One key as the only file. */
static void add_items(json_t *source, const char *key)
{
	if (!key)
		return;
	json_t *item = object_of(list(source, "items"));
	json_put_str(item, "key", key);
	json_put_str(item, "path", key);
}

static void add_spec_mount(const struct sandbox_mount *m, size_t i, json_t *volumes, json_t *mounts)
{
	auto_free char *name = xasprintf("mount-%zu", i);
	json_t *v = add_volume(volumes, name), *source;
	json_t *at = add_mount(mounts, name, m->target,
			       m->readonly || m->type == MOUNT_CONFIGMAP || m->type == MOUNT_SECRET);

	if (m->key)
		json_put_str(at, "subPath", m->key);
	switch (m->type) {
	case MOUNT_PVC:
		source = member(v, "persistentVolumeClaim");
		json_put_str(source, "claimName", m->source);
		if (m->readonly)
			json_put_bool(source, "readOnly", true);
		return;
	case MOUNT_CONFIGMAP:
		source = member(v, "configMap");
		json_put_str(source, "name", m->source);
		add_items(source, m->key);
		return;
	case MOUNT_SECRET:
		source = member(v, "secret");
		json_put_str(source, "secretName", m->source);
		json_put_int(source, "defaultMode", SECRET_MODE);
		add_items(source, m->key);
		return;
	case MOUNT_TMPFS:
		json_put_str(member(v, "emptyDir"), "medium", "Memory");
		return;
	case MOUNT_BIND:
	case MOUNT_VOLUME:
		return;
	}
}

static void add_limits(const struct sandbox_limits *l, json_t *to)
{
	if (l->cpus <= 0 && !l->memory)
		return;
	json_t *limits = member(member(to, "resources"), "limits");
	auto_free char *cpu = xasprintf("%.0fm", l->cpus * 1000 < 1 ? 1 : l->cpus * 1000);
	auto_free char *memory = xasprintf("%" PRIu64, l->memory);
	if (l->cpus > 0)
		json_put_str(limits, "cpu", cpu);
	if (l->memory)
		json_put_str(limits, "memory", memory);
}

static void add_command(json_t *to, const char *const *words)
{
	json_t *command = list(to, "command");

	for (; *words; words++)
		(void)json_array_append_new(command, json_string(*words));
}

/* Copies the guest out of its image, as a user that owns nothing. */
static void add_guest_container(const struct pod_facts *f, const struct sandbox_spec *spec, json_t *to)
{
	static const char *const install[] = {"/usr/local/bin/iterion-guest", "install", GUEST_PATH, NULL};
	json_t *c = object_of(list(to, "initContainers"));

	json_put_str(c, "name", "guest");
	json_put_str(c, "image", f->guest_image);
	add_command(c, install);
	json_t *s = add_container_security(c);
	if (!spec->user)
		json_put_int(s, "runAsUser", NOBODY);
	(void)add_mount(list(c, "volumeMounts"), "guest", GUEST_DIR, false);
}

static void add_container(const struct sandbox_params *p, const struct pod_facts *f, json_t *to)
{
	static const char *const own[] = {GUEST_PATH, "init", "@", NULL};
	static const char *const sent[] = {"/bin/sh", "-c", from_fifo, NULL};
	json_t *c = object_of(list(to, "containers")), *volumes = list(to, "volumes");

	json_put_str(c, "name", POD_CONTAINER);
	put_text(c, "image", p->spec->image);
	add_command(c, f->guest_image ? own : sent);
	put_text(c, "workingDir", p->workspace_target);
	(void)add_container_security(c);
	add_limits(&p->spec->limits, c);
	json_t *mounts = list(c, "volumeMounts");
	add_empty(volumes, mounts, "guest", GUEST_DIR, f->guest_image != NULL);
	if (f->guest_image)
		json_put_str(add_mount(mounts, "guest", "/usr/local/bin/iterion", true), "subPath", "iterion");
	add_empty(volumes, mounts, "workspace", p->workspace_target, false);
	if (p->artifact_files)
		add_empty(volumes, mounts, "artifact-files", GUEST_ARTIFACT_FILES, false);
	if (p->attachments)
		add_empty(volumes, mounts, "attachments", GUEST_ATTACHMENTS, false);
	for (size_t i = 0; i < p->spec->n_mounts; i++)
		add_spec_mount(&p->spec->mounts[i], i, volumes, mounts);
}

static void add_pod(const struct sandbox_params *p, const struct pod_facts *f, json_t *to)
{
	json_put_str(to, "apiVersion", "v1");
	json_put_str(to, "kind", "Pod");
	add_metadata(p, f, to);
	json_t *s = member(to, "spec");
	json_put_str(s, "restartPolicy", "Never");
	json_put_bool(s, "automountServiceAccountToken", false);
	json_put_bool(s, "enableServiceLinks", false);
	json_put_int(s, "terminationGracePeriodSeconds", GRACE_S);
	if (p->deadline_s)
		json_put_int(s, "activeDeadlineSeconds", (long long)p->deadline_s);
	add_pod_security(p->spec, s);
	if (f->guest_image)
		add_guest_container(f, p->spec, s);
	add_container(p, f, s);
}

static void add_peer(json_t *rule, const char *direction, const char *address)
{
	auto_free char *cidr = xasprintf("%s/%d", address, strchr(address, ':') ? 128 : 32);

	json_put_str(member(object_of(list(rule, direction)), "ipBlock"), "cidr", cidr);
}

/* Out only to the proxy, in only from its host; names are the proxy's business, so not even DNS. */
static void add_policy(const struct sandbox_params *p, const struct pod_facts *f, json_t *to)
{
	json_put_str(to, "apiVersion", "networking.k8s.io/v1");
	json_put_str(to, "kind", "NetworkPolicy");
	add_metadata(p, f, to);
	json_t *s = member(to, "spec"), *types = list(s, "policyTypes");
	json_put_str(member(member(s, "podSelector"), "matchLabels"), LABEL_POD, f->name);
	(void)json_array_append_new(types, json_string("Ingress"));
	(void)json_array_append_new(types, json_string("Egress"));
	json_t *egress = object_of(list(s, "egress")), *port = object_of(list(egress, "ports"));
	add_peer(egress, "to", f->proxy_address);
	json_put_str(port, "protocol", "TCP");
	json_put_int(port, "port", f->proxy_port);
	add_peer(object_of(list(s, "ingress")), "from", f->proxy_address);
}

json_t *pod_objects(const struct sandbox_params *p, const struct pod_facts *f)
{
	json_t *o = json_object();

	json_put_str(o, "apiVersion", "v1");
	json_put_str(o, "kind", "List");
	json_t *items = list(o, "items");
	/* First: it holds from the pod's first moment. */
	if (f->proxy_address)
		add_policy(p, f, object_of(items));
	add_pod(p, f, object_of(items));
	return o;
}

static int cannot(struct err *e, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int cannot(struct err *e, const char *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	auto_free char *why = xvasprintf(fmt, ap);
	va_end(ap);
	int r = err_set(e, ERR_UNSUPPORTED, ENOTSUP, "make the sandbox: %s", why);
	err_hint(e, "%s", hint);
	return r;
}

static int check_user(const char *user, struct err *e)
{
	unsigned long long uid, gid;

	if (!user)
		return 0;
	if (!parse_user(user, &uid, &gid))
		return cannot(e, "Write its number, such as \"1000:1000\".",
			      "the user \"%.60s\" is a name, and a pod's user is a number", user);
	if (uid == 0)
		return cannot(e, "Name a user of another number, such as \"1000:1000\".",
			      "the user \"%.60s\" is root, which no sandbox of a cluster runs as", user);
	return 0;
}

static int check_mounts(const struct sandbox_spec *spec, struct err *e)
{
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct sandbox_mount *m = &spec->mounts[i];
		if (m->type == MOUNT_BIND)
			return cannot(e,
				      "Put the files into a volume of the cluster and write "
				      "\"type=pvc,source=CLAIM,target=/path\"; the workspace itself is copied.",
				      "the mount at %.200s is a bind, and a pod has no folder of this machine",
				      m->target);
		if (m->type == MOUNT_VOLUME)
			return cannot(e, "Write \"type=pvc,source=CLAIM,target=/path\".",
				      "the mount at %.200s is a volume of a container engine", m->target);
	}
	return 0;
}

int pod_check(const struct sandbox_spec *spec, struct err *e)
{
	if (spec->build.dockerfile)
		return cannot(e, "Build the image beforehand, push it, and name it with image:.",
			      "build: a cluster builds no images");
	if (!spec->image)
		return cannot(e, "Add image: to the sandbox block, or use --sandbox-default-image.",
			      "a pod needs an image, and none is named");
	if (spec->host_state == HOST_STATE_AUTO)
		return cannot(e, "Write host_state: none, or use --sandbox-host-state=none.",
			      "host_state: auto (%s), and a pod has no home of the user's to share",
			      spec->host_state_source ? spec->host_state_source : "sandbox block");
	if (spec->limits.pids)
		return cannot(e, "Take it out; a cluster limits processes for each node (podPidsLimit of the kubelet).",
			      "limits.pids: a pod cannot have its own");
	int r = check_user(spec->user, e);
	return r < 0 ? r : check_mounts(spec, e);
}
