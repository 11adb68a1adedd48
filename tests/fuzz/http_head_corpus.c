/* Runs a fuzz target over the files of a folder, so that what was once found stays tested without a fuzzer. */
#include <base/buf.h>
#include <base/cleanup.h>
#include <base/file.h>

#include <fcntl.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	unsigned n = 0;

	if (argc != 2)
		return 2;
	auto_dir d = opendir(argv[1]);
	if (!d) {
		perror(argv[1]);
		return 1;
	}
	for (struct dirent *e; (e = readdir(d));) {
		auto_free char *data = NULL;
		size_t len;
		if (e->d_name[0] == '.')
			continue;
		if (file_read(dirfd(d), e->d_name, 1 << 20, &data, &len, NULL) < 0)
			return 1;
		(void)LLVMFuzzerTestOneInput((const uint8_t *)data, len);
		n++;
	}
	printf("%u inputs\n", n);
	return n > 0 ? 0 : 1;
}
