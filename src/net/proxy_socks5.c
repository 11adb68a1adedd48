/* Reading SOCKS5. All lengths are single bytes, so no message is longer than 515 bytes; what is needed for the next
 * step is checked before it is touched. */
#include "proxy_socks5.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum {
	VERSION = 5,
	PASSWORD_VERSION = 1,
	COMMAND_CONNECT = 1,
	ADDRESS_V4 = 1,
	ADDRESS_NAME = 3,
	ADDRESS_V6 = 4,
	CODE_NO_COMMAND = 7,
	CODE_NO_ADDRESS_TYPE = 8,
	CODE_FAILURE = 1,
};

ssize_t socks5_greeting(const void *data, size_t len, uint32_t *ret)
{
	const unsigned char *p = data;

	if (len > 0 && p[0] != VERSION)
		return -EBADMSG;
	if (len < 2 || len < 2 + (size_t)p[1])
		return 0;
	*ret = 0;
	for (size_t i = 0; i < p[1]; i++)
		if (p[2 + i] < 32)
			*ret |= 1u << p[2 + i];
	return 2 + p[1];
}

ssize_t socks5_password(const void *data, size_t len, const char **ret_password, size_t *ret_len)
{
	const unsigned char *p = data;

	if (len > 0 && p[0] != PASSWORD_VERSION)
		return -EBADMSG;
	if (len < 2 || len < 3 + (size_t)p[1])
		return 0;
	const unsigned char *password = p + 2 + p[1];
	size_t total = 3 + (size_t)p[1] + password[0];
	if (len < total)
		return 0;
	*ret_password = (const char *)password + 1;
	*ret_len = password[0];
	return (ssize_t)total;
}

static int host_of(unsigned type, const unsigned char *p, size_t len, struct host *ret)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	if (type == ADDRESS_V4) {
		memcpy(&v4.sin_addr, p, sizeof v4.sin_addr);
		return host_from_sockaddr((struct sockaddr *)&v4, sizeof v4, ret, NULL);
	}
	if (type == ADDRESS_V6) {
		memcpy(&v6.sin6_addr, p, sizeof v6.sin6_addr);
		return host_from_sockaddr((struct sockaddr *)&v6, sizeof v6, ret, NULL);
	}
	return host_parse((const char *)p, len, ret);
}

ssize_t socks5_request(const void *data, size_t len, unsigned *ret_code, struct host *ret_host, uint16_t *ret_port)
{
	const unsigned char *p = data;
	size_t at = 4, n;

	if (len > 0 && p[0] != VERSION)
		return -EBADMSG;
	if (len < 5)
		return 0;
	*ret_code = p[1] == COMMAND_CONNECT ? 0 : CODE_NO_COMMAND;
	switch (p[3]) {
	case ADDRESS_V4:
		n = 4;
		break;
	case ADDRESS_V6:
		n = 16;
		break;
	case ADDRESS_NAME:
		n = p[4];
		at = 5;
		break;
	default:
		*ret_code = CODE_NO_ADDRESS_TYPE;
		return (ssize_t)len;
	}
	if (len < at + n + 2)
		return 0;
	*ret_port = (uint16_t)(p[at + n] << 8 | p[at + n + 1]);
	if (*ret_code == 0 && (host_of(p[3], p + at, n, ret_host) < 0 || *ret_port == 0))
		*ret_code = CODE_FAILURE;
	return (ssize_t)(at + n + 2);
}
