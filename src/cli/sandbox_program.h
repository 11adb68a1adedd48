/* One program in a sandbox of its own, for the commands that need no workflow run. */
#pragma once

#include <stdbool.h>

struct err;
struct event_file;
struct exec;
struct sandbox_spec;
struct terminal;

struct program_request {
	const struct sandbox_spec *spec;
	const char *driver;	    /* NULL: chosen */
	const char *workspace;	    /* absolute, resolved */
	const char *store_dir;	    /* hidden inside */
	const char *const *resolve; /* answers of the proxy before DNS; NULL: none */
	const char *const *argv;    /* NULL-terminated */
	struct event_file *events;  /* closed: nowhere */
	bool on_terminal;	    /* it gets a terminal of its own, shown on ours */
};

/* Starts the sandbox, runs the program with this process's standard streams, stops the sandbox. Returns the program's
 * exit code (128 + n when signal n ended it, 127 when it was not found, 126 when it could not be executed), 130 or 143
 * when this process was told to stop before it ran, or -errno. */
int program_run(const struct program_request *q, struct err *e) __attribute__((warn_unused_result));
