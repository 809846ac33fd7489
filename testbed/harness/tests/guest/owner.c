// SPDX-License-Identifier: GPL-2.0-only
/*
 * owner WAY FILE AMOUNT: one way to use memory. Says "ready" when the memory is
 * there, and goes on until it is killed. A file that is not there is made, AMOUNT
 * MiB of it, and so is charged to this process.
 *
 *   light     has the file mapped, and reads 16 KiB of it each 200 ms
 *   mapped    has the file mapped, and reads it without end
 *   unmapped  has nothing mapped, and reads the file by read(2) without end
 *   whole     the same, with one call for all of it
 *   written   has written the file, has nothing mapped, and waits
 *   leader    as mapped, in a second thread; the first has ended
 *   still     AMOUNT MiB of private memory, written once; says its addresses too
 *   grows     writes AMOUNT KiB of new private memory on node 0 each 100 ms
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE		64UL
#define PAGE		4096UL
#define BLOCK		(64UL << 10)
#define BURST		(16UL << 10)
#define MOST		(1UL << 30)
#define MPOL_BIND	2

static volatile char *memory;
static unsigned long bytes;
static volatile uint64_t sum;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void wait_on(void)
{
	for (;;)
		pause();
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void read_lines(unsigned long from, unsigned long to)
{
	for (; from < to; from += LINE)
		sum += memory[from];
}

static void *read_all(void *unused)
{
	(void)unused;
	for (;;)
		read_lines(0, bytes);
	return NULL;
}

static void *map(int file, unsigned long size)
{
	int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, file, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	if (file < 0)
		madvise(at, size, MADV_NOHUGEPAGE);
	return at;
}

/* The file, mapped. One with nothing in it is filled, where writing pages may be all that can. */
static int map_file(const char *path, unsigned long size)
{
	int file = open(path, O_RDWR | O_CREAT, 0600);
	struct stat found;

	if (file < 0 || fstat(file, &found))
		fail(path);
	bytes = found.st_size ? (unsigned long)found.st_size : size;
	if (!found.st_size && ftruncate(file, (off_t)bytes))
		fail("ftruncate");
	memory = map(file, bytes);
	if (!found.st_size)
		memset((void *)memory, 1, bytes);
	else
		read_lines(0, bytes);
	return file;
}

static void seldom(void)
{
	unsigned long at;

	for (;;)
		for (at = 0; at + BURST <= bytes; at += BURST) {
			read_lines(at, at + BURST);
			usleep(200000);
		}
}

static void by_read(int file, size_t size)
{
	char *block = malloc(size);
	ssize_t got;

	if (!block)
		fail("malloc");

	munmap((void *)memory, bytes);
	ready();
	for (;;) {
		got = read(file, block, size);
		if (got < 0)
			fail("read");
		if (got == 0)
			lseek(file, 0, SEEK_SET);
	}
}

static void grow(unsigned long step)
{
	unsigned long nodes = 1, at = 0, end;

	memory = map(-1, MOST);
	if (syscall(SYS_mbind, memory, MOST, MPOL_BIND, &nodes, 64UL, 0U))
		fail("mbind");
	ready();
	for (;;) {
		for (end = at + step; at < end && at < MOST; at += PAGE)
			memory[at] = 1;
		usleep(100000);
	}
}

int main(int count, char **words)
{
	unsigned long amount;
	pthread_t thread;
	int file;

	if (count != 4)
		return 2;
	amount = strtoul(words[3], NULL, 10);
	if (!strcmp(words[1], "grows"))
		grow(amount << 10);
	if (!strcmp(words[1], "still")) {
		bytes = amount << 20;
		memory = map(-1, bytes);
		memset((void *)memory, 1, bytes);
		printf("ready %lu %lu\n", (unsigned long)memory, (unsigned long)memory + bytes);
		fflush(stdout);
		wait_on();
	}
	file = map_file(words[2], amount << 20);
	if (!strcmp(words[1], "unmapped"))
		by_read(file, BLOCK);
	if (!strcmp(words[1], "whole"))
		by_read(file, bytes);
	ready();
	if (!strcmp(words[1], "written")) {
		munmap((void *)memory, bytes);
		wait_on();
	}
	if (!strcmp(words[1], "light"))
		seldom();
	if (!strcmp(words[1], "leader")) {
		if (pthread_create(&thread, NULL, read_all, NULL))
			fail("pthread_create");
		pthread_exit(NULL);
	}
	read_all(NULL);
	return 0;
}
