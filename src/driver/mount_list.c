/* One mount of a plan as data. It stands alone because drivers call it: who links a driver does not need sessions. */
#include "ops.h"

#include <base/json.h>

#include <string.h>

void mount_list_add(json_t *list, const char *type, const char *source, const char *target, bool readonly)
{
	json_t *m = json_object();

	json_put_str(m, "type", type);
	json_put(m, "source", source ? json_text(source, strlen(source)) : json_null());
	json_put(m, "target", json_text(target, strlen(target)));
	json_put_bool(m, "readonly", readonly);
	(void)json_array_append_new(list, m);
}

const char *const certificate_places[] = {
	"/etc/ssl/certs/ca-certificates.crt",		     /* Debian, Alpine, Arch */
	"/etc/ssl/cert.pem",				     /* Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",		     /* Fedora and its kin */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* the same */
	"/etc/ssl/ca-bundle.pem",			     /* SUSE */
	NULL,
};
