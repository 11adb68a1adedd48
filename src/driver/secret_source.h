/* Where the value of a secret comes from: env:NAME, file:PATH or cmd:COMMAND of the host. */
#pragma once

struct buf;
struct err;
struct sandbox_secret;

/* Whether the source is there, without running a command: 0, or -errno with which one is missing. */
int secret_source_check(const struct sandbox_secret *s, struct err *e) __attribute__((warn_unused_result));

/* Its value, one newline at the end taken off, appended to an empty buffer that the caller wipes. A command may take
 * SECRET_COMMAND_MS; this waits for it. 0 or -errno. */
enum { SECRET_COMMAND_MS = 30 * 1000 };
int secret_source_read(const struct sandbox_secret *s, struct buf *ret, struct err *e)
	__attribute__((warn_unused_result));
