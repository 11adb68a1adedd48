/* What a record of recoveries/ says, for inspect and the reports. The text is the run's: who shows it neutralises it.
 */
#include "recovery_words.h"

#include <base/buf.h>
#include <base/json.h>
#include <base/str.h>

enum { WORDS_MAX = 16 * 1024, PART_MAX = 2000 };

static void add(struct buf *b, const char *before, const char *text)
{
	if (text)
		(void)buf_printf(b, "%s%.*s", before, PART_MAX, text);
}

char *recovery_words(const json_t *record)
{
	const json_t *c = json_object_get(record, "conversation"), *step = json_object_get(c, "step");
	const char *reason = json_get_str(record, "reason"), *status = json_get_str(record, "status");
	struct buf b = BUF_INIT(WORDS_MAX);

	add(&b, str_eq(reason, "failed") ? "it had " : "it had been ", reason ? reason : "stopped");
	add(&b, " (", json_get_str(record, "error"));
	add(&b, "", json_get_str(record, "error") ? ")" : NULL);
	add(&b, "; went on with conversation ", json_get_str(c, "session_id"));
	if (json_is_integer(step))
		(void)buf_printf(&b, " from step %lld", (long long)json_integer_value(step));
	add(&b, "; ", status ? status : "running");
	add(&b, ": ", json_get_str(record, "outcome_error"));
	return buf_steal(&b);
}
