// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir's scheduler: holds a CXL device at its set-point by throttling the tasks that
 * overload it.
 *
 *   task wakes, or its slice ends
 *        │
 *        ▼   workload in debt, and the task
 *     enqueue ──────────────────────────► parking queue of the workload
 *        │   returns to user space              │ tick: budget again, or starvation
 *        ▼                                      │ time over (oldest first)
 *     run queue ◄───────────────────────────────┘
 *        │ dispatch
 *        ▼
 *     running ── charged each tick and when it stops; once the budget is gone, ends its run
 *                where it returns to user space (user_return.bpf.h)
 *
 * The tick (budget_timer.bpf.h) is a timer of 1 ms. For all workloads, in this order,
 * it adds up the run time since the last tick, reads the bytes that the devices
 * transferred, charges them (weir_sched.h), refills the budgets, ends runs of tasks of
 * workloads in debt, and releases parked tasks of the others.
 *
 * Partial mode: only tasks of policy SCHED_EXT come here, all others stay with the
 * kernel's own scheduler. SCHED_EXT ranks below it: these tasks run in the CPU time
 * that ordinary tasks leave, plus the part that the kernel guarantees (ext_server,
 * Linux 7.0).
 *
 * Full mode (full.bpf.h): all ordinary tasks come here, and the run queue is ordered
 * by vtime. Then a limited workload gets its budget also where other tasks use all
 * CPUs.
 *
 * Failing open. Without a heartbeat of the daemon for heartbeat_timeout_ns all limits
 * are suspended. When the daemon ends, however that happens, the kernel unloads the
 * scheduler and runs all tasks itself; a parked task is only a task in a queue, and
 * the kernel moves it. If a device's counters cannot be read, workloads are charged by
 * intensity and run time alone.
 */

#include "vmlinux_min.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "ancestors.bpf.h"
#include "weir_sched.h"
#include "intf.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading: the verifier skips code of the other mode. */
const volatile u64 full_mode;
/* One of the thesis's schedulers (thesis.bpf.h), or 0. */
const volatile u64 thesis_variant;

/* Tick while no workload is limited. */
#define IDLE_TICK_NS	100000000ULL
/* Once in so many ticks all slots are visited, not only those in use. */
#define SWEEP_TICKS	128
#define RUN_QUEUE	(MAX_SLOTS + 1ULL)
/* In full mode there is one for each memory node, from RUN_QUEUE on. */
#define QUEUE_MASK	(MAX_QUEUES - 1)
/* The id of a parking queue is the number of its slot. */
#define SLOT_MASK	(MAX_SLOTS - 1)
/* Bound of loops over parked tasks: some of them cannot be moved. */
#define RELEASE_SCAN_MAX	(2 * WEIR_RELEASE_BATCH)
/* Tasks of a run queue without an idle CPU, after which the scan ends: mostly none is idle for the rest. */
#define KICK_TRIES	4
#define NO_SLOT		0
/* A task that is runnable for so many scans, a quarter of a second apart, is stalled; a power of 2. */
#define STALL_CHECKS	8
/*
 * Global functions are verified once, for any argument, and not anew for each call: without this,
 * nested loops take the verifier minutes.
 */
#define GLOBAL_FN	__attribute__((noinline))
/* The iterator inside bpf_for_each(). */
#define FOR_EACH_ITER	(&___it)

#define ARRAY(map, entries, what)			\
	struct {					\
		__uint(type, BPF_MAP_TYPE_ARRAY);	\
		__uint(max_entries, entries);		\
		__type(key, u32);			\
		__type(value, what);			\
	} map SEC(".maps")

ARRAY(sched_settings, 1, struct sched_settings);
ARRAY(heartbeat, 1, struct heartbeat);
ARRAY(workload_cfgs, MAX_SLOTS, struct workload_cfg);
ARRAY(device_cfgs, MAX_DEVICES, struct device_cfg);
ARRAY(workload_ctxs, MAX_SLOTS, struct workload_ctx);
ARRAY(device_samples, MAX_DEVICES, struct device_sample);
ARRAY(device_ctxs, MAX_DEVICES, struct device_ctx);
ARRAY(sched_stats, 1, struct sched_stats);

/* By the cgroup's id: slot (the low 8 bits) and, in full mode, index of the hweight (the bits above). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * MAX_SLOTS + MAX_HWEIGHTS);
	__type(key, u64);
	__type(value, u64);
} cgroup_to_workload SEC(".maps");

/**
 * struct task_ctx - state of a task: in partial mode of one that was parked, in full mode of all
 * @returns_to_user: 1: it is about to return to user space (user_return.bpf.h)
 * @marked_run_ns: its run time when it was marked, to be parked at its return to user space; 0: it is not
 * @stay_ns: how long it has run in the kernel since, where it is parked there
 * @parked_at: time of the last parking
 * @released_at: time of the release after that
 * @vtime: virtual time (this and all that follows: full mode only)
 * @tag: as in cgroup_slot.bpf.h, without the slot
 * @slot: slot of its workload
 * @hweight_id: index of its cgroup's hweight; 0: none
 * @summed_in: index of the sum of weights that it is part of
 * @summed_weight: its weight in that sum; 0: it sleeps
 * @limit: thesis's schedulers only
 */
struct task_ctx {
	u64 returns_to_user;
	u64 marked_run_ns;
	u64 stay_ns;
	u64 parked_at;
	u64 released_at;
	u64 vtime;
	u64 tag;
	u64 slot;
	u64 hweight_id;
	u64 summed_in;
	u64 summed_weight;
	u64 limit;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/*
 * The run of a task on a CPU; since 0: no task of ours. Only that CPU writes it.
 *
 * @from_user_space: 1: the kernel's scheduler was last called there by a task on its way back to user space
 */
struct cpu_ctx {
	u64 since;
	u64 slot;
	u64 vtime;		/* full mode: the task's, at the beginning of the run */
	u64 active_weight;	/* full mode: sum of the cgroup's weights then */
	u64 from_user_space;
	u64 space[3];		/* a cache line each */
};

struct cpu_ctx cpu_ctxs[MAX_CPUS];

/*
 * State of the tick. Loops count here and not in variables, because the verifier would follow
 * each value of a variable through each loop.
 */
struct timer_ctx {
	struct bpf_timer timer;
	u64 left;
	u64 scanned;
	u64 next_slot;		/* the slot that is released first */
	u64 was_limiting;	/* 1: limits were in force at the last tick, so this one was due soon */
	u64 stall_check_ns;	/* stall_guard.bpf.h: time of the last scan, */
	u64 stall_checks;	/* number of scans, */
	u64 stall_marks[STALL_CHECKS];	/* and their times, in jiffies */
};

ARRAY(budget_timer, 1, struct timer_ctx);

static struct sched_settings *get_settings(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&sched_settings, &key);
}

static struct sched_stats *get_stats(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&sched_stats, &key);
}

static struct workload_cfg *workload_cfg_of(u64 slot)
{
	u32 key = slot & SLOT_MASK;

	return bpf_map_lookup_elem(&workload_cfgs, &key);
}

static struct workload_ctx *workload_ctx_of(u64 slot)
{
	u32 key = slot & SLOT_MASK;

	return bpf_map_lookup_elem(&workload_ctxs, &key);
}

static struct cpu_ctx *cpu_ctx_of(u32 cpu)
{
	return &cpu_ctxs[cpu & (MAX_CPUS - 1)];
}

/*
 * May run on another CPU: a change of a running task's policy, nice value, affinity or cgroup calls
 * stopping() and running() on the caller's CPU.
 */
static struct cpu_ctx *cpu_ctx_of_task(struct task_struct *p)
{
	return cpu_ctx_of(scx_bpf_task_cpu(p));
}

static struct heartbeat *daemon_heartbeat(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&heartbeat, &key);
}

#include "cgroup_slot.bpf.h"

/* Mode of a slot's workload; free while limits are suspended. */
static u64 mode_of(u64 slot)
{
	struct workload_cfg *wcfg;
	struct sched_stats *stats = get_stats();

	if (slot == NO_SLOT || !stats || stats->is_suspended)
		return MODE_FREE;
	wcfg = workload_cfg_of(slot);
	return wcfg ? wcfg->active : MODE_FREE;
}

static bool is_limited(u64 slot)
{
	return mode_of(slot) == MODE_LIMITED;
}

static bool is_capped(u64 slot)
{
	return mode_of(slot) == MODE_CAPPED;
}

/* Whether tasks of a slot must wait. Changes at ticks only, so reading it without a lock is sound. */
static bool is_throttled(u64 slot)
{
	struct workload_ctx *wctx = workload_ctx_of(slot);

	return wctx && wctx->is_throttled;
}

#include "stats.bpf.h"

/* Never read: it makes the compiler emit the whole BTF type of a cpumask, not only a declaration. */
struct cpumask cpumask_for_btf SEC(".data.unused");

static bool kick_idle_cpu(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

static struct task_ctx *lookup_task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, NULL, 0);
}

#include "user_return.bpf.h"

SEC("struct_ops/weir_select_cpu")
s32 BPF_PROG(weir_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	/* Direct dispatch to the idle CPU: the task is then not enqueued. */
	if (is_idle && !is_throttled(slot_of(p)))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, WEIR_SLICE_NS, 0);
	return cpu;
}

/*
 * Whether a workload has used up its budget since the last tick, which may be late: the CPU checks it at the
 * end of a slice, by the estimate, which the tick corrects. @live is the run time of a task that has not
 * stopped. Runs on other CPUs are not counted: those CPUs check too.
 */
static __noinline bool budget_exhausted(u64 slot, u64 live)
{
	struct workload_cfg *wcfg = workload_cfg_of(slot);
	struct workload_ctx *wctx = workload_ctx_of(slot);
	struct weir_bucket bucket = {};
	u64 run, charged;

	if (!wcfg || !wctx || !is_limited(slot))
		return false;
	bucket.bytes = (s64)wctx->budget_bytes;
	run = wctx->run_ns + live;
	charged = wctx->billed_run_ns;
	if (!weir_budget_exhausted(&bucket, wcfg->intensity_bytes_per_sec, run > charged ? run - charged : 0))
		return false;
	wctx->is_throttled = 1;
	return true;
}

static __noinline void park(struct task_struct *p, u64 slot, u64 enq_flags)
{
	struct task_ctx *taskc;
	struct workload_ctx *wctx = workload_ctx_of(slot);

	taskc = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (taskc)
		taskc->parked_at = scx_bpf_now();
	if (wctx)
		__sync_fetch_and_add(&wctx->parks, 1);
	if (taskc && taskc->marked_run_ns)
		enq_flags |= bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_HEAD);
	scx_bpf_dsq_insert(p, slot, WEIR_SLICE_NS, enq_flags);
}

/*
 * As a rule no CPU must be kicked: the waking task found no idle CPU, and at the end of a slice the CPU
 * itself dispatches from the run queue next. The tick finds CPUs that go idle in between.
 */
static void enqueue(struct task_struct *p, u64 enq_flags)
{
	u64 slot = slot_of(p);

	if ((is_throttled(slot) || (!p->scx.slice && budget_exhausted(slot, 0))) && may_park(p)) {
		park(p, slot, enq_flags);
		return;
	}
	scx_bpf_dsq_insert(p, RUN_QUEUE, WEIR_SLICE_NS, enq_flags);
	if (enq_flags & SCX_ENQ_REENQ)
		kick_idle_cpu(p);
	else if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
}

SEC("struct_ops/weir_enqueue")
void BPF_PROG(weir_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 begun = enqueue_timing_begin();

	enqueue(p, enq_flags);
	enqueue_timing_end(begun);
}

SEC("struct_ops/weir_dispatch")
void BPF_PROG(weir_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cpuc = cpu_ctx_of(cpu);
	u64 slot, now;

	if (scx_bpf_dsq_move_to_local(RUN_QUEUE) || !prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		return;
	/* No other task: the last one goes on, if it may. Without a slice it would be enqueued as the last. */
	slot = slot_of(prev);
	/* Its slot changed while it ran (it came here, or the map changed): it must be enqueued anew. */
	if (slot != cpuc->slot)
		return;
	now = scx_bpf_now();
	if (!is_throttled(slot) && !budget_exhausted(slot, cpuc->since && now > cpuc->since ? now - cpuc->since : 0))
		scx_bpf_task_set_slice(prev, WEIR_SLICE_NS);
}

SEC("struct_ops/weir_running")
void BPF_PROG(weir_running, struct task_struct *p)
{
	struct cpu_ctx *cpuc = cpu_ctx_of_task(p);

	cpuc->slot = cached_slot(p);
	cpuc->since = scx_bpf_now();
}

/*
 * The tick reads @since and the sum concurrently. If it reads between the two writes, it misses this run
 * once or counts it twice; the sum is cumulative, so the next tick corrects that.
 */
static u64 account_run(struct cpu_ctx *cpuc)
{
	u64 since = cpuc->since, now = scx_bpf_now();
	struct workload_ctx *wctx = workload_ctx_of(cpuc->slot);

	cpuc->since = 0;
	if (!since || !wctx || now <= since)
		return 0;
	__sync_fetch_and_add(&wctx->run_ns, now - since);
	__sync_fetch_and_add(&wctx->runs, 1);
	return now - since;
}

SEC("struct_ops/weir_stopping")
void BPF_PROG(weir_stopping, struct task_struct *p, bool runnable)
{
	account_run(cpu_ctx_of_task(p));
}

/*
 * A task of a higher class takes the CPU: ours must not wait behind it while other CPUs are idle. While a
 * BPF program runs, the kernel regards the preempted task as migration-disabled; without
 * SCX_OPS_ENQ_MIGRATION_DISABLED it would not be enqueued, but stay on its CPU with a new slice, and where
 * it is preempted often never reach the end of one.
 */
SEC("struct_ops/weir_cpu_release")
void BPF_PROG(weir_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

#include "full.bpf.h"
#include "stall_guard.bpf.h"
#include "device_bytes.bpf.h"
#include "budget_timer.bpf.h"
#include "hotplug.bpf.h"

SEC("struct_ops.s/weir_init")
s32 BPF_PROG(weir_init)
{
	struct sched_settings *set = get_settings();
	struct timer_ctx *timerc;
	u32 zero = 0, i;
	s32 ret;

	if (!set || !set->tick_ns)
		return -22;
	bpf_for(i, 0, full_mode ? MAX_QUEUES : 1) {
		ret = scx_bpf_create_dsq(RUN_QUEUE + i, -1);
		if (ret)
			return ret;
	}
	bpf_for(i, 1, MAX_SLOTS) {
		ret = scx_bpf_create_dsq(i, -1);
		if (ret)
			return ret;
	}
	timerc = bpf_map_lookup_elem(&budget_timer, &zero);
	if (!timerc)
		return -2;
	bpf_timer_init(&timerc->timer, &budget_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timerc->timer, tick);
	return bpf_timer_start(&timerc->timer, set->tick_ns, 0);
}

#include "thesis.bpf.h"

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
	.exit_dump_len = EXIT_DUMP_LEN,
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
	.exit_dump_len = EXIT_DUMP_LEN,
	.name = "weir",
};
