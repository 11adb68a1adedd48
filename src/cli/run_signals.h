/* Signals to this process, on a loop. */
#pragma once

#include <stddef.h>
#include <uv.h>

enum { MAX_SIGNALS = 8 };

struct signal_watch {
	uv_signal_t handles[MAX_SIGNALS];
	size_t n;
	void (*on_signal)(void *arg, int sig);
	void *arg;
};

/* Watches the numbers (at most MAX_SIGNALS, ended by 0); SIGHUP not when it was ignored (nohup). */
void signal_watch_start(struct signal_watch *w, uv_loop_t *loop, const int *numbers,
			void (*on_signal)(void *arg, int sig), void *arg);
/* Closes the handles; the loop must run once more before w goes away. Again: nothing. */
void signal_watch_stop(struct signal_watch *w);
