/* TLS inspection and secrets of a session. */
#pragma once

#include <jansson.h>
#include <net/proxy.h>

struct err;
struct session;
struct strv;

/* Whether its proxy opens TLS: it is to, and there is a host for which. */
bool session_inspects(const struct session *s);

/* Before anything is made: which keys of the host are bound by themselves, whether the sources are there. 0 or -errno.
 */
int session_inspect_settle(struct session *s, struct err *e) __attribute__((warn_unused_result));

/* Reads the secrets and starts the proxy with them; the values are wiped here as soon as it has them. */
int session_inspect_start(struct session *s, struct proxy_params *pp, struct err *e)
	__attribute__((warn_unused_result));

/* The variables by which programs inside find whom to trust, and the placeholders that every program gets. */
void session_inspect_env(const struct session *s, struct strv *env);

/* The names of its secrets. */
json_t *session_secrets_json(const struct session *s);

void session_inspect_done(struct session *s);
