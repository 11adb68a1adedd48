/* What kubectl said, as an error that people can act on. */
#pragma once

#include <stdbool.h>

struct cli_result;
struct err;

enum kube_words {
	KUBE_OTHER,
	KUBE_FORBIDDEN,	   /* the account may not do it */
	KUBE_UNAUTHORIZED, /* the cluster does not know who asks */
	KUBE_NO_CONTEXT,   /* there is no cluster that it could ask */
	KUBE_UNREACHABLE,
	KUBE_NO_NAMESPACE,
	KUBE_NOT_FOUND,
	KUBE_NAME_IN_USE,
	KUBE_QUOTA,
	KUBE_POLICY, /* an admission policy of the cluster refuses the object */
	KUBE_INVALID,
	KUBE_NO_EXEC, /* the connection to a running pod cannot be made */
};

/* What kind of failure the text, kubectl's stderr, tells of. */
enum kube_words kube_classify(const char *text);

/* Makes the whole error of a kubectl that failed: its own last words, and what to do. Returns -errno of e. */
int kube_explain(const struct cli_result *r, struct err *e);
/* The same from the text alone. */
int kube_explain_text(const char *text, struct err *e);
