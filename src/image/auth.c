/* Credentials, as `docker login` and `podman login` leave them.
 *
 * A helper is a program docker-credential-NAME: it gets the server's name on its input and prints JSON, so no secret is
 * ever an argument. Secrets are wiped when they are let go; they are written nowhere. */
#include "auth.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/clock.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/spawn.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <nettle/base64.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_LIMIT = 1024 * 1024, ANSWER_LIMIT = 64 * 1024, HELPER_MS = 60 * 1000 };

static const char docker_key[] = "https://index.docker.io/v1/";

static void wipe(char *s)
{
	if (s)
		explicit_bzero(s, strlen(s));
	free(s);
}

void credentials_done(struct credentials *c)
{
	free(c->user);
	wipe(c->secret);
	*c = (struct credentials){0};
}

void credentials_entry_done(struct credentials_entry *e)
{
	credentials_done(&e->found);
	free(e->helper);
	free(e->server);
	*e = (struct credentials_entry){0};
}

/* "USER:SECRET" in base64. */
static bool decode(const char *text, struct credentials *ret)
{
	struct base64_decode_ctx ctx;
	size_t len = strlen(text), n;
	auto_free uint8_t *out = xmalloc(BASE64_DECODE_LENGTH(len) + 1);

	base64_decode_init(&ctx);
	if (!base64_decode_update(&ctx, &n, out, len, text) || !base64_decode_final(&ctx))
		return false;
	out[n] = '\0';
	char *plain = (char *)out, *colon = strchr(plain, ':');
	bool good = colon && strlen(plain) == n;
	if (good) {
		*ret = (struct credentials){.user = xstrndup(plain, (size_t)(colon - plain)),
					    .secret = xstrdup(colon + 1)};
	}
	explicit_bzero(out, n);
	return good;
}

static void take_auth(const json_t *auth, struct credentials *ret)
{
	const char *token = json_get_str(auth, "identitytoken"), *coded = json_get_str(auth, "auth");
	const char *user = json_get_str(auth, "username"), *password = json_get_str(auth, "password");

	if (token && *token)
		*ret = (struct credentials){.user = xstrdup("<token>"), .secret = xstrdup(token), .is_token = true};
	else if (coded && *coded && decode(coded, ret))
		;
	else if (user && *user && password)
		*ret = (struct credentials){.user = xstrdup(user), .secret = xstrdup(password)};
}

/* A key of "auths" without its scheme, its version's path and slashes at the end. */
static char *plain_key(const char *key)
{
	const char *scheme = strstr(key, "://");
	const char *from = scheme ? scheme + 3 : key;
	size_t len = strlen(from);

	while (len && from[len - 1] == '/')
		len--;
	if (scheme && len > 3 && (strncmp(from + len - 3, "/v1", 3) == 0 || strncmp(from + len - 3, "/v2", 3) == 0))
		len -= 3;
	return xstrndup(from, len);
}

/* The entry whose key names the most of the repository: Podman's file may have one for a part of a registry. */
static const json_t *best_auth(const json_t *auths, const char *domain, const char *repository)
{
	bool hub = strcmp(domain, "docker.io") == 0;
	auto_free char *full = xasprintf("%s/%s", domain, repository);
	const json_t *best = NULL;
	size_t best_len = 0;

	for (void *at = json_object_iter((json_t *)(uintptr_t)auths); at;
	     at = json_object_iter_next((json_t *)(uintptr_t)auths, at)) {
		auto_free char *key = plain_key(json_object_iter_key(at));
		size_t len = strlen(key);
		bool whole = str_eq(key, domain) || (hub && str_eq(key, "index.docker.io"));
		bool part = str_starts(full, key) && (full[len] == '/' || full[len] == '\0');
		if ((whole || part) && len >= best_len) {
			best = json_object_iter_value(at);
			best_len = len;
		}
	}
	return best;
}

static bool helper_valid(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < 64 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == len;
}

int credentials_parse(const char *text, size_t len, const char *domain, const char *repository,
		      struct credentials_entry *ret, struct err *e)
{
	auto_json j = json_parse_value(text, len, NULL);
	bool hub = str_eq(domain, "docker.io");

	if (!json_is_object(j))
		return err_set(e, ERR_INPUT, EINVAL, "it is no JSON object");
	*ret = (struct credentials_entry){.server = xstrdup(hub ? docker_key : domain)};
	const json_t *helpers = json_object_get(j, "credHelpers");
	const char *helper = json_get_str(helpers, domain);
	if (!helper && hub)
		helper = json_get_str(helpers, docker_key);
	const json_t *auth = helper ? NULL : best_auth(json_object_get(j, "auths"), domain, repository);
	take_auth(auth, &ret->found);
	if (!helper && !ret->found.user)
		helper = json_get_str(j, "credsStore");
	if (helper && *helper && !helper_valid(helper)) {
		credentials_entry_done(ret);
		return err_set(e, ERR_INPUT, EINVAL, "the name of its credential helper is no program's");
	}
	ret->helper = helper && *helper ? xstrdup(helper) : NULL;
	return 0;
}

int credentials_parse_helper(const char *text, size_t len, struct credentials *ret)
{
	auto_json j = json_parse_value(text, len, NULL);
	const char *user = json_get_str(j, "Username"), *secret = json_get_str(j, "Secret");

	if (!user || !secret)
		return -EPROTO;
	*ret = (struct credentials){
		.user = xstrdup(user), .secret = xstrdup(secret), .is_token = str_eq(user, "<token>")};
	return 0;
}

/* Until its end, within the time: 0 or -errno. */
static int read_answer(int fd, struct buf *to)
{
	uint64_t end = clock_ms() + HELPER_MS;
	char data[4096];

	for (;;) {
		uint64_t now = clock_ms();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int r = now < end ? poll(&p, 1, (int)(end - now)) : 0;
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -ETIMEDOUT;
		ssize_t n = read(fd, data, sizeof data);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (buf_add(to, data, (size_t)n) < 0)
			return -EFBIG;
	}
}

/* Talks to the program: its exit code, or -errno. */
static int run_helper(const char *program, const char *server, struct buf *answer)
{
	auto_free char *name = xstrdup(program);
	char get[] = "get";
	char *const argv[] = {name, get, NULL};
	int in[2], out[2];
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;
	auto_fd in_read = in[0];
	auto_fd in_write = in[1];
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	auto_fd out_read = out[0];
	auto_fd out_write = out[1];
	const struct spawn_opts o = {.file = program,
				     .argv = argv,
				     .envp = environ,
				     .stdio = {in_read, out_write, -1},
				     .own_group = true,
				     .death_signal = SIGKILL};
	int r = spawn_start(&o, &pid, NULL, NULL);
	if (r < 0)
		return r;
	close_quietly(TAKE_FD(out_write));
	close_quietly(TAKE_FD(in_read));
	r = fd_write_all(in_write, server, strlen(server));
	close_quietly(TAKE_FD(in_write));
	if (r == 0 || r == -EPIPE)
		r = read_answer(out_read, answer);
	if (r < 0)
		(void)kill(-pid, SIGKILL);
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? r : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int ask_helper(const struct credentials_entry *entry, struct credentials *ret, struct err *e)
{
	auto_free char *program = xasprintf("docker-credential-%s", entry->helper);
	auto_buf answer = BUF_INIT(ANSWER_LIMIT);
	int r = run_helper(program, entry->server, &answer);
	const char *text = buf_str(&answer);

	if (r == 0 && credentials_parse_helper(text, answer.len, ret) < 0) {
		r = err_set(e, ERR_INPUT, EPROTO, "%s: its answer is not one of a credential helper", program);
	} else if (r > 0 && strcasestr(text, "credentials not found")) {
		/* It knows none: like a file without an entry. */
		r = 0;
	} else if (r > 0) {
		r = err_set(e, ERR_SYSTEM, EIO, "%s: it failed with exit code %d", program, r);
	} else if (r < 0) {
		(void)err_sys(e, -r, "%s", program);
	}
	if (r < 0)
		err_hint(e,
			 "The file of credentials names this helper for %s: install or mend it, or take it out of "
			 "the file.",
			 entry->server);
	if (answer.data)
		explicit_bzero(answer.data, answer.len);
	return r;
}

/* The files, in the order in which they are asked; a missing one is passed over. */
static void list_files(struct strv *to)
{
	const char *named = getenv("REGISTRY_AUTH_FILE"), *docker = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (named && *named) {
		strv_add(to, named);
		return;
	}
	if (docker && *docker)
		strv_take(to, path_join(docker, "config.json"));
	else if (home && *home)
		strv_take(to, path_join(home, ".docker/config.json"));
	if (runtime && *runtime)
		strv_take(to, path_join(runtime, "containers/auth.json"));
}

int credentials_find(const char *domain, const char *repository, struct credentials *ret, struct err *e)
{
	auto_strv files = {0};
	int r = 0;

	*ret = (struct credentials){0};
	list_files(&files);
	for (size_t i = 0; r == 0 && !ret->user && i < files.n; i++) {
		__attribute__((cleanup(credentials_entry_done))) struct credentials_entry entry = {0};
		auto_free char *text = NULL;
		size_t len;
		if (file_read(AT_FDCWD, files.v[i], FILE_LIMIT, &text, &len, NULL) < 0)
			continue;
		r = credentials_parse(text, len, domain, repository, &entry, e);
		explicit_bzero(text, len);
		if (r < 0) {
			r = err_wrap(e, r, "read credentials from %s", files.v[i]);
			err_hint(e, "Correct the file, or name another one in REGISTRY_AUTH_FILE.");
		} else if (entry.helper) {
			r = ask_helper(&entry, ret, e);
		} else {
			*ret = entry.found;
			entry.found = (struct credentials){0};
		}
	}
	return r;
}
