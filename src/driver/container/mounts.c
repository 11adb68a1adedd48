/* What a container would mount, read from the command line that would make it: what is told cannot differ from what is
 * done. The engine is not asked, so a machine without it can tell as well. */
#include "mounts.h"
#include "../guest_path.h"
#include "../ops.h"
#include "args.h"
#include "engine.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>
#include <base/str.h>
#include <guest/protocol.h>
#include <sandbox/spec.h>

#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Cuts the next field of --mount's CSV off, as args.c writes it: quoted as a whole, or not at all. */
static char *next_field(const char **rest)
{
	auto_buf out = BUF_INIT(SIZE_MAX);
	const char *c = *rest;
	bool quoted = *c == '"';

	for (c += quoted; *c && (quoted || *c != ','); c++) {
		if (quoted && *c == '"' && *++c != '"')
			break;
		(void)buf_putc(&out, *c);
	}
	*rest = *c == ',' ? c + 1 : c;
	return buf_steal(&out);
}

/* The value of --mount. */
static void add_mount(const struct container_engine *en, const char *text, json_t *list)
{
	auto_free char *type = NULL;
	auto_free char *source = NULL;
	auto_free char *target = NULL;
	bool cover = str_starts(text, "type=tmpfs,") && str_ends(text, en->tmpfs_cover), readonly = cover;

	while (*text) {
		auto_free char *field = next_field(&text);
		char **to = str_starts(field, "type=")	   ? &type
			    : str_starts(field, "source=") ? &source
			    : str_starts(field, "target=") ? &target
							   : NULL;
		readonly = readonly || str_eq(field, "readonly");
		if (to && !*to)
			*to = xstrdup(strchr(field, '=') + 1);
	}
	/* These are made with the sandbox. */
	bool later = str_eq(target, GUEST_CONTROL_SOCKET) || str_eq(source, "/authority") || str_eq(source, "/bundle");
	mount_list_add(list, cover ? "cover" : type, later ? NULL : source, target, readonly);
}

int container_list_mounts(const struct container_engine *en, const struct sandbox_params *p, json_t *list,
			  struct err *e)
{
	auto_free char *guest = NULL;
	auto_strv argv = {0};

	int r = guest_path_find(&guest, e);
	if (r < 0)
		return r;
	const struct args_facts f = {
		.engine = en,
		.program = en->program,
		.name = "plan",
		.owner = "plan",
		.image = p->spec->image ? p->spec->image : "plan",
		.guest = guest,
		.socket = "/control",
		.authority = p->certificates ? "/authority" : NULL,
		.bundle = p->certificates ? "/bundle" : NULL,
		.env_file = "/env",
		.uid = getuid(),
		.gid = getgid(),
	};
	r = args_run(p, &f, &argv, e);
	for (size_t i = 0; r == 0 && i + 1 < argv.n; i++) {
		if (str_eq(argv.v[i], "--mount")) {
			add_mount(en, argv.v[i + 1], list);
		} else if (str_eq(argv.v[i], "--tmpfs")) {
			auto_free char *target = xstrndup(argv.v[i + 1], strcspn(argv.v[i + 1], ":"));
			mount_list_add(list, "tmpfs", NULL, target, false);
		}
	}
	return r;
}
