/* What kubectl said, as an error that people can act on.
 *
 * kubectl tells failures by text only. The table holds what kubectl (1.20 to 1.35) prints, lower case; the first row
 * that matches counts, so what is more precise stands first. A text that no row knows is shown as it is. */
#include "words.h"
#include "../container/cli.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { SHOWN = 600 };

/* All the parts must be in the text. */
static const struct {
	const char *parts[2];
	enum kube_words kind;
} rows[] = {
	{{"violates podsecurity"}, KUBE_POLICY},
	{{"admission webhook"}, KUBE_POLICY},
	{{"podsecuritypolicy"}, KUBE_POLICY},
	{{"validatingadmissionpolicy"}, KUBE_POLICY},
	{{"exceeded quota"}, KUBE_QUOTA},
	{{"must specify limits"}, KUBE_QUOTA},
	{{"failed quota"}, KUBE_QUOTA},
	{{"namespaces \"", "not found"}, KUBE_NO_NAMESPACE},
	{{"(alreadyexists)"}, KUBE_NAME_IN_USE},
	{{"object is being deleted"}, KUBE_NAME_IN_USE},
	{{"already exists"}, KUBE_NAME_IN_USE},
	{{"(forbidden)"}, KUBE_FORBIDDEN},
	{{"is forbidden"}, KUBE_FORBIDDEN},
	{{"(unauthorized)"}, KUBE_UNAUTHORIZED},
	{{"you must be logged in"}, KUBE_UNAUTHORIZED},
	{{"provide credentials"}, KUBE_UNAUTHORIZED},
	{{"getting credentials"}, KUBE_UNAUTHORIZED},
	{{"no configuration has been provided"}, KUBE_NO_CONTEXT},
	{{"current-context"}, KUBE_NO_CONTEXT},
	{{"context \"", "does not exist"}, KUBE_NO_CONTEXT},
	{{"context was not found"}, KUBE_NO_CONTEXT},
	{{"error loading config file"}, KUBE_NO_CONTEXT},
	{{"stat ", "kubeconfig"}, KUBE_NO_CONTEXT},
	{{"localhost:8080", "refused"}, KUBE_NO_CONTEXT},
	{{"unable to upgrade connection"}, KUBE_NO_EXEC},
	{{"error dialing backend"}, KUBE_NO_EXEC},
	{{"error upgrading connection"}, KUBE_NO_EXEC},
	{{"(notfound)"}, KUBE_NOT_FOUND},
	{{"container not found"}, KUBE_NOT_FOUND},
	{{"unable to connect to the server"}, KUBE_UNREACHABLE},
	{{"was refused"}, KUBE_UNREACHABLE},
	{{"connection refused"}, KUBE_UNREACHABLE},
	{{"no such host"}, KUBE_UNREACHABLE},
	{{"i/o timeout"}, KUBE_UNREACHABLE},
	{{"tls handshake timeout"}, KUBE_UNREACHABLE},
	{{"x509:"}, KUBE_UNREACHABLE},
	{{"no route to host"}, KUBE_UNREACHABLE},
	{{"is invalid"}, KUBE_INVALID},
	{{"(badrequest)"}, KUBE_INVALID},
};

static const char *const hints[] = {
	[KUBE_OTHER] = "Run kubectl by hand to see more; docs/kubernetes.md says what the runner needs.",
	[KUBE_FORBIDDEN] = "Give the runner's service account the Role of examples/kubernetes/rbac.yaml.",
	[KUBE_UNAUTHORIZED] = "Log in to the cluster, or mount the runner's service account token.",
	[KUBE_NO_CONTEXT] =
		"Choose a cluster with KUBECONFIG and `kubectl config use-context NAME`, or run in a pod that "
		"has its service account's token.",
	[KUBE_UNREACHABLE] = "Check the cluster's address, the network and its certificate with `kubectl version`.",
	[KUBE_NO_NAMESPACE] = "Create the namespace, or name another one in the context or in ITERION_KUBE_NAMESPACE.",
	[KUBE_NOT_FOUND] = "Somebody removed it from the cluster.",
	[KUBE_NAME_IN_USE] = "Its run still lives, or is not this machine's: `iterion sandbox ls` shows it. Give this "
			     "run another --run-id, or remove it with `kubectl delete pod`.",
	[KUBE_QUOTA] = "Lower limits.cpus and limits.memory of the sandbox block, give them when the quota asks for "
		       "them, or raise the namespace's quota.",
	[KUBE_POLICY] =
		"The cluster's own policy refuses such pods; the words say which field. A user by number (user: "
		"\"1000:1000\") is what most ask for.",
	[KUBE_INVALID] = "The cluster does not take the object; check image, user and mounts of the sandbox block.",
	[KUBE_NO_EXEC] = "The API server must reach the node's kubelet, and the runner's Role allow pods/exec.",
};

enum kube_words kube_classify(const char *text)
{
	auto_free char *low = xstrdup(text);

	for (char *c = low; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strstr(low, rows[i].parts[0]) && (!rows[i].parts[1] || strstr(low, rows[i].parts[1])))
			return rows[i].kind;
	return KUBE_OTHER;
}

static bool is_noise(const char *line)
{
	/* klog's lines (severity, month and day), which tell a failure again with a place in kubectl's source. */
	return (strchr("IWEF", *line) && isdigit((unsigned char)line[1]) && isdigit((unsigned char)line[2])) ||
	       str_starts(line, "command terminated with exit code") || str_starts(line, "Warning: ");
}

static const char *skip_prefix(const char *line)
{
	static const char *const prefixes[] = {"error: ", "Error from server ", "Error: "};

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_starts(line, prefixes[i]))
			line += strlen(prefixes[i]);
	return line;
}

static void add_words(struct buf *to, const char *text)
{
	auto_buf raw = BUF_INIT(CLI_ERR_TAIL * 2);
	auto_free char *copy = xstrdup(text);
	char *save = NULL;

	for (char *line = strtok_r(copy, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save))
		if (!is_noise(line))
			(void)buf_printf(&raw, "%s%s", raw.len ? "; " : "", skip_prefix(line));
	/* Better than nothing. */
	if (raw.len == 0)
		(void)buf_printf(&raw, "%.*s", (int)strcspn(text, "\r\n"), text);
	(void)text_neutralise(to, buf_str(&raw), MIN(raw.len, (size_t)SHOWN));
}

int kube_explain_text(const char *text, struct err *e)
{
	auto_buf words = BUF_INIT(8 * SHOWN);

	add_words(&words, text);
	int r = err_set(e, ERR_SANDBOX, EIO, "kubectl: %s", words.len ? buf_str(&words) : "it failed and said nothing");
	err_hint(e, "%s", hints[kube_classify(text)]);
	return r;
}

int kube_explain(const struct cli_result *r, struct err *e)
{
	if (!r->timed_out)
		return kube_explain_text(r->err, e);
	int bad = err_set(e, ERR_SANDBOX, ETIMEDOUT, "kubectl: the cluster did not answer in time");
	err_hint(e, "%s", hints[KUBE_UNREACHABLE]);
	return bad;
}
