/* A client and its requests, shared by the life of both (client.c) and what one request asks and hears (request.c). */
#pragma once

#include "curl.h"
#include <http/http.h>

#include <base/err.h>
#include <base/str.h>

struct http_socket;

struct http {
	uv_loop_t *loop;
	const struct curl_calls *curl; /* NULL until the first request */
	CURLM *multi;
	char *ca_file;	  /* NULL: the system's */
	uv_timer_t timer; /* libcurl's own */
	bool inside;	  /* libcurl is calling us: it must not be called back */
	bool closing;
	struct http_request *requests; /* all that live */
	struct http_socket *sockets;
	unsigned handles; /* of the loop, not closed yet */
	void (*closed)(void *arg);
	void *closed_arg;
};

enum request_state {
	REQUEST_NEW,   /* libcurl does not have it */
	REQUEST_ADDED, /* libcurl has it */
	REQUEST_OVER,  /* it ended, or was cancelled: only its memory is left */
};

struct http_request {
	struct http *h;
	struct http_request *next;
	enum request_state state;
	bool cancelled;
	struct http_callbacks cb;
	CURL *easy;
	struct curl_slist *headers, *resolve;
	char *body;
	char *target; /* scheme, host and port, for messages */
	uint64_t idle_ms, total_ms;
	int (*check_address)(void *arg, const struct sockaddr *sa, socklen_t len, struct err *e);
	uv_timer_t idle, total;
	unsigned open; /* of the timers */
	int status;
	bool head_told;
	struct strv fields;
	size_t head_len;
	struct err failure; /* ours, which explains libcurl's */
	char reason[CURL_ERROR_SIZE];
};

/* Fills the easy handle. 0, or -errno with what is wrong with o. */
int request_prepare(struct http_request *r, const struct http_opts *o, struct err *e)
	__attribute__((warn_unused_result));
/* What libcurl's end means, as an error of the request; 0 when it ended well. */
int request_outcome(const struct http_request *r, CURLcode code, struct err *e);
/* Frees what it holds, and the request. */
void request_free(struct http_request *r);
