/* The guest's jobs and the parts of its init. */
#pragma once

#include <guest/protocol.h>

/* Each takes its own name as argv[0] and returns the process's exit code. */
int guest_init(int argc, char **argv);
int guest_connect(int argc, char **argv);
int guest_identify(int argc, char **argv);
int guest_claw_runner(int argc, char **argv);
int guest_agent(int argc, char **argv);
int guest_relay(int argc, char **argv);
int guest_environ(int argc, char **argv);
int guest_install(int argc, char **argv);
int guest_pack(int argc, char **argv);
int guest_unpack(int argc, char **argv);

/* Proves what `checks` asks for by trying what must be impossible; 0, or -EPERM with which wall is missing. */
int guest_verify(uint32_t checks, struct err *e) __attribute__((warn_unused_result));

/* Opens the listening sockets on 127.0.0.1 and (when the kernel has IPv6) [::1]. Returns how many (1 or 2) or -errno.
 */
int guest_listen(uint16_t port, int ret_fds[2], struct err *e) __attribute__((warn_unused_result));

/* The Landlock ruleset by which the programs of each exec are kept from those of others; 0: the kernel has none. */
int guest_apart(void);

/* The programs that were asked for and still run. */
struct exec_table;
/* ways: enum guest_way. */
struct exec_table *exec_table_new(struct frame_conn *conn, uint32_t ways);
void exec_table_free(struct exec_table *t);
/* Handles GUEST_EXEC and GUEST_SIGNAL: 0, or -errno when the channel itself is broken. */
int exec_table_start(struct exec_table *t, const struct frame *f) __attribute__((warn_unused_result));
int exec_table_signal(struct exec_table *t, const struct frame *f) __attribute__((warn_unused_result));
/* Reaps every child that ended, ours or adopted, and reports those that were asked for. */
int exec_table_reap(struct exec_table *t) __attribute__((warn_unused_result));
