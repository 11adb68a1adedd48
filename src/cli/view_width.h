/* How many columns text takes on a terminal. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;

/* 0 for what joins the character before it, 2 for East Asian wide characters and emoji, else 1. */
unsigned char_columns(uint32_t c);

/* Of valid UTF-8 without control characters, as text_neutralise makes it. */
size_t text_columns(const char *s);

/* Appends as much of s as fits into so many columns; what is cut ends in "…". Returns the columns used. */
size_t text_fit(struct buf *to, const char *s, size_t columns);

/* The same for a name: what is cut keeps its end, too, in which names that begin alike differ. */
size_t name_fit(struct buf *to, const char *s, size_t columns);
