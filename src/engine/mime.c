/* What kind of file it is: by its first bytes where a format has a mark, else, for text, by the name's end. A name
 * alone is never believed about a format that has a mark, because a program that takes an image would then be given
 * something else. */
#include "mime.h"

#include <base/mem.h>
#include <base/str.h>

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct mark {
	size_t at;
	const char *bytes;
	size_t len;
	const char *mime;
};
#define MARK(at, bytes, mime)                                                                                          \
	{                                                                                                              \
		at, bytes, sizeof(bytes) - 1, mime                                                                     \
	}

/* https://mimesniff.spec.whatwg.org/ for images and audio; the others as the formats' own documents say. */
static const struct mark marks[] = {
	MARK(0, "\x89PNG\r\n\x1a\n", "image/png"),
	MARK(0, "\xff\xd8\xff", "image/jpeg"),
	MARK(0, "GIF87a", "image/gif"),
	MARK(0, "GIF89a", "image/gif"),
	MARK(8, "WEBPVP", "image/webp"),
	MARK(0, "II*\0", "image/tiff"),
	MARK(0, "MM\0*", "image/tiff"),
	MARK(0, "\0\0\1\0", "image/x-icon"),
	MARK(4, "ftypavif", "image/avif"),
	MARK(4, "ftypheic", "image/heic"),
	MARK(4, "ftyp", "video/mp4"),
	MARK(0, "%PDF-", "application/pdf"),
	MARK(0, "PK\3\4", "application/zip"),
	MARK(0, "\x1f\x8b", "application/gzip"),
	MARK(0, "BZh", "application/x-bzip2"),
	MARK(0,
	     "\xfd"
	     "7zXZ\0",
	     "application/x-xz"),
	MARK(0, "\x28\xb5\x2f\xfd", "application/zstd"),
	MARK(0, "7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
	MARK(257, "ustar", "application/x-tar"),
	MARK(0,
	     "\x7f"
	     "ELF",
	     "application/x-elf"),
	MARK(0, "\0asm", "application/wasm"),
	MARK(0, "SQLite format 3\0", "application/vnd.sqlite3"),
	MARK(0, "OggS", "application/ogg"),
	MARK(0, "fLaC", "audio/flac"),
	MARK(0, "ID3", "audio/mpeg"),
	MARK(8, "WAVEfmt", "audio/wav"),
	MARK(0, "\x1a\x45\xdf\xa3", "video/webm"),
};

struct ending {
	const char *end;
	const char *mime;
};

static const struct ending zips[] = {
	{".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	{".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	{".odt", "application/vnd.oasis.opendocument.text"},
	{".ods", "application/vnd.oasis.opendocument.spreadsheet"},
	{".epub", "application/epub+zip"},
	{".jar", "application/java-archive"},
	{NULL, NULL},
};

static const struct ending texts[] = {
	{".md", "text/markdown"},
	{".markdown", "text/markdown"},
	{".csv", "text/csv"},
	{".tsv", "text/tab-separated-values"},
	{".html", "text/html"},
	{".htm", "text/html"},
	{".css", "text/css"},
	{".js", "text/javascript"},
	{".mjs", "text/javascript"},
	{".json", "application/json"},
	{".jsonl", "application/jsonl"},
	{".xml", "application/xml"},
	{".svg", "image/svg+xml"},
	{".yaml", "application/yaml"},
	{".yml", "application/yaml"},
	{".toml", "application/toml"},
	{".ics", "text/calendar"},
	{NULL, NULL},
};

static const char *by_ending(const struct ending *rows, const char *name, const char *otherwise)
{
	const char *dot = strrchr(name, '.');

	for (; dot && rows->end; rows++)
		if (strcasecmp(dot, rows->end) == 0)
			return rows->mime;
	return otherwise;
}

/* UTF-8 without control characters but those of text; the last character may be cut off. */
static bool is_text(const char *head, size_t len, bool whole)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)head[i];
		if ((c < 0x20 && !strchr("\t\n\r\f\x1b", c)) || c == 0x7f || c == 0)
			return false;
	}
	for (size_t cut = 0; cut <= (whole ? 0u : 3u) && cut <= len; cut++)
		if (utf8_valid(head, len - cut))
			return true;
	return false;
}

const char *mime_of(const char *name, const char *head, size_t len, bool whole)
{
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		const struct mark *m = &marks[i];
		if (len < m->at + m->len || memcmp(head + m->at, m->bytes, m->len) != 0)
			continue;
		return str_eq(m->mime, "application/zip") ? by_ending(zips, name, m->mime) : m->mime;
	}
	return is_text(head, len, whole) ? by_ending(texts, name, "text/plain") : "application/octet-stream";
}

bool mime_accepts(const char *wanted, const char *mime)
{
	size_t len = strlen(wanted);

	if (str_eq(wanted, "*") || str_eq(wanted, "*/*"))
		return true;
	if (len > 2 && str_eq(wanted + len - 2, "/*"))
		return strncasecmp(wanted, mime, len - 1) == 0;
	return strcasecmp(wanted, mime) == 0;
}
