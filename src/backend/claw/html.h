/* A page of the web as text. */
#pragma once

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether a text looks like HTML: its type says so, or its first tag does. */
bool html_is(const char *type, const char *text, size_t len);

/* Appends what a reader sees of HTML: words, line breaks between blocks, "#" before headings, "-" before items, and the
 * targets of links in parentheses. Any bytes are accepted. Returns 0, or -ENOBUFS when the buffer is full (what fits is
 * there). */
int html_to_text(struct buf *to, const char *html, size_t len);
