/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The thesis's three schedulers (5.4.1), for comparison only. A part of main.bpf.c.
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
 * - throttle queue (5.4.1.5): limited tasks wait in a queue of their own, which is
 *   used only when the other is empty and no device is overloaded.
 *
 * Left out, or not as there:
 *
 * - A task uses the device if it has a slot, that is, if the daemon's policy limits
 *   it; the thesis reads a task's memory policy (5.4.1.1). Rates and budgets are not
 *   used.
 * - Counts of single tasks (5.4.1.2, equation 3): equation 4 needs none.
 * - A task of two devices counts as one of the device it was limited for; with one
 *   device the sum over monitoring groups is the thesis's.
 * - Averages are whole bytes a second in 64 bits, where the thesis has kilobytes.
 * - Limits are suspended without a heartbeat, as in weir's own. The thesis's daemon
 *   only loads the scheduler.
 *
 * As there, nothing bounds how long a task waits: the kernel's watchdog may end it.
 * And a task that is alone on a CPU goes on without being enqueued (6.3.1).
 *
 * Details that the text leaves open are as in the simulator (crates/weir-sim/src/thesis/sched_ext.rs):
 * limits lie between 1 % and 100 %, and any task's enqueue reads the counters.
 */
#ifndef WEIR_THESIS_BPF_H
#define WEIR_THESIS_BPF_H

#define THESIS_ROUND_ROBIN	1
#define THESIS_VTIME		2
#define THESIS_QUEUE		3

/* Parts of a limit of 1, and the lowest limit. */
#define THESIS_ONE		(1ULL << 16)
#define THESIS_LEAST		(THESIS_ONE * WEIR_THESIS_LIMIT_MIN_PERCENT / 100)
#define THROTTLE_QUEUE		(RUN_QUEUE + 1)

/* By device: when its counters were read, and the average. */
struct thesis_average {
	u64 read_ns;
	u64 bytes_per_sec;
	u64 is_known;
};

ARRAY(thesis_averages, MAX_DEVICES, struct thesis_average);

static struct thesis_average *thesis_average_of(u64 device)
{
	u32 key = device & (MAX_DEVICES - 1);

	return bpf_map_lookup_elem(&thesis_averages, &key);
}

/* Reads a device's counters, at most once a millisecond. */
GLOBAL_FN int refresh_average(u64 index, u64 now)
{
	u32 key = index & (MAX_DEVICES - 1);
	struct device_cfg *dcfg = bpf_map_lookup_elem(&device_cfgs, &key);
	struct thesis_average *avg = thesis_average_of(index);
	struct device_ctx *dctx = device_ctx_of(index);
	u64 then, bytes = 0, rate;

	if (!dcfg || !avg || !dctx)
		return 0;
	then = avg->read_ns;
	if (now < then + WEIR_THESIS_REFRESH_NS || __sync_val_compare_and_swap(&avg->read_ns, then, now) != then)
		return 0;
	if (!device_bytes_read(dcfg, dctx, &bytes) || !then)
		return 0;
	/* Below 2^34 bytes in one interval, so that the product fits. */
	rate = weir_min(bytes, 1ULL << 34) * WEIR_NS_PER_SEC / (now - then);
	if (avg->is_known)
		rate = (rate * WEIR_THESIS_ALPHA_TENTHS + avg->bytes_per_sec * (10 - WEIR_THESIS_ALPHA_TENTHS)) / 10;
	avg->bytes_per_sec = rate;
	avg->is_known = 1;
	return 0;
}

/* Equation 4. */
static u64 thesis_limit(struct task_ctx *taskc)
{
	struct workload_cfg *rate = workload_cfg_of(taskc->slot);
	struct thesis_average *avg;
	struct device_cfg *dcfg;
	u64 limit = taskc->limit;
	u32 key;

	if (!rate || !is_limited(taskc->slot))
		return THESIS_ONE;
	key = rate->device & (MAX_DEVICES - 1);
	dcfg = bpf_map_lookup_elem(&device_cfgs, &key);
	avg = thesis_average_of(rate->device);
	if (!dcfg || !avg || !avg->bytes_per_sec)
		return THESIS_ONE;
	limit = limit * weir_min(dcfg->set_point_bytes_per_sec, WEIR_RATE_MAX) / avg->bytes_per_sec;
	return weir_max(weir_min(limit, THESIS_ONE), THESIS_LEAST);
}

static bool is_overloaded(void)
{
	struct heartbeat *hb = daemon_heartbeat();
	struct thesis_average *avg;
	struct device_cfg *dcfg;
	u32 i;

	if (!hb)
		return false;
	bpf_for(i, 0, MAX_DEVICES) {
		dcfg = bpf_map_lookup_elem(&device_cfgs, &i);
		avg = thesis_average_of(i);
		if (i < hb->devices && dcfg && avg &&
		    avg->bytes_per_sec > dcfg->set_point_bytes_per_sec)
			return true;
	}
	return false;
}

/*
 * No direct dispatch to an idle CPU: the task's limit is computed at the enqueue. The CPU that is returned
 * is woken.
 */
SEC("struct_ops/weir_thesis_select_cpu")
s32 BPF_PROG(weir_thesis_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* There is no tick: each enqueue updates the averages and checks the heartbeat. */
static void refresh_load(u64 now)
{
	struct heartbeat *hb = daemon_heartbeat();
	struct sched_settings *set = get_settings();
	struct sched_stats *stats = get_stats();
	u32 i;

	if (!hb || !set || !stats)
		return;
	check_heartbeat(stats, hb, set, now);
	bpf_for(i, 0, hb->devices)
		refresh_average(i, now);
}

SEC("struct_ops/weir_thesis_enqueue")
void BPF_PROG(weir_thesis_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *taskc = task_ctx_of(p);
	u64 now = scx_bpf_now(), slice = WEIR_THESIS_SLICE_NS;

	refresh_load(now);
	if (!taskc) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice, enq_flags);
		return;
	}
	taskc->limit = thesis_limit(taskc);
	slice = slice * taskc->limit / THESIS_ONE;
	if (thesis_variant == THESIS_VTIME) {
		taskc->vtime = weir_vtime_resume(taskc->vtime, vtime_now, WEIR_THESIS_SLICE_NS);
		scx_bpf_dsq_insert_vtime(p, RUN_QUEUE, slice, taskc->vtime, enq_flags);
	} else if (thesis_variant == THESIS_QUEUE && taskc->limit < THESIS_ONE) {
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
	if (thesis_variant == THESIS_QUEUE && !is_overloaded())
		scx_bpf_dsq_move_to_local(THROTTLE_QUEUE);
}

SEC("struct_ops/weir_thesis_running")
void BPF_PROG(weir_thesis_running, struct task_struct *p)
{
	struct cpu_ctx *cpuc = cpu_ctx_of_task(p);
	struct task_ctx *taskc = lookup_task_ctx(p);

	cpuc->slot = NO_SLOT;
	cpuc->since = scx_bpf_now();
	if (!taskc)
		return;
	cpuc->slot = taskc->slot;
	if (taskc->vtime > vtime_now)
		vtime_now = taskc->vtime;
}

SEC("struct_ops/weir_thesis_stopping")
void BPF_PROG(weir_thesis_stopping, struct task_struct *p, bool runnable)
{
	u64 run = account_run(cpu_ctx_of_task(p));
	struct task_ctx *taskc = lookup_task_ctx(p);

	if (taskc)
		taskc->vtime += weir_vtime(run, p->scx.weight, 0, 0) * THESIS_ONE / weir_max(taskc->limit, THESIS_LEAST);
}

SEC("struct_ops/weir_thesis_enable")
void BPF_PROG(weir_thesis_enable, struct task_struct *p)
{
	struct task_ctx *taskc = lookup_task_ctx(p);

	if (!taskc)
		return;
	taskc->vtime = vtime_now;
	taskc->limit = THESIS_ONE;
}

SEC("struct_ops.s/weir_thesis_init")
s32 BPF_PROG(weir_thesis_init)
{
	s32 ret = scx_bpf_create_dsq(RUN_QUEUE, -1);

	return ret ? ret : scx_bpf_create_dsq(THROTTLE_QUEUE, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops weir_thesis = {
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
	.exit_dump_len = EXIT_DUMP_LEN,
	.name = "weir_thesis",
};

#endif /* WEIR_THESIS_BPF_H */
