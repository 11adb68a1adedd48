/* Files that are large, cut, nested, doubled or broken: an error with a place and a hint, or the right reading; never a
 * crash, and nothing read beyond the text's end. */
#include "devcontainer.h"

#include <base/buf.h>
#include <sandbox/spec.h>

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct devcontainer_params params = {
	.workspace = "/w/ws", .path = "/w/ws/.devcontainer/devcontainer.json", .env = case_env};

/* The text right before an unreadable page, read into a block. */
static int read_guarded(const char *text, size_t len, struct sandbox_block *ret, struct err *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (len + page - 1) / page * page + page;
	char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct devcontainer *d = NULL;

	assert_true(base != MAP_FAILED);
	assert_int_equal(mprotect(base + size - page, page, PROT_NONE), 0);
	char *copy = base + size - page - len;
	memcpy(copy, text, len);
	int r = devcontainer_load(&params, copy, len, &d, e);
	assert_int_equal(munmap(base, size), 0);
	if (r < 0)
		return r;
	r = devcontainer_to_block(d, ret, e);
	devcontainer_free(d);
	return r;
}

/* Whether it was taken; an error has all its parts. */
static bool taken(const char *text, size_t len)
{
	auto_sandbox_block b = {0};
	struct err e = ERR_INIT;
	int r = read_guarded(text, len, &b, &e);

	if (r == 0)
		return true;
	if (e.kind != ERR_INPUT || !*e.hint || !strstr(e.msg, "devcontainer.json"))
		fail_msg("%d %s (%s) of: %.200s", r, e.msg, e.hint, text);
	return false;
}

/* Something of everything that the reader knows. */
static const char whole[] =
	"// all of it\n"
	"{ \"name\": \"n\", \"image\": \"debian:12\", /* why */ \"containerEnv\": {\"A\": \"${localEnv:DC_SET}\"},\n"
	"  \"remoteEnv\": {\"B\": \"${containerEnv:A:x}\", \"GONE\": null},\n"
	"  \"mounts\": [\"type=bind,source=/data,target=/d\", {\"type\": \"tmpfs\", \"target\": \"/t\"}],\n"
	"  \"runArgs\": [\"--init\", \"-e\", \"C=1\", \"--cpus=1.5\"], \"remoteUser\": \"node\",\n"
	"  \"workspaceFolder\": \"/work\", \"features\": {\"f\": {}}, \"forwardPorts\": [80, \"db:1\"],\n"
	"  \"postCreateCommand\": {\"a\": \"make\", \"b\": [\"sh\", \"-c\", \"\\u00e9\\ud83d\\ude00\\n\"]},\n"
	"  \"customizations\": {\"vscode\": {\"settings\": {\"x\": [1, -2.5e3, true, null]}}} , }\n";

static void test_whole(void **state)
{
	(void)state;
	assert_true(taken(whole, sizeof whole - 1));
}

static void test_cut_at_each_byte(void **state)
{
	size_t end = sizeof whole - 1;

	(void)state;
	while (whole[end - 1] != '}')
		end--;
	for (size_t len = 0; len < sizeof whole; len++)
		if (taken(whole, len) != (len >= end))
			fail_msg("cut at %zu of %zu", len, end);
}

static void test_each_byte_replaced(void **state)
{
	static const char others[] = {'\0', '"', '\\', '{', '}', '[', ',', '/', '$', '9', '\n', '\x7f', '\x80', '\xff'};
	auto_free char *text = xstrdup(whole);
	size_t refused = 0;

	(void)state;
	for (size_t i = 0; i + 1 < sizeof whole; i++) {
		for (size_t k = 0; k < ARRAY_LEN(others); k++) {
			text[i] = others[k];
			refused += !taken(text, sizeof whole - 1);
		}
		text[i] = whole[i];
	}
	assert_true(refused > 1000);
}

static void test_a_megabyte(void **state)
{
	auto_buf text = BUF_INIT(4 * 1024 * 1024);
	auto_sandbox_block b = {0};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(buf_puts(&text, "{\"containerEnv\": {"), 0);
	size_t n = 0;
	for (; text.len < 1024 * 1024; n++)
		assert_int_equal(
			buf_printf(&text, "%s\"N%zu\": \"value of ${localEnv:DC_SET} and 'more'\"", n ? ", " : "", n),
			0);
	assert_int_equal(buf_puts(&text, "}}"), 0);
	int r = read_guarded(buf_str(&text), text.len, &b, &e);
	if (r < 0) {
		/* A limit is an answer too, when it says so. */
		assert_true(e.kind == ERR_INPUT && *e.hint);
		return;
	}
	assert_int_equal(b.spec.env.n, n);
	assert_string_equal(strv_get_env(&b.spec.env, "N7"), "value of setval and 'more'");
}

static void test_ten_thousand_mounts(void **state)
{
	enum { COUNT = 10000 };
	auto_buf text = BUF_INIT(4 * 1024 * 1024);
	auto_sandbox_block b = {0};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(buf_puts(&text, "{\"mounts\": ["), 0);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(buf_printf(&text,
					    i % 2 ? "%s\"type=bind,source=/s/%d,target=/t/%d\""
						  : "%s{\"type\":\"bind\",\"source\":\"/s/%d\",\"target\":\"/t/%d\"}",
					    i ? "," : "", i, i),
				 0);
	assert_int_equal(buf_puts(&text, "]}"), 0);
	if (read_guarded(buf_str(&text), text.len, &b, &e) < 0)
		fail_msg("%s (%s)", e.msg, e.hint);
	assert_int_equal(b.spec.n_mounts, COUNT);
	assert_string_equal(b.spec.mounts[COUNT - 1].source, "/s/9999");
	assert_string_equal(b.spec.mounts[COUNT - 1].target, "/t/9999");
}

/* {"a":{"a":…}} and [[…]]; wide at the bottom. */
static void nest(struct buf *to, const char *open, const char *close, size_t depth)
{
	(void)buf_puts(to, "{\"x\":");
	for (size_t i = 0; i < depth; i++)
		(void)buf_puts(to, open);
	(void)buf_puts(to, "1");
	for (size_t i = 0; i < depth; i++)
		(void)buf_puts(to, close);
	(void)buf_puts(to, "}");
}

static void test_nesting(void **state)
{
	static const struct {
		size_t depth;
		bool want;
	} rows[] = {{1, true}, {100, true}, {126, true}, {128, false}, {10000, false}, {100000, false}};
	static const char *const pairs[][2] = {{"[", "]"}, {"{\"a\":", "}"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t k = 0; k < ARRAY_LEN(pairs); k++) {
			auto_buf text = BUF_INIT(4 * 1024 * 1024);
			nest(&text, pairs[k][0], pairs[k][1], rows[i].depth);
			if (taken(buf_str(&text), text.len) != rows[i].want)
				fail_msg("depth %zu of %s", rows[i].depth, pairs[k][0]);
		}
	}
}

static void test_doubled_members(void **state)
{
	auto_sandbox_block b = {0};
	auto_buf many = BUF_INIT(4 * 1024 * 1024);
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(
		block_of("{\"image\": \"a\", \"image\": \"b\", \"containerEnv\": {\"X\": \"1\", \"X\": \"2\"}, "
			 "\"remoteUser\": \"one\", \"remoteUser\": \"two\"}",
			 &b, &e),
		0);
	assert_string_equal(b.spec.image, "b");
	assert_string_equal(b.spec.user, "two");
	assert_int_equal(b.spec.env.n, 1);
	assert_string_equal(strv_get_env(&b.spec.env, "X"), "2");
	/* A bad one that is overridden is overridden. */
	assert_true(taken("{\"image\": 7, \"image\": \"b\"}", 26));
	assert_int_equal(buf_puts(&many, "{"), 0);
	for (int i = 0; i < 50000; i++)
		assert_int_equal(buf_printf(&many, "\"name\":\"%d\",", i), 0);
	assert_int_equal(buf_puts(&many, "}"), 0);
	assert_true(taken(buf_str(&many), many.len));
}

/* Half of a pair is no character: nothing that comes out is invalid UTF-8. */
static void test_lone_surrogates(void **state)
{
	static const char *const rows[] = {"\\ud800",	     "\\udc00",	       "a\\ud83d",
					   "\\ud83dx",	     "\\ud83d\\n",     "\\ud83d\\ud83d",
					   "\\ude00\\ud83d", "\\uD800\\u0041", "\\ud83"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static const char *const places[] = {"{\"containerEnv\": {\"A\": \"%s\"}}", "{\"name\": \"%s\"}",
						     "{\"%s\": 1}", "{\"postCreateCommand\": [\"%s\"]}"};
		for (size_t k = 0; k < ARRAY_LEN(places); k++) {
			const char *at = strstr(places[k], "%s");
			auto_free char *text = xasprintf("%.*s%s%s", (int)(at - places[k]), places[k], rows[i], at + 2);
			auto_sandbox_block b = {0};
			struct err e = ERR_INIT;
			struct devcontainer *d = NULL;
			if (load_words(text, &d, &e) < 0) {
				assert_true(*e.msg && *e.hint);
				continue;
			}
			auto_json conf = devcontainer_configuration(d);
			auto_free char *out = json_compact(conf);
			assert_true(out && utf8_valid(out, strlen(out)));
			(void)!devcontainer_to_block(d, &b, &e);
			devcontainer_free(d);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_cut_at_each_byte),
		cmocka_unit_test(test_each_byte_replaced),
		cmocka_unit_test(test_a_megabyte),
		cmocka_unit_test(test_ten_thousand_mounts),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_doubled_members),
		cmocka_unit_test(test_lone_surrogates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
