/* The runner's event loop: descriptors and deadlines. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct react;

/* One deadline; the struct is its owner's. */
struct timer {
	uint64_t at_ms; /* clock_ms; 0: not set */
	void (*due)(void *arg);
	void *arg;
	struct timer *next;
};

struct react *react_new(void);
/* Closes no descriptor. NULL is accepted. */
void react_free(struct react *r);

/* Calls ready with poll's revents whenever one of `events` (or an error) is there. One watch a descriptor. */
void react_watch(struct react *r, int fd, short events, void (*ready)(void *arg, short revents), void *arg);
/* Changes what is waited for. */
void react_events(struct react *r, int fd, short events);
/* Before the descriptor is closed; unknown ones are fine. */
void react_forget(struct react *r, int fd);

/* Calls due once, after that many milliseconds; a timer that is set is set anew. */
void react_timer(struct react *r, struct timer *t, uint64_t after_ms);
void react_timer_stop(struct react *r, struct timer *t);

/* Serves until react_stop. Returns 0, or -errno of poll. */
int react_run(struct react *r) __attribute__((warn_unused_result));
void react_stop(struct react *r);
