/* What a container of ours says about itself.
 *
 * A label is a claim that anybody who may start containers can make, so what is read back is data: it is compared and
 * shown, never run. A container is removed only when its owner names this very host and PID namespace and a process
 * that is gone; everything else belongs to somebody else or to nobody we can judge. */
#include "labels.h"

#include <base/cleanup.h>
#include <base/file.h>
#include <base/id.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/proc.h>
#include <base/str.h>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_FILE = 4096 };

const char contained_format[] = "[{{json .ID}},{{json .Name}},{{json .State.Status}},{{json .Created}},"
				"{{json .Config.Image}},{{json .Config.Labels}}]";

static void add_file(struct sha256_ctx *sum, const char *path)
{
	auto_free char *text = NULL;
	size_t len;

	if (file_read(AT_FDCWD, path, SMALL_FILE, &text, &len, NULL) == 0)
		sha256_update(sum, len, (const uint8_t *)text);
}

void label_host_id(char ret[HOST_ID_SIZE])
{
	struct sha256_ctx sum;
	uint8_t digest[SHA256_DIGEST_SIZE];
	char text[PATH_MAX];

	/* The machine's number is not to be told as it is (machine-id(5)). */
	sha256_init(&sum);
	add_file(&sum, "/etc/machine-id");
	if (gethostname(text, sizeof text) == 0)
		sha256_update(&sum, strnlen(text, sizeof text), (const uint8_t *)text);
	ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text);
	if (n > 0)
		sha256_update(&sum, (size_t)n, (const uint8_t *)text);
	sha256_digest(&sum, sizeof digest, digest);
	hex_encode(ret, digest, (HOST_ID_SIZE - 1) / 2);
}

/* 0 when the process is not there. */
static unsigned long long start_time(long pid)
{
	unsigned long long start = 0;

	return pid > INT_MAX || proc_start_time((pid_t)pid, &start) < 0 ? 0 : start;
}

void label_owner(char ret[OWNER_SIZE])
{
	char host[HOST_ID_SIZE];

	label_host_id(host);
	(void)snprintf(ret, OWNER_SIZE, "%s:%d:%llu", host, getpid(), start_time(getpid()));
}

enum owner_state label_owner_state(const char *owner, const char *host_id)
{
	size_t len = strlen(host_id);
	char copy[OWNER_SIZE];
	unsigned long long pid, start;

	if (strlen(owner) >= sizeof copy || strncmp(owner, host_id, len) != 0 || owner[len] != ':')
		return OWNER_FOREIGN;
	memcpy(copy, owner + len + 1, strlen(owner + len + 1) + 1);
	char *colon = strchr(copy, ':');
	if (!colon)
		return OWNER_FOREIGN;
	*colon = '\0';
	if (str_parse_uint(copy, 1, INT32_MAX, &pid) < 0 || str_parse_uint(colon + 1, 1, UINT64_MAX, &start) < 0)
		return OWNER_FOREIGN;
	return start_time((long)pid) == start ? OWNER_ALIVE : OWNER_DEAD;
}

static void contained_done(const struct contained *c)
{
	free(c->id);
	free(c->name);
	free(c->image);
	free(c->state);
	free(c->created);
	free(c->run_id);
	free(c->run_name);
	free(c->owner);
}

void contained_list_done(struct contained_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		contained_done(&l->v[i]);
	free(l->v);
	*l = (struct contained_list){0};
}

static char *text_at(const json_t *row, size_t i)
{
	const char *s = json_string_value(json_array_get(row, i));

	return xstrdup(s ? s : "");
}

static char *label(const json_t *labels, const char *name)
{
	const char *s = json_get_str(labels, name);

	return xstrdup(s ? s : "");
}

bool label_is_id(const char *id)
{
	size_t len = strlen(id);

	return len >= 12 && len <= 64 && strspn(id, "0123456789abcdef") == len;
}

static void add(struct contained_list *l, const json_t *row)
{
	const json_t *labels = json_array_get(row, 5);
	const char *managed = json_get_str(labels, LABEL_MANAGED);
	const char *id = json_string_value(json_array_get(row, 0));

	if (!id || !label_is_id(id) || !managed || !str_eq(managed, "true"))
		return;
	l->v = grow_array(l->v, l->n, &l->cap, sizeof *l->v);
	struct contained *c = &l->v[l->n++];
	*c = (struct contained){
		.id = xstrdup(id),
		.name = text_at(row, 1),
		.state = text_at(row, 2),
		.created = text_at(row, 3),
		.image = text_at(row, 4),
		.run_id = label(labels, LABEL_RUN_ID),
		.run_name = label(labels, LABEL_RUN_NAME),
		.owner = label(labels, LABEL_OWNER),
	};
	/* docker writes a name as a path. */
	if (c->name[0] == '/')
		memmove(c->name, c->name + 1, strlen(c->name));
}

void contained_parse(const char *text, size_t len, struct contained_list *ret)
{
	while (len > 0) {
		json_error_t je;
		auto_json row = json_loadb(text, len, JSON_DISABLE_EOF_CHECK, &je);
		if (!row || je.position <= 0 || (size_t)je.position > len)
			return;
		if (json_is_array(row))
			add(ret, row);
		text += je.position;
		len -= (size_t)je.position;
		while (len > 0 && (*text == '\n' || *text == '\r' || *text == ' ')) {
			text++;
			len--;
		}
	}
}

void labels_sweep(const char *base, const char *prefix)
{
	auto_dir d = opendir(base);
	char host[HOST_ID_SIZE];

	label_host_id(host);
	for (struct dirent *entry; d && (entry = readdir(d));) {
		struct stat st;
		const char *dot = strrchr(entry->d_name, '.');
		if (!str_starts(entry->d_name, prefix) || dot < entry->d_name + strlen(prefix))
			continue;
		const char *owner = entry->d_name + strlen(prefix);
		auto_free char *named = xstrndup(owner, (size_t)(dot - owner));
		if (label_owner_state(named, host) != OWNER_DEAD ||
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != geteuid())
			continue;
		(void)!tree_remove(dirfd(d), entry->d_name, NULL);
	}
}
