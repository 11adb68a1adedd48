/* The root of a sandbox that has an image: its layers, and a writable one in memory over them. */
#pragma once

struct err;
struct plan;

/* Mounts it at the folder "root" of the scratch file system (a descriptor of a tmpfs that has a place in this mount
 * namespace), which also gets what is written. Returns the mount's descriptor, or -errno. */
int overlay_mount(int scratch, const struct plan *p, struct err *e) __attribute__((warn_unused_result));
