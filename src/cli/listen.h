/* A listening socket from what a user wrote. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct listen_address {
	char text[160];	   /* where it listens, as one would write it */
	uint16_t port;	   /* 0: a unix socket */
	bool reachable;	   /* others than this machine may reach it */
	char *unlink_path; /* the unix socket's own file, removed by listen_close */
	dev_t dev;
	ino_t ino;
};

/* "HOST:PORT" (an address or localhost; port 0: any) or "unix:PATH" (mode 0600; a socket there that nobody serves is
 * replaced). Returns the descriptor or -errno. */
int listen_open(const char *where, struct listen_address *ret, struct err *e) __attribute__((warn_unused_result));
/* Removes the unix socket's file when it is still ours. */
void listen_close(struct listen_address *a);
