/* What `kubectl get --watch` tells of a sandbox's pod, and what of it ends the wait.
 *
 * The watch is a stream of whole objects, each the pod as it is now. A pod that waits may do so for a good reason (its
 * image is being pulled) or for ever (there is no such image): the kubelet tells by a reason, and those in the table
 * below are the ones that no waiting mends. Its own message is kept, since it names the image, the key or the limit.
 * The objects come from the API server, but texts in them may be a registry's or an image's: they are made safe to
 * show, and bounded. */
#include "pod_state.h"
#include "pod_spec.h"

#include <base/cleanup.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 600 };

static const char image_hint[] = "Check the image's name and tag, that it was pushed, and that the cluster may pull it "
				 "(an imagePullSecret of the namespace's default service account).";
static const char command_hint[] = "The image must have /bin/sh, head, cat and mkfifo and be of the guest's "
				   "architecture; for one without a shell set ITERION_GUEST_IMAGE.";

static const struct {
	const char *reason, *hint;
} hopeless[] = {
	{"ErrImagePull", image_hint},
	{"ImagePullBackOff", image_hint},
	{"ErrImageNeverPull", image_hint},
	{"InvalidImageName", image_hint},
	{"ImageInspectError", image_hint},
	{"RegistryUnavailable", image_hint},
	{"CreateContainerConfigError",
	 "Name a user by number (user: \"1000:1000\") when the image's is root; a configmap or secret that is mounted "
	 "must exist in the namespace, with the key."},
	{"CreateContainerError", command_hint},
	{"RunContainerError", command_hint},
	{"StartError", command_hint},
	{"ContainerCannotRun", command_hint},
	{"CrashLoopBackOff", command_hint},
	{"PreCreateHookError", command_hint},
	{"PostStartHookError", command_hint},
};

static const struct {
	const char *reason, *hint;
} ends[] = {
	{"OOMKilled", "Raise limits.memory of the sandbox block."},
	{"Evicted",
	 "The node was short of memory or disk: see `kubectl describe node`; `iterion resume` makes a new pod."},
	{"DeadlineExceeded", "The run's budget of time is the pod's deadline: raise budget.max_duration."},
	{"NodeLost", "The node went away; `iterion resume` makes a new pod."},
	{"Terminated", "The node was shut down; `iterion resume` makes a new pod."},
	{"NodeShutdown", "The node was shut down; `iterion resume` makes a new pod."},
	{"Preempting", "A pod of higher priority took the place; `iterion resume` makes a new one."},
	{"StartError", command_hint},
	{"ContainerCannotRun", command_hint},
};

static const char *hint_of(const char *reason, bool ended)
{
	for (size_t i = 0; !ended && i < ARRAY_LEN(hopeless); i++)
		if (str_eq(reason, hopeless[i].reason))
			return hopeless[i].hint;
	for (size_t i = 0; ended && i < ARRAY_LEN(ends); i++)
		if (str_eq(reason, ends[i].reason))
			return ends[i].hint;
	return NULL;
}

/* "REASON: MESSAGE", safe to show. */
static void add_words(struct buf *to, const char *reason, const char *message)
{
	auto_free char *whole = message && *message ? xasprintf("%s: %s", reason, message) : xstrdup(reason);

	for (char *c = whole; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
	(void)text_neutralise(to, whole, MIN(strlen(whole), (size_t)SHOWN));
}

static void fail(struct pod_news *n, const char *what, const char *reason, const char *message, const char *hint)
{
	auto_buf words = BUF_INIT(8 * SHOWN);

	add_words(&words, reason, message);
	n->phase = POD_FAILED;
	(void)err_set(&n->why, ERR_SANDBOX, ECHILD, "%s: %s", what, buf_str(&words));
	err_hint(&n->why, "%s", hint ? hint : "See `kubectl describe pod` in the runner's namespace.");
}

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_get_str(o, key);

	return s ? s : "";
}

static bool read_waiting(const json_t *container, struct pod_news *n)
{
	const json_t *waiting = json_object_get(json_object_get(container, "state"), "waiting");
	const char *reason = text(waiting, "reason"), *hint = hint_of(reason, false);

	if (hint)
		fail(n, "start the sandbox's pod", reason, text(waiting, "message"), hint);
	else if (*reason)
		(void)snprintf(n->waits, sizeof n->waits, "%.100s%s%.140s", reason,
			       *text(waiting, "message") ? ": " : "", text(waiting, "message"));
	return hint != NULL;
}

static bool read_terminated(const json_t *container, struct pod_news *n)
{
	const json_t *t = json_object_get(json_object_get(container, "state"), "terminated");

	if (!t)
		return false;
	const char *reason = text(t, "reason"), *message = text(t, "message");
	long long code = json_integer_value(json_object_get(t, "exitCode"));
	auto_free char *exit = xasprintf("exit code %lld%s%s", code, *message ? ", " : "", message);
	fail(n, "the sandbox's pod ended", *reason ? reason : "Error", exit,
	     code == 126 || code == 127 ? command_hint : hint_of(reason, true));
	return true;
}

/* The containers that run before: their end is no end of the pod unless it is a bad one. */
static bool read_before(const json_t *status, struct pod_news *n)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(status, "initContainerStatuses"), i, c)
	{
		const json_t *t = json_object_get(json_object_get(c, "state"), "terminated");
		if (read_waiting(c, n))
			return true;
		if (t && json_integer_value(json_object_get(t, "exitCode")) != 0)
			return read_terminated(c, n);
	}
	return false;
}

static void take_digest(const json_t *container, struct pod_news *n)
{
	static const char mark[] = "sha256:";
	const char *id = text(container, "imageID"), *found = strstr(id, mark);

	if (!found)
		return;
	size_t len = strlen(mark) + strspn(found + strlen(mark), "0123456789abcdef");
	if (len == strlen(mark) + 64)
		(void)snprintf(n->digest, sizeof n->digest, "%.*s", (int)len, found);
}

/* Whether a pod that was not given a node yet will get none as things are. */
static bool read_scheduling(const json_t *status, struct pod_news *n)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(status, "conditions"), i, c)
	{
		if (!str_eq(text(c, "type"), "PodScheduled") || !str_eq(text(c, "reason"), "Unschedulable"))
			continue;
		fail(n, "start the sandbox's pod", "Unschedulable", text(c, "message"),
		     "Lower limits.cpus and limits.memory of the sandbox block, or give the cluster a node that has "
		     "them free.");
		return true;
	}
	return false;
}

static void read_container(const json_t *status, struct pod_news *n)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(status, "containerStatuses"), i, c)
	{
		if (!str_eq(text(c, "name"), POD_CONTAINER))
			continue;
		take_digest(c, n);
		if (read_waiting(c, n) || read_terminated(c, n))
			return;
		if (json_object_get(json_object_get(c, "state"), "running"))
			n->phase = POD_RUNNING;
		return;
	}
}

int pod_read(const json_t *event, struct pod_news *ret)
{
	const json_t *pod = json_object_get(event, "object"), *status = json_object_get(pod, "status");
	const char *phase = text(status, "phase");

	*ret = (struct pod_news){.phase = POD_WAITING};
	if (!str_eq(text(pod, "kind"), "Pod"))
		return -EPROTO;
	read_container(status, ret);
	if (ret->phase != POD_FAILED && !read_before(status, ret))
		(void)read_scheduling(status, ret);
	/* The pod's own reason is the better one: what became of its container follows from it. */
	if (str_eq(phase, "Failed") && *text(status, "reason"))
		fail(ret, "the sandbox's pod ended", text(status, "reason"), text(status, "message"),
		     hint_of(text(status, "reason"), true));
	else if ((str_eq(phase, "Failed") || str_eq(phase, "Succeeded")) && ret->phase != POD_FAILED)
		fail(ret, "the sandbox's pod ended", phase, text(status, "message"), NULL);
	if (str_eq(text(event, "type"), "DELETED")) {
		if (ret->phase != POD_FAILED)
			fail(ret, "the sandbox's pod ended", "Deleted", "somebody removed it from the cluster",
			     "`iterion resume` makes a new one.");
		ret->phase = POD_GONE;
	}
	return 0;
}

/* The kubelet says the same of a secret that it has not seen yet and of one that there is not; the words tell. */
bool pod_read_event(const json_t *event, struct err *why)
{
	static const char *const never[] = {"not found", "non-existent", "is not bound", "unable to find"};
	const json_t *o = json_object_get(event, "object");
	const char *reason = text(o, "reason"), *message = text(o, "message");
	struct pod_news n = {0};

	if (!str_eq(reason, "FailedMount") && !str_eq(reason, "FailedAttachVolume"))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		if (!strstr(message, never[i]))
			continue;
		fail(&n, "start the sandbox's pod", reason, message,
		     "Claims, configmaps and secrets of the sandbox block's mounts must exist in the runner's "
		     "namespace, with the key.");
		err_copy(why, &n.why);
		return true;
	}
	return false;
}

/* The byte ends an object: its last brace. */
static bool step(struct pod_stream *s, char c)
{
	if (s->in_string) {
		s->in_string = s->escaped || c != '"';
		s->escaped = !s->escaped && c == '\\';
		return false;
	}
	s->in_string = c == '"';
	s->depth += c == '{';
	if (c != '}' || s->depth == 0)
		return false;
	return --s->depth == 0;
}

int pod_stream_feed(struct pod_stream *s, const char *data, size_t len, void (*on_object)(void *arg, const json_t *o),
		    void *arg)
{
	if (buf_add(&s->text, data, len) < 0)
		return -ENOBUFS;
	while (s->seen < s->text.len) {
		char c = s->text.data[s->seen];
		bool between = s->depth == 0 && c != '{';
		if (between && !isspace((unsigned char)c))
			return -EPROTO;
		s->seen++;
		bool whole = !between && step(s, c);
		if (whole) {
			auto_json o = json_parse_value(s->text.data, s->seen, NULL);
			if (!o)
				return -EPROTO;
			on_object(arg, o);
		}
		if (whole || between) {
			buf_consume(&s->text, s->seen);
			s->seen = 0;
		}
	}
	return 0;
}

void pod_stream_done(struct pod_stream *s)
{
	buf_done(&s->text);
}
