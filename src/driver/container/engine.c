/* The engines and whether they answer.
 *
 * A start without any container engine must not pay for the question: without the program nothing is spawned, and when
 * its daemon's socket lets nobody in, a connect() tells that in microseconds where the program would take a tenth of a
 * second. Only what that cannot settle (another machine, a context of the user's) is asked by running the program. */
#include "engine.h"
#include "cli.h"
#include "proxy_place.h"
#include "words.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/path.h>
#include <base/str.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_MS = 5000, MAX_TIMEOUT_MS = 3600 * 1000, CONFIG_LIMIT = 1024 * 1024, ANSWER_LIMIT = 4096 };

const struct container_engine engine_docker = {
	.name = "docker",
	.program = "docker",
	.host_variable = "DOCKER_HOST",
	.socket = "/var/run/docker.sock",
	.probe = {"version", "--format", "{{.Server.Version}}"},
	.tmpfs_owner = true,
	.tmpfs_shared = "tmpfs-mode=1777",
	.tmpfs_cover = "tmpfs-mode=0555,tmpfs-size=4096,readonly",
	.remove = {"rm", "--force"},
	.buildx = true,
};

const struct container_engine engine_podman = {
	.name = "podman",
	.program = "podman",
	.host_variable = "CONTAINER_HOST",
	.probe = {"info", "--format", "{{.Version.Version}}"},
	.tmpfs_home = "tmpfs-mode=0700,U=true,notmpcopyup",
	.tmpfs_shared = "tmpfs-mode=1777,notmpcopyup",
	.tmpfs_cover = "tmpfs-mode=0555,tmpfs-size=4096,ro,notmpcopyup",
	.remove = {"rm", "--force", "--time", "0"},
	.mixes_args = true,
	.keep_id = true,
};

static const char *given(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int engine_find(const struct container_engine *en, char **ret, struct err *e)
{
	const char *list = given("PATH");

	for (const char *p = list; p && *p;) {
		const char *end = strchrnul(p, ':');
		auto_free char *dir = xstrndup(p, (size_t)(end - p));
		auto_free char *file = path_join(dir, en->program);
		struct stat st;
		/* A relative entry would let the current folder, a repository, name the program. */
		if (dir[0] == '/' && stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0) {
			*ret = TAKE_PTR(file);
			return 0;
		}
		p = *end ? end + 1 : end;
	}
	int r = err_set(e, ERR_SANDBOX, ENOENT, "%s: the program is not on PATH", en->name);
	err_hint(e, "Install %s, or choose another driver with --sandbox-driver (native needs no engine).", en->name);
	return r;
}

/* Whether a host, as in tcp://HOST:PORT, is this machine. A name is not looked up: that takes time, and what it says
 * may be wrong a moment later. */
static bool is_this_machine(const char *host)
{
	char own[256] = "";
	union proxy_address a;

	if (proxy_address_read(host, &a) == 0)
		return proxy_address_is_ours(&a);
	return str_eq(host, "localhost") || (gethostname(own, sizeof own - 1) == 0 && str_eq(host, own));
}

bool engine_is_remote(const struct container_engine *en)
{
	const char *host = given(en->host_variable);

	if (!host || str_starts(host, "unix:") || *host == '/')
		return false;
	if (!str_starts(host, "tcp://"))
		return true;
	host += strlen("tcp://");
	bool bracket = *host == '[';
	auto_free char *name = xstrndup(host + bracket, strcspn(host + bracket, bracket ? "]" : ":/"));
	return !is_this_machine(name);
}

/* Whether the user's configuration sends the program elsewhere than to the default socket. */
static bool has_context(void)
{
	auto_free char *dir = given("DOCKER_CONFIG") ? xstrdup(given("DOCKER_CONFIG"))
			      : given("HOME")	     ? path_join(given("HOME"), ".docker")
						     : NULL;
	auto_free char *file = dir ? path_join(dir, "config.json") : NULL;
	auto_free char *text = NULL;
	size_t len;

	if (given("DOCKER_CONTEXT"))
		return true;
	if (!file || file_read(AT_FDCWD, file, CONFIG_LIMIT, &text, &len, NULL) < 0)
		return false;
	auto_json doc = json_parse(text, len, NULL);
	const char *context = doc ? json_get_str(doc, "currentContext") : NULL;
	return context && *context && !str_eq(context, "default");
}

/* The socket by which the engine is reached for sure; NULL: that is not known without asking the program. */
static const char *socket_of(const struct container_engine *en)
{
	const char *host = given(en->host_variable);

	if (host)
		return str_starts(host, "unix://") ? host + strlen("unix://") : NULL;
	return en->socket && !has_context() ? en->socket : NULL;
}

static int try_socket(const struct container_engine *en, struct err *e)
{
	const char *path = socket_of(en);
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	if (!path || strlen(path) >= sizeof sa.sun_path)
		return 0;
	memcpy(sa.sun_path, path, strlen(path) + 1);
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* EAGAIN: it listens, and is busy. */
	if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, sizeof sa) == 0 || errno == EAGAIN)
		return 0;
	return words_no_socket(en, path, errno, e);
}

unsigned engine_timeout_ms(void)
{
	const char *text = given("ITERION_SANDBOX_DOCTOR_TIMEOUT");
	unsigned long long ms;

	if (!text || str_parse_duration(text, &ms) < 0 || ms == 0 || ms > MAX_TIMEOUT_MS)
		return DEFAULT_TIMEOUT_MS;
	return (unsigned)ms;
}

struct question {
	const struct container_engine *en;
	struct err *e;
	int answer;
};

static void on_answer(void *arg, const struct cli_result *r)
{
	struct question *q = arg;

	q->answer = cli_ok(r) ? 0 : words_explain(q->en, r, NULL, q->e);
}

int engine_probe(const struct container_engine *en, struct err *e)
{
	auto_free char *program = NULL;
	struct question q = {.en = en, .e = e};

	int r = engine_find(en, &program, e);
	if (r == 0)
		r = try_socket(en, e);
	if (r < 0)
		return r;
	const char *const argv[] = {program, en->probe[0], en->probe[1], en->probe[2], NULL};
	const struct cli_opts o = {
		.argv = argv, .stdin_fd = -1, .out_limit = ANSWER_LIMIT, .timeout_ms = engine_timeout_ms()};
	r = cli_run(&o, on_answer, &q, e);
	if (r == 0)
		r = q.answer;
	return r < 0 ? err_wrap(e, r, "ask %s whether it answers", en->name) : 0;
}
