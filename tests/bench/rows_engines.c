/* Rows against docker and podman. They use an image that is there already: nothing is pulled, and without one, or
 * without an engine that answers, the row says so. */
#include "bench.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>
#include <base/mem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS_ENGINE = 11 };

char *engine_image(const struct bench *b, const char *engine, struct result *ret)
{
	const char *const answers[] = {engine, "info", NULL};
	auto_buf out = BUF_INIT(1 << 20);
	int p[2];

	if (!works(b, answers, ret))
		return NULL;
	if (pipe2(p, O_CLOEXEC) < 0) {
		miss(ret, "pipe: %s", strerror(errno));
		return NULL;
	}
	pid_t pid = fork();
	if (pid == 0) {
		dup2(p[1], 1);
		environ = b->who->env;
		execlp(engine, engine, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", NULL);
		_exit(127);
	}
	close_quietly(p[1]);
	auto_fd from = p[0];
	(void)!fd_read_all(from, &out);
	(void)waitpid(pid, NULL, 0);
	size_t len = strcspn(buf_str(&out), "\n");
	if (len == 0 || strstr(buf_str(&out), "<none>")) {
		miss(ret, "%s has no image on this machine", engine);
		return NULL;
	}
	return xstrndup(buf_str(&out), len);
}

/* A workflow file of one node in that image; the caller frees its path. */
static char *image_workflow(const struct bench *b, const char *image)
{
	auto_free char *block = xasprintf("  sandbox:\n    mode: inline\n    image: \"%s\"\n", image);
	auto_free char *text = workflow_text(1, "true", block);

	return workspace_file(b, "image.bot", text, strlen(text));
}

void measure_engine_run(const struct bench *b, const char *engine, struct result *ret)
{
	auto_free char *image = engine_image(b, engine, ret);
	if (!image)
		return;
	auto_free char *file = image_workflow(b, image);
	const char *const ours[] = {b->iterion,	       "run", "--quiet", "--sandbox-driver", engine, "--workspace",
				    b->who->workspace, file,  NULL};
	const char *const peer[] = {engine, "run", "--rm", image, "true", NULL};

	compare(b, ours, peer, ROUNDS_ENGINE, ret);
}

void measure_native_to_engine(const struct bench *b, const char *engine, struct result *ret)
{
	auto_free char *image = engine_image(b, engine, ret);
	if (!image)
		return;
	auto_free char *file = image_workflow(b, image);
	auto_free char *text = workflow_text(1, "true", allowlist_block);
	auto_free char *native_file = workspace_file(b, "native.bot", text, strlen(text));
	const char *const ours[] = {b->iterion,		"run",	     "--quiet",
				    "--sandbox-driver", "native",    "--workspace",
				    b->who->workspace,	native_file, NULL};
	const char *const peer[] = {b->iterion,	       "run", "--quiet", "--sandbox-driver", engine, "--workspace",
				    b->who->workspace, file,  NULL};

	compare(b, ours, peer, ROUNDS_ENGINE, ret);
}

void measure_engine_exec(const struct bench *b, const char *engine, struct result *ret)
{
	auto_free char *image = engine_image(b, engine, ret);
	if (!image)
		return;
	auto_free char *name = xasprintf("iterion-bench-%d", (int)getpid());
	const char *const begin[] = {engine, "run", "--detach", "--rm", "--name", name, image, "sleep", "600", NULL};
	const char *const peer[] = {engine, "exec", name, "true", NULL};
	const char *const end[] = {engine, "rm", "--force", name, NULL};

	if (!works(b, begin, ret))
		return;
	compare_exec(b, engine, image, peer, ret);
	(void)time_command(b, end);
}
