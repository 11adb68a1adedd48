/* `logs`: a run's events, also while they are being written.
 *
 * --follow waits for the kernel to say that the file grew or was closed (inotify) or that its writer died (pidfd),
 * never by looking again after some time. Both are needed: the last event of a run that was killed is the closing of
 * its file, but its lock is released a moment after that, and only the process's end is surely behind both. */
#include "commands.h"
#include "event_view.h"
#include "output.h"
#include "place.h"
#include "run_choice.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <base/mem.h>
#include <store/read.h>

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

struct logs_opts {
	bool follow;
	bool json;
	const char *store_dir;
};

struct follower {
	const char *store;
	const char *id;
	struct event_reader *reader;
	struct event_view view;
	bool json;
	bool ended; /* the run's last event was seen */
	bool fresh; /* whether it lives was not looked at */
};

/* Everything that is complete now. */
static int show_all(struct follower *f, struct err *e)
{
	while (!out_is_broken()) {
		json_t *ev;
		const char *line;
		int r = event_reader_next(f->reader, &ev, &line, e);
		if (r <= 0)
			return r;
		const char *type = json_get_str(ev, "type");
		f->ended = type && event_ends_run(type);
		if (f->json) {
			out_raw(line, strlen(line));
			out_raw("\n", 1);
		} else {
			event_view_show(&f->view, ev);
		}
		json_decref(ev);
	}
	return 0;
}

/* The process that writes the run, -1 when it cannot be watched (it is gone, or not of this PID namespace). */
static int open_owner(const struct follower *f)
{
	auto_json record = store_read_run(f->store, f->id, NULL);
	json_int_t pid = json_integer_value(json_object_get(json_object_get(record, "owner"), "pid"));

	if (pid <= 0 || pid > INT32_MAX)
		return -1;
	/* pidfd_open always sets close-on-exec. */
	return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

/* Takes the queued notes: 1 when the writer may be gone, 0 when the file grew, -errno. */
static int read_changes(int fd)
{
	union {
		struct inotify_event ev;
		char bytes[4096];
	} u;
	ssize_t n = read(fd, u.bytes, sizeof u.bytes);
	bool closed = false;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	for (size_t at = 0; at + sizeof u.ev <= (size_t)n;) {
		struct inotify_event ev;
		memcpy(&ev, u.bytes + at, sizeof ev);
		closed = closed || (ev.mask & (IN_CLOSE_WRITE | IN_DELETE_SELF | IN_IGNORED | IN_Q_OVERFLOW));
		at += sizeof ev + ev.len;
	}
	return closed;
}

/* Waits for the next change; as read_changes. *owner becomes -1 when that process has ended. */
static int wait_change(int fd, int *owner, struct err *e)
{
	struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = *owner, .events = POLLIN}};

	if (poll(p, ARRAY_LEN(p), -1) < 0)
		return errno == EINTR ? 0 : err_sys(e, errno, "wait for events");
	int r = p[0].revents ? read_changes(fd) : 0;
	if (r < 0)
		return err_sys(e, -r, "wait for events");
	if (!p[1].revents)
		return r;
	close_quietly(*owner);
	*owner = -1;
	return 1;
}

static int follow(struct follower *f, struct err *e)
{
	auto_fd fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	auto_fd owner = open_owner(f);

	if (fd < 0)
		return err_sys(e, errno, "watch the run's events");
	if (inotify_add_watch(fd, event_reader_path(f->reader), IN_MODIFY | IN_CLOSE_WRITE | IN_DELETE_SELF) < 0) {
		int r = err_sys(e, errno, "watch %s", event_reader_path(f->reader));
		err_hint(e, "When the limit is used up, raise fs.inotify.max_user_watches; or leave --follow out.");
		return r;
	}
	/* First what came between the reading and the watch. Once the writer is gone, all it wrote is there. */
	int r = 0;
	for (bool alive = true; r >= 0 && !f->ended;) {
		if (r == 1 || f->fresh)
			alive = store_run_alive(f->store, f->id);
		f->fresh = false;
		r = show_all(f, e);
		out_flush();
		if (r < 0 || f->ended || !alive || out_is_broken())
			break;
		r = wait_change(fd, &owner, e);
	}
	if (r >= 0 && !f->ended && !out_is_broken())
		show_warning("run %s: its process is gone and no last event was written", f->id);
	return r < 0 ? r : 0;
}

static int run(const struct invocation *inv, struct err *e)
{
	const struct logs_opts *o = inv->options;
	auto_free char *store = NULL, *id = NULL;
	struct follower f = {.json = o->json, .view = {.detailed = true}, .fresh = true};

	int r = place_store_here(o->store_dir, &store, e);
	if (r == 0)
		r = run_choose(store, inv->n_args ? inv->args[0] : NULL, &id, e);
	if (r == 0)
		r = event_reader_open(store, id, &f.reader, e);
	if (r < 0)
		return r;
	f.store = store;
	f.id = id;
	r = show_all(&f, e);
	if (r == 0 && o->follow && !f.ended)
		r = follow(&f, e);
	if (r == 0 && event_reader_damaged(f.reader))
		show_warning("%llu damaged lines were left out", (unsigned long long)event_reader_damaged(f.reader));
	event_reader_free(f.reader);
	event_view_done(&f.view);
	return r;
}

static const struct option_row options[] = {
	{.name = "follow",
	 .letter = 'f',
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct logs_opts, follow),
	 .help = "wait for more until the run ends"},
	{.name = "json",
	 .kind = OPTION_FLAG,
	 .offset = offsetof(struct logs_opts, json),
	 .help = "print the events as they are, one JSON object a line"},
	STORE_DIR_ROW(struct logs_opts, store_dir),
	OPTIONS_END,
};

static const struct help_row examples[] = {
	{"iterion logs", "The events of the newest run."},
	{"iterion logs --follow nightly", "Those of the run named nightly, as they come."},
	{"iterion logs --json 0190 | jq .type", "For a program; the run is named by the beginning of its id."},
	{NULL, NULL},
};

const struct command command_logs = {
	.name = "logs",
	.operands = "[RUN]",
	.summary = "print a run's events",
	.about = "RUN is a run's id, the beginning of one, or a run's name; without it the newest run is meant.",
	.examples = examples,
	.options = options,
	.options_size = sizeof(struct logs_opts),
	.max_args = 1,
	.run = run,
};
