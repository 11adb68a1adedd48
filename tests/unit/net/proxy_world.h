/* What the proxy's tests need around it: a server to reach, a proxy with its loop, and a plain blocking client. */
#pragma once

#include <net/proxy.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

enum { MAX_SEEN = 256 };

struct seen_blocked {
	char host[256], reason[64], rule[64];
	unsigned port, count;
};
struct seen_total {
	char host[256];
	unsigned long long allowed, blocked, up, down;
};

/* One proxy, from start to stop, and what it told. */
struct world {
	uv_loop_t loop;
	struct proxy *proxy;
	unsigned port; /* where it listens */
	bool ready, stopping, done, lost, failed, hooked;
	bool may_be_lost; /* else world_stop fails when it was */
	char error[1024];
	int hook_errno;
	size_t n_blocked, n_totals;
	unsigned summaries;
	struct seen_blocked blocked[MAX_SEEN];
	struct seen_total totals[MAX_SEEN];
};

/* Ports of the server process, which is made once for all tests. */
struct server_ports {
	unsigned echo; /* gives every byte back; at the end of input says "bye" and closes */
	unsigned bulk; /* reads a line with a number of bytes and sends as many, by bulk_byte */
	unsigned http; /* an HTTP/1.1 server, see proxy_world.c */
	unsigned dead; /* nobody listens */
};
const struct server_ports *server_start(void);
void server_stop(void);
unsigned char bulk_byte(size_t i);

/* rules: NULL-terminated; params may be NULL, else its policy is set here. */
void world_start(struct world *w, const char *const *rules, const struct proxy_params *params);
/* world_stop waits for the end, and begins the stop when that was not done. */
void world_begin_stop(struct world *w, unsigned drain_ms);
void world_stop(struct world *w);
/* Runs the loop until *flag is set; fails the test after 10 s. */
void world_wait(struct world *w, const bool *flag);
/* Runs the loop for so long. */
void world_run(struct world *w, unsigned ms);

/* A connected blocking socket with a time-out of 10 s. */
int client_connect(unsigned port);
void client_send(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void client_write(int fd, const void *data, size_t len);
/* Reads up to the empty line of a head, byte by byte; "" at the end. */
const char *client_head(int fd);
/* Reads exactly len bytes, fewer only at the end; returns how many. Like the others it goes on after EINTR: a libuv
 * that uses io_uring (Debian 13's) interrupts calls with a time limit, which the kernel does not restart (signal(7)).
 */
size_t client_read(int fd, void *to, size_t len);
/* Reads to the end into a static, NUL-terminated buffer. */
const char *client_rest(int fd);
/* "CONNECT 127.0.0.1:port" without authentication; the status. */
unsigned client_tunnel(int fd, unsigned port);
unsigned status_of(const char *head);
