/* The rows of the table of commands: each stands in the file of its command. */
#pragma once

#include "command.h"

extern const struct command command_version;
