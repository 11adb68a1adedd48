/* Log lines: formatted here, written by the sink that the program sets. One line is at most 2 KiB; the rest is cut. */
#include <base/log.h>

#include <stdarg.h>
#include <stdio.h>

static struct {
	log_sink sink;
	void *arg;
	enum log_level max;
} target;

void log_set(log_sink sink, void *arg, enum log_level max)
{
	target.sink = sink;
	target.arg = arg;
	target.max = max;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[2048];

	if (!target.sink || level > target.max)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	target.sink(target.arg, level, line);
}
