/* Which files the model has read, and how they were then. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct seen;
struct seen *seen_new(void);
void seen_free(struct seen *s);

enum seen_state { SEEN_NEVER, SEEN_CHANGED, SEEN_SAME };

/* Files are known by device and inode, whatever path leads there. */
void seen_note(struct seen *s, const struct stat *st);
/* The file is gone: its inode will be another's. */
void seen_forget(struct seen *s, const struct stat *st);
enum seen_state seen_check(const struct seen *s, const struct stat *st);
