/* The environment by which programs inside find the proxy. */
#pragma once

#include <stdint.h>

struct strv;

/* Adds what is not set yet: the proxy variables in both cases, and the own words of tools that do not read them. */
void proxy_env_add(struct strv *env, uint16_t port, const char *token);
