/* Backoff of requests to providers: doubling from one second to one minute, with up to a quarter taken off so that
 * branches which were refused together do not come back together. A provider that names a time is obeyed, unless it is
 * so long that the run had better fail and be resumed. */
#include "retry.h"

#include <base/mem.h>

#include <math.h>
#include <stdlib.h>

bool retry_status(int status)
{
	return status == 0 || status == 408 || status == 409 || status == 429 || (status >= 500 && status <= 599);
}

int64_t retry_delay_ms(unsigned attempt, int status, int64_t retry_after_ms, uint32_t random)
{
	if (attempt >= RETRY_ATTEMPTS || !retry_status(status) || retry_after_ms > RETRY_AFTER_MAX_MS)
		return -1;
	if (retry_after_ms >= 0)
		return retry_after_ms;
	unsigned doublings = attempt > 0 ? MIN(attempt - 1, 20u) : 0;
	int64_t delay = MIN((int64_t)RETRY_FIRST_MS << doublings, (int64_t)RETRY_LONGEST_MS);
	return delay - (int64_t)(random % (uint32_t)(delay / 4));
}

int64_t retry_after_parse(const char *value)
{
	char *end = NULL;

	while (*value == ' ' || *value == '\t')
		value++;
	if (*value < '0' || *value > '9')
		return -1;
	double seconds = strtod(value, &end);
	while (*end == ' ' || *end == '\t')
		end++;
	if (*end || !isfinite(seconds))
		return -1;
	return (int64_t)MIN(seconds * 1000, 1e15);
}
