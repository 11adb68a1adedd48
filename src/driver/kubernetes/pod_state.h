/* What `kubectl get --watch` tells of a sandbox's pod. */
#pragma once

#include <base/buf.h>
#include <base/err.h>
#include <jansson.h>
#include <stdbool.h>

enum pod_phase {
	POD_WAITING,
	POD_RUNNING,
	POD_FAILED, /* it cannot start, or it ended */
	POD_GONE,   /* there is none of the name any more */
};

struct pod_news {
	enum pod_phase phase;
	struct err why;	 /* of the last two: what happened, in the cluster's own words, and what to do */
	char digest[96]; /* "sha256:…" of the image, or empty */
	char waits[256]; /* what a pod that waits does so for, or empty */
};

/* One object of the stream: {"type": …, "object": POD}. 0, or -EPROTO when it is none of a pod. */
int pod_read(const json_t *event, struct pod_news *ret) __attribute__((warn_unused_result));

/* The same for {"type": …, "object": EVENT} of a pod: what only events tell (a volume that cannot be mounted). Fills
 * why and returns true when no waiting mends it. */
bool pod_read_event(const json_t *event, struct err *why);

/* Cuts a stream of JSON objects, as text that arrives in any pieces, into them. What is in between is skipped. */
struct pod_stream {
	struct buf text;
	size_t depth, seen;
	bool in_string, escaped;
};
enum { POD_STREAM_MAX = 4 * 1024 * 1024 };
#define POD_STREAM_INIT                                                                                                \
	(struct pod_stream)                                                                                            \
	{                                                                                                              \
		.text = BUF_INIT(POD_STREAM_MAX)                                                                       \
	}
/* Calls on_object for each that is complete; it may not free the stream. 0, -EPROTO for what is no JSON, -ENOBUFS for
 * an object over POD_STREAM_MAX. */
int pod_stream_feed(struct pod_stream *s, const char *data, size_t len, void (*on_object)(void *arg, const json_t *o),
		    void *arg) __attribute__((warn_unused_result));
void pod_stream_done(struct pod_stream *s);
