/* codex's arguments. The prompt is on its input, which "-" says. What it does by itself beside the task (plugins,
 * analytics, looking for updates) is off: it would be hosts that nobody listed. */
#include "arguments.h"

#include <base/buf.h>
#include <base/mem.h>
#include <dsl/ast.h>

enum { URL_MAX = 4096 };

/* A basic string of TOML 1.0. */
static void toml_string(struct buf *to, const char *s)
{
	(void)buf_putc(to, '"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c < 0x20 || c == 0x7f)
			(void)buf_printf(to, "\\u%04X", c);
		else if (c == '"' || c == '\\')
			(void)buf_printf(to, "\\%c", c);
		else
			(void)buf_putc(to, (char)c);
	}
	(void)buf_putc(to, '"');
}

static void add_setting(struct strv *argv, const char *text)
{
	strv_add(argv, "-c");
	strv_add(argv, text);
}

static void add_provider(struct strv *argv, const char *url)
{
	auto_buf b = BUF_INIT(8 * URL_MAX);

	(void)buf_puts(&b, "model_providers.iterion={name=\"iterion\",base_url=");
	toml_string(&b, url);
	(void)buf_puts(&b, ",env_key=\"CODEX_API_KEY\",wire_api=\"responses\",request_max_retries=2,"
			   "stream_max_retries=2}");
	add_setting(argv, buf_str(&b));
	add_setting(argv, "model_provider=\"iterion\"");
}

static void add_effort(struct strv *argv, const char *effort)
{
	auto_buf b = BUF_INIT(1024);

	(void)buf_puts(&b, "model_reasoning_effort=");
	/* The language's highest word is not one of codex's. */
	toml_string(&b, str_eq(effort, "max") ? "xhigh" : effort);
	add_setting(argv, buf_str(&b));
}

const char *codex_permission_mode(const struct codex_wish *w)
{
	if (w->isolated && !w->node->readonly.v)
		return "danger-full-access";
	return w->node->readonly.v ? "read-only" : "workspace-write";
}

void codex_arguments(const struct codex_wish *w, struct strv *argv)
{
	static const char *const always[] = {"exec", "--json", "--skip-git-repo-check", "--disable", "plugins"};
	const char *mode = codex_permission_mode(w);

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		strv_add(argv, always[i]);
	add_setting(argv, "analytics.enabled=false");
	add_setting(argv, "check_for_update_on_startup=false");
	/* Its commands need no key. */
	add_setting(argv, "shell_environment_policy.exclude=[\"CODEX_API_KEY\"]");
	if (w->base_url)
		add_provider(argv, w->base_url);
	if (w->node->reasoning_effort.s)
		add_effort(argv, w->node->reasoning_effort.s);
	if (str_eq(mode, "danger-full-access")) {
		strv_add(argv, "--dangerously-bypass-approvals-and-sandbox");
	} else {
		strv_add(argv, "--sandbox");
		strv_add(argv, mode);
	}
	if (w->model) {
		strv_add(argv, "--model");
		strv_add(argv, str_starts(w->model, "openai/") ? w->model + 7 : w->model);
	}
	if (w->schema_file) {
		strv_add(argv, "--output-schema");
		strv_add(argv, w->schema_file);
	}
	if (w->resume) {
		strv_add(argv, w->fork ? "fork" : "resume");
		strv_add(argv, w->resume);
	}
	strv_add(argv, "-");
}
