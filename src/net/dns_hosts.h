/* A fixed table of names and addresses: overrides and the hosts file. Pure but for dns_hosts_read. */
#pragma once

#include <net/policy.h>
#include <stddef.h>

struct err;

struct dns_host {
	char *name;
	struct host address;
};
struct dns_hosts {
	struct dns_host *v;
	size_t n, cap;
};

/* Adds "HOST:IP" (an IPv6 address with or without brackets). 0, or -EINVAL with the reason. */
int dns_hosts_add_override(struct dns_hosts *t, const char *text, struct err *e) __attribute__((warn_unused_result));

/* Adds the lines of a hosts file (hosts(5)); what is malformed is passed over. */
void dns_hosts_parse(struct dns_hosts *t, const char *text, size_t len);

/* Adds the system's hosts file when it can be read. */
void dns_hosts_read(struct dns_hosts *t, const char *path);

/* Copies at most max addresses of that name and family (AF_UNSPEC: both); returns how many. */
size_t dns_hosts_find(const struct dns_hosts *t, const struct host *name, int family, struct host *ret, size_t max);

void dns_hosts_done(struct dns_hosts *t);
