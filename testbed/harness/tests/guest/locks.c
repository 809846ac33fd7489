// SPDX-License-Identifier: GPL-2.0-only
/*
 * locks heavy FILE DIR: threads that read a mapped file on the device without end, and in between use locks
 * of the kernel. Says "ready PID" when all is there.
 *
 *   directory    lists DIR, which has many entries (the directory's rwsem, shared)
 *   pipe         writes FILE's memory into the pipe DIR/pipe, and takes it out (the pipe's mutex)
 *   memory       maps FILE once more, with all its pages, and unmaps it (its mmap_lock)
 *   nested       copies what is in one pipe into another, which takes the mutexes of both. The light one
 *                holds one of them most of the time, and while the owner of a mutex runs, it is waited for
 *                in a loop: the copier spins there, with the mutex of the other pipe
 *
 * locks light PID DIR: takes the same locks every few milliseconds: makes and removes a file in DIR, asks
 * how much is in the pipe, reads /proc/PID/cmdline. At SIGUSR2 it says how long each of them took since the
 * last one: how often it was, 99th percentile and longest in microseconds. One that still waits counts.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE		64UL
#define BYTES		(4UL << 20)
#define BLOCK		(16UL << 10)
#define ENTRIES		60
#define PIPE_BYTES	(128UL << 10)
#define SAMPLES_MAX	100000
#define PAUSE_US	2000

enum way { DIRECTORY, PIPE, MEMORY, NESTED, WAYS };
static const char *const names[] = { "directory", "pipe", "memory", "nested" };
#define NESTED_PIPES	2
#define COPIERS		2
#define READERS		4

static const char *dir;
static char pipe_path[256];
static char nested_paths[NESTED_PIPES][256];
static int file;
static char *memory;
static volatile uint64_t sum;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void read_lines(unsigned long bytes, unsigned long *at)
{
	unsigned long end = *at + bytes;

	for (; *at < end; *at += LINE)
		sum += ((volatile char *)memory)[*at % BYTES];
}

static void list_directory(void)
{
	DIR *open = opendir(dir);

	if (!open)
		fail(dir);
	while (readdir(open))
		;
	closedir(open);
}

static int open_pipe(const char *path)
{
	int ends = open(path, O_RDWR | O_NONBLOCK);

	if (ends < 0)
		fail(path);
	return ends;
}

/*
 * Holds the mutex of one of both pipes most of the time. The first one never is empty, and the second never
 * full for long: else nothing is copied from one to the other.
 */
static void *hold(void *unused)
{
	static char block[PIPE_BYTES];
	int ends[NESTED_PIPES];

	(void)unused;
	for (int at = 0; at < NESTED_PIPES; at++) {
		ends[at] = open_pipe(nested_paths[at]);
		if (fcntl(ends[at], F_SETPIPE_SZ, PIPE_BYTES) < 0)
			fail("F_SETPIPE_SZ");
	}
	if (write(ends[0], block, PIPE_BYTES / 2) < 0)
		fail("write");
	for (;;) {
		for (int at = 0; at < NESTED_PIPES; at++) {
			if (write(ends[at], block, PIPE_BYTES / 2) < 0 && errno != EAGAIN)
				fail("write");
			if (read(ends[at], block, at ? PIPE_BYTES : PIPE_BYTES / 2) < 0 && errno != EAGAIN)
				fail("read");
		}
	}
	return NULL;
}

static void *use(void *number)
{
	enum way way = (enum way)(uintptr_t)number;
	int ends = way == PIPE ? open_pipe(pipe_path) : -1;
	int from = way == NESTED ? open_pipe(nested_paths[0]) : -1;
	int to = way == NESTED ? open_pipe(nested_paths[1]) : -1;
	static char block[BLOCK];
	unsigned long at = way * (BYTES / WAYS);
	void *mapped;

	for (;;) {
		read_lines(BLOCK, &at);
		switch (way) {
		case DIRECTORY:
			list_directory();
			break;
		case PIPE:
			if (write(ends, memory + at % (BYTES - BLOCK) / LINE * LINE, BLOCK) < 0)
				fail("write");
			while (read(ends, block, sizeof(block)) > 0)
				;
			break;
		case NESTED:
			if (tee(from, to, PIPE_BYTES, SPLICE_F_NONBLOCK) < 0 && errno != EAGAIN)
				fail("tee");
			break;
		default:
			mapped = mmap(NULL, BYTES, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
			if (mapped == MAP_FAILED)
				fail("mmap");
			munmap(mapped, BYTES);
		}
	}
	return NULL;
}

/* One more that waits for budget: a task that is parked comes after all that were parked before it. */
static void *only_read(void *unused)
{
	unsigned long at = 0;

	(void)unused;
	for (;;)
		read_lines(BLOCK, &at);
	return NULL;
}

static void heavy(const char *path)
{
	char name[256];
	pthread_t thread;

	for (int i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "%s/entry-%d", dir, i);
		close(open(name, O_CREAT | O_WRONLY, 0600));
	}
	file = open(path, O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, BYTES))
		fail(path);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	memset(memory, 1, BYTES);
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (uintptr_t way = 1; way < WAYS; way++)
		if (pthread_create(&thread, NULL, use, (void *)way))
			fail("pthread_create");
	for (int at = 0; at < READERS; at++)
		if (pthread_create(&thread, NULL, only_read, NULL))
			fail("pthread_create");
	for (int more = 1; more < COPIERS; more++)
		if (pthread_create(&thread, NULL, use, (void *)(uintptr_t)NESTED))
			fail("pthread_create");
	use((void *)(uintptr_t)DIRECTORY);
}

static volatile sig_atomic_t asked;

static void ask(int signal)
{
	(void)signal;
	asked = 1;
}

static char cmdline[256];

static void take(enum way way, int ends, const int *nested)
{
	char name[256];
	int got;

	switch (way) {
	case DIRECTORY:
		snprintf(name, sizeof(name), "%s/mine", dir);
		close(open(name, O_CREAT | O_WRONLY, 0600));
		unlink(name);
		break;
	case PIPE:
		if (ioctl(ends, FIONREAD, &got))
			fail("FIONREAD");
		break;
	case NESTED:
		for (int at = 0; at < NESTED_PIPES; at++)
			if (ioctl(nested[at], FIONREAD, &got))
				fail("FIONREAD");
		break;
	default:
		got = open(cmdline, O_RDONLY);
		if (got < 0 || read(got, name, sizeof(name)) <= 0)
			fail(cmdline);
		close(got);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* A thread for each lock: one that waits for long does not keep the others from being seen. */
static uint64_t taken[WAYS][SAMPLES_MAX];
static volatile size_t counts[WAYS];
/* Since when a thread waits; 0: it does not. */
static volatile uint64_t waits_since[WAYS];

static void *wait_for(void *number)
{
	enum way way = (enum way)(uintptr_t)number;
	int ends = open_pipe(pipe_path);
	int nested[NESTED_PIPES];
	uint64_t begun;

	for (int at = 0; at < NESTED_PIPES; at++)
		nested[at] = open_pipe(nested_paths[at]);
	for (;;) {
		begun = now_ns();
		waits_since[way] = begun;
		take(way, ends, nested);
		waits_since[way] = 0;
		if (counts[way] < SAMPLES_MAX) {
			taken[way][counts[way]] = now_ns() - begun;
			counts[way]++;
		}
		usleep(PAUSE_US);
	}
	return NULL;
}

static void light(const char *pid)
{
	static uint64_t sorted[SAMPLES_MAX];
	size_t first[WAYS] = { 0 }, count;
	uint64_t since;
	pthread_t thread;

	signal(SIGUSR2, ask);
	snprintf(cmdline, sizeof(cmdline), "/proc/%s/cmdline", pid);
	for (uintptr_t way = 0; way < WAYS; way++)
		if (pthread_create(&thread, NULL, wait_for, (void *)way))
			fail("pthread_create");
	if (pthread_create(&thread, NULL, hold, NULL))
		fail("pthread_create");
	puts("ready");
	fflush(stdout);
	for (;;) {
		pause();
		if (!asked)
			continue;
		asked = 0;
		for (int way = 0; way < WAYS; way++) {
			count = counts[way] - first[way];
			memcpy(sorted, taken[way] + first[way], count * sizeof(*sorted));
			first[way] += count;
			since = waits_since[way];
			if (since && count < SAMPLES_MAX)
				sorted[count++] = now_ns() - since;
			qsort(sorted, count, sizeof(*sorted), by_size);
			printf("%s %zu %lu %lu\n", names[way], count,
			       count ? (unsigned long)(sorted[count - 1 - count / 100] / 1000) : 0,
			       count ? (unsigned long)(sorted[count - 1] / 1000) : 0);
		}
		puts("said");
		fflush(stdout);
	}
}

int main(int count, char **words)
{
	if (count != 4)
		return 2;
	dir = words[3];
	mkdir(dir, 0700);
	snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", dir);
	mkfifo(pipe_path, 0600);
	for (int at = 0; at < NESTED_PIPES; at++) {
		snprintf(nested_paths[at], sizeof(nested_paths[at]), "%s/nested-%d", dir, at);
		mkfifo(nested_paths[at], 0600);
	}
	if (!strcmp(words[1], "heavy"))
		heavy(words[2]);
	if (!strcmp(words[1], "light"))
		light(words[2]);
	return 2;
}
