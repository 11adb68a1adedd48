/* Loading libcurl.
 *
 * Its tree of libraries (TLS, Kerberos, LDAP, …) takes longer to load than a whole sandbox to start, and most runs make
 * no request; so the program is not linked to it, and dlopen comes with the first request. Both flavours that
 * distributions have, with OpenSSL and with GnuTLS, speak the same interface. It is never unloaded: what it registered
 * with the C library must stay. */
#include "curl.h"

#include <base/err.h>
#include <base/mem.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

static int fail(struct err *e, const char *what)
{
	int r = err_set(e, ERR_PREFLIGHT, ELIBACC, "load libcurl, which makes HTTPS requests: %.400s", what);

	err_hint(e, "install libcurl (the package libcurl4 on Debian and Ubuntu, libcurl on Fedora)");
	return r;
}

/* dlsym gives a pointer to data; the bytes of a function's are the same (dlsym(3)). */
static bool find(void *lib, const char *name, void *to, size_t size)
{
	void *p = dlsym(lib, name);

	memcpy(to, &p, size);
	return p != NULL;
}

static int bind_calls(void *lib, struct curl_calls *to, struct err *e)
{
#define CURL_FIND(name)                                                                                                \
	if (!find(lib, "curl_" #name, &to->name, sizeof to->name))                                                     \
		return fail(e, "it has no curl_" #name);
	CURL_CALLS(CURL_FIND)
#undef CURL_FIND
	if (to->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return fail(e, "it cannot be initialised");
	return 0;
}

int curl_load(const struct curl_calls **ret, struct err *e)
{
	static struct curl_calls calls;
	static bool loaded;
	void *lib = NULL;

	for (size_t i = 0; !loaded && !lib && i < ARRAY_LEN(names); i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!loaded && !lib) {
		const char *why = dlerror();
		return fail(e, why ? why : "it is not there");
	}
	int r = loaded ? 0 : bind_calls(lib, &calls, e);
	if (r < 0)
		return r;
	loaded = true;
	*ret = &calls;
	return 0;
}
