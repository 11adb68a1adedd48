/* The conversation: its messages, a step with its results, what is kept of a step in its middle, and where it is cut.
 */
#include <base/cleanup.h>
#include <base/err.h>
#include <base/mem.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/test.h"
#include "compact.h"
#include "step.h"

/* The conversation as text. Single quotes in what is fed stand for double ones, and so they do in what is read. */
static void load(struct chat *c, const char *text)
{
	auto_free char *json = xstrdup(text);

	for (char *p = json; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	auto_jdoc d = jdoc_parse(json, strlen(json), NULL);
	assert_non_null(d);
	assert_int_equal(chat_load(c, jdoc_root(d), NULL), 0);
}

static char *dump(const struct chat *c)
{
	struct buf b = BUF_INIT(100000);
	struct jout o = {.b = &b};

	chat_write(c, 0, c->n, &o);
	char *text = buf_steal(&b);
	for (char *p = text; *p; p++)
		*p = *p == '"' ? '\'' : *p;
	return text;
}

#define USER(x) "{'role':'user','content':[" x "]}"
#define MODEL(x) "{'role':'assistant','content':[" x "]}"
#define TEXT(x) "{'type':'text','text':'" x "'}"
#define USE(id) "{'type':'tool_use','id':'" id "','name':'LS','input':{'n':1.50}}"
#define RESULT(id) "{'type':'tool_result','tool_use_id':'" id "','content':'r" id "'}"

static void test_saying(void **state)
{
	(void)state;
	struct chat c = {0};

	chat_say(&c, "a", 1);
	chat_say(&c, "b", 1);
	auto_free char *two = dump(&c);
	assert_string_equal(two, USER(TEXT("a") "," TEXT("b")));
	chat_done(&c);

	load(&c, "[{'role':'user','content':'plain'}]");
	chat_say(&c, "b", 1);
	auto_free char *plain = dump(&c);
	assert_string_equal(plain, USER(TEXT("plain") "," TEXT("b")));
	chat_done(&c);

	load(&c, "[" MODEL(TEXT("x")) "]");
	chat_say(&c, "b", 1);
	auto_free char *after = dump(&c);
	assert_string_equal(after, MODEL(TEXT("x")) "," USER(TEXT("b")));
	chat_done(&c);
}

static void test_malformed_messages(void **state)
{
	(void)state;
	static const char *const rows[] = {
		"[1]",
		"[{}]",
		"[{\"role\":\"system\",\"content\":\"\"}]",
		"[{\"role\":\"user\"}]",
		"[{\"role\":\"user\",\"content\":[1]}]",
		"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]",
		"[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\"}]}]",
		"[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct chat c = {0};
		struct err e = ERR_INIT;
		auto_jdoc d = jdoc_parse(rows[i], strlen(rows[i]), NULL);
		assert_non_null(d);
		if (chat_load(&c, jdoc_root(d), &e) == 0)
			fail_msg("accepted: %s", rows[i]);
		assert_non_null(strstr(e.msg, "message 0"));
		chat_done(&c);
	}
}

static const struct {
	const char *chat;
	int opens;	  /* what step_reopen returns */
	const char *open; /* ids of the calls that have no result */
	size_t left;	  /* messages that stay in the conversation */
} reopen_rows[] = {
	{"[]", 0, "", 0},
	{"[" USER(TEXT("a")) "]", 0, "", 1},
	{"[" USER(TEXT("a")) "," MODEL(TEXT("b")) "]", 0, "", 2},
	{"[" USER(TEXT("a")) "," MODEL(USE("1") "," USE("2")) "]", 1, "12", 2},
	{"[" USER(TEXT("a")) "," MODEL(USE("1") "," USE("2")) "," USER(RESULT("1")) "]", 1, "2", 2},
	{"[" USER(TEXT("a")) "," MODEL(USE("1") "," USE("2")) "," USER(RESULT("2")) "]", 1, "1", 2},
	{"[" USER(TEXT("a")) "," MODEL(USE("1")) "," USER(RESULT("1")) "]", 0, "", 3},
	{"[" USER(TEXT("a")) "," MODEL(USE("1") "," USE("2")) "," USER(RESULT("1") "," TEXT("more")) "]", 0, "", 3},
	{"[" USER(TEXT("a")) "," MODEL(USE("1") "," USE("2")) "," USER(RESULT("3")) "]", 0, "", 3},
	{"[" MODEL(USE("1") "," USE("1")) "]", -EPROTO, "", 1},
};

static void test_reopening(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(reopen_rows); i++) {
		struct chat c = {0};
		struct step s;
		auto_buf open = BUF_INIT(1000);
		load(&c, reopen_rows[i].chat);
		int r = step_reopen(&s, &c);
		for (size_t j = 0; j < s.n; j++)
			if (s.v[j].state == CALL_WAITS)
				assert_int_equal(buf_puts(&open, s.v[j].id), 0);
		if (r != reopen_rows[i].opens || strcmp(buf_str(&open), reopen_rows[i].open) != 0 ||
		    c.n != reopen_rows[i].left)
			fail_msg("row %zu: %d, open %s, %zu messages", i, r, buf_str(&open), c.n);
		step_done(&s);
		chat_done(&c);
	}
}

/* Whatever the order of the ends, the results stand in the order of the calls, images behind all. */
static void test_order_of_results(void **state)
{
	(void)state;
	static const char message[] =
		"{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":"
		"\"x\",\"input\":{}},{\"type\":\"tool_use\",\"id\":\"2\",\"name\":\"x\",\"input\":{}}]}";
	struct tool_result image = TOOL_RESULT_INIT;
	struct buf b = BUF_INIT(10000);
	struct jout o = {.b = &b};
	struct step s;

	assert_int_equal(step_open(&s, message, sizeof message - 1), 2);
	assert_false(step_complete(&s));
	step_result_text(&s, step_find(&s, "2"), true, "bad\n");
	image.media_type = "image/png";
	assert_int_equal(buf_puts(&image.image, "AAAA"), 0);
	assert_int_equal(buf_puts(&image.text, "seen"), 0);
	step_result(&s, step_find(&s, "1"), &image);
	assert_true(step_complete(&s));
	step_message(&s, &o);
	assert_string_equal(
		b.data,
		"{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":"
		"\"seen\"},{\"type\":\"tool_result\",\"tool_use_id\":\"2\",\"content\":\"bad\\n\",\"is_error\":"
		"true},{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":"
		"\"AAAA\"}}]}");
	buf_done(&b);
	tool_result_done(&image);
	step_done(&s);
}

static const struct {
	const char *roles; /* u and a, one letter a message */
	long long turns;
	size_t cut;
} cut_rows[] = {
	{"", 1, 0},	 {"u", 1, 0},	  {"ua", 1, 0},	     {"uau", 1, 0},	{"uaua", 1, 3},
	{"uauau", 1, 3}, {"uauau", 2, 0}, {"uauauau", 2, 3}, {"uauauau", 9, 0}, {"uuauau", 1, 4},
};

static void test_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cut_rows); i++) {
		struct chat c = {0};
		for (const char *p = cut_rows[i].roles; *p; p++)
			chat_add(&c, *p == 'a', xstrdup("{}"), 2);
		size_t cut = compact_cut(&c, cut_rows[i].turns);
		if (cut != cut_rows[i].cut)
			fail_msg("%s, %lld turns: cut at %zu", cut_rows[i].roles, cut_rows[i].turns, cut);
		chat_done(&c);
	}
}

/* Turns that are too large to stay do not. */
static void test_cut_by_size(void **state)
{
	(void)state;
	struct chat c = {0};

	for (int i = 0; i < 9; i++)
		chat_add(&c, i % 2, xcalloc(1, COMPACT_BYTES / 4), COMPACT_BYTES / 4);
	assert_int_equal(compact_cut(&c, 4), 5);
	for (size_t i = 0; i < c.n; i++)
		c.v[i].len = COMPACT_BYTES;
	assert_int_equal(compact_cut(&c, 4), 7);
	chat_done(&c);
}

static void test_compaction(void **state)
{
	(void)state;
	struct chat c = {0};
	auto_buf b = BUF_INIT(100000);
	struct jout o = {.b = &b};

	load(&c, "[" USER(TEXT("task")) "," MODEL(USE("1")) "," USER(RESULT("1")) "," MODEL(USE("2")) "," USER(
			 RESULT("2")) "]");
	assert_true(compact_due(&c, 80, 0.8, 100) && !compact_due(&c, 79, 0.8, 100));
	size_t cut = compact_cut(&c, 1);
	assert_int_equal(cut, 3);
	jout_open(&o, '[');
	compact_request(&c, cut, &o);
	jout_close(&o, ']');
	auto_jdoc d = jdoc_parse(b.data, b.len, NULL);
	assert_non_null(d);
	struct jv third = jv_next(jv_next(jv_first(jdoc_root(d))));
	assert_true(jv_is(jv_get(jv_first(jv_get(third, "content")), "tool_use_id"), "1"));
	assert_int_equal(jv_type(jv_next(third)), J_MISSING);

	size_t bytes = c.v[3].len + c.v[4].len;
	compact_apply(&c, cut, "task", "SUM", 3);
	assert_int_equal(c.n, 3);
	assert_int_equal(c.bytes, bytes + c.v[0].len);
	assert_true(!c.v[0].assistant && c.v[1].assistant);
	assert_non_null(strstr(c.v[0].json, "SUM"));
	assert_non_null(strstr(c.v[1].json, "1.50"));
	chat_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_saying),	   cmocka_unit_test(test_malformed_messages),
		cmocka_unit_test(test_reopening),  cmocka_unit_test(test_order_of_results),
		cmocka_unit_test(test_cut),	   cmocka_unit_test(test_cut_by_size),
		cmocka_unit_test(test_compaction),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
