// SPDX-License-Identifier: GPL-2.0-only
/*
 * adversary CGROUP FILE MIB SEED PAUSE_MS: a user with no right but a delegated
 * cgroup tries to get out of a limit on it. As user 1000, a child reads a file on
 * the device without end, and says "ready". From SIGUSR1 on this process, of the
 * same user and in a cgroup of its own, makes a move each PAUSE_MS, chosen by the
 * seed. On SIGUSR2 it says how many of each kind succeeded, and makes no more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER		1000
#define LINE		64UL
#define DEEP		70
#define MANY		50
#define LONGEST		4096

enum move {
	INTO_NEW,
	INTO_DEEP,
	HOME,
	LIFT_LIMIT,
	ANOTHER_PROCESS,
	MANY_EMPTY,
	THREADED,
	CLEAR,
	TAKE_CONTROLLER,
	MOVES,
};

static const char *const names[MOVES] = {
	"new", "deep", "home", "lift", "process", "empty", "threaded", "clear", "controller",
};

static unsigned int made[MOVES], refused[MOVES];
static char home[LONGEST], last[LONGEST];
static unsigned int number;
static volatile char *memory;
static unsigned long bytes;
static volatile sig_atomic_t is_over;
/* In the delegated cgroup: what is read by, and what starts it. */
static pid_t reader, spawner;
static int orders[2], answers[2];
static uint64_t state;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* SplitMix64. */
static uint64_t dice(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static int put(const char *dir, const char *file, const char *text)
{
	char path[LONGEST + 64];
	int fd, done;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	done = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return done;
}

static int put_pid(const char *dir, const char *file, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return put(dir, file, text);
}

static int new_cgroup(void)
{
	snprintf(last, sizeof(last), "%.2048s/s%u", home, number++);
	return mkdir(last, 0755);
}

static int deep_cgroup(void)
{
	if (new_cgroup())
		return -1;
	for (int i = 0; i < DEEP; i++) {
		strcat(last, "/d");
		if (mkdir(last, 0755))
			return -1;
	}
	return 0;
}

static void read_on(void)
{
	volatile uint64_t sum = 0;

	signal(SIGUSR1, SIG_DFL);
	for (;;)
		for (unsigned long at = 0; at < bytes; at += LINE)
			sum += memory[at];
}

/* A reader for each byte; its parent may not put it into the cgroup from outside. */
static void spawn(void)
{
	pid_t old = 0, next;
	char order;

	while (read(orders[0], &order, 1) == 1) {
		if (old) {
			kill(old, SIGKILL);
			waitpid(old, NULL, 0);
		}
		next = fork();
		if (!next)
			read_on();
		old = next;
		if (write(answers[1], &next, sizeof(next)) != sizeof(next))
			exit(1);
	}
	exit(0);
}

static int start_reader(void)
{
	return write(orders[1], "r", 1) != 1 ||
	       read(answers[0], &reader, sizeof(reader)) != sizeof(reader);
}

static void become_user(void)
{
	if (setgid(USER) || setuid(USER))
		fail("setuid");
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
	(void)stat;
	if (kind == FTW_DP && ftw->level > 0)
		rmdir(path);
	return 0;
}

static int go_home(void)
{
	put_pid(home, "cgroup.procs", spawner);
	return put_pid(home, "cgroup.procs", reader);
}

static int make(enum move move)
{
	switch (move) {
	case INTO_NEW:
		return new_cgroup() || put_pid(last, "cgroup.procs", reader);
	case INTO_DEEP:
		return deep_cgroup() || put_pid(last, "cgroup.procs", reader);
	case HOME:
		return go_home();
	case LIFT_LIMIT:
		put(last, "cpu.max", "max");
		return put(home, "cpu.max", "max");
	case ANOTHER_PROCESS:
		return start_reader() || new_cgroup() || put_pid(last, "cgroup.procs", reader);
	case MANY_EMPTY:
		for (int i = 0; i < MANY; i++)
			if (new_cgroup())
				return -1;
		return 0;
	case THREADED:
		return new_cgroup() || put(last, "cgroup.type", "threaded") ||
		       put_pid(last, "cgroup.threads", reader);
	case CLEAR:
		go_home();
		put(home, "cgroup.subtree_control", "-cpu");
		return nftw(home, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	case TAKE_CONTROLLER:
		return new_cgroup() || put_pid(last, "cgroup.procs", reader) ||
		       put_pid(last, "cgroup.procs", spawner) ||
		       put(home, "cgroup.subtree_control", "+cpu") || put(last, "cpu.max", "max");
	default:
		return 0;
	}
}

static void end(int signal)
{
	(void)signal;
	is_over = 1;
}

int main(int argc, char **argv)
{
	sigset_t begin;
	int fd, caught;

	if (argc != 6)
		return 2;
	snprintf(home, sizeof(home), "%.2000s", argv[1]);
	bytes = strtoul(argv[3], NULL, 10) << 20;
	state = strtoull(argv[4], NULL, 10);
	sigemptyset(&begin);
	sigaddset(&begin, SIGUSR1);
	sigprocmask(SIG_BLOCK, &begin, NULL);
	signal(SIGUSR2, end);
	if (pipe(orders) || pipe(answers))
		fail("pipe");
	fd = open(argv[2], O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, bytes))
		fail(argv[2]);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	spawner = fork();
	if (spawner < 0)
		fail("fork");
	if (!spawner) {
		if (put_pid(home, "cgroup.procs", getpid()))
			fail(home);
		become_user();
		/* The memory is charged to the delegated cgroup. */
		for (unsigned long at = 0; at < bytes; at += LINE)
			memory[at] = 1;
		spawn();
	}
	munmap((void *)memory, bytes);
	become_user();
	if (start_reader())
		fail("reader");
	puts("ready");
	fflush(stdout);
	sigwait(&begin, &caught);
	while (!is_over) {
		enum move move = dice() % MOVES;

		made[move]++;
		refused[move] += make(move) != 0;
		usleep(1000 * strtoul(argv[5], NULL, 10));
	}
	for (int i = 0; i < MOVES; i++)
		printf("%s %u of %u, ", names[i], made[i] - refused[i], made[i]);
	puts("done");
	fflush(stdout);
	for (;;)
		pause();
}
