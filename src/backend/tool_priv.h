/* One run of a tool node, shared by its life (tool.c) and what comes of it (tool_result.c). */
#pragma once

#include "capture.h"

#include <backend/backend.h>
#include <driver/exec.h>
#include <stdbool.h>
#include <uv.h>

struct node_exec {
	struct node_task task;
	struct node_callbacks cb;
	struct exec *exec; /* NULL once it ended */
	struct exec_status status;
	const char *program; /* argv[0] */
	struct capture out, err;
	char *out_name, *err_name;
	uv_timer_t kill_timer;
	unsigned open; /* handles that are not closed yet */
	bool cancelled;
};

/* What the node comes to: 0 with a new object in *ret_output, or -errno with why it failed. *ret_details, a new object
 * either way, is for the node's event. */
int tool_result(const struct node_exec *x, json_t **ret_output, json_t **ret_details, struct err *e);
