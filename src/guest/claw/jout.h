/* Writing JSON into a buffer. */
#pragma once

#include "jdoc.h"

#include <base/buf.h>

/* Commas come by themselves. Past the buffer's limit nothing more is written and jout_end says so. */
struct jout {
	struct buf *b;
	bool full;
};

void jout_open(struct jout *o, char bracket); /* '{' or '[' */
void jout_close(struct jout *o, char bracket);
void jout_key(struct jout *o, const char *key);
/* Any bytes; what is no valid UTF-8 becomes U+FFFD. */
void jout_text(struct jout *o, const char *s, size_t len);
void jout_str(struct jout *o, const char *s);
void jout_int(struct jout *o, long long v);
void jout_bool(struct jout *o, bool v);
/* A whole value that is JSON already. */
void jout_raw(struct jout *o, const char *json, size_t len);
void jout_value(struct jout *o, struct jv v);

/* A key with its value; NULL and missing values write neither. */
void jout_put_str(struct jout *o, const char *key, const char *value);
void jout_put_int(struct jout *o, const char *key, long long value);
void jout_put_bool(struct jout *o, const char *key, bool value);
void jout_put_value(struct jout *o, const char *key, struct jv v);

/* 0, or -ENOBUFS when something did not fit. */
int jout_end(const struct jout *o) __attribute__((warn_unused_result));
