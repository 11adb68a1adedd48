/* The client: libcurl's multi interface on the loop, and the life of requests.
 *
 * libcurl says which sockets it waits for and when it wants to be woken; the loop tells it what happened. It must not
 * be called from within its own callbacks, so what a callback's receiver wants (a new request, the end of one) is noted
 * there, and done when libcurl has returned (settle). A request's timers belong to the loop, which gives their memory
 * back later; until then the request stays in the list, over.
 *
 * A failed start, a cancelled request and one that ended all leave by the same door: request_end. */
#include "priv.h"

#include <base/cleanup.h>
#include <base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct http_socket {
	struct http *h;
	struct http_socket *next;
	uv_poll_t poll;
	curl_socket_t fd;
};

static const char *value_of(const char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=' && (*env)[len + 1])
			return *env + len + 1;
	return NULL;
}

struct http *http_new(uv_loop_t *loop, const char *const *env)
{
	struct http *h = xcalloc(1, sizeof *h);
	const char *ca = value_of(env, "SSL_CERT_FILE");

	h->loop = loop;
	h->ca_file = ca ? xstrdup(ca) : NULL;
	return h;
}

static void check_closed(struct http *h)
{
	if (!h->closing || h->multi || h->handles || h->requests)
		return;
	void (*closed)(void *arg) = h->closed;
	void *arg = h->closed_arg;
	free(h->ca_file);
	free(h);
	if (closed)
		closed(arg);
}

/* --- requests that end --- */

static void forget(struct http_request *r)
{
	struct http *h = r->h;

	for (struct http_request **p = &h->requests; *p; p = &(*p)->next) {
		if (*p == r) {
			*p = r->next;
			break;
		}
	}
	request_free(r);
	check_closed(h);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct http_request *r = handle->data;

	if (--r->open == 0)
		forget(r);
}

/* Not from within libcurl. */
static void request_end(struct http_request *r)
{
	if (r->state == REQUEST_OVER)
		return;
	if (r->state == REQUEST_ADDED)
		(void)r->h->curl->multi_remove_handle(r->h->multi, r->easy);
	r->state = REQUEST_OVER;
	uv_close((uv_handle_t *)&r->idle, on_timer_closed);
	uv_close((uv_handle_t *)&r->total, on_timer_closed);
}

static void tell_done(struct http_request *r, CURLcode code)
{
	struct err e = ERR_INIT;
	int bad = request_outcome(r, code, &e);
	bool silent = r->cancelled;

	r->cancelled = true;
	request_end(r);
	if (!silent)
		r->cb.on_done(r->cb.arg, bad < 0 ? &e : NULL);
}

/* Begins it with libcurl. */
static void request_add(struct http_request *r)
{
	r->state = REQUEST_ADDED;
	if (r->h->curl->multi_add_handle(r->h->multi, r->easy) == CURLM_OK)
		return;
	r->state = REQUEST_NEW;
	(void)err_set(&r->failure, ERR_INTERNAL, EINVAL, "%s: libcurl does not take the request", r->target);
	tell_done(r, CURLE_FAILED_INIT);
}

static void client_shut(struct http *h);

/* What was noted while libcurl was at work. Callbacks may change the list: it is looked at anew after each. */
static void settle(struct http *h)
{
	CURLMsg *m;
	int left;

	while (h->multi && !h->closing && (m = h->curl->multi_info_read(h->multi, &left))) {
		char *private = NULL;
		CURLcode code = m->data.result;
		if (m->msg != CURLMSG_DONE)
			continue;
		(void)h->curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
		tell_done((struct http_request *)(void *)private, code);
	}
	for (struct http_request *r = h->requests; r;) {
		bool acted = true;
		if (r->cancelled && r->state != REQUEST_OVER)
			request_end(r);
		else if (r->state == REQUEST_NEW)
			request_add(r);
		else
			acted = false;
		r = acted ? h->requests : r->next;
	}
	if (h->closing && h->multi)
		client_shut(h);
}

static void act(struct http *h, curl_socket_t fd, int flags)
{
	int running;

	h->inside = true;
	(void)h->curl->multi_socket_action(h->multi, fd, flags, &running);
	h->inside = false;
	settle(h);
}

static void on_expired(uv_timer_t *timer)
{
	struct http_request *r = timer->data;
	bool idle = timer == &r->idle;

	(void)err_set(&r->failure, ERR_NETWORK, ETIMEDOUT, "%s: %s for %llu ms", r->target,
		      idle ? "nothing came" : "its answer was not complete",
		      (unsigned long long)(idle ? r->idle_ms : r->total_ms));
	err_hint(&r->failure, "the server or the network is slow; try again later");
	tell_done(r, CURLE_OPERATION_TIMEDOUT);
}

/* --- libcurl's sockets and timer --- */

static void on_poll_closed(uv_handle_t *handle)
{
	struct http_socket *s = handle->data;
	struct http *h = s->h;

	for (struct http_socket **p = &h->sockets; *p; p = &(*p)->next) {
		if (*p == s) {
			*p = s->next;
			break;
		}
	}
	free(s);
	h->handles--;
	check_closed(h);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	const struct http_socket *s = poll->data;
	int flags = status < 0 ? CURL_CSELECT_ERR : 0;

	flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
	flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
	act(s->h, s->fd, flags);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct http *h = arg;
	struct http_socket *s = socket_arg;
	int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (s) {
			(void)h->curl->multi_assign(h->multi, fd, NULL);
			/* libcurl closes the descriptor when we return: epoll must not have it any more. */
			uv_poll_stop(&s->poll);
			uv_close((uv_handle_t *)&s->poll, on_poll_closed);
		}
		return 0;
	}
	if (!s) {
		s = xcalloc(1, sizeof *s);
		*s = (struct http_socket){.h = h, .fd = fd, .next = h->sockets};
		if (uv_poll_init_socket(h->loop, &s->poll, fd) < 0) {
			free(s);
			return -1;
		}
		s->poll.data = s;
		h->sockets = s;
		h->handles++;
		(void)h->curl->multi_assign(h->multi, fd, s);
	}
	(void)uv_poll_start(&s->poll, events, on_ready);
	return 0;
}

static void on_timeout(uv_timer_t *timer)
{
	act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
	struct http *h = arg;

	(void)multi;
	if (ms < 0)
		uv_timer_stop(&h->timer);
	else
		(void)uv_timer_start(&h->timer, on_timeout, (uint64_t)ms, 0);
	return 0;
}

/* --- beginning and end --- */

static int client_open(struct http *h, struct err *e)
{
	if (h->multi)
		return 0;
	int r = curl_load(&h->curl, e);
	if (r < 0)
		return r;
	h->multi = h->curl->multi_init();
	if (!h->multi)
		return err_sys(e, ENOMEM, "prepare HTTP requests");
	(void)uv_timer_init(h->loop, &h->timer);
	h->timer.data = h;
	h->handles++;
	(void)h->curl->multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)h->curl->multi_setopt(h->multi, CURLMOPT_SOCKETDATA, (void *)h);
	(void)h->curl->multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	(void)h->curl->multi_setopt(h->multi, CURLMOPT_TIMERDATA, (void *)h);
	return 0;
}

static void request_watch(struct http_request *r)
{
	(void)uv_timer_init(r->h->loop, &r->idle);
	(void)uv_timer_init(r->h->loop, &r->total);
	r->idle.data = r->total.data = r;
	r->open = 2;
	(void)uv_timer_start(&r->idle, on_expired, r->idle_ms, r->idle_ms);
	if (r->total_ms)
		(void)uv_timer_start(&r->total, on_expired, r->total_ms, 0);
}

int http_start(struct http *h, const struct http_opts *o, const struct http_callbacks *cb, struct http_request **ret,
	       struct err *e)
{
	if (h->closing)
		return err_set(e, ERR_CANCELLED, ESHUTDOWN, "start a request: the run is ending");
	int bad = client_open(h, e);
	if (bad < 0)
		return bad;
	struct http_request *r = xcalloc(1, sizeof *r);
	r->h = h;
	r->cb = *cb;
	bad = request_prepare(r, o, e);
	if (bad < 0) {
		request_free(r);
		return bad;
	}
	request_watch(r);
	r->next = h->requests;
	h->requests = r;
	*ret = r;
	/* libcurl begins by its timer, so nobody is called from here. */
	if (!h->inside && h->curl->multi_add_handle(h->multi, r->easy) == CURLM_OK)
		r->state = REQUEST_ADDED;
	else
		(void)uv_timer_start(&h->timer, on_timeout, 0, 0);
	return 0;
}

void http_cancel(struct http_request *r)
{
	r->cancelled = true;
	if (!r->h->inside)
		request_end(r);
}

static void on_client_timer_closed(uv_handle_t *handle)
{
	struct http *h = handle->data;

	h->handles--;
	check_closed(h);
}

/* libcurl goes first, and says nothing any more: what it still waited for (a connection's orderly end) is not waited
 * for, and the loop's handles are closed here. */
static void client_shut(struct http *h)
{
	CURLM *multi = h->multi;

	for (struct http_request *r = h->requests; r; r = r->next) {
		r->cancelled = true;
		if (r->state == REQUEST_ADDED) {
			(void)h->curl->multi_remove_handle(multi, r->easy);
			r->state = REQUEST_NEW;
		}
		request_end(r);
	}
	if (multi) {
		(void)h->curl->multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, NULL);
		(void)h->curl->multi_setopt(multi, CURLMOPT_TIMERFUNCTION, NULL);
		for (struct http_socket *s = h->sockets; s; s = s->next) {
			if (uv_is_closing((uv_handle_t *)&s->poll))
				continue;
			uv_poll_stop(&s->poll);
			uv_close((uv_handle_t *)&s->poll, on_poll_closed);
		}
		(void)h->curl->multi_cleanup(multi);
		h->multi = NULL;
	} else {
		/* Never used: closed is called from the loop all the same. */
		(void)uv_timer_init(h->loop, &h->timer);
		h->timer.data = h;
		h->handles++;
	}
	uv_close((uv_handle_t *)&h->timer, on_client_timer_closed);
}

void http_close(struct http *h, void (*closed)(void *arg), void *arg)
{
	h->closing = true;
	h->closed = closed;
	h->closed_arg = arg;
	if (!h->inside)
		client_shut(h);
}
