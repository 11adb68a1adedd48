/* The rows of the table of commands: each stands in the file of its command. */
#pragma once

#include "command.h"

extern const struct command command_completion;
extern const struct command command_diagram;
extern const struct command command_init;
extern const struct command command_inspect;
extern const struct command command_logs;
extern const struct command command_network_check;
extern const struct command command_proxy;
extern const struct command command_report;
extern const struct command command_resume;
extern const struct command command_run;
extern const struct command command_sandbox_exec;
extern const struct command command_sandbox_gc;
extern const struct command command_sandbox_images;
extern const struct command command_sandbox_images_pull;
extern const struct command command_sandbox_images_prune;
extern const struct command command_sandbox_ls;
extern const struct command command_sandbox_doctor;
extern const struct command command_sandbox_plan;
extern const struct command command_sandbox_shell;
extern const struct command command_validate;
extern const struct command command_version;
