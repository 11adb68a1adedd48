/* Where the programs beside this one are on this host. */
#pragma once

struct err;

/* Absolute path of the guest: what ITERION_BIN names, else beside this program, in the installation's libexec folder,
 * or in the build tree. The caller frees. Returns 0, or -ENOENT naming where it was looked for. */
int guest_path_find(char **ret, struct err *e) __attribute__((warn_unused_result));

/* The same of iterion-proxy, the proxy that inspects TLS; no variable names it. */
int proxy_path_find(char **ret, struct err *e) __attribute__((warn_unused_result));
