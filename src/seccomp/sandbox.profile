# What programs in a native sandbox may ask of the kernel. The grammar stands at the top of profile.c.
#
# Three answers. "allow": what ordinary programs use (shells, compilers, debuggers, language runtimes, databases).
# "errno EPERM": known calls that reach past the sandbox or into code of the kernel that has been its weak side; without
# capabilities the kernel refuses most of them with the same errno, so programs are written for it. "errno ENOSYS" and
# the default: calls that have an older way to do the same, which programs then take, and calls younger than this file:
# a kernel without them would say the same, and EPERM would make programs give up that were ready to fall back.
#
# no_new_privs is set before the filter, and all capabilities are gone: what only changes the caller's own privileges
# downwards needs no rule here.
default errno ENOSYS

# Programs of another table (i386 on x86-64, 32-bit arm on aarch64): ended at once. Not one of their calls could be
# allowed by number, and answering ENOSYS to exit() leaves a program that can neither run nor end. The x32 table shares
# its architecture with x86-64 and has numbers from 0x40000000 on: they get the default, as from a kernel without x32.
foreign kill

# --- Files
allow read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2
allow ?open openat openat2 ?creat close close_range lseek ftruncate truncate fallocate fadvise64 readahead
allow ?stat ?lstat fstat newfstatat statx statfs fstatfs
allow ?access faccessat faccessat2 ?chmod fchmod fchmodat fchmodat2=452 ?chown ?lchown fchown fchownat umask
allow ?link linkat ?symlink symlinkat ?readlink readlinkat ?unlink unlinkat ?rename renameat renameat2
allow ?mkdir mkdirat ?rmdir ?getdents getdents64 chdir fchdir getcwd
allow ?utime ?utimes ?futimesat utimensat
allow setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
allow removexattr lremovexattr fremovexattr setxattrat=463 getxattrat=464 listxattrat=465 removexattrat=466
allow file_getattr=468 file_setattr=469
allow dup ?dup2 dup3 fcntl flock fsync fdatasync sync syncfs sync_file_range msync cachestat=451
allow sendfile splice tee vmsplice copy_file_range
allow ?inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
# Gives a number for a file, not the file: the way back, open_by_handle_at, is refused below.
allow name_to_handle_at

# Character and block devices are doors to the host's hardware; FIFOs, sockets and regular files are only files.
errno EPERM ?mknod if arg1 & S_IFMT in S_IFCHR,S_IFBLK
errno EPERM mknodat if arg2 & S_IFMT in S_IFCHR,S_IFBLK
allow ?mknod mknodat

# Typing into the terminal that the sandbox was started from runs commands outside (CVE-2017-5226; TIOCLINUX pastes on
# virtual consoles).
errno EPERM ioctl if arg1 in TIOCSTI,TIOCLINUX
# Another line discipline (modems, radio, serial IP) is a driver that the kernel loads for whoever has a terminal.
errno EPERM ioctl if arg1 == TIOCSETD
allow ioctl

# --- Waiting
allow ?poll ppoll ?select pselect6 ?epoll_create epoll_create1 epoll_ctl ?epoll_wait epoll_pwait epoll_pwait2
allow ?eventfd eventfd2 ?signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
allow ?pipe pipe2
# Native AIO: databases use it. io_uring, its successor, is refused below.
allow io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents

# --- Memory
allow brk mmap munmap mremap mprotect madvise process_madvise process_mrelease mincore
allow mlock mlock2 munlock mlockall munlockall mseal=462 memfd_create ?memfd_secret map_shadow_stack=453
allow pkey_alloc pkey_free pkey_mprotect remap_file_pages membarrier
# Where memory lies among the nodes of a NUMA machine: for root's tuning; runtimes go on without.
errno EPERM mbind get_mempolicy set_mempolicy set_mempolicy_home_node migrate_pages move_pages

# --- Processes and threads
allow ?fork ?vfork execve execveat exit exit_group wait4 waitid
allow set_tid_address set_robust_list get_robust_list rseq restart_syscall
allow futex futex_waitv futex_wake=454 futex_wait=455 futex_requeue=456
allow getpid getppid gettid ?getpgrp getpgid setpgid getsid setsid
allow kill tkill tgkill pidfd_open pidfd_send_signal
allow rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo
allow rt_tgsigqueueinfo sigaltstack ?pause ?alarm
allow getuid geteuid getgid getegid getresuid getresgid getgroups
allow setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid setfsgid capget capset
allow prctl ?arch_prctl getcpu getrandom
# The limits of any process of the same user can be set, of PID 1 too, which would then lack what it needs to go on.
errno EPERM prlimit64 if arg0 == 1
allow getrlimit setrlimit prlimit64 getrusage times getpriority setpriority ioprio_get ioprio_set
allow sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler
allow sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval
# These only ever take rights away.
allow seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self

# A user namespace of its own gives a program all capabilities over whatever it makes in it: most of the kernel's
# privilege escalations of the last years start there. clone3 passes its flags in memory, where a filter cannot look;
# the C libraries take ENOSYS as a sign to use clone.
errno EPERM clone if arg0 & CLONE_NEWNS|CLONE_NEWCGROUP|CLONE_NEWUTS|CLONE_NEWIPC|CLONE_NEWUSER|CLONE_NEWPID|CLONE_NEWNET != 0
allow clone
errno ENOSYS clone3
errno EPERM unshare setns

# Debuggers work on what runs inside: the kernel allows it for processes of the same user and pid namespace that are
# dumpable, and PID 1, which is ours, is not. process_vm_* asks the same question, and is how debuggers read memory.
allow ptrace process_vm_readv process_vm_writev
# The same check guards these two, but nothing ordinary needs them: one takes descriptors out of other processes, the
# other compares kernel pointers.
errno EPERM pidfd_getfd kcmp

# Only the emulations that programs (and setarch) are known to set; 0xffffffff asks for the present one. The others
# change how addresses are laid out and checked.
allow personality if arg0 in PER_LINUX,PER_LINUX32,UNAME26,UNAME26|PER_LINUX32,ADDR_NO_RANDOMIZE,0xffffffff
errno EPERM personality

# --- Time
allow ?time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep getitimer setitimer
allow timer_create timer_settime timer_gettime timer_getoverrun timer_delete
errno EPERM settimeofday clock_settime adjtimex clock_adjtime

# --- Sockets
# Each family and protocol is a driver of the kernel, often loaded at the first use by anyone. What the network in a
# sandbox carries is TCP and UDP (and ping); the rest gets the answer of a kernel that was built without it, on which
# programs go on: Go without MPTCP, libaudit's users (login, useradd) without audit, which they do only for
# EPROTONOSUPPORT and its like.
allow socket if arg0 == AF_UNIX
allow socket if arg0 in AF_INET,AF_INET6 and arg1 & 0xf == SOCK_STREAM and arg2 in IPPROTO_IP,IPPROTO_TCP
allow socket if arg0 in AF_INET,AF_INET6 and arg1 & 0xf == SOCK_DGRAM and arg2 in IPPROTO_IP,IPPROTO_UDP,IPPROTO_ICMP,IPPROTO_ICMPV6
errno EPERM socket if arg0 in AF_INET,AF_INET6 and arg1 & 0xf in SOCK_RAW,SOCK_PACKET
errno EPROTONOSUPPORT socket if arg0 in AF_INET,AF_INET6 and arg1 & 0xf in SOCK_STREAM,SOCK_DGRAM
errno ESOCKTNOSUPPORT socket if arg0 in AF_INET,AF_INET6
# Interfaces and addresses (getifaddrs); no audit, netfilter, diagnostics or kernel events.
allow socket if arg0 == AF_NETLINK and arg2 == NETLINK_ROUTE
errno EPROTONOSUPPORT socket if arg0 == AF_NETLINK
errno EPERM socket if arg0 == AF_PACKET
errno EAFNOSUPPORT socket
allow socketpair if arg0 == AF_UNIX
errno EOPNOTSUPP socketpair if arg0 in AF_INET,AF_INET6,AF_NETLINK
errno EAFNOSUPPORT socketpair
allow bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt
allow sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg

# --- System V and POSIX IPC: in the sandbox's own namespace
allow shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
allow mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr

# --- The system
allow uname sysinfo
# What is mounted where reads well enough from /proc/self/mountinfo.
errno ENOSYS statmount=457 listmount=458 ?sysfs ?ustat lsm_get_self_attr=459 lsm_list_modules=461
errno EPERM lsm_set_self_attr=460

# Mounts: the walls themselves.
errno EPERM mount umount2 pivot_root chroot move_mount open_tree open_tree_attr=467 fsopen fsconfig fsmount fspick
errno EPERM mount_setattr
# By handle a file is opened past every mount and folder permission above it.
errno EPERM open_by_handle_at
errno EPERM quotactl quotactl_fd swapon swapoff acct
# Sees the file accesses of everybody on a mount.
errno EPERM fanotify_init fanotify_mark

# Keys are per user, not per namespace: a sandbox would share its owner's keyrings.
errno EPERM add_key keyctl request_key
# Programs and hooks that run in the kernel, and the three that exploits lean on most: io_uring passes by filters (its
# operations are no system calls), userfaultfd holds the kernel still at a chosen point, perf reads addresses.
errno EPERM bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
errno EPERM init_module finit_module delete_module kexec_load ?kexec_file_load reboot
errno EPERM syslog sethostname setdomainname vhangup
errno EPERM ?iopl ?ioperm lookup_dcookie
# Segments for 16-bit code; with a long list of kernel bugs. A kernel may be built without it.
errno ENOSYS ?modify_ldt

# Gone from the kernel, or never there: listed so that the header's list of unlisted calls shows only what is new.
errno ENOSYS ?uselib nfsservctl ?_sysctl ?create_module ?get_kernel_syms ?query_module ?getpmsg ?putpmsg
errno ENOSYS ?afs_syscall ?tuxcall ?security ?set_thread_area ?get_thread_area ?epoll_ctl_old ?epoll_wait_old ?vserver
