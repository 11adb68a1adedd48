/* The client's messages of SOCKS5 (RFC 1928, RFC 1929). Pure. */
#pragma once

#include <net/policy.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SOCKS_NONE = 0, SOCKS_PASSWORD = 2, SOCKS_NO_METHOD = 0xff };

/* Each returns the bytes of a whole message, 0 when more is needed, -EBADMSG. */

/* The greeting: *ret is a mask of 1 << method for the methods 0 to 31. */
ssize_t socks5_greeting(const void *data, size_t len, uint32_t *ret);

/* Name and password; *ret_password points into data. */
ssize_t socks5_password(const void *data, size_t len, const char **ret_password, size_t *ret_len);

/* The request. *ret_code is 0 for a CONNECT to *ret_host and *ret_port, else the code to refuse it with. */
ssize_t socks5_request(const void *data, size_t len, unsigned *ret_code, struct host *ret_host, uint16_t *ret_port);
