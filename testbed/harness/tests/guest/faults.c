// SPDX-License-Identifier: GPL-2.0-only
/*
 * faults ROUNDS PAUSE_US NODE:PAGES...: in each round, a write to each of so many
 * new pages of each node, and then a pause. 0 rounds are without end. Says "done"
 * and stays, with the last round's pages, until it is killed.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE		4096UL
#define MPOL_BIND	2
#define PARTS		8

struct part {
	unsigned long node;
	unsigned long pages;
	char *memory;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void touch(struct part *part)
{
	unsigned long nodes = 1UL << part->node, size = part->pages * PAGE, at;
	char *old = part->memory;

	part->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (part->memory == MAP_FAILED)
		fail("mmap");
	madvise(part->memory, size, MADV_NOHUGEPAGE);
	if (syscall(SYS_mbind, part->memory, size, MPOL_BIND, &nodes, 64UL, 0U))
		fail("mbind");
	for (at = 0; at < size; at += PAGE)
		((volatile char *)part->memory)[at] = 1;
	/* Last, so that there are always some. */
	if (old)
		munmap(old, size);
}

int main(int count, char **words)
{
	struct part parts[PARTS] = { 0 };
	unsigned long rounds, pause_us, round;
	int part;

	if (count < 4 || count - 3 > PARTS)
		return 2;
	rounds = strtoul(words[1], NULL, 10);
	pause_us = strtoul(words[2], NULL, 10);
	for (part = 0; part < count - 3; part++)
		if (sscanf(words[part + 3], "%lu:%lu", &parts[part].node, &parts[part].pages) != 2)
			return 2;
	for (round = 0; !rounds || round < rounds; round++) {
		for (part = 0; part < count - 3; part++)
			touch(&parts[part]);
		usleep(pause_us);
	}
	puts("done");
	fflush(stdout);
	for (;;)
		pause();
}
