/* The curated /etc: what programs need to run, resolve users and trust certificates, and nothing that is a secret or
 * tells about the host's services. An allowlist: a file that a later package puts into /etc is not shown. Folders are
 * named only when all in them is public: /etc/ssl as a whole holds private keys, which root inside could read. */
#include "plan.h"

#include <base/buf.h>
#include <base/cleanup.h>
#include <base/err.h>
#include <base/file.h>
#include <base/mem.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSWD_LIMIT = 4 * 1024 * 1024 };

static const char *const always[] = {
	"alternatives",
	"bash.bashrc",
	"ca-certificates",
	"ca-certificates.conf",
	"crypto-policies",
	"debian_version",
	"default/locale",
	"dpkg/origins",
	"fonts",
	"gai.conf",
	"gitconfig",
	"host.conf",
	"inputrc",
	"java",
	"java-11-openjdk",
	"java-17-openjdk",
	"java-21-openjdk",
	"jvm.d",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"locale.alias",
	"locale.conf",
	"localtime",
	"lsb-release",
	"magic",
	"magic.mime",
	"mailcap",
	"manpath.config",
	"mime.types",
	"mke2fs.conf",
	"nsswitch.conf",
	"openssl",
	"os-release",
	"papersize",
	"perl",
	"pki/ca-trust",
	"pki/tls/certs",
	"pki/tls/cert.pem",
	"pki/tls/openssl.cnf",
	"profile",
	"profile.d",
	"protocols",
	"python2.7",
	"python3",
	"python3.11",
	"python3.12",
	"python3.13",
	"R",
	"redhat-release",
	"rpc",
	"services",
	"shells",
	"skel",
	"ssl/cert.pem",
	"ssl/certs",
	"ssl/openssl.cnf",
	"terminfo",
	"timezone",
	"vim",
	"xattr.conf",
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

/* Whether a passwd or group file has a line whose third field is this number. */
static bool has_id(const char *text, unsigned id)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		const char *end = strchrnul(line, '\n');
		const char *a = memchr(line, ':', (size_t)(end - line));
		const char *b = a ? memchr(a + 1, ':', (size_t)(end - a - 1)) : NULL;
		char want[16];
		int n = snprintf(want, sizeof want, "%u:", id);
		if (b && end - b > n && strncmp(b + 1, want, (size_t)n) == 0)
			return true;
	}
	return false;
}

/* The host's file, with a line for the sandbox's own user or group when that comes from elsewhere (LDAP, SSSD): a
 * program that cannot name its own user is lost. */
static void add_accounts(struct plan *p, const char *path, unsigned id, const char *own_line)
{
	auto_free char *text = NULL;
	size_t len = 0;
	auto_buf b = BUF_INIT(PASSWD_LIMIT + 1024);

	if (file_read(AT_FDCWD, path, PASSWD_LIMIT, &text, &len, NULL) < 0)
		text = xstrdup("root:x:0:0:root:/root:/bin/sh\n");
	int r = buf_puts(&b, text);
	if (r == 0 && b.len && b.data[b.len - 1] != '\n')
		r = buf_putc(&b, '\n');
	if (r == 0 && !has_id(text, id))
		r = buf_puts(&b, own_line);
	if (r == 0)
		plan_add(p, (struct step){.kind = STEP_FILE, .target = path, .content = buf_str(&b)});
}

void plan_etc(struct plan *p, const struct plan_facts *f)
{
	char line[512];

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		add_entry(p, always[i]);
	for (size_t i = 0; f->host_network && i < ARRAY_LEN(with_host_network); i++)
		add_entry(p, with_host_network[i]);
	snprintf(line, sizeof line, "%s:x:%u:%u::%s:/bin/sh\n", f->user_name, f->uid, f->gid, f->home ? f->home : "/");
	add_accounts(p, "/etc/passwd", f->uid, line);
	snprintf(line, sizeof line, "%s:x:%u:\n", f->user_name, f->gid);
	add_accounts(p, "/etc/group", f->gid, line);
	plan_add(p,
		 (struct step){.kind = STEP_FILE,
			       .target = "/etc/hosts",
			       .content = "127.0.0.1 localhost iterion\n::1 localhost ip6-localhost ip6-loopback\n"});
	plan_add(p, (struct step){.kind = STEP_FILE, .target = "/etc/hostname", .content = "iterion\n"});
	plan_add(p, (struct step){.kind = STEP_SYMLINK, .target = "/etc/mtab", .source = "/proc/self/mounts"});
}
