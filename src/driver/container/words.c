/* What an engine's program said, as an error that people can act on.
 *
 * The programs tell failures by text only; their exit code says no more than which side failed. The table below holds
 * what docker (20.10 to 28) and podman (4, 5) print, lower case; the first row that matches counts, so what is more
 * precise stands first. A text that no row knows is shown as it is: the engine's own words are never lost, whatever it
 * is that they are taken for. */
#include "words.h"
#include "cli.h"
#include "engine.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { WORDS_SHOWN = 600 };

/* All the parts must be in the text. */
static const struct {
	const char *parts[3];
	enum words_kind kind;
} rows[] = {
	{{"no space left on device"}, WORDS_DISK_FULL},
	{{"disk quota exceeded"}, WORDS_DISK_FULL},
	/* Behind them stands a path that the image chose, which may spell any of the words below. */
	{{"error mounting", "to rootfs at"}, WORDS_IMAGE_IN_THE_WAY},
	{{"lstat", "/merged/", "not a directory"}, WORDS_IMAGE_IN_THE_WAY},
	{{"crun:", "not a directory"}, WORDS_IMAGE_IN_THE_WAY},
	{{"permission denied", "daemon socket"}, WORDS_NO_PERMISSION},
	{{"permission denied", "docker api"}, WORDS_NO_PERMISSION},
	{{"permission denied", "docker.sock"}, WORDS_NO_PERMISSION},
	{{"cannot connect to the docker daemon"}, WORDS_DAEMON_DOWN},
	{{"is the docker daemon running"}, WORDS_DAEMON_DOWN},
	{{"cannot connect to podman"}, WORDS_DAEMON_DOWN},
	{{"unable to connect to podman"}, WORDS_DAEMON_DOWN},
	{{"is already in use"}, WORDS_NAME_IN_USE},
	{{"name", "already assigned"}, WORDS_NAME_IN_USE},
	{{"no such container"}, WORDS_NO_CONTAINER},
	{{"no container with name"}, WORDS_NO_CONTAINER},
	{{"removal of container", "already in progress"}, WORDS_NO_CONTAINER},
	{{"exec format error"}, WORDS_GUEST_REFUSED},
	{{GUEST_PATH, "permission denied"}, WORDS_GUEST_REFUSED},
	{{GUEST_PATH, "operation not permitted"}, WORDS_GUEST_REFUSED},
	{{"unable to find user"}, WORDS_NO_USER},
	{{"no matching entries in passwd"}, WORDS_NO_USER},
	{{"unauthorized"}, WORDS_UNAUTHORIZED},
	{{"authentication required"}, WORDS_UNAUTHORIZED},
	{{"requested access to the resource is denied"}, WORDS_UNAUTHORIZED},
	{{"no basic auth credentials"}, WORDS_UNAUTHORIZED},
	{{"invalid reference format"}, WORDS_BAD_NAME},
	{{"repository name must be lowercase"}, WORDS_BAD_NAME},
	{{"unsupported scheme", "reference"}, WORDS_BAD_NAME},
	{{"short-name", "did not resolve"}, WORDS_BAD_NAME},
	{{"no such image"}, WORDS_IMAGE_NOT_FOUND},
	{{"image not known"}, WORDS_IMAGE_NOT_FOUND},
	{{"manifest unknown"}, WORDS_IMAGE_NOT_FOUND},
	{{"manifest for", "not found"}, WORDS_IMAGE_NOT_FOUND},
	{{"name unknown"}, WORDS_IMAGE_NOT_FOUND},
	{{"pull access denied"}, WORDS_IMAGE_NOT_FOUND},
	{{"unable to find image", "locally"}, WORDS_IMAGE_NOT_FOUND},
	{{"no such host"}, WORDS_NO_REGISTRY},
	{{"dial tcp"}, WORDS_NO_REGISTRY},
	{{"i/o timeout"}, WORDS_NO_REGISTRY},
	{{"tls handshake timeout"}, WORDS_NO_REGISTRY},
	{{"certificate"}, WORDS_NO_REGISTRY},
	{{"invalid mount config"}, WORDS_MOUNT_REFUSED},
	{{"statfs"}, WORDS_MOUNT_REFUSED},
	{{"error mounting"}, WORDS_MOUNT_REFUSED},
	{{"mounts denied"}, WORDS_MOUNT_REFUSED},
	{{"cgroup"}, WORDS_LIMITS},
	{{"range of cpus"}, WORDS_LIMITS},
	{{"memory limit"}, WORDS_LIMITS},
};

static bool matches(const char *text, const char *const parts[3])
{
	for (size_t i = 0; i < 3 && parts[i]; i++)
		if (!strstr(text, parts[i]))
			return false;
	return true;
}

enum words_kind words_classify(const char *text)
{
	auto_free char *low = xstrdup(text);

	for (char *c = low; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (matches(low, rows[i].parts))
			return rows[i].kind;
	return WORDS_OTHER;
}

/* Lines that say nothing about the failure. */
static bool is_noise(const char *line, size_t len)
{
	static const char *const noise[] = {"Run 'docker", "See 'docker",    "Using default tag",
					    "time=\"",	   "Trying to pull", "Unable to find image"};

	for (size_t i = 0; i < ARRAY_LEN(noise); i++)
		if (len >= strlen(noise[i]) && strncmp(line, noise[i], strlen(noise[i])) == 0)
			return true;
	return false;
}

/* Without the program's own name in front, which the message has already. */
static const char *skip_prefix(const char *line)
{
	static const char *const prefixes[] = {"docker: ", "Error response from daemon: ", "Error: "};

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_starts(line, prefixes[i]))
			line += strlen(prefixes[i]);
	return line;
}

/* The lines that tell something, in one line; an engine may quote what a registry or an image said. */
static void add_words(struct buf *to, const char *text)
{
	auto_buf raw = BUF_INIT(CLI_ERR_TAIL * 2);

	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\r\n");
		if (len && !is_noise(line, len)) {
			auto_free char *one = xstrndup(line, len);
			(void)buf_printf(&raw, "%s%s", raw.len ? "; " : "", skip_prefix(one));
		}
		line += len + strspn(line + len, "\r\n");
	}
	const char *words = buf_str(&raw);
	size_t len = strlen(words);
	/* The end tells more than the beginning. */
	if (len > WORDS_SHOWN) {
		(void)buf_puts(to, "…");
		words += len - WORDS_SHOWN;
	}
	(void)text_neutralise(to, words, strlen(words));
}

static int hint(const struct container_engine *en, enum words_kind kind, const char *image, struct err *e)
{
	const char *p = en->program;

	switch (kind) {
	case WORDS_DAEMON_DOWN:
		err_hint(e,
			 "Start the engine (`systemctl start %s`, or Docker Desktop), see that %s names it, or choose "
			 "another driver with --sandbox-driver.",
			 p, en->host_variable);
		return ECONNREFUSED;
	case WORDS_NO_PERMISSION:
		err_hint(e,
			 "Add your user to the docker group and log in again, use rootless podman, or choose another "
			 "driver with --sandbox-driver.");
		return EACCES;
	case WORDS_IMAGE_NOT_FOUND:
		err_hint(
			e,
			"Check the name and tag of the image%s%s with `%s pull`; a private one needs `%s login` first.",
			image ? " " : "", image ? image : "", p, p);
		return ENOENT;
	case WORDS_UNAUTHORIZED:
		err_hint(e, "Log in to its registry with `%s login`, then run again.", p);
		return EACCES;
	case WORDS_NO_REGISTRY:
		err_hint(e,
			 "The engine, not this program, fetches images: see that it reaches the registry (network, "
			 "proxy, "
			 "certificates), or fetch the image beforehand with `%s pull`.",
			 p);
		return EHOSTUNREACH;
	case WORDS_DISK_FULL:
		err_hint(e,
			 "Free some space where the engine keeps its images: `%s system df` shows what is used, `%s "
			 "system prune` removes what is not needed.",
			 p, p);
		return ENOSPC;
	case WORDS_BAD_NAME:
		err_hint(e,
			 "Write the image as REGISTRY/NAME:TAG, in lower case, such as docker.io/library/debian:12.");
		return EINVAL;
	case WORDS_NAME_IN_USE:
		err_hint(e, "Another sandbox of this name runs. `iterion sandbox ls` shows it; give this run another "
			    "--run-id, or end that one.");
		return EEXIST;
	case WORDS_NO_CONTAINER:
		err_hint(e, "It was removed from outside.");
		return ENOENT;
	case WORDS_GUEST_REFUSED:
		err_hint(e, "iterion-guest must be executable inside: of the engine's architecture, and not on a file "
			    "system mounted noexec. ITERION_BIN names another one.");
		return ENOEXEC;
	case WORDS_MOUNT_REFUSED:
		err_hint(e, "The engine must see the folder at the same path: it must exist, and an engine on another "
			    "machine or in a virtual one must share it.");
		return ENOENT;
	case WORDS_IMAGE_IN_THE_WAY:
		err_hint(e, "The image has a file or a link where this folder or file must be mounted: use another "
			    "image, or another target (workspace_folder for the workspace).");
		return ENOTDIR;
	case WORDS_NO_USER:
		err_hint(e, "Name a user that the image has, or a number, in user: (remoteUser in devcontainer.json).");
		return ENOENT;
	case WORDS_LIMITS:
		err_hint(e, "Take limits: out of the sandbox block, or lower them: the engine cannot set them here.");
		return EINVAL;
	case WORDS_OTHER:
		break;
	}
	err_hint(e,
		 "These are %s's own words; run it by hand to see more, or choose another driver with "
		 "--sandbox-driver.",
		 p);
	return EIO;
}

int words_explain(const struct container_engine *en, const struct cli_result *r, const char *image, struct err *e)
{
	auto_buf words = BUF_INIT(CLI_ERR_TAIL * 8);
	struct err scratch = ERR_INIT;

	e = e ? e : &scratch;
	if (r->timed_out) {
		int bad = err_set(e, ERR_SANDBOX, ETIMEDOUT, "%s did not answer in time", en->program);
		err_hint(e, "The engine hangs or is very busy: see its log and restart it, allow more time with "
			    "ITERION_SANDBOX_DOCTOR_TIMEOUT=30s, or choose another driver with --sandbox-driver.");
		return bad;
	}
	add_words(&words, r->err);
	if (words.len == 0 && r->status.signaled)
		(void)buf_printf(&words, "it was ended by signal %d", r->status.code);
	else if (words.len == 0)
		(void)buf_printf(&words, "it ended with exit code %d and without a word", r->status.code);
	(void)err_set(e, ERR_SANDBOX, EIO, "%s: %s", en->program, buf_str(&words));
	e->errnum = hint(en, words_classify(r->err), image, e);
	return -e->errnum;
}

int words_no_socket(const struct container_engine *en, const char *path, int errnum, struct err *e)
{
	struct err scratch = ERR_INIT;

	e = e ? e : &scratch;
	(void)err_sys(e, errnum, "%s: connect to its socket %s", en->program, path);
	err_set_kind(e, ERR_SANDBOX);
	(void)hint(en, errnum == EACCES ? WORDS_NO_PERMISSION : WORDS_DAEMON_DOWN, NULL, e);
	return -errnum;
}
