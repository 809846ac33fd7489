/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The thesis's three schedulers (5.4.1), for comparison only. A part of weir.bpf.c.
 *
 * They control by themselves: at each enqueue of a task that uses the device its
 * CPU limit is multiplied by set-point over bandwidth (equation 4), and its slice
 * is 20 ms times that limit (equation 8; scx_simple's slice). The bandwidth is a
 * running average of what the device counted, read at an enqueue and at most once a
 * millisecond (5.4.1.1). Nothing goes straight to an idle CPU, so that all are
 * enqueued (5.4.1). The variants:
 *
 * - round robin (5.4.1.3): one queue, in order of arrival;
 * - virtual time (5.4.1.4): passes the faster the lower the limit;
 * - throttle queue (5.4.1.5): who is limited waits in a queue of its own, which is
 *   looked at only when the other is empty and no device is overloaded.
 *
 * Left out, or not as there:
 *
 * - Who uses the device is who has a slot, that is, whom the daemon's policy limits,
 *   where the thesis asks a task's memory policy (5.4.1.1). Rates and budgets are not
 *   used.
 * - Counts of single tasks (5.4.1.2, equation 3): equation 4 needs none.
 * - A task of two devices counts as one of the device it was limited for; with one
 *   device the sum over monitoring groups is the thesis's.
 * - Averages are whole bytes a second in 64 bits, where the thesis has kilobytes.
 * - Nobody is limited while the daemon is silent, as in weir's own. The thesis's daemon
 *   only loads the scheduler.
 *
 * As there, nothing bounds how long a task waits: the kernel's watchdog may end it.
 * And who runs alone on a CPU goes on without being enqueued (6.3.1).
 *
 * What the text leaves open is as in the simulator (crates/weir-sim/src/scx.rs):
 * limits lie between 1 % and 100 %, and any task's enqueue reads the counters.
 */
#ifndef WEIR_THESIS_BPF_H
#define WEIR_THESIS_BPF_H

#define THESIS_ROUND_ROBIN	1
#define THESIS_VTIME		2
#define THESIS_QUEUE		3

#define THESIS_SLICE_NS		20000000ULL
#define THESIS_REFRESH_NS	1000000ULL
/* Parts of a limit of 1, and the least limit (1 %). */
#define THESIS_ONE		(1ULL << 16)
#define THESIS_LEAST		(THESIS_ONE / 100)
/* Weight of a new value in the average, in tenths (7.4.1). */
#define THESIS_ALPHA_TENTHS	3
#define THROTTLE_QUEUE		(RUN_QUEUE + 1)

/* By device: when its counters were read, and the average. */
struct weir_average {
	u64 read_ns;
	u64 bytes_per_sec;
	u64 is_known;
};

ARRAY(weir_averages, WEIR_DEVICES, struct weir_average);

static struct weir_average *average_of(u64 device)
{
	u32 key = device & (WEIR_DEVICES - 1);

	return bpf_map_lookup_elem(&weir_averages, &key);
}

/* Reads a device's counters, if nobody did so within the last millisecond. */
ALONE int weir_thesis_refresh(u64 index, u64 now)
{
	u32 key = index & (WEIR_DEVICES - 1);
	struct weir_device *device = bpf_map_lookup_elem(&weir_devices, &key);
	struct weir_average *average = average_of(index);
	struct weir_meter *meter = meter_of(index);
	u64 then, bytes = 0, rate;

	if (!device || !average || !meter)
		return 0;
	then = average->read_ns;
	if (now < then + THESIS_REFRESH_NS || __sync_val_compare_and_swap(&average->read_ns, then, now) != then)
		return 0;
	if (!counted_since(device, meter, &bytes) || !then)
		return 0;
	/* Below 2^34 bytes in one interval, so that the product fits. */
	rate = weir_min(bytes, 1ULL << 34) * WEIR_NS_PER_SEC / (now - then);
	if (average->is_known)
		rate = (rate * THESIS_ALPHA_TENTHS + average->bytes_per_sec * (10 - THESIS_ALPHA_TENTHS)) / 10;
	average->bytes_per_sec = rate;
	average->is_known = 1;
	return 0;
}

/* Equation 4. */
static u64 thesis_limit(struct weir_task *task)
{
	struct weir_rate *rate = rate_of(task->slot);
	struct weir_average *average;
	struct weir_device *device;
	u64 limit = task->limit;
	u32 key;

	if (!rate || !is_limited(task->slot))
		return THESIS_ONE;
	key = rate->device & (WEIR_DEVICES - 1);
	device = bpf_map_lookup_elem(&weir_devices, &key);
	average = average_of(rate->device);
	if (!device || !average || !average->bytes_per_sec)
		return THESIS_ONE;
	limit = limit * weir_min(device->set_point_bytes_per_sec, WEIR_RATE_MAX) / average->bytes_per_sec;
	return weir_max(weir_min(limit, THESIS_ONE), THESIS_LEAST);
}

static bool is_overloaded(void)
{
	struct weir_beat *beat = beat_of_daemon();
	struct weir_average *average;
	struct weir_device *device;
	u32 i;

	if (!beat)
		return false;
	bpf_for(i, 0, WEIR_DEVICES) {
		device = bpf_map_lookup_elem(&weir_devices, &i);
		average = average_of(i);
		if (i < beat->devices && device && average &&
		    average->bytes_per_sec > device->set_point_bytes_per_sec)
			return true;
	}
	return false;
}

/* Not straight to an idle CPU: its limit is found at the enqueue. The CPU that is returned is woken up. */
SEC("struct_ops/weir_thesis_select_cpu")
s32 BPF_PROG(weir_thesis_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* There is no tick: whoever is enqueued sees to the averages, and whether the daemon lives. */
static void look_around(u64 now)
{
	struct weir_beat *beat = beat_of_daemon();
	struct weir_settings *set = settings();
	struct weir_life *all = life();
	u32 i;

	if (!beat || !set || !all)
		return;
	listen(all, beat, set, now);
	bpf_for(i, 0, beat->devices)
		weir_thesis_refresh(i, now);
}

SEC("struct_ops/weir_thesis_enqueue")
void BPF_PROG(weir_thesis_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct weir_task *task = who(p);
	u64 now = scx_bpf_now(), slice = THESIS_SLICE_NS;

	look_around(now);
	if (!task) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice, enq_flags);
		return;
	}
	task->limit = thesis_limit(task);
	slice = slice * task->limit / THESIS_ONE;
	if (weir_thesis == THESIS_VTIME) {
		task->vtime = weir_vtime_back(task->vtime, weir_vtime_now, THESIS_SLICE_NS);
		scx_bpf_dsq_insert_vtime(p, RUN_QUEUE, slice, task->vtime, enq_flags);
	} else if (weir_thesis == THESIS_QUEUE && task->limit < THESIS_ONE) {
		scx_bpf_dsq_insert(p, THROTTLE_QUEUE, slice, enq_flags);
	} else {
		scx_bpf_dsq_insert(p, RUN_QUEUE, slice, enq_flags);
	}
}

SEC("struct_ops/weir_thesis_dispatch")
void BPF_PROG(weir_thesis_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local(RUN_QUEUE))
		return;
	if (weir_thesis == THESIS_QUEUE && !is_overloaded())
		scx_bpf_dsq_move_to_local(THROTTLE_QUEUE);
}

SEC("struct_ops/weir_thesis_running")
void BPF_PROG(weir_thesis_running, struct task_struct *p)
{
	struct weir_cpu *cpu = where_it_runs(p);
	struct weir_task *task = task_of(p);

	cpu->slot = NO_SLOT;
	cpu->since = scx_bpf_now();
	if (!task)
		return;
	cpu->slot = task->slot;
	if (task->vtime > weir_vtime_now)
		weir_vtime_now = task->vtime;
}

SEC("struct_ops/weir_thesis_stopping")
void BPF_PROG(weir_thesis_stopping, struct task_struct *p, bool runnable)
{
	u64 run = note_run(where_it_runs(p));
	struct weir_task *task = task_of(p);

	if (task)
		task->vtime += weir_vtime(run, p->scx.weight, 0, 0) * THESIS_ONE / weir_max(task->limit, THESIS_LEAST);
}

SEC("struct_ops/weir_thesis_enable")
void BPF_PROG(weir_thesis_enable, struct task_struct *p)
{
	struct weir_task *task = task_of(p);

	if (!task)
		return;
	task->vtime = weir_vtime_now;
	task->limit = THESIS_ONE;
}

SEC("struct_ops.s/weir_thesis_init")
s32 BPF_PROG(weir_thesis_init)
{
	s32 ret = scx_bpf_create_dsq(RUN_QUEUE, -1);

	return ret ? ret : scx_bpf_create_dsq(THROTTLE_QUEUE, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops weir_as_thesis = {
	.select_cpu = (void *)weir_thesis_select_cpu,
	.enqueue = (void *)weir_thesis_enqueue,
	.dispatch = (void *)weir_thesis_dispatch,
	.running = (void *)weir_thesis_running,
	.stopping = (void *)weir_thesis_stopping,
	.init_task = (void *)weir_full_init_task,
	.enable = (void *)weir_thesis_enable,
	.init = (void *)weir_thesis_init,
	.exit = (void *)weir_exit,
	.timeout_ms = 30000,
	.exit_dump_len = WEIR_DUMP_LEN,
	.name = "weir_thesis",
};

#endif /* WEIR_THESIS_BPF_H */
