/* The containers of ours that an engine has, and the removal of those whose owner is gone. */
#pragma once

#include "labels.h"

#include <uv.h>

struct container_engine;
struct err;

/* Asks the engine for all of ours; list is borrowed and empty with an error. Called once, never from within. */
typedef void (*leftovers_list_cb)(void *arg, const struct contained_list *list, const struct err *e);
int leftovers_list(uv_loop_t *loop, const struct container_engine *en, const char *program, leftovers_list_cb done,
		   void *arg, struct err *e) __attribute__((warn_unused_result));

/* Removes those whose owner was of this host and is gone; n: how many. Every step is bounded by the engine's time-out,
 * so done comes in any case; e is NULL, or why not all could be removed. */
typedef void (*leftovers_sweep_cb)(void *arg, size_t n, const struct err *e);
int leftovers_sweep(uv_loop_t *loop, const struct container_engine *en, const char *program, leftovers_sweep_cb done,
		    void *arg, struct err *e) __attribute__((warn_unused_result));

/* Both to their end on a loop of their own, for engines that answer; one that does not has nothing that could be asked
 * for: 0 and nothing. rows gets one object a container: driver, id, name, image, state, created, run_id, run_name,
 * owner (alive, gone, elsewhere). */
int leftovers_list_now(const struct container_engine *en, json_t *rows, struct err *e)
	__attribute__((warn_unused_result));
int leftovers_sweep_now(const struct container_engine *en, size_t *ret_n, struct err *e)
	__attribute__((warn_unused_result));
