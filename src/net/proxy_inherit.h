/* Giving away what the proxy process inherited by fork. */
#pragma once

struct err;

enum { PROXY_CONTROL_FD = 3 };

/* Binds its life to the parent's, leaves its session and signal handlers, closes every descriptor but ctl (which
 * becomes PROXY_CONTROL_FD) and unmaps memory that is shared. Returns 0 or -errno: then the process must end. */
int proxy_leave_parent(int ctl, int parent_pid, struct err *e) __attribute__((warn_unused_result));

/* Overwrites the environment: its secrets are the run's, not the proxy's. After everything that reads it. */
void proxy_wipe_environment(void);
