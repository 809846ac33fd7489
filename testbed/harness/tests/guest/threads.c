// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many threads: `threads COUNT SLEEP_MS`. Each sleeps so long, computes for a moment, and so on. They begin
 * spread over one sleep, so that about COUNT / SLEEP of them wake in any time. None begins before all are
 * there: a CPU that they keep busy would make no more of them.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long sleep_ms;
static pthread_mutex_t made = PTHREAD_MUTEX_INITIALIZER;

static void rest(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static void *live(void *number)
{
	pthread_mutex_lock(&made);
	pthread_mutex_unlock(&made);
	rest((long)number * 7919 % (sleep_ms ? sleep_ms : 1));
	for (;;) {
		for (volatile int i = 0; i < 1000; i++)
			;
		rest(sleep_ms);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 0;
	pthread_attr_t small;
	pthread_t thread;

	sleep_ms = argc > 2 ? atol(argv[2]) : 1000;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
	pthread_mutex_lock(&made);
	for (long i = 0; i < count; i++) {
		if (pthread_create(&thread, &small, live, (void *)i)) {
			fprintf(stderr, "threads: only %ld can be made\n", i);
			return 1;
		}
	}
	pthread_mutex_unlock(&made);
	pause();
	return 0;
}
