/* What backends that speak for an agent need of a session beside starting programs. */
#pragma once

#include <net/policy.h>
#include <stdint.h>
#include <sys/socket.h>

struct err;
struct session;

/* The guest program as the session's programs reach it: inside a sandbox where it is mounted, else (and without a
 * session, s NULL) on the host. The caller frees. Returns 0, -ENOENT naming where it was looked for, or -ENOEXEC for a
 * sandbox in which it cannot run. */
int session_guest(const struct session *s, char **ret, struct err *e) __attribute__((warn_unused_result));

/* What stands inside for a secret of that name (a placeholder), or NULL when the session (s may be NULL) has none. */
const char *session_secret(const struct session *s, const char *name);

/* A request that this process makes in the name of an agent inside: the session's policy decides as it does for the
 * agent's own connections, before DNS by the name and before dialling by the address. What is refused becomes the
 * event network_blocked, unless the rule is silent. */
struct egress {
	const struct session *session;
	struct host host;
	uint16_t port;
	struct policy_verdict first;
};

/* First look. Returns 0 with *ret, which the second look takes; -EINVAL when it is no host, -EACCES when the policy
 * denies it. */
int egress_check_host(const struct session *s, const char *host, uint16_t port, struct egress *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Second look: the address that is about to be dialled. 0 or -EACCES. */
int egress_check_address(const struct egress *g, const struct sockaddr *sa, socklen_t len, struct err *e)
	__attribute__((warn_unused_result));

/* Whether there is no policy: everything may be reached. */
bool egress_is_open(const struct session *s);

/* "HOST:IP" answers that come before DNS, NULL-terminated; NULL: none. */
const char *const *session_resolve(const struct session *s);
