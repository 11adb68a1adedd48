/* kubectl: where it is, whom it speaks to, and how it is run. */
#pragma once

#include "../container/cli.h"

#include <base/str.h>

/* Its path, found in PATH; the caller frees. -ENOENT when it is not there. */
int kubectl_find(char **ret, struct err *e) __attribute__((warn_unused_result));

/* Whether this process runs in a pod with a service account's token. */
bool kubectl_in_cluster(void);
/* Whether there is a cluster that it could speak to, by a glance. */
bool kubectl_has_cluster(void);

/* Adds the program and whom it speaks to; the words of the command follow. */
void kubectl_begin(const char *program, struct strv *argv);

/* Runs it with these words (NULL-terminated) behind kubectl_begin's; more: all but argv and the limit of stdout. */
int kubectl_start(uv_loop_t *loop, const char *program, const char *const *words, const struct cli_opts *more,
		  cli_done_cb done, void *arg, struct cli **ret, struct err *e) __attribute__((warn_unused_result));

/* Whether it may make pods there, within the doctor's time. 0, or -errno with why not and what to do. */
int kubectl_probe(struct err *e) __attribute__((warn_unused_result));
