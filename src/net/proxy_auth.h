/* Whether a client knows the run's token. Pure. */
#pragma once

#include "http_head.h"

#include <stdbool.h>
#include <stddef.h>

/* value: that of a Proxy-Authorization header; Bearer, or Basic with the token as password. */
bool auth_check(struct http_text value, const char *token, size_t token_len);

/* A SOCKS password. Takes time that does not depend on how much of it is right. */
bool auth_check_password(const char *password, size_t len, const char *token, size_t token_len);
