/* What a program prints on one descriptor: the beginning in memory, all of it in a file when it is much. */
#pragma once

#include <base/buf.h>
#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct store_run;

enum {
	CAPTURE_MEMORY_MAX = 1024 * 1024, /* more than this goes to a file */
	CAPTURE_PREVIEW = 4 * 1024,	  /* then this much of the beginning stays in memory */
};

struct capture {
	uv_poll_t poll;
	bool open;  /* poll is initialised */
	int fd;	    /* our end of the pipe */
	int writer; /* the program's end, until capture_started */
	struct store_run *run;
	const char *file_name;
	uint64_t file_max; /* bytes that go there, and no more */
	struct buf head;
	uint64_t total;	    /* bytes that came */
	int file;	    /* -1: all of it is in head */
	char *ref;	    /* the file's path below the run's folder */
	bool no_splice;	    /* the file system cannot */
	struct err failure; /* the file could not be written; what comes is read and dropped */
	void (*closed)(void *arg);
	void *arg;
};

/* Makes the pipe; its other end, for the program, is c->writer. file_name names the file if there will be one; it and
 * run are borrowed. c may not move from here on. 0 or -errno. */
int capture_open(struct capture *c, uv_loop_t *loop, struct store_run *run, const char *file_name, struct err *e)
	__attribute__((warn_unused_result));

/* The program has its end now: begins to read. */
void capture_started(struct capture *c);

/* The program has ended: takes what stands in the pipe now (another process may hold the pipe open for ever), and
 * stops reading. closed is called once, later. */
void capture_finish(struct capture *c, void (*closed)(void *arg), void *arg);

/* Frees what it holds; after closed, or when capture_open failed. */
void capture_done(struct capture *c);

/* Appends the last bytes that came, at most max. */
void capture_tail(const struct capture *c, size_t max, struct buf *to);
