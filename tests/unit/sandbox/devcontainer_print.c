/* Prints what the reader makes of a workspace's devcontainer.json, in the form of `devcontainer read-configuration`,
 * for the test that holds it against that program: WORKSPACE [PATH]. */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/json.h>
#include <sandbox/devcontainer.h>

#include <stdio.h>
#include <unistd.h>

static int print(const char *workspace, const char *path, struct err *e)
{
	auto_devcontainer_file f = {0};
	auto_devcontainer d = NULL;
	int r = path ? devcontainer_read(workspace, path, &f, e) : devcontainer_find(workspace, &f, e);

	if (r == 0 && !f.path)
		r = err_set(e, ERR_INPUT, ENOENT, "there is none");
	if (r < 0)
		return r;
	const struct devcontainer_params p = {
		.workspace = workspace,
		.path = f.path,
		.env = (const char *const *)environ,
	};
	r = devcontainer_load(&p, f.text, f.len, &d, e);
	if (r < 0)
		return r;
	auto_json out = json_object();
	json_put(out, "configuration", devcontainer_configuration(d));
	json_put(out, "workspace", devcontainer_workspace(d));
	auto_free char *text = json_compact(out);
	return puts(text) < 0 ? -EIO : 0;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;

	if (argc >= 2 && print(argv[1], argc > 2 ? argv[2] : NULL, &e) == 0)
		return 0;
	(void)fprintf(stderr, "%s\n", e.msg);
	return 1;
}
