/* JSON with comments: what is taken, what is not and where the message points; hostile texts. */
#include "devcontainer.h"
#include "jsonc.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A copy that ends right before an unreadable page. */
struct guarded {
	char *base, *text;
	size_t size;
};

static struct guarded guarded_copy(const char *text, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (len + page - 1) / page * page + page;
	struct guarded g = {.size = size};

	g.base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(g.base != MAP_FAILED);
	assert_int_equal(mprotect(g.base + size - page, page, PROT_NONE), 0);
	g.text = g.base + size - page - len;
	memcpy(g.text, text, len);
	return g;
}

static void guarded_done(struct guarded *g)
{
	assert_int_equal(munmap(g->base, g->size), 0);
}

static int parse(const char *text, size_t len, struct jsonc *ret, struct err *e)
{
	struct guarded g = guarded_copy(text, len);
	int r = jsonc_parse("f.json", g.text, len, ret, e);

	guarded_done(&g);
	return r;
}

static void test_taken(void **state)
{
	static const struct {
		const char *text, *plain;
	} rows[] = {
		{"{}", "{}"},
		{"\xef\xbb\xbf{}", "{}"},
		{" /* a */ [ ] // end", "[]"},
		{"[1,2,]", "[1,2]"},
		{"[1 /**/ , /***/ ]", "[1]"},
		{"{\"a\":1,}", "{\"a\":1}"},
		{"{\"a\"//x\n:\r\n1\n,//y\n}", "{\"a\":1}"},
		{"\"//not /* a comment */\"", "\"//not /* a comment */\""},
		{"[true,false,null]", "[true,false,null]"},
		{"[0,-1,9223372036854775807,-9223372036854775808]", "[0,-1,9223372036854775807,-9223372036854775808]"},
		{"[0.5,1e3,-2.5E-1,1E+2]", "[0.5,1000.0,-0.25,100.0]"},
		{"12345678901234567890", "12345678901234567890.0"},
		{"-0", "0"},
		{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
		{"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "\"A\u00e9\u20ac\U0001f600\""},
		{"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}"}, /* the last wins, in the first's place */
		{"{\"__proto__\":1,\"\":2}", "{\"__proto__\":1,\"\":2}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct jsonc j;
		struct err e = ERR_INIT;
		if (parse(rows[i].text, strlen(rows[i].text), &j, &e) < 0)
			fail_msg("%s: %s", rows[i].text, e.msg);
		json_error_t why;
		auto_json want = json_loads(rows[i].plain, JSON_DECODE_ANY, &why);
		auto_free char *got = json_compact(j.root);
		if (!want || !json_equal(want, j.root))
			fail_msg("%s: %s and not %s", rows[i].text, got, rows[i].plain);
		jsonc_done(&j);
	}
	struct jsonc j;
	assert_int_equal(parse("{\"a\":1,\"b\":2,\"a\":3}", 19, &j, NULL), 0);
	auto_free char *order = json_compact(j.root);
	assert_string_equal(order, "{\"a\":3,\"b\":2}");
	jsonc_done(&j);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} rows[] = {
		{"", "1:1", "too early"},
		{"  \n ", "2:2", "too early"},
		{"{", "1:2", "name of a member"},
		{"[", "1:2", "too early"},
		{"[1", "1:3", "too early"},
		{"[1 2]", "1:4", "comma or ]"},
		{"[,]", "1:2", "value is missing"},
		{"[1,,2]", "1:4", "value is missing"},
		{"{,}", "1:2", "name of a member"},
		{"{\"a\" 1}", "1:6", "colon"},
		{"{\"a\":}", "1:6", "value is missing"},
		{"{a:1}", "1:2", "name of a member"},
		{"{'a':1}", "1:2", "name of a member"},
		{"{\"a\":1 \"b\":2}", "1:8", "comma or }"},
		{"{} x", "1:4", "behind the end"},
		{"{}{}", "1:3", "behind the end"},
		{"\n\n  /* open", "3:3", "comment has no end"},
		{"/", "1:1", "value is missing"},
		{"[1] /", "1:5", "behind the end"},
		{"\"abc", "1:1", "no end"},
		{"\"a\nb\"", "1:1", "no end"},
		{"[\"a\tb\"]", "1:4", "control character"},
		{"\"\\x\"", "1:2", "unknown escape"},
		{"\"\\u12\"", "1:2", "not complete"},
		{"\"\\u12g4\"", "1:2", "not complete"},
		{"\"\\", "1:2", "unknown escape"},
		{"\"a\\ud800b\"", "1:3", "surrogate"},
		{"\"\\udc00\"", "1:2", "surrogate"},
		{"\"\\ud800\\u0041\"", "1:2", "surrogate"},
		{"\"\\ud800\\ud800\"", "1:2", "surrogate"},
		{"\"\\u0000\"", "1:2", "NUL"},
		{"01", "1:1", "no number"},
		{"-", "1:1", "no number"},
		{"1.", "1:1", "no number"},
		{".5", "1:1", "value is missing"},
		{"1e", "1:1", "no number"},
		{"+1", "1:1", "value is missing"},
		{"1e400", "1:1", "out of range"},
		{"NaN", "1:1", "value is missing"},
		{"tru", "1:1", "value is missing"},
		{"\"\xff\"", "1:2", "UTF-8"},
		{"{\r\n\"\u00e9\u00e9\": \xc3", "2:7", "UTF-8"},
		{"\"\xed\xa0\x80\"", "1:2", "UTF-8"},
		{"[\"\u20ac\" 1]", "1:6", "comma or ]"}, /* characters are counted, not bytes */
		{"[\r1\r\n2]", "3:1", "comma or ]"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct jsonc j;
		struct err e = ERR_INIT;
		auto_free char *begin = xasprintf("f.json:%s: ", rows[i].where);
		if (parse(rows[i].text, strlen(rows[i].text), &j, &e) != -EINVAL)
			fail_msg("%s was taken", rows[i].text);
		if (!str_starts(e.msg, begin) || !strstr(e.msg, rows[i].why) || !*e.hint)
			fail_msg("%s: %s", rows[i].text, e.msg);
	}
	struct jsonc j;
	struct err e = ERR_INIT;
	assert_int_equal(parse("{\"a\":\0}", 7, &j, &e), -EINVAL);
	assert_true(str_starts(e.msg, "f.json:1:6: "));
}

static void test_places(void **state)
{
	static const char text[] = "{\n\t\"a\": [1, \"x\"],\n\t\"a\": {\"b\": \"y\"}, \"c\": true\n}";
	struct jsonc j;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(jsonc_parse("f.json", text, strlen(text), &j, NULL), 0);
	(void)err_set(&e, ERR_INPUT, 0, "bad");
	assert_int_equal(jsonc_at(&j, json_object_get(json_object_get(j.root, "a"), "b"), -EINVAL, &e), -EINVAL);
	assert_string_equal(e.msg, "f.json:3:13: bad");
	(void)err_set(&e, ERR_INPUT, 0, "bad");
	(void)jsonc_at(&j, json_object_get(j.root, "c"), -EINVAL, &e);
	assert_string_equal(e.msg, "f.json: bad");
	jsonc_done(&j);
}

static char *repeat(const char *begin, const char *what, size_t n, const char *end, size_t *ret_len)
{
	size_t a = strlen(begin), b = strlen(what), c = strlen(end);
	char *out = xmalloc(a + n * b + c + 1), *at = out + a;

	memcpy(out, begin, a);
	for (size_t i = 0; i < n; i++, at += b)
		memcpy(at, what, b);
	memcpy(at, end, c + 1);
	*ret_len = a + n * b + c;
	return out;
}

static void test_depth(void **state)
{
	static const struct {
		const char *open, *middle, *close;
		size_t n;
		int want;
	} rows[] = {
		{"[", "1", "]", JSONC_MAX_DEPTH, 0},	   {"[", "1", "]", JSONC_MAX_DEPTH + 1, -EINVAL},
		{"{\"a\":", "1", "}", JSONC_MAX_DEPTH, 0}, {"{\"a\":", "1", "}", JSONC_MAX_DEPTH + 1, -EINVAL},
		{"[", "", "", 1000000, -EINVAL},	   {"{\"a\":[", "", "", 500000, -EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len, half;
		struct jsonc j;
		auto_free char *front = repeat("", rows[i].open, rows[i].n, rows[i].middle, &half);
		auto_free char *text = repeat(front, rows[i].close, rows[i].n, "", &len);
		assert_int_equal(parse(text, len, &j, NULL), rows[i].want);
		if (rows[i].want == 0)
			jsonc_done(&j);
	}
	/* Side by side is not deep. */
	struct jsonc j;
	size_t len;
	auto_free char *flat = repeat("[", "[[]],", 100000, "]", &len);
	assert_int_equal(parse(flat, len, &j, NULL), 0);
	assert_int_equal(json_array_size(j.root), 100000);
	jsonc_done(&j);
}

static double seconds_for(const char *what, size_t n)
{
	struct timespec a, b;
	struct jsonc j;
	size_t len;
	auto_free char *text = repeat("[", what, n, "]", &len);

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	int r = jsonc_parse("f.json", text, len, &j, NULL);
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	if (r == 0)
		jsonc_done(&j);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

/* A megabyte of each is far from a second; what is quadratic takes minutes. */
static void test_a_megabyte(void **state)
{
	static const char *const parts[] = {
		"0,",	   "\"\\u00e9\",", "/*x*/1,", "//\n1,", "[[1],],", "{\"a\":1,\"a\":2},",
		" \r\n1,", "\"",	   "/*",      "1e5,",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		double s = seconds_for(parts[i], 1024 * 1024 / strlen(parts[i]));
		if (s > 5)
			fail_msg("%s: %f s", parts[i], s);
	}
	struct jsonc j;
	struct err e = ERR_INIT;
	size_t len;
	auto_free char *large = repeat("[", " ", JSONC_MAX_BYTES - 1, "]", &len);
	assert_int_equal(jsonc_parse("f.json", large, JSONC_MAX_BYTES + 1, &j, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "larger"));
	memmove(large + 1, large + 2, len - 1);
	assert_int_equal(jsonc_parse("f.json", large, JSONC_MAX_BYTES, &j, &e), 0);
	jsonc_done(&j);
}

/* Cut at each byte it is an error, unless what was cut off is only the end of white space. */
static void test_truncated(void **state)
{
	static const char text[] = "// c\n{ /* b */ \"a\": [1, -2.5e3, true, \"\\ud83d\\ude00\\n\u20ac\",],\r\n"
				   "\"b\": {\"c\": null,}, }";

	(void)state;
	for (size_t len = 0; len < strlen(text); len++) {
		struct jsonc j;
		struct err e = ERR_INIT;
		if (parse(text, len, &j, &e) != -EINVAL)
			fail_msg("cut at %zu it was taken", len);
		assert_true(str_starts(e.msg, "f.json:"));
		assert_string_not_equal(e.hint, "");
	}
	struct jsonc j;
	assert_int_equal(parse(text, strlen(text), &j, NULL), 0);
	jsonc_done(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken), cmocka_unit_test(test_refused),	 cmocka_unit_test(test_places),
		cmocka_unit_test(test_depth), cmocka_unit_test(test_a_megabyte), cmocka_unit_test(test_truncated),
	};

	return cmocka_run_group_tests_name("jsonc", tests, NULL, NULL);
}
