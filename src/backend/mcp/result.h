/* What a tool answered, checked and in words. Pure. */
#pragma once

#include "mcp.h"

/* Fills *ret from the result of tools/call; free with mcp_result_done. -EPROTO when it has not the form of one. */
int mcp_result_read(const char *server, const json_t *result, struct mcp_result *ret, struct err *e)
	__attribute__((warn_unused_result));
/* A tool's failure in the given words. */
void mcp_result_failure(const char *text, struct mcp_result *ret);
void mcp_result_done(struct mcp_result *r);
