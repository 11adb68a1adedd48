/* Time: monotonic for durations, wall clock for what people and files read. */
#include <base/clock.h>
#include <base/mem.h>

#include <stdio.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_ms(void)
{
	return clock_ns() / 1000000u;
}

uint64_t clock_wall_ms(void)
{
	return read_ns(CLOCK_REALTIME) / 1000000u;
}

void clock_format(char ret[TIMESTAMP_SIZE], uint64_t wall_ms)
{
	/* The last moment that four digits of year can say. */
	wall_ms = MIN(wall_ms, (uint64_t)253402300799999);
	time_t sec = (time_t)(wall_ms / 1000);
	struct tm tm;
	char day[20]; /* 2026-01-02T03:04:05 */

	gmtime_r(&sec, &tm);
	strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret, TIMESTAMP_SIZE, "%s.%03uZ", day, (unsigned)(wall_ms % 1000));
}
