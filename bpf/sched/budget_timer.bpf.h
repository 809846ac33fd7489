/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The budget timer: its callback charges, refills, preempts and releases all workloads,
 * every millisecond, in the order that the head of main.bpf.c gives. A part of main.bpf.c.
 */
#ifndef WEIR_BUDGET_TIMER_BPF_H
#define WEIR_BUDGET_TIMER_BPF_H

static struct device_ctx *device_ctx_of(u64 device)
{
	u32 key = device & (MAX_DEVICES - 1);

	return bpf_map_lookup_elem(&device_ctxs, &key);
}

/*
 * Overload cap. The device has a budget of its own: its set-point less the bytes it moved. Workloads that
 * that the daemon does not limit share this budget freely. Once it is used up, those that used more than
 * their part are throttled at once, until the daemon, which samples less often, has made a plan. @counted is
 * meaningless if !@is_known.
 */
static void update_overload_cap(struct device_cfg *dcfg, struct device_ctx *dctx, u64 counted, bool is_known, u64 dt)
{
	u64 most = dcfg->overload_cap_bytes, target = dcfg->set_point_bytes_per_sec;
	struct weir_bucket bucket = {};

	if (!most || !is_known) {
		dctx->overload_cap_bytes = weir_max(most, 1);
		dctx->capped_scale = WEIR_SCALE_ONE;
		return;
	}
	bucket.bytes = (s64)dctx->overload_cap_bytes;
	bucket.part = dctx->overload_cap_part;
	weir_charge(&bucket, counted, target, WEIR_OVERLOAD_CAP_DEBT_NS);
	weir_refill(&bucket, target, dt, most);
	dctx->overload_cap_bytes = (u64)bucket.bytes;
	dctx->overload_cap_part = bucket.part;
	dctx->capped_scale = weir_scale_factor((s64)weir_min(counted, 1ULL << 60), dctx->capped_bytes);
	dctx->capped_ticks += weir_in_debt(&bucket);
}

/* Whether the device is so far above its set-point that capped workloads are throttled. */
static bool overload_cap_reached(struct device_ctx *dctx)
{
	return (s64)dctx->overload_cap_bytes <= 0;
}

/* Computes the factor by which the estimates of a device are scaled. */
GLOBAL_FN int update_device_scale(u64 index, u64 begun, u64 dt)
{
	u32 key = index & (MAX_DEVICES - 1);
	struct device_cfg *dcfg = bpf_map_lookup_elem(&device_cfgs, &key);
	struct device_ctx *dctx = device_ctx_of(index);
	u64 counted = 0, others;
	bool is_known;
	s64 owed;

	if (!dcfg || !dctx)
		return 0;
	if (dcfg->node_count)
		is_known = device_bytes_read(dcfg, dctx, &counted);
	else
		is_known = device_bytes_reported(index, dcfg, dctx, begun, dt, &counted);
	update_overload_cap(dcfg, dctx, counted, is_known, dt);
	dctx->overshoot_bytes = !is_known ? 0 :
		(u64)weir_overshoot_bytes((s64)dctx->overshoot_bytes, counted, dcfg->set_point_bytes_per_sec, dt, WEIR_OVERSHOOT_FADE_NS);
	if (is_known) {
		others = weir_bytes(dcfg->others_bytes_per_sec, dt);
		owed = weir_billable_bytes(counted, others, (s64)dctx->carry_bytes, (s64)dcfg->carry_bytes);
		dctx->scale = weir_scale_factor(owed, dctx->estimated_bytes);
		/* interval_bytes() subtracts what it charges. */
		dctx->carry_bytes = (u64)owed;
	} else {
		dctx->scale = WEIR_SCALE_ONE;
		dctx->carry_bytes = 0;
	}
	dctx->estimated_bytes = 0;
	dctx->capped_bytes = 0;
	dctx->load_bytes_per_sec = 0;
	return 0;
}

/* A task runs or is released: its workload's intensity counts as load of the device. */
static void add_load(u64 slot)
{
	struct workload_cfg *wcfg = workload_cfg_of(slot);
	struct device_ctx *dctx;

	if (!wcfg || !wcfg->active)
		return;
	dctx = device_ctx_of(wcfg->device);
	if (dctx)
		dctx->load_bytes_per_sec += wcfg->intensity_bytes_per_sec;
}

/* Adds the run time so far of the task that runs on a CPU. */
GLOBAL_FN int sample_cpu(u32 index, u64 now)
{
	struct cpu_ctx *cpuc = cpu_ctx_of(index);
	u64 since = cpuc->since, slot = cpuc->slot;
	struct workload_ctx *wctx = workload_ctx_of(slot);

	if (!since || !wctx)
		return 0;
	if (now > since)
		wctx->live_ns += now - since;
	return 0;
}

/* First pass over the workloads: run time of each, and the sum of the estimates for each device. */
GLOBAL_FN int estimate_workload(u64 slot)
{
	struct workload_cfg *wcfg = workload_cfg_of(slot);
	struct workload_ctx *wctx = workload_ctx_of(slot);
	struct device_ctx *dctx;
	u64 run, bytes;

	if (!wcfg || !wctx)
		return 0;
	run = wctx->run_ns + wctx->live_ns;
	wctx->live_ns = 0;
	wctx->interval_ns = run > wctx->billed_run_ns ? run - wctx->billed_run_ns : 0;
	wctx->billed_run_ns = weir_max(run, wctx->billed_run_ns);
	dctx = device_ctx_of(wcfg->device);
	if (!dctx || wcfg->active == MODE_FREE)
		return 0;
	bytes = weir_estimate(wcfg->intensity_bytes_per_sec, wctx->interval_ns);
	dctx->capped_bytes += bytes;
	if (wcfg->active == MODE_LIMITED)
		dctx->estimated_bytes += bytes;
	return 0;
}

/* Bytes that a workload is charged for the interval, by its estimate and the device's counters. */
static u64 interval_bytes(struct workload_cfg *wcfg, struct workload_ctx *wctx, struct device_ctx *dctx)
{
	u64 bytes = weir_estimate(wcfg->intensity_bytes_per_sec, wctx->interval_ns);

	if (wcfg->active == MODE_CAPPED)
		return weir_scale(bytes, dctx->capped_scale);
	bytes = weir_scale(bytes, dctx->scale);
	if (dctx->is_known)
		dctx->carry_bytes -= bytes;
	return bytes;
}

/* Second pass: charge the workload, and add the budget of this interval. */
GLOBAL_FN int charge_workload(u64 slot, u64 dt)
{
	struct sched_settings *set = get_settings();
	struct workload_cfg *wcfg = workload_cfg_of(slot);
	struct workload_ctx *wctx = workload_ctx_of(slot);
	struct weir_bucket bucket;
	struct device_ctx *dctx;
	u64 bytes, burst;

	if (!set || !wcfg || !wctx || wcfg->active == MODE_FREE)
		return 0;
	dctx = device_ctx_of(wcfg->device);
	if (!dctx)
		return 0;
	bytes = interval_bytes(wcfg, wctx, dctx);
	bucket.bytes = (s64)wctx->budget_bytes;
	bucket.part = wctx->part;
	/* Bytes above its part from before the change of mode are no debt in the new mode. */
	if (wctx->mode != wcfg->active && bucket.bytes < 0)
		bucket.bytes = 0;
	wctx->mode = wcfg->active;
	burst = weir_burst_bytes(wcfg->bytes_per_sec, set->burst_ns, wcfg->intensity_bytes_per_sec, set->run_ns);
	weir_charge(&bucket, bytes, wcfg->bytes_per_sec, set->debt_ns);
	weir_refill(&bucket, wcfg->bytes_per_sec, dt, burst);
	wctx->charged_bytes += bytes;
	wctx->part = bucket.part;
	wctx->budget_bytes = (u64)bucket.bytes;
	if (weir_in_debt(&bucket))
		wctx->is_throttled = is_limited(slot) || (is_capped(slot) && overload_cap_reached(dctx));
	return 0;
}

/* Ends the run of a task of a throttled workload; other running tasks count as load. */
GLOBAL_FN int end_run_over_budget(u32 index)
{
	struct cpu_ctx *cpuc = cpu_ctx_of(index);
	struct workload_ctx *wctx = workload_ctx_of(cpuc->slot);

	if (!cpuc->since || !wctx)
		return 0;
	if (!wctx->is_throttled) {
		add_load(cpuc->slot);
		return 0;
	}
	end_run(index);
	wctx->preempts++;
	return 0;
}

/*
 * Wakes an idle CPU for queued tasks: one may have gone idle just when they were enqueued. Tasks in a run
 * queue are no load: if they were counted, the device would stay idle for them.
 */
GLOBAL_FN int kick_idle_for_queue(u32 index)
{
	u64 queue = RUN_QUEUE + (index & QUEUE_MASK);
	struct timer_ctx *timerc;
	struct task_struct *p;
	u32 zero = 0;

	timerc = bpf_map_lookup_elem(&budget_timer, &zero);
	if (!timerc || scx_bpf_dsq_nr_queued(queue) <= 0)
		return 0;
	timerc->scanned = 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if (!kick_idle_cpu(p) && ++timerc->scanned > KICK_TRIES)
			break;
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Number of parked tasks of a workload that its budget can feed now. */
static u32 releasable(u64 slot, struct sched_settings *set)
{
	struct workload_cfg *wcfg = workload_cfg_of(slot);
	struct workload_ctx *wctx = workload_ctx_of(slot);
	struct weir_bucket bucket = {};
	struct device_ctx *dctx;

	if (!wcfg || !wctx)
		return 0;
	if (is_capped(slot)) {
		dctx = device_ctx_of(wcfg->device);
		if (!dctx)
			return WEIR_RELEASE_BATCH;
		/* Its own part is always free for it. */
		bucket.bytes = (s64)wctx->budget_bytes;
		if ((s64)dctx->overload_cap_bytes > bucket.bytes)
			bucket.bytes = (s64)dctx->overload_cap_bytes;
		return weir_release_count(&bucket, wcfg->intensity_bytes_per_sec, set->tick_ns,
					  WEIR_RELEASE_BATCH);
	}
	if (!is_limited(slot))
		return WEIR_RELEASE_BATCH;
	bucket.bytes = (s64)wctx->budget_bytes;
	if (wctx->is_throttled && !weir_run_affordable(&bucket, wcfg->intensity_bytes_per_sec, set->run_ns))
		return 0;
	return weir_release_count(&bucket, wcfg->intensity_bytes_per_sec, set->tick_ns,
				  WEIR_RELEASE_BATCH);
}

/* Whether the device of a workload admits one more task. */
static bool workload_admitted(u64 slot, struct sched_settings *set)
{
	struct workload_cfg *wcfg = workload_cfg_of(slot);
	struct device_cfg *dcfg;
	struct device_ctx *dctx;
	u32 key;

	if (!wcfg || !(is_limited(slot) || is_capped(slot)))
		return true;
	key = wcfg->device & (MAX_DEVICES - 1);
	dcfg = bpf_map_lookup_elem(&device_cfgs, &key);
	dctx = device_ctx_of(wcfg->device);
	return !dcfg || !dctx ||
	       weir_device_admits(dctx->load_bytes_per_sec, dcfg->set_point_bytes_per_sec,
			      (s64)dctx->overshoot_bytes, set->run_ns);
}

static void record_park_time(struct workload_ctx *wctx, struct task_ctx *taskc, u64 now)
{
	if (taskc && now > taskc->parked_at && now - taskc->parked_at > wctx->worst_ns)
		wctx->worst_ns = now - taskc->parked_at;
}

/*
 * Moves a task from its parking queue to a run queue; false if it had left the queue. It has less
 * credit than a task that wakes: else that one would wait behind each task that a budget held back. With none
 * it would wait for all others before it runs, and its workload would not use up its budget.
 */
static bool release_task(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct task_ctx *taskc)
{
	if (!full_mode)
		return scx_bpf_dsq_move(it, p, RUN_QUEUE, 0);
	if (taskc) {
		taskc->vtime = weir_vtime_resume(taskc->vtime, vtime_now, WEIR_RELEASE_CREDIT_NS);
		scx_bpf_dsq_move_set_vtime(it, taskc->vtime);
	}
	return scx_bpf_dsq_move_vtime(it, p, queue_of(scx_bpf_task_cpu(p)), 0);
}

/* Releases parked tasks, oldest first: that is the order of a parking queue. */
GLOBAL_FN int release_workload(u64 slot, u64 now, u64 dt)
{
	struct sched_settings *set = get_settings();
	struct workload_ctx *wctx = workload_ctx_of(slot);
	struct timer_ctx *timerc;
	struct task_struct *p;
	u32 zero = 0;
	u64 starvation_ns;
	s32 waiting = scx_bpf_dsq_nr_queued(slot);

	timerc = bpf_map_lookup_elem(&budget_timer, &zero);
	if (!set || !wctx || !timerc)
		return 0;
	timerc->left = releasable(slot, set);
	if (waiting <= 0) {
		wctx->waiting = 0;
		/* No task is parked: the next one that wakes may run as soon as there is budget. */
		if (timerc->left || (s64)wctx->budget_bytes > 0)
			wctx->is_throttled = 0;
		return 0;
	}
	wctx->waiting = waiting;
	wctx->parked_ns += waiting * dt;
	timerc->scanned = 0;
	starvation_ns = weir_starvation_ns(waiting, set->starvation_each_ns, set->starvation_ns, set->starvation_max_ns);
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, slot, 0) {
		struct task_ctx *taskc = bpf_task_storage_get(&task_ctxs, p, NULL, 0);
		bool is_fed = timerc->left && workload_admitted(slot, set);

		if (++timerc->scanned > RELEASE_SCAN_MAX)
			break;
		if (!is_fed && taskc && taskc->marked_run_ns) {
			/* In the kernel, maybe with a lock: these stand in front. */
			if (!weir_starvation_due(taskc->parked_at, now, taskc->stay_ns))
				continue;
		} else if (!is_fed && (!taskc || !weir_starvation_due(taskc->parked_at, now, starvation_ns))) {
			break;
		}
		if (!release_task(FOR_EACH_ITER, p, taskc))
			continue;
		if (is_fed) {
			timerc->left--;
			timerc->next_slot = slot + 1;
			wctx->is_throttled = 0;
		} else {
			wctx->starvation_runs++;
		}
		add_load(slot);
		record_park_time(wctx, taskc, now);
		if (taskc)
			taskc->released_at = now;
		if (!kick_idle_cpu(p) && full_mode && taskc)
			preempt_for(scx_bpf_task_cpu(p), taskc->vtime);
	}
	bpf_rcu_read_unlock();
	return 0;
}

static void charge_all(struct heartbeat *hb, u64 begun, u64 dt)
{
	u32 i;

	bpf_for(i, 1, hb->slots)
		estimate_workload(i);
	bpf_for(i, 0, hb->devices)
		update_device_scale(i, begun, dt);
	bpf_for(i, 1, hb->slots)
		charge_workload(i, dt);
}

/* Round robin: begins with the workload after the one that was released last. */
static void release_all(u64 slots, u64 now, u64 dt)
{
	struct timer_ctx *timerc;
	u32 zero = 0, i;
	u64 next = 1;

	timerc = bpf_map_lookup_elem(&budget_timer, &zero);
	if (timerc && timerc->next_slot && timerc->next_slot < slots)
		next = timerc->next_slot;
	bpf_for(i, next, slots)
		release_workload(i, now, dt);
	bpf_for(i, 1, next)
		release_workload(i, now, dt);
}

/*
 * The timer may be late: its CPU is busy with interrupts, or the kernel runs timers in a thread, which
 * waits too.
 */
static void record_timer_gap(struct sched_stats *stats, u64 dt, bool is_busy)
{
	struct timer_ctx *timerc;
	u32 zero = 0;

	timerc = bpf_map_lookup_elem(&budget_timer, &zero);
	if (!timerc)
		return;
	if (timerc->was_limiting)
		stats->longest_gap_ns = weir_max(stats->longest_gap_ns, dt);
	timerc->was_limiting = is_busy;
}

/* Suspends all limits once the daemon's heartbeat is lost: budgets are only as good as its settings. */
static void check_heartbeat(struct sched_stats *stats, struct heartbeat *hb, struct sched_settings *set,
			    u64 now)
{
	if (hb->count != stats->heartbeat || !stats->heartbeat_ns) {
		stats->heartbeat = hb->count;
		stats->heartbeat_ns = now;
		stats->is_suspended = 0;
	} else if (!stats->is_suspended && weir_heartbeat_lost(stats->heartbeat_ns, now, set->heartbeat_timeout_ns)) {
		stats->is_suspended = 1;
		stats->suspensions++;
	}
}

/*
 * Ticks are @every_ns apart from start to start. However long one takes, other tasks get a quarter of the
 * interval.
 */
static u64 next_tick_ns(u64 begun, u64 every_ns)
{
	u64 took = bpf_ktime_get_ns() - begun;

	return every_ns - weir_min(took, every_ns - every_ns / 4);
}

/*
 * The interval is measured by the timer's own clock (ktime). The scheduler's clock may be stale here and go
 * back, and each time it did, all budgets would be refilled for an interval that did not exist.
 */
static int tick(void *map, int *key, struct bpf_timer *timer)
{
	struct sched_settings *set = get_settings();
	struct sched_stats *stats = get_stats();
	struct heartbeat *hb = daemon_heartbeat();
	u64 now = scx_bpf_now(), begun = bpf_ktime_get_ns(), dt, slots;
	u32 i;

	if (!set || !stats || !hb)
		return 0;
	dt = stats->last_tick_ns && begun > stats->last_tick_ns ? begun - stats->last_tick_ns : set->tick_ns;
	stats->last_tick_ns = begun;
	record_timer_gap(stats, dt, hb->slots > 1);
	check_heartbeat(stats, hb, set, now);
	bpf_for(i, 0, set->cpu_count)
		sample_cpu(i, now);
	charge_all(hb, begun, dt);
	bpf_for(i, 0, set->cpu_count)
		end_run_over_budget(i);
	bpf_for(i, 0, full_mode ? set->queue_count : 1)
		kick_idle_for_queue(i);
	dispatch_stalled(set, now);
	/* A slot no longer in use may hold a task that was parked late; it must not wait for long. */
	slots = hb->slots > 1 && stats->ticks % SWEEP_TICKS ? hb->slots : MAX_SLOTS;
	release_all(slots, now, dt);
	stats->ticks++;
	stats->tick_cost_ns += bpf_ktime_get_ns() - begun;
	bpf_timer_start(timer, next_tick_ns(begun, hb->slots > 1 ? set->tick_ns : IDLE_TICK_NS), 0);
	return 0;
}

#endif /* WEIR_BUDGET_TIMER_BPF_H */
