/* Paths as text. Whoever needs the truth about a path that an outsider can change opens it (base/file.h). */
#include <base/buf.h>
#include <base/mem.h>
#include <base/path.h>

#include <stdint.h>
#include <string.h>

char *path_clean(const char *path)
{
	if (path[0] != '/')
		return NULL;
	char *out = xmalloc(strlen(path) + 2);
	size_t n = 0;
	for (const char *p = path; *p;) {
		while (*p == '/')
			p++;
		size_t len = strcspn(p, "/");
		if (len == 2 && p[0] == '.' && p[1] == '.') {
			while (n > 0 && out[n - 1] != '/')
				n--;
			n -= n > 0;
		} else if (len > 0 && !(len == 1 && p[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, p, len);
			n += len;
		}
		p += len;
	}
	if (n == 0)
		out[n++] = '/';
	out[n] = '\0';
	return out;
}

char *path_join(const char *a, const char *b)
{
	if (b[0] == '/' || a[0] == '\0')
		return xstrdup(b);
	return xasprintf(a[strlen(a) - 1] == '/' ? "%s%s" : "%s/%s", a, b);
}

bool path_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *path_parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return xstrdup("/");
	return xstrndup(path, (size_t)(slash - path));
}
