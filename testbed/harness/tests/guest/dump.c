// SPDX-License-Identifier: GPL-2.0-only
/*
 * A device's counters as the thesis's module shows them: `dump FILE BAR...` writes those of the first group a
 * hundred times a second. The BAR (a `resource2` of sysfs) is the first that holds the magic number, as for
 * the driver: the guest has another device of the kind, through which files come in.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* As in contract/registers.toml. */
#define MAGIC_REG	0x18000
#define MAGIC_VALUE	0x52494557
#define COUNTERS	0x18100
#define LINE_BYTES	64

static const char *map(const char *bar)
{
	int fd = open(bar, O_RDONLY);
	char *at = mmap(NULL, COUNTERS + 4096, PROT_READ, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED || *(volatile uint32_t *)(at + MAGIC_REG) != MAGIC_VALUE)
		return NULL;
	return at + COUNTERS;
}

static void copy(const volatile uint64_t *counts, const char *file)
{
	char next[256], text[80];
	int size, fd;

	size = snprintf(text, sizeof(text), "read write\n%llu %llu\n",
			(unsigned long long)counts[0] * LINE_BYTES,
			(unsigned long long)counts[1] * LINE_BYTES);
	snprintf(next, sizeof(next), "%s.next", file);
	fd = open(next, O_WRONLY | O_CREAT | O_TRUNC, 0444);
	if (fd < 0 || write(fd, text, size) != size || close(fd) || rename(next, file))
		err(1, "%s", file);
}

int main(int argc, char **argv)
{
	const struct timespec pause = { 0, 10000000 };
	const char *counts = NULL;

	for (int i = 2; i < argc && !counts; i++)
		counts = map(argv[i]);
	if (!counts)
		errx(1, "no BAR holds counters");
	for (;;) {
		copy((const uint64_t *)counts, argv[1]);
		nanosleep(&pause, NULL);
	}
}
