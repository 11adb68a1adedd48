/* Reading a stream of server-sent events: fields line by line, an empty line ends an event. Comments, unknown fields
 * and events without data are passed over, as the standard says. A carriage return alone as a line's end, which the
 * standard has too and nobody sends, is not known here. */
#include "sse.h"

#include <base/mem.h>
#include <base/str.h>

#include <errno.h>
#include <string.h>

void sse_init(struct sse *s, size_t max)
{
	*s = (struct sse){.data = BUF_INIT(max)};
	/* A line of data and its field's name. */
	lines_init(&s->lines, max + SSE_NAME_MAX);
}

void sse_done(struct sse *s)
{
	lines_done(&s->lines);
	buf_done(&s->data);
}

struct feeding {
	struct sse *s;
	sse_sink sink;
	void *arg;
};

static bool end_event(struct feeding *f)
{
	struct sse *s = f->s;
	bool more = true;

	if (s->any)
		more = f->sink(f->arg, s->name[0] ? s->name : "message", buf_str(&s->data), s->data.len);
	buf_clear(&s->data);
	memcpy(s->id, s->next_id, sizeof s->id);
	s->any = false;
	s->name[0] = '\0';
	return more;
}

static bool is_field(const char *line, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(line, name, n) == 0;
}

/* It goes back to the server in a header: what could not stand there is passed over. */
static void take_id(struct sse *s, const char *value, size_t len)
{
	if (len >= SSE_ID_MAX)
		return;
	for (size_t i = 0; i < len; i++)
		if (value[i] < 0x20 || value[i] > 0x7e)
			return;
	memcpy(s->next_id, value, len);
	s->next_id[len] = '\0';
}

static void take_retry(struct sse *s, const char *value, size_t len)
{
	unsigned long long ms;
	char digits[16] = "";

	memcpy(digits, value, MIN(len, sizeof digits - 1));
	if (len < sizeof digits && str_parse_uint(digits, 0, SSE_RETRY_MAX_MS, &ms) == 0)
		s->retry_ms = (unsigned)ms;
}

static void take_data(struct sse *s, const char *value, size_t len)
{
	if ((s->any && buf_putc(&s->data, '\n') < 0) || buf_add(&s->data, value, len) < 0)
		s->too_much = true;
	s->any = true;
}

static bool on_line(void *arg, const char *line, size_t len)
{
	struct feeding *f = arg;
	struct sse *s = f->s;

	if (!s->begun && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
		line += 3;
		len -= 3;
	}
	s->begun = true;
	if (len == 0)
		return end_event(f);
	const char *colon = memchr(line, ':', len);
	size_t n = colon ? (size_t)(colon - line) : len;
	const char *value = colon ? colon + 1 : line + len;
	size_t value_len = (size_t)(line + len - value);
	if (value_len > 0 && *value == ' ') {
		value++;
		value_len--;
	}
	if (is_field(line, n, "event")) {
		size_t keep = value_len < SSE_NAME_MAX ? value_len : 0;
		memcpy(s->name, value, keep);
		s->name[keep] = '\0';
	} else if (is_field(line, n, "data")) {
		take_data(s, value, value_len);
	} else if (is_field(line, n, "id")) {
		take_id(s, value, value_len);
	} else if (is_field(line, n, "retry")) {
		take_retry(s, value, value_len);
	}
	return !s->too_much;
}

int sse_feed(struct sse *s, const char *data, size_t len, sse_sink sink, void *arg)
{
	struct feeding f = {.s = s, .sink = sink, .arg = arg};
	int r = lines_feed(&s->lines, data, len, on_line, &f);

	return s->too_much ? -EMSGSIZE : r;
}
