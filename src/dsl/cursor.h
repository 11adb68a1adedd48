/* Reading the bands of cursors. */
#pragma once

#include <stdbool.h>

/* Whether s is a band, such as "0.0..0.3", and which. */
bool cursor_band(const char *s, double *ret_from, double *ret_to);
