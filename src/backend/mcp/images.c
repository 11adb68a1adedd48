/* Images of a tool's answer, as a model can be shown them.
 *
 * A provider refuses the whole question when an image is not what its type says, so the type is taken from the first
 * bytes, whatever the server named it, and what is none of the four kinds that models take stays words. */
#include "mcp.h"

#include <base/json.h>
#include <base/mem.h>
#include <base/str.h>

#include <string.h>

/* How the kinds begin in base64: 89 "PNG" 0d 0a 1a 0a, ff d8 ff, "GIF87a" and "GIF89a". */
static const struct kind {
	const char *begin, *media_type;
} kinds[] = {
	{"iVBORw0KGgo", "image/png"},
	{"/9j/", "image/jpeg"},
	{"R0lGODdh", "image/gif"},
	{"R0lGODlh", "image/gif"},
};

enum { BASE64_MIN = 16 };

/* "RIFF", four bytes of any kind, "WEBP". */
static bool is_webp(const char *data)
{
	return str_starts(data, "UklGR") && strncmp(data + 11, "XRUJQ", 5) == 0;
}

static bool is_base64(const char *data, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t good = strspn(data, digits);

	return len % 4 == 0 && len - good <= 2 && strspn(data + good, "=") == len - good;
}

static const char *media_type(const char *data)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_starts(data, kinds[i].begin))
			return kinds[i].media_type;
	return is_webp(data) ? "image/webp" : NULL;
}

json_t *mcp_result_images(const struct mcp_result *r, size_t max)
{
	json_t *list = json_array();
	const json_t *b;
	size_t i;

	json_array_foreach(r->content, i, b)
	{
		const char *data = str_eq(json_get_str(b, "type"), "image") ? json_get_str(b, "data") : NULL;
		size_t len = data ? strlen(data) : 0;
		if (len < BASE64_MIN || len > max || !media_type(data) || !is_base64(data, len))
			continue;
		json_t *image = json_object();
		json_put_str(image, "media_type", media_type(data));
		json_put_str(image, "data", data);
		(void)json_array_append_new(list, image);
		max -= len;
	}
	return list;
}
