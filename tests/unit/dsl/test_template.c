/* Templates: parsing, typed values, and hostile values put into commands and scripts that then really run: what the
 * program prints must be the value, byte for byte, and nothing else may have happened. */
#include "cases.h"

#include <base/arena.h>
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/json.h>
#include <base/mem.h>
#include <base/spawn.h>
#include <base/str.h>
#include <dsl/template.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

extern char **environ;

static json_t *get(void *arg, enum dsl_ns ns, const char *name)
{
	json_t *space = json_object_get(arg, dsl_ns_name(ns));

	if (ns == DSL_NS_HISTORY)
		space = json_object_get(arg, "history");
	return json_incref(name ? json_object_get(space, name) : space);
}

/* Renders a text with the world given; the result or "error: …". */
static char *render(enum template_lang lang, const char *text, json_t *world)
{
	struct arena *a = arena_new();
	struct dsl_scope scope = {.get = get, .arg = world};
	const struct template *t;
	struct err e = ERR_INIT;
	auto_buf b = BUF_INIT((size_t)64 << 20);
	char *r;

	if (template_parse(a, text, strlen(text), lang, &t, NULL, &e) < 0 || template_render(t, &scope, &b, &e) < 0)
		r = xasprintf("error: %s", e.msg);
	else
		r = xstrdup(buf_str(&b));
	arena_free(a);
	return r;
}

static const char small_world[] =
	"{\"vars\": {\"x\": \"a'b\", \"n\": 5, \"neg\": -2, \"f\": 1.5, \"b\": true, \"l\": [\"p q\", \"r\"], \"e\": "
	"[],"
	" \"o\": {\"k\": [1, null]}, \"z\": null, \"nul\": \"a\\u0000b\", \"nl\": \"a\\nb\"},"
	" \"input\": {\"f\": \"v\"}, \"outputs\": {\"n\": {\"s\": \"t\", \"l\": [\"x\", {\"k\": 1}]}},"
	" \"history\": {\"n\": [{\"s\": 1}]}, \"run\": {\"id\": \"r\"}, \"artifacts\": {\"a\": 1},"
	" \"loop\": {\"l\": {\"iteration\": 1, \"previous_output\": {\"f\": 2}}},"
	" \"attachments\": {\"log\": {\"path\": \"/p\", \"size\": 3}}}";

static void test_render(void **state)
{
	static const struct {
		enum template_lang lang;
		const char *text, *expect;
	} rows[] = {
		{TEMPLATE_TEXT, "", ""},
		{TEMPLATE_TEXT, "a {{vars.x}} b", "a a'b b"},
		{TEMPLATE_TEXT, "{{ vars.n }}{{vars.f}}{{vars.b}}{{vars.z}}{{vars.missing}}", "51.5true"},
		{TEMPLATE_TEXT, "{{vars.l}} {{vars.o}}", "[\"p q\",\"r\"] {\"k\":[1,null]}"},
		{TEMPLATE_TEXT, "{{outputs.n.l[1].k}} {{outputs.n.l.0}} {{outputs.n.history[0].s}}", "1 x 1"},
		{TEMPLATE_TEXT, "{{loop.l.iteration}} {{loop.l.previous_output.f}} {{run.id}} {{artifacts.a}}",
		 "1 2 r 1"},
		{TEMPLATE_TEXT, "{{attachments.log}} {{attachments.log.size}} {{input}}", "/p 3 {\"f\":\"v\"}"},
		{TEMPLATE_TEXT, "{{\"{{\"}} .Names {{'}}'}} {{\"\"}}", "{{ .Names }} "},
		{TEMPLATE_TEXT, "} } {x} {", "} } {x} {"},
		{TEMPLATE_TEXT, "{{raw vars.x}}", "a'b"},
		{TEMPLATE_TEXT, "{{", "error: template: {{ without }}"},
		{TEMPLATE_TEXT, "{{vars.x\n}}", "error: template: {{ without }}"},
		{TEMPLATE_TEXT, "{{}}", "error: template {{}}: this is no reference"},
		{TEMPLATE_TEXT, "{{.Names}}", "error: template {{.Names}}: this is no reference"},
		{TEMPLATE_TEXT, "{{var.x}}", "error: template {{var.x}}: this is no reference"},
		{TEMPLATE_TEXT, "{{vars}}", "error: template {{vars}}: a name is missing"},
		{TEMPLATE_TEXT, "{{vars.}}", "error: "},
		{TEMPLATE_TEXT, "{{vars.x y}}", "error: "},
		{TEMPLATE_TEXT, "{{outputs.n.l[x]}}", "error: "},
		{TEMPLATE_TEXT, "{{outputs.n.l[0}}", "error: "},
		{TEMPLATE_TEXT, "{{loop.l}}", "error: "},
		{TEMPLATE_TEXT, "{{loop.l.itaration}}", "error: "},
		{TEMPLATE_TEXT, "{{secrets.x}}", "error: "},
		{TEMPLATE_SHELL, "echo {{vars.x}}", "echo 'a'\\''b'"},
		{TEMPLATE_SHELL, "echo {{vars.n}} {{vars.b}} {{vars.z}}", "echo '5' 'true' ''"},
		{TEMPLATE_SHELL, "echo {{vars.l}} {{vars.e}}.", "echo 'p q' 'r' ."},
		{TEMPLATE_SHELL, "echo \"<{{vars.x}}>\"", "echo \"<\"'a'\\''b'\">\""},
		{TEMPLATE_SHELL, "echo '<{{vars.x}}>'", "echo '<a'\\''b>'"},
		{TEMPLATE_SHELL, "echo \"{{vars.l}}\"", "echo \"\"'p q r'\"\""},
		{TEMPLATE_SHELL, "echo $(({{vars.n}} + 1))", "echo $((5 + 1))"},
		{TEMPLATE_SHELL, "echo $(({{vars.x}} + 1))", "error: only a number"},
		{TEMPLATE_SHELL, "echo \"$(cat {{vars.x}})\"", "echo \"$(cat 'a'\\''b')\""},
		{TEMPLATE_SHELL, "# {{vars.nl}}\necho {{vars.n}}", "# a b\necho '5'"},
		{TEMPLATE_SHELL, "echo $# {{vars.n}} ${#x} {{vars.n}}", "echo $# '5' ${#x} '5'"},
		{TEMPLATE_SHELL, "echo {{raw vars.x}}", "echo a'b"},
		{TEMPLATE_SHELL, "echo {{vars.nul}}", "error: a value with a NUL"},
		{TEMPLATE_SHELL, "echo {{raw vars.nul}}", "error: a value with a NUL"},
		{TEMPLATE_SHELL, "echo `echo {{vars.x}}`",
		 "error: template: no value can be put here safely: inside `"},
		{TEMPLATE_SHELL, "echo ${x:-{{vars.x}}}", "error: template: no value"},
		{TEMPLATE_SHELL, "echo \"${x:-\"{{vars.x}}\"}\"", "error: template: no value"},
		{TEMPLATE_SHELL, "echo ${x:-'{{vars.x}}'}", "error: template: no value"},
		{TEMPLATE_SHELL, "echo \"${x:-$(echo {{vars.n}})}\"", "echo \"${x:-$(echo '5')}\""},
		{TEMPLATE_SHELL, "echo $(( '{{vars.x}}' + \"{{vars.n}}\" ))", "error: only a number"},
		{TEMPLATE_SHELL, "echo $(( \"{{vars.n}}\" ))", "echo $(( \"5\" ))"},
		{TEMPLATE_SHELL, "echo $(( $(echo {{vars.n}}) + 1 ))", "echo $(( $(echo '5') + 1 ))"},
		{TEMPLATE_SHELL, "echo $( ((i = {{vars.x}})); echo )", "error: only a number"},
		{TEMPLATE_SHELL, "((a);(b)); x=$((c);(d) ); echo {{vars.x}}",
		 "((a);(b)); x=$((c);(d) ); echo 'a'\\''b'"},
		{TEMPLATE_SHELL, "echo $[ {{vars.n}} ]", "error: template: no value"},
		{TEMPLATE_SHELL, "cat <<E\n{{vars.x}}\nE\n", "error: template: no value"},
		{TEMPLATE_SHELL, "cat <<'E' >{{vars.n}}\nit's\nE\necho {{vars.n}}",
		 "cat <<'E' >'5'\nit's\nE\necho '5'"},
		{TEMPLATE_SHELL, "cat <<-E\n\tit's\n\tE\necho {{vars.n}}", "cat <<-E\n\tit's\n\tE\necho '5'"},
		{TEMPLATE_SHELL, "cat <<A <<B\n'\nA\n\"\nB\necho {{vars.n}}", "cat <<A <<B\n'\nA\n\"\nB\necho '5'"},
		{TEMPLATE_SHELL, "cat <<E\n{{raw vars.n}}\nE\n", "cat <<E\n5\nE\n"},
		{TEMPLATE_SHELL, "cat <<<{{vars.n}}", "cat <<<'5'"},
		{TEMPLATE_SHELL, "echo \\{{vars.x}}", "error: template: no value"},
		{TEMPLATE_SHELL, "echo ${{vars.x}}", "error: template: no value"},
		{TEMPLATE_SHELL, "echo $'{{vars.x}}'", "error: template: no value"},
		{TEMPLATE_SHELL, "x=$(case a in a) echo;; esac) {{vars.x}}", "error: template: no value"},
		{TEMPLATE_SHELL, "((i<<2)); echo {{vars.n}}", "((i<<2)); echo '5'"},
		{TEMPLATE_SHELL, "echo \"${x#\\\"}{{vars.n}}\"", "echo \"${x#\\\"}\"'5'\"\""},
		{TEMPLATE_JS, "f({{vars.x}}, {{vars.n}}, {{vars.b}}, {{vars.z}})", "f(\"a\\u0027b\", 5, true, null)"},
		{TEMPLATE_JS, "1-{{vars.neg}}", "1-(-2)"},
		{TEMPLATE_JS, "x={{vars.o}}", "x={[\"k\"]:[1,null]}"},
		{TEMPLATE_JS, "'{{vars.x}}' \"{{vars.x}}\" `{{vars.x}} ${ {{vars.x}} }`",
		 "'a\\u0027b' \"a\\u0027b\" `a\\u0027b ${ \"a\\u0027b\" }`"},
		{TEMPLATE_JS, "// {{vars.nl}}\n/* {{vars.x}} */ {{vars.n}}", "// a b\n/* a b */ 5"},
		{TEMPLATE_JS, "x = /['\"]/; y = {{vars.n}}", "x = /['\"]/; y = 5"},
		{TEMPLATE_JS, "x = a / b; y = '{{vars.x}}' / 2", "x = a / b; y = 'a\\u0027b' / 2"},
		{TEMPLATE_JS, "x = /{{vars.x}}/", "error: template: no value"},
		{TEMPLATE_PYTHON, "f({{vars.x}}, {{vars.n}}, {{vars.b}}, {{vars.z}}, {{vars.o}})",
		 "f( \"a\\x27b\" , 5, True, None, {\"k\":[1,None]})"},
		{TEMPLATE_PYTHON, "f'{{vars.x}}' '''{{vars.x}}' ''' {{vars.n}} # {{vars.x}}",
		 "f'a\\x27b' '''a\\x27b' ''' 5 # a b"},
		{TEMPLATE_PYTHON, "'{{vars.z}}''x'; \"\"{{vars.x}}\"\"", "'\\\n''x'; \"\" \"a\\x27b\" \"\""},
		{TEMPLATE_PYTHON, "r'{{vars.x}}'", "error: template: no value"},
		{TEMPLATE_PYTHON, "Rb\"\"\"{{vars.x}}\"\"\"", "error: template: no value"},
		{TEMPLATE_PYTHON, "b'{{vars.x}}'", "error: template: no value"},
	};
	auto_json world = json_loads(small_world, JSON_ALLOW_NUL, NULL);
	size_t failed = 0;

	(void)state;
	assert_non_null(world);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = render(rows[i].lang, rows[i].text, world);
		bool prefix = str_starts(rows[i].expect, "error: ");
		if (prefix ? !str_starts(got, rows[i].expect) : strcmp(got, rows[i].expect) != 0) {
			print_error("%s\n  expected %s\n  got      %s\n", rows[i].text, rows[i].expect, got);
			failed++;
		}
	}
	assert_int_equal(failed, 0);
}

static void test_value(void **state)
{
	static const struct {
		const char *text, *expect;
	} rows[] = {
		{"{{vars.n}}", "5"},
		{"{{ vars.l }}", "[\"p q\",\"r\"]"},
		{"{{vars.missing}}", "null"},
		{"{{vars.n}} ", "\"5 \""},
		{"{{vars.n}}{{vars.n}}", "\"55\""},
		{"5", "\"5\""},
		{"{{input}}", "{\"f\":\"v\"}"},
		{"", "\"\""},
	};
	auto_json world = json_loads(small_world, JSON_ALLOW_NUL, NULL);
	struct dsl_scope scope = {.get = get, .arg = world};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct arena *a = arena_new();
		const struct template *t;
		auto_json v = NULL;
		assert_int_equal(template_parse(a, rows[i].text, strlen(rows[i].text), TEMPLATE_TEXT, &t, NULL, NULL),
				 0);
		assert_int_equal(template_value(t, &scope, &v, NULL), 0);
		auto_free char *got = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
		assert_string_equal(got, rows[i].expect);
		arena_free(a);
	}
}

static void test_limit(void **state)
{
	auto_json world = json_loads(small_world, JSON_ALLOW_NUL, NULL);
	struct dsl_scope scope = {.get = get, .arg = world};
	struct arena *a = arena_new();
	const struct template *t;
	auto_buf b = BUF_INIT(4);
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(template_parse(a, "abc{{vars.x}}", 13, TEMPLATE_SHELL, &t, NULL, NULL), 0);
	assert_int_equal(template_render(t, &scope, &b, &e), -ENOBUFS);
	assert_non_null(strstr(e.msg, "larger than 4 bytes"));
	arena_free(a);
}

/* A program of a language, run on a text in memory; its standard output. False when it is not installed. */
static bool run(const char *program, const char *text, struct buf *out)
{
	auto_fd script = memfd_create("script", 0), output = memfd_create("output", MFD_CLOEXEC);
	bool shell = strcmp(program, "sh") == 0 || strcmp(program, "bash") == 0;
	char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)(shell ? "/dev/stdin" : "-"), NULL};
	struct spawn_opts o = {.file = program, .argv = argv, .envp = environ, .stdio = {script, output, 2}};
	struct spawn_status status = {0};
	struct err e = ERR_INIT;
	pid_t pid;

	assert_true(script >= 0 && output >= 0);
	assert_int_equal(fd_write_all(script, text, strlen(text)), 0);
	assert_int_equal(lseek(script, 0, SEEK_SET), 0);
	int r = spawn_start(&o, &pid, NULL, &e);
	if (r == -ENOENT)
		return false;
	if (r < 0)
		fail_msg("%s", e.msg);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(spawn_reap(pid, &status), 1);
	if (status.signaled || status.code != 0)
		fail_msg("%s ended with %d:\n%.2000s", program, status.code, text);
	assert_int_equal(lseek(output, 0, SEEK_SET), 0);
	assert_int_equal(fd_read_all(output, out), 0);
	return true;
}

/* What tries to get out of its quotes. The file it would make is looked for afterwards. */
static const char *const hostile[] = {
	"",
	"plain",
	"two words  with   spaces",
	"it's",
	"'",
	"''",
	"\"",
	"'\"'\"'",
	"'; touch PWNED; '",
	"\"; touch PWNED; \"",
	"$(touch PWNED)",
	"`touch PWNED`",
	"\"$(touch PWNED)\"",
	"'$(touch PWNED)'",
	"${HOME}",
	"$HOME \\$HOME",
	"a\nb\n\n",
	"a\n touch PWNED\n",
	"\n; touch PWNED #",
	"\\",
	"\\\\",
	"\\'; touch PWNED; \\'",
	"a\\",
	"*",
	"~ {a,b} ? [a-z]",
	"-n",
	"&& touch PWNED ||",
	"| tee PWNED <x >PWNED",
	"!!",
	"#",
	" # comment",
	"\t\r\v\f\x01\x7f",
	"ünïcödé 日本語 😀",
	"\u2028\u2029",
	"*/ open('PWNED','w') /*",
	"\"+require('fs').writeFileSync('PWNED','')+\"",
	"'+require('fs').writeFileSync('PWNED','')+'",
	"${require('fs').writeFileSync('PWNED','')}",
	"`+require('fs').writeFileSync('PWNED','')+`",
	"\" + open('PWNED','w').name + \"",
	"' + open('PWNED','w').name + '",
	"{open('PWNED','w')}",
	"'''\nopen('PWNED','w')\n'''",
	"\"\"\"\nopen('PWNED','w')\n\"\"\"",
	"</script>",
	"EOF\ntouch PWNED\n",
	"__proto__",
};

/* A text around the value, per language; each prints the value once, then a dot (which keeps line ends at its end). */
static const struct {
	const char *program;
	enum template_lang lang;
	const char *text;
} around[] = {
	{"sh", TEMPLATE_SHELL, "printf '%s.' {{vars.v}}"},
	{"sh", TEMPLATE_SHELL, "printf '%s.' \"{{vars.v}}\""},
	{"sh", TEMPLATE_SHELL, "printf '%s.' '{{vars.v}}'"},
	{"sh", TEMPLATE_SHELL, "x={{vars.v}}; printf '%s.' \"$x\""},
	{"sh", TEMPLATE_SHELL, "x=\"{{vars.v}}\"\nprintf '%s.' \"$x\" # it's {{vars.v}}\n# \" {{vars.v}}\n"},
	{"sh", TEMPLATE_SHELL, "x=\"$(printf '%s.' {{vars.v}})\"; printf '%s' \"$x\""},
	{"sh", TEMPLATE_SHELL, "x=\"$(printf '%s.' \"{{vars.v}}\")\"; printf '%s' \"$x\""},
	{"sh", TEMPLATE_SHELL, "cat >/dev/null <<'E'\nit's \" $(\nE\nprintf '%s.' {{vars.v}}"},
	{"sh", TEMPLATE_SHELL, "f() { printf '%s.' \"$1\"; }\nif true; then f {{vars.v}}; fi"},
	{"bash", TEMPLATE_SHELL, "if [[ -n x{{vars.v}} ]]; then printf '%s.' {{vars.v}}; fi"},
	{"bash", TEMPLATE_SHELL, "x=$'\\''; a=({{vars.v}}); printf '%s.' \"${a[0]}\""},
	{"python3", TEMPLATE_PYTHON, "import sys\nsys.stdout.buffer.write(({{vars.v}} + '.').encode())"},
	{"python3", TEMPLATE_PYTHON, "import sys\nsys.stdout.buffer.write('{{vars.v}}.'.encode())"},
	{"python3", TEMPLATE_PYTHON, "import sys\nsys.stdout.buffer.write(\"{{vars.v}}.\".encode()) # {{vars.v}}\n"},
	{"python3", TEMPLATE_PYTHON, "import sys\nx = f'''{{vars.v}}{'.'}'''\nsys.stdout.buffer.write(x.encode())"},
	{"python3", TEMPLATE_PYTHON,
	 "import sys\nx = {'k': {{vars.all}}}\nsys.stdout.buffer.write((x['k']['v'] + "
	 "'.').encode())"},
	{"node", TEMPLATE_JS, "process.stdout.write({{vars.v}} + '.')"},
	{"node", TEMPLATE_JS, "process.stdout.write('{{vars.v}}.') // {{vars.v}}\n"},
	{"node", TEMPLATE_JS, "/* {{vars.v}} */ process.stdout.write(\"{{vars.v}}.\")"},
	{"node", TEMPLATE_JS, "process.stdout.write(`{{vars.v}}${ '{{vars.v}}' && '.' }`)"},
	{"node", TEMPLATE_JS, "const x = {{vars.all}}; process.stdout.write(x['v'] + '.')"},
};

static json_t *world_of(const char *value, size_t len)
{
	json_t *vars = json_object(), *all = json_object(), *world = json_object();

	json_put(all, "v", json_text(value, len));
	json_put(vars, "v", json_text(value, len));
	json_put(vars, "all", all);
	json_put(world, "vars", vars);
	return world;
}

static void try_value(size_t row, const char *value, size_t len)
{
	auto_json world = world_of(value, len);
	const char *text = json_get_str(json_object_get(world, "vars"), "v");
	auto_free char *script = render(around[row].lang, around[row].text, world);
	auto_buf out = BUF_INIT((size_t)16 << 20);

	if (str_starts(script, "error: "))
		fail_msg("%s: %s", around[row].text, script);
	if (!run(around[row].program, script, &out)) {
		print_message("%s is not installed: %s was not run\n", around[row].program, around[row].text);
		return;
	}
	if (out.len != strlen(text) + 1 || memcmp(out.data, text, out.len - 1) != 0 || out.data[out.len - 1] != '.')
		fail_msg("%s: %s\nscript: %.500s\ngot: %.500s", around[row].program, text, script, buf_str(&out));
	if (access("PWNED", F_OK) == 0)
		fail_msg("%s ran the value %s: %s", around[row].program, text, script);
}

static bool slow(const char *program)
{
	return strcmp(program, "node") == 0 || strcmp(program, "python3") == 0;
}

/* Values one by one in the shells; all of them in one script in the interpreters, which start slowly. */
static void test_hostile(void **state)
{
	char folder[] = "/tmp/dsl-template-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	for (size_t row = 0; row < ARRAY_LEN(around); row++)
		for (size_t i = 0; i < ARRAY_LEN(hostile) && !slow(around[row].program); i++)
			try_value(row, hostile[i], strlen(hostile[i]));
	auto_buf all = BUF_INIT(65536);
	for (size_t i = 0; i < ARRAY_LEN(hostile); i++)
		assert_int_equal(buf_printf(&all, "%s|", hostile[i]), 0);
	for (size_t row = 0; row < ARRAY_LEN(around); row++) {
		if (!slow(around[row].program))
			continue;
		try_value(row, buf_str(&all), all.len);
		for (size_t i = ARRAY_LEN(hostile) - 13; i < ARRAY_LEN(hostile); i += 3)
			try_value(row, hostile[i], strlen(hostile[i]));
	}
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* A megabyte, and bytes that are no UTF-8 (which a JSON string cannot hold: they arrive as U+FFFD). */
static void test_large_and_binary(void **state)
{
	char *large = repeat("it's \"1\" $(x)\n", 80000);

	(void)state;
	for (size_t row = 0; row < ARRAY_LEN(around); row++) {
		if (row != 0 && row != 1 && row != 2 && row != 11 && row != 16)
			continue;
		try_value(row, "\xff\xfe' \xc3\x28\xed\xa0\x80\"", 10);
		try_value(row, large, strlen(large));
	}
	free(large);
}

/* Each string of a list is a word of its own. */
static void test_list_words(void **state)
{
	auto_json world = json_pack("{s:{s:[s,s,s],s:[]}}", "vars", "l", "a b", "c'd", "$(x)", "e");
	auto_buf out = BUF_INIT(4096);
	auto_free char *script = render(
		TEMPLATE_SHELL, "p() { printf '%s' $#; printf '<%s>' \"$@\"; }; p {{vars.l}}; p x {{vars.e}}", world);

	(void)state;
	assert_true(run("sh", script, &out));
	assert_string_equal(buf_str(&out), "3<a b><c'd><$(x)>1<x>");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_render),	   cmocka_unit_test(test_value),
		cmocka_unit_test(test_limit),	   cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_list_words), cmocka_unit_test(test_large_and_binary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
