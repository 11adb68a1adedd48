/* The fields of one header block of HTTP/2, as copies that may be changed. */
#pragma once

#include "secret_swap.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

enum { H2_MAX_FIELDS = 256 };

struct h2_fields {
	nghttp2_nv *v;
	size_t n;
	size_t cap;
	size_t bytes; /* of names and values */
};

/* Copies one; -E2BIG past H2_MAX_FIELDS or HTTP_HEAD_MAX bytes. */
int h2_fields_add(struct h2_fields *f, const void *name, size_t name_len, const void *value, size_t value_len);
/* Wipes and frees. */
void h2_fields_clear(struct h2_fields *f);
/* By name, p NULL when there is none. */
struct http_text h2_fields_get(const struct h2_fields *f, const char *name);

/* Drops what is between a client and its proxy: neither does a host get the run's token, nor may it ask for one. */
void h2_fields_drop_proxy(struct h2_fields *f);

/* Placeholders to values in a request's fields; an answer that can be looked through is asked for. 0 or -EMSGSIZE. */
int h2_fields_swap_request(struct h2_fields *f, const struct swaps *s);
/* Values to placeholders. */
void h2_fields_swap_response(struct h2_fields *f, const struct swaps *s);
