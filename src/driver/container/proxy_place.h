/* Where the proxy of a container that cannot have it on its own loopback listens, and how programs inside name it. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct err;

#define PROXY_HOST_ALIAS "host.docker.internal" /* the engine's name for its host */

union proxy_address {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

enum { PROXY_HOST_SIZE = 256, PROXY_WHERE_SIZE = 64 };

struct proxy_place {
	bool listens; /* the user named where */
	union proxy_address listen;
	char host[PROXY_HOST_SIZE]; /* for programs inside */
	uint16_t port;		    /* for programs inside; 0: the one that it listens on */
};

/* What the user said: ADDRESS[:PORT] of this machine, HOST[:PORT] as containers see it; NULL or "": nothing. Returns 0,
 * or -EINVAL for what is none, and for an address that stands for every interface. */
int proxy_place_read(const char *listen, const char *advertise, struct proxy_place *ret, struct err *e)
	__attribute__((warn_unused_result));

/* The same from ITERION_PROXY_LISTEN and ITERION_PROXY_ADVERTISE. */
int proxy_place_get(struct proxy_place *ret, struct err *e) __attribute__((warn_unused_result));

/* ITERION_NETWORK_ENFORCEMENT: whether a policy that can only be offered is an error. 0, or -EINVAL for a word that is
 * none. */
int proxy_place_required(bool *ret, struct err *e) __attribute__((warn_unused_result));

/* Reads an address without a port; -EINVAL when it is none. */
int proxy_address_read(const char *text, union proxy_address *ret) __attribute__((warn_unused_result));
/* "192.0.2.7:4000", "[2001:db8::7]:4000". */
void proxy_address_text(const union proxy_address *a, char ret[PROXY_WHERE_SIZE]);
/* Whether this machine has the address. */
bool proxy_address_is_ours(const union proxy_address *a);

/* A listening socket at the address (port 0: any free one), non-blocking; *a becomes what it really is. The descriptor
 * or -errno. */
int proxy_place_listen(union proxy_address *a) __attribute__((warn_unused_result));
