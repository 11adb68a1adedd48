/* The records between a run and its proxy process: frames (base/frame.h) with packed payloads (base/pack.h). */
#pragma once

enum proxy_frame {
	/* from the proxy */
	PROXY_READY = 1, /* u32 Landlock ABI in force, 0 when the kernel has none */
	PROXY_ERROR,	 /* str message, str hint: it could not be confined and ends */
	PROXY_BLOCKED,	 /* str host, u32 port, str reason, str rule, u32 count, u64 first ms, u64 last ms */
	PROXY_SUMMARY,	 /* u32 n, n times { str host, u64 allowed, blocked, bytes up, bytes down } */
	PROXY_HOOKED,	 /* u32 what, u32 errno */
	PROXY_AUTHORITY, /* bytes PEM: the certificate of its authority; the very first record, with inspection only */
	PROXY_SECRET,	 /* str name, str host, u32 port, u32 count, u64 first ms, u64 last ms: a
			  * placeholder on a wrong way */
	/* to the proxy */
	PROXY_LISTENER = 16, /* one descriptor */
	PROXY_STOP,	     /* u32 milliseconds to drain */
	PROXY_HOOK,	     /* u32 what; only in builds with test hooks */
};

enum {
	PROXY_MAX_HOSTS = 4096, /* entries of the summary, "(other)" beside them */
	PROXY_MAX_TEXT = 512,	/* bytes of a host, reason or rule */
	PROXY_MAX_PEM = 64 * 1024,
	PROXY_TO_PARENT_MAX = 2 * 1024 * 1024,
	PROXY_TO_CHILD_MAX = 64,
	PROXY_BLOCKED_PER_SECOND = 64, /* distinct refusals that are reported within a second */
};
