/* The sandboxes of ours that a cluster's namespace has. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <uv.h>

struct err;

/* Removes those whose owner was a process of this machine and is gone. done is called once, later: how many, and why it
 * could not be done. Returns 0, or -errno and done is never called. */
typedef void (*kube_sweep_cb)(void *arg, size_t n, const struct err *e);
int kube_leftovers_sweep(uv_loop_t *loop, const char *program, kube_sweep_cb done, void *arg, struct err *e)
	__attribute__((warn_unused_result));

/* The same to its end, for commands; 0 and nothing done without a cluster that answers. */
int kube_leftovers_sweep_now(size_t *ret_n, struct err *e) __attribute__((warn_unused_result));
/* Appends one object for each, anybody's. */
int kube_leftovers_list_now(json_t *rows, struct err *e) __attribute__((warn_unused_result));

/* The words that remove a sandbox's objects, the pod first: while it ends the policy still holds. Appends to argv. */
struct strv;
void kube_remove_words(struct strv *argv, const char *name);
