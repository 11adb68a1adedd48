/* The curated /etc: what programs need to run, resolve users and trust certificates, and nothing that is a secret or
 * tells about the host's services. An allowlist: a file that a later package puts into /etc is not shown. Folders are
 * named only when all in them is public: /etc/ssl as a whole holds private keys, which root inside could read. */
#include "plan.h"

#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSWD_LIMIT = 4 * 1024 * 1024 };

/* What changes how programs run; what only tools of the administrator or of an interactive shell read is left out,
 * since each entry is a mount and costs every start. */
static const char *const always[] = {
	"alternatives",
	"bash.bashrc",
	"crypto-policies",
	"debian_version",
	"default/locale",
	"fonts",
	"gitconfig",
	"java",
	"java-11-openjdk",
	"java-17-openjdk",
	"java-21-openjdk",
	"java-25-openjdk",
	"jvm.d",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"localtime",
	"mime.types",
	"nsswitch.conf",
	"os-release",
	"perl",
	"pki/ca-trust",
	"pki/tls/certs",
	"pki/tls/cert.pem",
	"pki/tls/openssl.cnf",
	"profile",
	"profile.d",
	"protocols",
	"python3",
	"python3.11",
	"python3.12",
	"python3.13",
	"redhat-release",
	"services",
	"ssl/cert.pem",
	"ssl/certs",
	"ssl/openssl.cnf",
	"timezone",
};

/* With a network of its own the sandbox has no resolver: names are looked up by the proxy. */
static const char *const with_host_network[] = {"resolv.conf"};

static void add_entry(struct plan *p, const char *name)
{
	char path[PATH_MAX], text[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof path, "/etc/%s", name);
	if (lstat(path, &st) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		/* A link into what the sandbox has too stays a link; one to elsewhere is followed now. */
		ssize_t n = readlink(path, text, sizeof text - 1);
		if (n > 0) {
			text[n] = '\0';
			if (strstr(text, "usr/") || strncmp(text, "/proc/", 6) == 0) {
				plan_add(p, (struct step){.kind = STEP_SYMLINK, .target = path, .source = text});
				return;
			}
		}
		if (!realpath(path, text) || stat(text, &st) < 0)
			return;
	} else {
		snprintf(text, sizeof text, "%s", path);
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return;
	plan_add(p, (struct step){
			    .kind = STEP_BIND,
			    .flags = STEP_RO | (S_ISDIR(st.st_mode) ? STEP_SOURCE_DIR : 0u),
			    .target = path,
			    .source = text,
		    });
}

/* The line of a passwd or group file whose third field is this number; NULL when there is none. */
static const char *line_of(const char *text, unsigned id)
{
	char want[16];
	int n = snprintf(want, sizeof want, "%u:", id);

	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *a = memchr(line, ':', (size_t)(end - line));
		const char *b = a ? memchr(a + 1, ':', (size_t)(end - a - 1)) : NULL;
		if (b && end - b > n && strncmp(b + 1, want, (size_t)n) == 0)
			return line;
		line = *end ? end + 1 : end;
	}
	return NULL;
}

static void add_names(struct plan *p)
{
	plan_add(p,
		 (struct step){.kind = STEP_FILE,
			       .target = "/etc/hosts",
			       .content = "127.0.0.1 localhost iterion\n::1 localhost ip6-localhost ip6-loopback\n"});
	plan_add(p, (struct step){.kind = STEP_FILE, .target = "/etc/hostname", .content = "iterion\n"});
}

/* The host's file, with a line for the sandbox's own user or group when that comes from elsewhere (LDAP, SSSD): a
 * program that cannot name its own user is lost. own_line makes that line. */
static void add_accounts(struct plan *p, const char *path, unsigned id, char *(*own_line)(const struct plan_facts *f),
			 const struct plan_facts *f)
{
	auto_free char *text = NULL;
	size_t len = 0;

	if (file_read(AT_FDCWD, path, PASSWD_LIMIT, &text, &len, NULL) < 0)
		text = xstrdup("root:x:0:0:root:/root:/bin/sh\n");
	if (line_of(text, id)) {
		plan_add(p, (struct step){.kind = STEP_FILE, .target = path, .content = text});
		return;
	}
	auto_free char *own = own_line(f);
	auto_free char *both = xasprintf("%s%s%s", text, len && text[len - 1] != '\n' ? "\n" : "", own);
	plan_add(p, (struct step){.kind = STEP_FILE, .target = path, .content = both});
}

/* Asked only for a user that the file does not know: a name service may be slow to load and to answer. */
static char *passwd_line(const struct plan_facts *f)
{
	const struct passwd *pw = getpwuid(f->uid);

	return xasprintf("%s:x:%u:%u::%s:/bin/sh\n", pw ? pw->pw_name : "user", f->uid, f->gid,
			 f->home ? f->home : "/");
}

static char *group_line(const struct plan_facts *f)
{
	const struct group *gr = getgrgid(f->gid);

	return xasprintf("%s:x:%u:\n", gr ? gr->gr_name : "user", f->gid);
}

void plan_etc(struct plan *p, const struct plan_facts *f)
{
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		add_entry(p, always[i]);
	for (size_t i = 0; f->host_network && i < ARRAY_LEN(with_host_network); i++)
		add_entry(p, with_host_network[i]);
	add_accounts(p, "/etc/passwd", f->uid, passwd_line, f);
	add_accounts(p, "/etc/group", f->gid, group_line, f);
	add_names(p);
	plan_add(p, (struct step){.kind = STEP_SYMLINK, .target = "/etc/mtab", .source = "/proc/self/mounts"});
}

/* The image's own, with a line more when it does not know the user. Without the file the image has no accounts, and
 * needs none. */
static void add_image_account(struct plan *p, const char *path, const char *text, unsigned id, const char *line)
{
	if (!text || line_of(text, id))
		return;
	size_t len = strlen(text);
	auto_free char *both = xasprintf("%s%s%s", text, len && text[len - 1] != '\n' ? "\n" : "", line);
	plan_add(p, (struct step){.kind = STEP_FILE, .target = path, .content = both});
}

void plan_image_etc(struct plan *p, const struct plan_facts *f)
{
	auto_free char *user = xasprintf("user:x:%u:%u::%s:/bin/sh\n", f->uid, f->gid, f->home ? f->home : "/");
	auto_free char *group = xasprintf("user:x:%u:\n", f->gid);
	auto_free char *resolv = NULL;

	add_names(p);
	if (!f->host_network || file_read(AT_FDCWD, "/etc/resolv.conf", PASSWD_LIMIT, &resolv, NULL, NULL) < 0)
		resolv = xstrdup("# names are looked up by the proxy\n");
	plan_add(p, (struct step){.kind = STEP_FILE, .target = "/etc/resolv.conf", .content = resolv});
	add_image_account(p, "/etc/passwd", f->passwd, f->uid, user);
	add_image_account(p, "/etc/group", f->group, f->gid, group);
}
