/* The built-in tools: what one is, what it works on, what it gives back. */
#pragma once

#include "jout.h"

#include <base/str.h>
#include <sys/types.h>

struct procs;
struct react;
struct seen;
struct shells;

enum {
	RESULT_MAX = 100 * 1000, /* most bytes of one tool's text */
	IMAGE_MAX = 768 * 1024,	 /* largest image file that is attached: its base64 has to fit into a line */
};

struct tool_result {
	struct buf text;
	bool error;
	const char *media_type; /* of the image in base64, NULL when there is none */
	struct buf image;
	struct buf blocks; /* images of the launcher's tools: blocks as JSON, separated by commas */
};
#define TOOL_RESULT_INIT                                                                                               \
	(struct tool_result)                                                                                           \
	{                                                                                                              \
		.text = BUF_INIT(4 * RESULT_MAX), .image = BUF_INIT(2 * IMAGE_MAX), .blocks = BUF_INIT(2 * IMAGE_MAX)  \
	}
void tool_result_done(struct tool_result *r);
/* Makes it an error with this text alone; returns false, for a caller to return. */
bool tool_fail(struct tool_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What the tools of one runner share. */
struct tools {
	struct react *react;
	struct procs *procs;
	struct seen *seen;
	struct shells *shells;
	char *work_dir;
	char *cwd;     /* Bash's, which a `cd` moves */
	char *scratch; /* our folder for files of ours, NULL until it is needed */
	char *todos;   /* the list as JSON text, NULL before the first */
};

/* Takes nothing; work_dir is copied (NULL: the current folder). */
void tools_init(struct tools *t, struct react *r, struct procs *p, const char *work_dir);
/* keep_files: leave the spill files for a conversation that goes on later. */
void tools_done(struct tools *t, bool keep_files);
/* The folder for our own files, made at first use with mode 0700; NULL when it cannot be made. */
const char *tools_scratch(struct tools *t);

/* One call of a tool that takes its time. */
struct tool_call {
	struct tool_result result;
	void (*done)(struct tool_call *call); /* once, never from within start */
	void *arg;
};

enum tool_flag {
	TOOL_READS = 1,	 /* changes nothing: several may run at a time, and a read-only node has it */
	TOOL_WORKER = 2, /* runs in a process of its own, whose memory and time are bounded */
};

struct tool {
	const char *name;
	const char *description;
	const char *schema; /* JSON text */
	unsigned flags;
	/* One of the two. run fills ret; start arranges for call->done, or fails the result and returns false. */
	void (*run)(struct tools *t, struct jv input, struct tool_result *ret);
	bool (*start)(struct tools *t, struct jv input, struct tool_call *call);
};

/* Runs it by one of its ways: true when call->done will come, false when the result is there already. */
bool tool_start(const struct tool *tool, struct tools *t, struct jv input, struct tool_call *call);

extern const struct tool tool_bash, tool_bash_output, tool_kill_shell, tool_read, tool_write, tool_edit,
	tool_multi_edit, tool_glob, tool_grep, tool_ls, tool_todo_write;

/* All of them, NULL at the end. */
extern const struct tool *const builtin_tools[];
const struct tool *builtin_find(const char *name);
