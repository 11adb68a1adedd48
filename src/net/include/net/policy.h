/* Which hosts a sandbox may reach: rules, presets and the verdict. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct err;
struct policy;

enum network_mode { NETWORK_OPEN, NETWORK_ALLOWLIST, NETWORK_DENYLIST, NETWORK_LEARN };

const char *network_mode_name(enum network_mode m);
/* 0, or -EINVAL when the word is none of the modes. */
int network_mode_parse(const char *word, enum network_mode *ret);

enum { HOST_TEXT_SIZE = 256 }; /* a DNS name has at most 253 characters */

/* A host in canonical form: lower case, IDNA lookup form, no trailing dot, no brackets; every spelling of an IP
 * address is recognised as one, IPv4-mapped IPv6 as IPv4. */
struct host {
	char text[HOST_TEXT_SIZE]; /* canonical text; an IPv6 address without brackets */
	int family;		   /* AF_UNSPEC for a name, AF_INET, AF_INET6 */
	unsigned char addr[16];	   /* network order; 4 or 16 bytes */
};

/* Returns 0, or -EINVAL when it is no host (empty, a bad label, a space, over-long, …). */
int host_parse(const char *text, size_t len, struct host *ret) __attribute__((warn_unused_result));

/* "host:port", "[v6]:port"; default_port when no port is written (0: then a missing port is an error).
 * Returns 0 or -EINVAL. */
int host_port_parse(const char *text, size_t len, unsigned default_port, struct host *ret, uint16_t *ret_port)
	__attribute__((warn_unused_result));

/* The host that a socket address speaks of; -EINVAL for other families. *ret_port may be NULL. */
int host_from_sockaddr(const struct sockaddr *sa, socklen_t len, struct host *ret, uint16_t *ret_port);

/* Compiles presets (applied first, in order; NULL-terminated or NULL) and rules. Returns 0, or -EINVAL naming the
 * rule, what is wrong with it and how to write it. */
int policy_new(enum network_mode mode, const char *const *presets, const char *const *rules, struct policy **ret,
	       struct err *e) __attribute__((warn_unused_result));
void policy_free(struct policy *p);
enum network_mode policy_mode(const struct policy *p);
/* The rules in force, presets expanded, in order; borrowed. */
size_t policy_rules(const struct policy *p, const char *const **ret);

struct policy_verdict {
	bool allow;
	bool silent;	    /* a denial that raises no network_blocked event */
	bool exact;	    /* allowed by a rule that names this very host */
	const char *rule;   /* text of the rule that decided, or "default" */
	const char *reason; /* why it was denied, a static phrase */
};

/* First look: name or literal, before any DNS. */
void policy_check_host(const struct policy *p, const struct host *h, uint16_t port, struct policy_verdict *ret);

/* Second look: the address that the proxy is about to connect to on behalf of h, which was allowed with `first`.
 * Loopback, link-local, metadata, private, multicast and unspecified ranges need an IP or CIDR rule, or an exact rule
 * for the name. */
void policy_check_address(const struct policy *p, const struct host *h, const struct policy_verdict *first,
			  const struct host *address, uint16_t port, struct policy_verdict *ret);

/* The names of the presets that exist; NULL-terminated, static. */
const char *const *policy_preset_names(void);
