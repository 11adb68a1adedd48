/* What the proxy reports, as events have it: one form for a run's events and for `iterion proxy`, which has no run. The
 * texts were checked where they came in (proxy.c). */
#include <base/json.h>
#include <net/proxy.h>
#include <net/proxy_json.h>

json_t *proxy_blocked_json(const struct proxy_blocked *b)
{
	json_t *d = json_object();

	json_put_str(d, "host", b->host);
	json_put_int(d, "port", b->port);
	json_put_str(d, "reason", b->reason);
	json_put_str(d, "rule", b->rule);
	json_put_int(d, "count", b->count);
	return d;
}

json_t *proxy_summary_json(const struct proxy_host_total *t, size_t n)
{
	json_t *d = json_object(), *hosts = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *h = json_object();
		json_put_str(h, "host", t[i].host);
		json_put_int(h, "allowed", (long long)t[i].allowed);
		json_put_int(h, "blocked", (long long)t[i].blocked);
		json_put_int(h, "bytes_up", (long long)t[i].bytes_up);
		json_put_int(h, "bytes_down", (long long)t[i].bytes_down);
		(void)json_array_append_new(hosts, h);
	}
	json_put(d, "hosts", hosts);
	return d;
}
