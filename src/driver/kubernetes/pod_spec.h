/* The objects that a sandbox is made of in a cluster: its pod and its network policy. */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct err;
struct sandbox_params;
struct sandbox_spec;

#define LABEL_COMPONENT "iterion.io/component"
#define LABEL_POD "iterion.io/pod"
#define COMPONENT "sandbox-run"
#define POD_CONTAINER "sandbox"

/* What they depend on beside the spec. Everything is borrowed. */
struct pod_facts {
	const char *name;	 /* of both objects */
	const char *owner;	 /* labels.h of the container driver */
	const char *guest_image; /* whose program is copied into the pod; NULL: it is sent when the pod runs */
	const char *runner_name; /* the runner's own pod, which the objects belong to; NULL: it runs in none */
	const char *runner_uid;
	const char *proxy_address; /* of the runner, literal; NULL: no network policy */
	uint16_t proxy_port;
};

/* Whether a pod can be what the spec asks for: 0, or -errno with the field and what to write. */
int pod_check(const struct sandbox_spec *spec, struct err *e) __attribute__((warn_unused_result));

/* Both objects as one list for `kubectl create`. The spec was checked. */
json_t *pod_objects(const struct sandbox_params *p, const struct pod_facts *f);

/* A pod's name: a DNS label (RFC 1123) that ends with the mark, which no other pod of the run has: one that ended keeps
 * its name for a while. The caller frees. */
char *pod_name(const char *run_id, const char *mark) __attribute__((returns_nonnull));

/* A text as a label's value: what may not be there becomes another character. The caller frees. */
char *pod_label(const char *text) __attribute__((returns_nonnull));
/* The owner as a label says it, in the spelling of labels.h; the caller frees. */
char *pod_owner(const char *label) __attribute__((returns_nonnull));

/* The program with arguments that a running pod's agent is; n: bytes of the guest that come in front of its frames, 0
 * when the pod has it already. ret has room for 4 words and NULL; text holds the third. */
enum { POD_AGENT_WORDS = 5, POD_AGENT_TEXT = 256 };
void pod_agent(uint64_t n, const char *ret[POD_AGENT_WORDS], char text[POD_AGENT_TEXT]);
