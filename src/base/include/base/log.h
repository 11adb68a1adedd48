/* Log lines for the operator: where they go is the program's choice, not the caller's. */
#pragma once

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Receives one line without its newline; may be called from any layer. */
typedef void (*log_sink)(void *arg, enum log_level level, const char *line);

/* Sets where lines go (NULL: nowhere, the state at start) and the least important level that is passed on. */
void log_set(log_sink sink, void *arg, enum log_level max);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
