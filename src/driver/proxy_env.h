/* The environment by which programs inside find the proxy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct strv;

/* Adds what is not set yet: the proxy variables in both cases, and the own words of tools that do not read them. host
 * NULL: it is on loopback. with_guest: the guest is there, through which ssh goes as well. */
void proxy_env_add(struct strv *env, const char *host, uint16_t port, const char *token, bool with_guest);

/* Takes out those that name another proxy, or hosts that need none: what an image has from where it was made. */
void proxy_env_drop(struct strv *env);
