/* libcurl, loaded when it is first needed. */
#pragma once

#include <curl/curl.h>

struct err;

/* What is used of it, by the names without "curl_". */
#define CURL_CALLS(X)                                                                                                  \
	X(global_init)                                                                                                 \
	X(easy_init)                                                                                                   \
	X(easy_setopt)                                                                                                 \
	X(easy_getinfo)                                                                                                \
	X(easy_strerror)                                                                                               \
	X(easy_cleanup)                                                                                                \
	X(multi_init)                                                                                                  \
	X(multi_setopt)                                                                                                \
	X(multi_add_handle)                                                                                            \
	X(multi_remove_handle)                                                                                         \
	X(multi_socket_action)                                                                                         \
	X(multi_assign)                                                                                                \
	X(multi_info_read)                                                                                             \
	X(multi_cleanup)                                                                                               \
	X(slist_append)                                                                                                \
	X(slist_free_all)

struct curl_calls {
#define CURL_MEMBER(name) __typeof__(curl_##name) *name;
	CURL_CALLS(CURL_MEMBER)
#undef CURL_MEMBER
};

/* The library's functions, static, for as long as the process lives. Returns 0, or -errno with which package brings
 * it. */
int curl_load(const struct curl_calls **ret, struct err *e) __attribute__((warn_unused_result));
