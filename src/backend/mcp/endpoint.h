/* The address that messages are posted to, as a server of the older HTTP transport names it. Pure. */
#pragma once

/* said, a URL or a reference to be read from the place of url, as a new string; NULL when it leads to another scheme,
 * host or port, or is no plain text. The caller frees. */
char *endpoint_resolve(const char *url, const char *said);
