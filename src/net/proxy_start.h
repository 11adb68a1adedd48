/* Starting the proxy's process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct proxy_params;

/* control is its end of the control socket, and stays the caller's. Returns 0 or -errno. */
int proxy_start_process(const struct proxy_params *params, int control, pid_t *ret, struct err *e)
	__attribute__((warn_unused_result));

/* Whether it is the text of one certificate and nothing else: it goes into files that programs inside trust. */
bool proxy_is_certificate(const char *s, size_t len);
