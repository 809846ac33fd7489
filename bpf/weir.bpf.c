// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir's scheduler: holds a CXL device at its set-point by giving the tasks that
 * overload it turns on the CPU.
 *
 *   task wakes, or its slice ends
 *        │
 *        ▼            workload in debt
 *     enqueue ──────────────────────────► parking queue of the workload
 *        │ budget left                          │ tick: budget again, or its turn
 *        ▼                                      │ (oldest first)
 *     run queue ◄───────────────────────────────┘
 *        │ a CPU has nothing better to do
 *        ▼
 *     running ── charged each tick and when it stops; cut when the budget is gone
 *
 * The tick is a timer (1 ms) that does for all workloads, in this order: take
 * the run time since the last tick, read how much the devices moved, share that
 * out (weir_sched.h), refill, cut who is in debt, release who is not.
 *
 * Partial mode: only tasks of policy SCHED_EXT come here, all others stay with
 * the kernel's own scheduler. They rank below those: they run in the CPU time
 * that ordinary tasks leave, plus what the kernel guarantees them (ext_server,
 * Linux 7.0).
 *
 * Full mode (weir_full.bpf.h): all ordinary tasks come here, and the run queue is
 * in order of virtual time. Then who is limited gets what it may have also where
 * others want all CPUs.
 *
 * Failing open. No word from the daemon for patience_ns: nobody is limited. The
 * daemon's end, however it comes, takes the scheduler out of the kernel, which
 * then runs all tasks itself; a parked task is only a task in a queue, and the
 * kernel moves it. A device whose counters cannot be read is charged by
 * intensity and run time alone.
 */

#include "weir_kernel.h"
#include <bpf/bpf_tracing.h>
#include "weir_sched.h"
#include "weir_wire.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading: what does not apply is then not even verified. */
const volatile u64 weir_is_full;
/* Which of the thesis's schedulers (weir_thesis.bpf.h), if one. */
const volatile u64 weir_thesis;

/* Between looks while nobody was limited yet. */
#define WEIR_IDLE_NS	100000000ULL
/* Every so many ticks all slots are looked at, not only those in use. */
#define SWEEP_TICKS	128
#define RUN_QUEUE	(WEIR_SLOTS + 1ULL)
/* In full mode there is one for each memory node, from RUN_QUEUE on. */
#define QUEUE_MASK	(WEIR_QUEUES - 1)
/* Parking queues have the numbers of their slots. */
#define SLOT_MASK	(WEIR_SLOTS - 1)
#define RELEASED_AT_ONCE	64
/* A bound for loops over tasks of which some cannot be moved. */
#define LOOKED_AT_ONCE	(2 * RELEASED_AT_ONCE)
/* Of a run queue, tasks for which no CPU is idle: then mostly none is for the rest. */
#define TRIED_AT_ONCE	4
#define NO_SLOT		0
/* Who is still in a run queue after so many looks there, a quarter of a second each, is late; a power of 2. */
#define WEIR_LATE_LOOKS	8
/* Debt of a device towards guarded workloads, as time at its set-point: an overload that they did not make ends. */
#define GUARD_DEBT_NS	100000000ULL
/* Of what the daemon's looks showed that it had missed, this is made up for at most, as time at the set-point. */
#define MISSED_NS	200000000ULL
/* How soon it is forgotten that a device moved too much or too little just now. */
#define FADE_NS		100000000ULL
/* Longest time slice: seldom reached, because debts are seen at ticks. */
#define SLICE_NS	4000000ULL
/*
 * A function that is not static is verified once by itself, for any argument, and not anew for each
 * path that leads to it: without this, loops in loops take the verifier minutes.
 */
#define ALONE		__attribute__((noinline))
/* The iterator inside bpf_for_each(). */
#define THIS_ITER	(&___it)

#define ARRAY(map, count, what)			\
	struct {					\
		__uint(type, BPF_MAP_TYPE_ARRAY);	\
		__uint(max_entries, count);		\
		__type(key, u32);			\
		__type(value, what);			\
	} map SEC(".maps")

ARRAY(weir_settings, 1, struct weir_settings);
ARRAY(weir_beat, 1, struct weir_beat);
ARRAY(weir_rates, WEIR_SLOTS, struct weir_rate);
ARRAY(weir_devices, WEIR_DEVICES, struct weir_device);
ARRAY(weir_counts, WEIR_SLOTS, struct weir_count);
ARRAY(weir_seen, WEIR_DEVICES, struct weir_seen);
ARRAY(weir_meters, WEIR_DEVICES, struct weir_meter);
ARRAY(weir_life, 1, struct weir_life);

/* Cgroup to slot (the low 8 bits) and, in full mode, share (the bits above). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * WEIR_SLOTS + WEIR_SHARES);
	__type(key, u64);
	__type(value, u64);
} weir_owners SEC(".maps");

/**
 * struct weir_task - what is remembered of a task: in partial mode of one that was parked, in full mode of all
 * @parked_at: when it was parked last
 * @let_in_at: when it was let in after that
 * @vtime: its virtual time (all that follows is for full mode)
 * @stamp: as above, without the slot
 * @slot: its workload
 * @share: its cgroup's share
 * @counted_in: the share in whose sum it is, while it is
 * @counted: with this weight; 0: it sleeps
 * @limit: for the thesis's schedulers only
 */
struct weir_task {
	u64 parked_at;
	u64 let_in_at;
	u64 vtime;
	u64 stamp;
	u64 slot;
	u64 share;
	u64 counted_in;
	u64 counted;
	u64 limit;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct weir_task);
} weir_tasks SEC(".maps");

/* Who runs on a CPU, and since when; 0 is nobody. Only that CPU writes it. */
struct weir_cpu {
	u64 since;
	u64 slot;
	u64 vtime;	/* full mode: of who runs, when it began */
	u64 sum;	/* and of its share, then */
	u64 space[4];	/* a cache line each */
};

struct weir_cpu weir_cpus[WEIR_CPUS];

/*
 * The tick's own. It counts here and not in variables, because the verifier would follow
 * each value of those through each loop.
 */
struct weir_clockwork {
	struct bpf_timer timer;
	u64 left;
	u64 looked;
	u64 next;	/* the slot that is asked first */
	u64 was_busy;	/* 1: somebody was limited at the last tick, so the next was to be soon */
	u64 late_ns;	/* for weir_late.bpf.h: its last look, */
	u64 late_looks;	/* how many there were, */
	u64 late_marks[WEIR_LATE_LOOKS];	/* and when, in jiffies */
};

ARRAY(weir_timer, 1, struct weir_clockwork);

static struct weir_settings *settings(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&weir_settings, &key);
}

static struct weir_life *life(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&weir_life, &key);
}

static struct weir_rate *rate_of(u64 slot)
{
	u32 key = slot & SLOT_MASK;

	return bpf_map_lookup_elem(&weir_rates, &key);
}

static struct weir_count *count_of(u64 slot)
{
	u32 key = slot & SLOT_MASK;

	return bpf_map_lookup_elem(&weir_counts, &key);
}

static struct weir_cpu *cpu_of(u32 cpu)
{
	return &weir_cpus[cpu & (WEIR_CPUS - 1)];
}

/*
 * Not always the CPU this runs on: who changes a task that runs (policy, niceness, affinity, cgroup) has it stop and
 * run anew, from his own CPU.
 */
static struct weir_cpu *where_it_runs(struct task_struct *p)
{
	return cpu_of(scx_bpf_task_cpu(p));
}

static struct weir_beat *beat_of_daemon(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&weir_beat, &key);
}

#include "weir_whose.bpf.h"

/* What is done to a slot's workload: nothing while the daemon is silent. */
static u64 mode_of(u64 slot)
{
	struct weir_rate *rate;
	struct weir_life *now = life();

	if (slot == NO_SLOT || !now || now->open)
		return WEIR_FREE;
	rate = rate_of(slot);
	return rate ? rate->active : WEIR_FREE;
}

static bool is_limited(u64 slot)
{
	return mode_of(slot) == WEIR_LIMITED;
}

static bool is_guarded(u64 slot)
{
	return mode_of(slot) == WEIR_GUARDED;
}

/* Whether tasks of a slot are to wait. Changes at ticks only, so reading it without a lock is sound. */
static bool waits(u64 slot)
{
	struct weir_count *count = count_of(slot);

	return count && count->gate;
}

#include "weir_books.bpf.h"

/* Never read: it makes the compiler tell the loader what a cpumask is, not only that there is one. */
struct cpumask weir_cpumask SEC(".data.unused");

static bool wake_a_cpu(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

static struct weir_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&weir_tasks, p, NULL, 0);
}

SEC("struct_ops/weir_select_cpu")
s32 BPF_PROG(weir_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	/* Straight to the idle CPU; then it is not enqueued. */
	if (is_idle && !waits(slot_of(p)))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
	return cpu;
}

/*
 * Whether a workload has run through its budget since the last tick, which may be late: the CPU whose
 * slice is over finds out by itself, and the tick will put the estimate right. @live is the run time of a
 * task that has not stopped. What runs elsewhere is not counted: that CPU asks too.
 */
static __noinline bool is_spent(u64 slot, u64 live)
{
	struct weir_rate *rate = rate_of(slot);
	struct weir_count *count = count_of(slot);
	struct weir_bucket bucket = {};
	u64 run, charged;

	if (!rate || !count || !is_limited(slot))
		return false;
	bucket.bytes = (s64)count->budget_bytes;
	run = count->run_ns + live;
	charged = count->ran_ns;
	if (!weir_is_spent(&bucket, rate->intensity_bytes_per_sec, run > charged ? run - charged : 0))
		return false;
	count->gate = 1;
	return true;
}

static __noinline void park(struct task_struct *p, u64 slot, u64 enq_flags)
{
	struct weir_task *task;
	struct weir_count *count = count_of(slot);

	task = bpf_task_storage_get(&weir_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (task)
		task->parked_at = scx_bpf_now();
	if (count)
		__sync_fetch_and_add(&count->parks, 1);
	scx_bpf_dsq_insert(p, slot, SLICE_NS, enq_flags);
}

/*
 * Nobody needs to be woken as a rule: who woke found no idle CPU, and where a slice is over the CPU itself
 * looks at the run queue next. What goes idle in between is found by the tick.
 */
static void enqueue(struct task_struct *p, u64 enq_flags)
{
	u64 slot = slot_of(p);

	if (waits(slot) || (!p->scx.slice && is_spent(slot, 0))) {
		park(p, slot, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, RUN_QUEUE, SLICE_NS, enq_flags);
	if (enq_flags & SCX_ENQ_REENQ)
		wake_a_cpu(p);
	else if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
}

SEC("struct_ops/weir_enqueue")
void BPF_PROG(weir_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 begun = begin_enqueue();

	enqueue(p, enq_flags);
	end_enqueue(begun);
}

SEC("struct_ops/weir_dispatch")
void BPF_PROG(weir_dispatch, s32 cpu, struct task_struct *prev)
{
	struct weir_cpu *here = cpu_of(cpu);
	u64 slot, now;

	if (scx_bpf_dsq_move_to_local(RUN_QUEUE) || !prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		return;
	/* Nobody else: who ran goes on, if it may. Without a slice it would be enqueued as the last. */
	slot = slot_of(prev);
	/* Who ran when it came here, or when the owners changed, ran as another's: it is to be queued anew. */
	if (slot != here->slot)
		return;
	now = scx_bpf_now();
	if (!waits(slot) && !is_spent(slot, here->since && now > here->since ? now - here->since : 0))
		scx_bpf_task_set_slice(prev, SLICE_NS);
}

SEC("struct_ops/weir_running")
void BPF_PROG(weir_running, struct task_struct *p)
{
	struct weir_cpu *cpu = where_it_runs(p);

	cpu->slot = slot_then(p);
	cpu->since = scx_bpf_now();
}

/*
 * The tick reads @since and the sum beside this. Read between the two writes, this run is missing once, or there
 * twice; the sum is one of all time, so the next tick puts it right.
 */
static u64 note_run(struct weir_cpu *cpu)
{
	u64 since = cpu->since, now = scx_bpf_now();
	struct weir_count *count = count_of(cpu->slot);

	cpu->since = 0;
	if (!since || !count || now <= since)
		return 0;
	__sync_fetch_and_add(&count->run_ns, now - since);
	__sync_fetch_and_add(&count->runs, 1);
	return now - since;
}

SEC("struct_ops/weir_stopping")
void BPF_PROG(weir_stopping, struct task_struct *p, bool runnable)
{
	note_run(where_it_runs(p));
}

/*
 * An ordinary task takes the CPU: ours must not wait behind it while others are idle. While a program runs, who was
 * preempted cannot migrate, as the kernel sees it; without SCX_OPS_ENQ_MIGRATION_DISABLED it would not be enqueued, but
 * stay where it is with a new slice, and see the end of none where it is preempted often.
 */
SEC("struct_ops/weir_cpu_release")
void BPF_PROG(weir_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

#include "weir_full.bpf.h"
#include "weir_late.bpf.h"
#include "weir_moved.bpf.h"
#include "weir_tick.bpf.h"
#include "weir_cpus.bpf.h"

SEC("struct_ops.s/weir_init")
s32 BPF_PROG(weir_init)
{
	struct weir_settings *set = settings();
	struct weir_clockwork *work;
	u32 zero = 0, i;
	s32 ret;

	if (!set || !set->tick_ns)
		return -22;
	bpf_for(i, 0, weir_is_full ? WEIR_QUEUES : 1) {
		ret = scx_bpf_create_dsq(RUN_QUEUE + i, -1);
		if (ret)
			return ret;
	}
	bpf_for(i, 1, WEIR_SLOTS) {
		ret = scx_bpf_create_dsq(i, -1);
		if (ret)
			return ret;
	}
	work = bpf_map_lookup_elem(&weir_timer, &zero);
	if (!work)
		return -2;
	bpf_timer_init(&work->timer, &weir_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&work->timer, tick);
	return bpf_timer_start(&work->timer, set->tick_ns, 0);
}

#include "weir_thesis.bpf.h"

SEC(".struct_ops.link")
struct sched_ext_ops weir_full = {
	.select_cpu = (void *)weir_full_select_cpu,
	.enqueue = (void *)weir_full_enqueue,
	.dispatch = (void *)weir_full_dispatch,
	.runnable = (void *)weir_full_runnable,
	.running = (void *)weir_full_running,
	.stopping = (void *)weir_full_stopping,
	.quiescent = (void *)weir_full_quiescent,
	.cpu_release = (void *)weir_cpu_release,
	.cpu_online = (void *)weir_cpu_online,
	.cpu_offline = (void *)weir_cpu_offline,
	.init_task = (void *)weir_full_init_task,
	.enable = (void *)weir_full_enable,
	.init = (void *)weir_init,
	.exit = (void *)weir_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.exit_dump_len = WEIR_DUMP_LEN,
	.name = "weir",
};

SEC(".struct_ops.link")
struct sched_ext_ops weir_partial = {
	.select_cpu = (void *)weir_select_cpu,
	.enqueue = (void *)weir_enqueue,
	.dispatch = (void *)weir_dispatch,
	.running = (void *)weir_running,
	.stopping = (void *)weir_stopping,
	.cpu_release = (void *)weir_cpu_release,
	.cpu_online = (void *)weir_cpu_online,
	.cpu_offline = (void *)weir_cpu_offline,
	.enable = (void *)weir_enable,
	.init = (void *)weir_init,
	.exit = (void *)weir_exit,
	.flags = SCX_OPS_SWITCH_PARTIAL | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.exit_dump_len = WEIR_DUMP_LEN,
	.name = "weir",
};
