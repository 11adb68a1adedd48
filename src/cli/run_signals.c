/* Signals to this process, on a loop. The handles do not keep the loop alive: it ends when the work has. */
#include "run_signals.h"

#include <signal.h>
#include <stdbool.h>

static void on_uv_signal(uv_signal_t *h, int sig)
{
	const struct signal_watch *w = h->data;

	w->on_signal(w->arg, sig);
}

/* nohup's way to say that a terminal may go away. */
static bool is_ignored(int sig)
{
	struct sigaction now;

	return sig == SIGHUP && sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void signal_watch_start(struct signal_watch *w, uv_loop_t *loop, const int *numbers,
			void (*on_signal)(void *arg, int sig), void *arg)
{
	*w = (struct signal_watch){.on_signal = on_signal, .arg = arg};
	for (; *numbers && w->n < MAX_SIGNALS; numbers++) {
		if (is_ignored(*numbers))
			continue;
		uv_signal_t *h = &w->handles[w->n++];
		(void)uv_signal_init(loop, h);
		h->data = w;
		(void)uv_signal_start(h, on_uv_signal, *numbers);
		uv_unref((uv_handle_t *)h);
	}
}

void signal_watch_stop(struct signal_watch *w)
{
	for (; w->n; w->n--)
		uv_close((uv_handle_t *)&w->handles[w->n - 1], NULL);
}
