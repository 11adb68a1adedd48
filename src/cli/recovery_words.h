/* A node that began again, in words. */
#pragma once

#include <jansson.h>

/* Why, what it went on from, and what became of it; of a record of the run's folder. The caller frees. */
char *recovery_words(const json_t *record) __attribute__((returns_nonnull));
