/* A program's output, kept within bounds: the beginning, the end, and all of it in a file. */
#pragma once

#include <base/buf.h>
#include <stdint.h>

struct tools;

enum {
	CAPTURE_SHOWN = 30000,		      /* most bytes that are shown */
	CAPTURE_SPILL_MAX = 64 * 1024 * 1024, /* most bytes that the file takes */
};

struct capture {
	struct buf head; /* all of it while it fits */
	struct buf tail; /* the last CAPTURE_SHOWN / 2 bytes, once it does not */
	uint64_t total;
	uint64_t spilled;
	int spill_fd;
	char *spill_path;
};

void capture_init(struct capture *c);
void capture_done(struct capture *c);
/* Adds bytes; the first that do not fit make the spill file in the tools' own folder. */
void capture_add(struct capture *c, struct tools *t, const char *data, size_t len);
/* Reads what the non-blocking descriptor has, at most `most` bytes. 1: more may come, 0: it has ended. */
int capture_read(struct capture *c, struct tools *t, int fd, size_t most);
/* What is shown, with a note where something is left out. */
void capture_write(const struct capture *c, struct buf *to);
