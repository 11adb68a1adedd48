/* What host and guest say to each other over the control channel (docs/internals/exec-protocol.md). */
#pragma once

#include <base/err.h>
#include <base/frame.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	GUEST_PROTOCOL_VERSION = 2,
	/* The control socket stands here when the guest starts as `init` without a path. */
	GUEST_CONTROL_FD = 3,
	/* Most arguments and environment entries of one exec; the kernel's own limit is bytes, not entries. */
	GUEST_MAX_STRINGS = 256 * 1024,
};

#define GUEST_DIR "/run/iterion/bin"
#define GUEST_PATH GUEST_DIR "/iterion"
/* The abstract socket at which PID 1 waits for `agent`, once, when it starts as `init @`. */
#define GUEST_AGENT_SOCKET "iterion-agent"
/* Where a container has the host's listening control socket: `init PATH` connects to it. */
#define GUEST_CONTROL_SOCKET "/run/iterion/control.sock"
/* Where the run's folder for files of its own stands inside. */
#define GUEST_ARTIFACT_FILES "/run/iterion/artifact-files"
/* Where the files that the run was given stand, read-only. */
#define GUEST_ATTACHMENTS "/run/iterion/attachments"
/* Where the certificates of TLS inspection stand: the proxy's authority alone, and behind the host's own store. */
#define GUEST_CA_DIR "/run/iterion/ca"
#define GUEST_CA_AUTHORITY GUEST_CA_DIR "/iterion.pem"
#define GUEST_CA_BUNDLE GUEST_CA_DIR "/bundle.pem"

enum guest_frame {
	/* host to guest */
	GUEST_CONFIG = 1, /* struct guest_config */
	GUEST_EXEC,	  /* struct guest_exec, three descriptors; stream: a new id */
	GUEST_SIGNAL,	  /* u32 signal; stream: the exec */
	GUEST_END,	  /* nothing: end at once, and with it everything inside */
	/* to `agent` only, where no descriptor can travel (stream: the exec) */
	GUEST_INPUT = 16, /* bytes for stdin, none: its end */
	GUEST_CREDIT,	  /* u32 descriptor, u32 bytes that were passed on; 0: nobody reads it any more */
	GUEST_RESIZE,	  /* u32 rows, u32 columns of the terminal */

	/* guest to host */
	GUEST_READY = 64, /* struct guest_ready; descriptors: the terminals' folder if any, then listening sockets */
	GUEST_FAILED,	  /* struct err: start is over */
	GUEST_EXEC_ENDED, /* struct guest_exec_end; stream: the exec */
	/* from `agent` only */
	GUEST_HELLO = 80, /* u32 GUEST_PROTOCOL_VERSION: the first word; the host has sent none before it */
	GUEST_STDOUT,	  /* bytes, none: its end */
	GUEST_STDERR,	  /* the same */
	GUEST_TAKEN,	  /* u32 bytes of stdin that were passed on; 0: nobody reads it any more */
};

/* Bytes of one descriptor of one exec that may be under way without having been passed on. */
enum { GUEST_WINDOW = 256 * 1024, GUEST_CHUNK = 32 * 1024 };

/* What the guest proves from inside before it says ready. */
enum guest_check {
	GUEST_CHECK_CONFINED = 1, /* no capability, no_new_privs, a seccomp filter that refuses namespaces and mounts */
	GUEST_CHECK_NO_NETWORK = 2,    /* no way out of this network namespace */
	GUEST_CHECK_ROOT_READONLY = 4, /* nothing can be made at the top of the file system */
	GUEST_CHECK_OWN_PIDS = 8,      /* it is PID 1 */
	GUEST_CHECK_CONTAINED = 16,    /* no_new_privs, and no capability that reaches the host */
};

/* How the guest serves. */
enum guest_way {
	GUEST_WAY_OWN_ENV = 1, /* an exec's environment lies over that of init: a container's is its image's */
};

struct guest_config {
	uint32_t checks;      /* enum guest_check, or'ed */
	uint32_t ways;	      /* enum guest_way, or'ed */
	uint32_t listen_port; /* where the proxy is reached on 127.0.0.1 and [::1]; 0: nowhere */
	uint32_t linger_ms;   /* how long to live once the control channel has closed; 0: not at all */
};

struct guest_ready {
	uint32_t version;	/* GUEST_PROTOCOL_VERSION */
	uint32_t has_terminals; /* 1: the first descriptor is the sandbox's /dev/pts */
};

struct guest_exec {
	uint32_t flags; /* enum guest_exec_flag, or'ed */
	char *cwd;
	char **argv;
	char **env;
};
enum guest_exec_flag {
	GUEST_EXEC_TTY = 1,
	GUEST_EXEC_OVERSEES = 2, /* it may look into the programs of other execs */
	/* For `agent`, by descriptor: it is the null device. */
	GUEST_EXEC_NULL_0 = 4,
	GUEST_EXEC_NULL_1 = 8,
	GUEST_EXEC_NULL_2 = 16,
};

enum guest_end { GUEST_EXITED, GUEST_SIGNALED, GUEST_NOT_STARTED };

struct guest_exec_end {
	uint32_t end;  /* enum guest_end */
	uint32_t code; /* exit code, signal or errno */
	uint32_t core;
};

/* Packing into a buffer: 0 or -ENOBUFS. Unpacking from a frame of the other side: 0 or -EPROTO; on success of
 * guest_exec_unpack the strings are the caller's (guest_exec_done). */
struct buf;
int guest_config_pack(struct buf *b, const struct guest_config *c);
int guest_config_unpack(const struct frame *f, struct guest_config *ret);
int guest_exec_pack(struct buf *b, uint32_t flags, const char *cwd, const char *const *argv, const char *const *env);
int guest_exec_unpack(const struct frame *f, struct guest_exec *ret);
void guest_exec_done(struct guest_exec *x);
int guest_end_pack(struct buf *b, const struct guest_exec_end *end);
int guest_end_unpack(const struct frame *f, struct guest_exec_end *ret);
int guest_err_pack(struct buf *b, const struct err *e);
int guest_err_unpack(const struct frame *f, struct err *ret);
