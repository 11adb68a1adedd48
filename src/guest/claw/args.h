/* A tool's input, checked: what is missing or of a wrong type becomes the tool's error. */
#pragma once

#include "tool.h"

/* Each returns false after failing the result. A string must hold no NUL; the caller frees. Optional ones leave *ret
 * as it was when the argument is absent or null. */
bool arg_str(struct jv input, const char *name, char **ret, struct tool_result *r);
bool arg_opt_str(struct jv input, const char *name, char **ret, struct tool_result *r);
bool arg_opt_int(struct jv input, const char *name, long long min, long long max, long long *ret,
		 struct tool_result *r);
bool arg_opt_bool(struct jv input, const char *name, bool *ret, struct tool_result *r);
bool arg_list(struct jv input, const char *name, struct jv *ret, struct tool_result *r);

/* A path, made absolute from the node's folder (not from where a `cd` led: tool_policy judges paths before a call);
 * the caller frees. */
bool arg_path(const struct tools *t, struct jv input, const char *name, char **ret, struct tool_result *r);
bool arg_opt_path(const struct tools *t, struct jv input, const char *name, char **ret, struct tool_result *r);
