/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tick: what weir.bpf.c does for all workloads every millisecond, in the order
 * its head tells. A part of that file, kept apart for its length.
 */
#ifndef WEIR_TICK_BPF_H
#define WEIR_TICK_BPF_H

static struct weir_meter *meter_of(u64 device)
{
	u32 key = device & (WEIR_DEVICES - 1);

	return bpf_map_lookup_elem(&weir_meters, &key);
}

/*
 * The device has a budget of its own: what it was to move less what it moved. Workloads that the daemon does not
 * limit may use all of it, whoever needs it; beyond it those are held back that have had more than their part, at
 * once and until the daemon, which looks less often, has made a plan. @counted is meaningless if !@is_known.
 */
static void guard(struct weir_device *device, struct weir_meter *meter, u64 counted, bool is_known, u64 dt)
{
	u64 most = device->guard_bytes, target = device->set_point_bytes_per_sec;
	struct weir_bucket bucket = {};

	if (!most || !is_known) {
		meter->guard_bytes = weir_max(most, 1);
		meter->guard_ratio = WEIR_RATIO_ONE;
		return;
	}
	bucket.bytes = (s64)meter->guard_bytes;
	bucket.part = meter->guard_part;
	weir_charge(&bucket, counted, target, GUARD_DEBT_NS);
	weir_refill(&bucket, target, dt, most);
	meter->guard_bytes = (u64)bucket.bytes;
	meter->guard_part = bucket.part;
	meter->guard_ratio = weir_ratio((s64)weir_min(counted, 1ULL << 60), meter->guarded_bytes);
	meter->guarded += weir_is_over(&bucket);
}

/* Whether the device is so far beyond its set-point that guarded workloads are held back. */
static bool guard_holds(struct weir_meter *meter)
{
	return (s64)meter->guard_bytes <= 0;
}

/* How the estimates of a device are to be scaled. */
ALONE int weir_weigh_one(u64 index, u64 begun, u64 dt)
{
	u32 key = index & (WEIR_DEVICES - 1);
	struct weir_device *device = bpf_map_lookup_elem(&weir_devices, &key);
	struct weir_meter *meter = meter_of(index);
	u64 counted = 0, others;
	bool is_known;
	s64 owed;

	if (!device || !meter)
		return 0;
	if (device->node_count)
		is_known = counted_since(device, meter, &counted);
	else
		is_known = told_since(index, device, meter, begun, dt, &counted);
	guard(device, meter, counted, is_known, dt);
	meter->beyond_bytes = !is_known ? 0 :
		(u64)weir_beyond((s64)meter->beyond_bytes, counted, device->set_point_bytes_per_sec, dt, FADE_NS);
	if (is_known) {
		others = weir_bytes(device->others_bytes_per_sec, dt);
		owed = weir_owed(counted, others, (s64)meter->carry_bytes, (s64)device->carry_bytes);
		meter->ratio = weir_ratio(owed, meter->estimated_bytes);
		/* What is charged is taken off again in weir_charge_one(). */
		meter->carry_bytes = (u64)owed;
	} else {
		meter->ratio = WEIR_RATIO_ONE;
		meter->carry_bytes = 0;
	}
	meter->estimated_bytes = 0;
	meter->guarded_bytes = 0;
	meter->load_bytes_per_sec = 0;
	return 0;
}

/* A task runs, or is let in: what it can move counts as load of its device. */
static void add_load(u64 slot)
{
	struct weir_rate *rate = rate_of(slot);
	struct weir_meter *meter;

	if (!rate || !rate->active)
		return;
	meter = meter_of(rate->device);
	if (meter)
		meter->load_bytes_per_sec += rate->intensity_bytes_per_sec;
}

/* What runs now: its run time so far. */
ALONE int weir_look_at_cpu(u32 index, u64 now)
{
	struct weir_cpu *cpu = cpu_of(index);
	u64 since = cpu->since, slot = cpu->slot;
	struct weir_count *count = count_of(slot);

	if (!since || !count)
		return 0;
	if (now > since)
		count->live_ns += now - since;
	return 0;
}

/* First round over the workloads: what each ran, and their estimates' sum for each device. */
ALONE int weir_estimate_one(u64 slot)
{
	struct weir_rate *rate = rate_of(slot);
	struct weir_count *count = count_of(slot);
	struct weir_meter *meter;
	u64 run, bytes;

	if (!rate || !count)
		return 0;
	run = count->run_ns + count->live_ns;
	count->live_ns = 0;
	count->interval_ns = run > count->ran_ns ? run - count->ran_ns : 0;
	count->ran_ns = weir_max(run, count->ran_ns);
	meter = meter_of(rate->device);
	if (!meter || rate->active == WEIR_FREE)
		return 0;
	bytes = weir_estimate(rate->intensity_bytes_per_sec, count->interval_ns);
	meter->guarded_bytes += bytes;
	if (rate->active == WEIR_LIMITED)
		meter->estimated_bytes += bytes;
	return 0;
}

/* What a workload is charged for the interval, by its estimate and the device's counters. */
static u64 charge_of(struct weir_rate *rate, struct weir_count *count, struct weir_meter *meter)
{
	u64 bytes = weir_estimate(rate->intensity_bytes_per_sec, count->interval_ns);

	if (rate->active == WEIR_GUARDED)
		return weir_scaled(bytes, meter->guard_ratio);
	bytes = weir_scaled(bytes, meter->ratio);
	if (meter->is_known)
		meter->carry_bytes -= bytes;
	return bytes;
}

/* Second round: charge it, and give it its budget of this interval. */
ALONE int weir_charge_one(u64 slot, u64 dt)
{
	struct weir_settings *set = settings();
	struct weir_rate *rate = rate_of(slot);
	struct weir_count *count = count_of(slot);
	struct weir_bucket bucket;
	struct weir_meter *meter;
	u64 bytes, room;

	if (!set || !rate || !count || rate->active == WEIR_FREE)
		return 0;
	meter = meter_of(rate->device);
	if (!meter)
		return 0;
	bytes = charge_of(rate, count, meter);
	bucket.bytes = (s64)count->budget_bytes;
	bucket.part = count->part;
	/* What it had beyond its part while it was not limited is no debt of who is. */
	if (count->mode != rate->active && bucket.bytes < 0)
		bucket.bytes = 0;
	count->mode = rate->active;
	room = weir_room(rate->bytes_per_sec, set->room_ns, rate->intensity_bytes_per_sec, set->run_ns);
	weir_charge(&bucket, bytes, rate->bytes_per_sec, set->debt_ns);
	weir_refill(&bucket, rate->bytes_per_sec, dt, room);
	count->charged_bytes += bytes;
	count->part = bucket.part;
	count->budget_bytes = (u64)bucket.bytes;
	if (weir_is_over(&bucket))
		count->gate = is_limited(slot) || (is_guarded(slot) && guard_holds(meter));
	return 0;
}

/* Who runs although its workload is to wait stops; the others make the load. */
ALONE int weir_cut_one(u32 index)
{
	struct weir_cpu *cpu = cpu_of(index);
	struct weir_count *count = count_of(cpu->slot);

	if (!cpu->since || !count)
		return 0;
	if (!count->gate) {
		add_load(cpu->slot);
		return 0;
	}
	scx_bpf_kick_cpu(index, SCX_KICK_PREEMPT);
	count->cuts++;
	return 0;
}

/*
 * Tasks of the run queue wait for a CPU, and make no load: were it counted, the device would be left idle for them.
 * One may have gone idle just when they were enqueued.
 */
ALONE int weir_look_at_queue(u32 index)
{
	u64 queue = RUN_QUEUE + (index & QUEUE_MASK);
	struct weir_clockwork *work;
	struct task_struct *p;
	u32 zero = 0;

	work = bpf_map_lookup_elem(&weir_timer, &zero);
	if (!work || scx_bpf_dsq_nr_queued(queue) <= 0)
		return 0;
	work->looked = 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if (!wake_a_cpu(p) && ++work->looked > TRIED_AT_ONCE)
			break;
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* How many of a workload's parked tasks its budget can feed now. */
static u32 may_go(u64 slot, struct weir_settings *set)
{
	struct weir_rate *rate = rate_of(slot);
	struct weir_count *count = count_of(slot);
	struct weir_bucket bucket = {};
	struct weir_meter *meter;

	if (!rate || !count)
		return 0;
	if (is_guarded(slot)) {
		meter = meter_of(rate->device);
		if (!meter)
			return RELEASED_AT_ONCE;
		/* Its own part is free for it, whatever others do. */
		bucket.bytes = (s64)count->budget_bytes;
		if ((s64)meter->guard_bytes > bucket.bytes)
			bucket.bytes = (s64)meter->guard_bytes;
		return weir_release_count(&bucket, rate->intensity_bytes_per_sec, set->tick_ns,
					  RELEASED_AT_ONCE);
	}
	if (!is_limited(slot))
		return RELEASED_AT_ONCE;
	bucket.bytes = (s64)count->budget_bytes;
	if (count->gate && !weir_may_begin(&bucket, rate->intensity_bytes_per_sec, set->run_ns))
		return 0;
	return weir_release_count(&bucket, rate->intensity_bytes_per_sec, set->tick_ns,
				  RELEASED_AT_ONCE);
}

/* Whether the device of a workload takes one more. */
static bool device_takes(u64 slot, struct weir_settings *set)
{
	struct weir_rate *rate = rate_of(slot);
	struct weir_device *device;
	struct weir_meter *meter;
	u32 key;

	if (!rate || !(is_limited(slot) || is_guarded(slot)))
		return true;
	key = rate->device & (WEIR_DEVICES - 1);
	device = bpf_map_lookup_elem(&weir_devices, &key);
	meter = meter_of(rate->device);
	return !device || !meter ||
	       weir_takes_one(meter->load_bytes_per_sec, device->set_point_bytes_per_sec,
			      (s64)meter->beyond_bytes, set->run_ns);
}

static void note_wait(struct weir_count *count, struct weir_task *task, u64 now)
{
	if (task && now > task->parked_at && now - task->parked_at > count->worst_ns)
		count->worst_ns = now - task->parked_at;
}

/* From its parking queue to a run queue; false if it was gone. */
static bool let_in(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct weir_task *task)
{
	if (!weir_is_full)
		return scx_bpf_dsq_move(it, p, RUN_QUEUE, 0);
	if (task) {
		task->vtime = weir_vtime_back(task->vtime, weir_vtime_now, CREDIT_NS);
		scx_bpf_dsq_move_set_vtime(it, task->vtime);
	}
	return scx_bpf_dsq_move_vtime(it, p, queue_of(scx_bpf_task_cpu(p)), 0);
}

/* Oldest first: that is the order of a parking queue. */
ALONE int weir_release_one(u64 slot, u64 now, u64 dt)
{
	struct weir_settings *set = settings();
	struct weir_count *count = count_of(slot);
	struct weir_clockwork *work;
	struct task_struct *p;
	u32 zero = 0;
	u64 turn;
	s32 waiting = scx_bpf_dsq_nr_queued(slot);

	work = bpf_map_lookup_elem(&weir_timer, &zero);
	if (!set || !count || !work)
		return 0;
	work->left = may_go(slot, set);
	if (waiting <= 0) {
		count->waiting = 0;
		/* Nobody to be let in, in turns: who wakes may run as soon as there is budget. */
		if (work->left || (s64)count->budget_bytes > 0)
			count->gate = 0;
		return 0;
	}
	count->waiting = waiting;
	count->parked_ns += waiting * dt;
	work->looked = 0;
	turn = weir_turn(waiting, set->turn_each_ns, set->turn_ns, set->turn_most_ns);
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, slot, 0) {
		struct weir_task *task = bpf_task_storage_get(&weir_tasks, p, NULL, 0);
		bool is_fed = work->left && device_takes(slot, set);

		if (++work->looked > LOOKED_AT_ONCE)
			break;
		if (!is_fed && (!task || !weir_has_turn(task->parked_at, now, turn)))
			break;
		if (!let_in(THIS_ITER, p, task))
			continue;
		if (is_fed) {
			work->left--;
			work->next = slot + 1;
			count->gate = 0;
		} else {
			count->turns++;
		}
		add_load(slot);
		note_wait(count, task, now);
		if (task)
			task->let_in_at = now;
		if (!wake_a_cpu(p) && weir_is_full && task)
			make_room(scx_bpf_task_cpu(p), task->vtime);
	}
	bpf_rcu_read_unlock();
	return 0;
}

static void share_out(struct weir_beat *beat, u64 begun, u64 dt)
{
	u32 i;

	bpf_for(i, 1, beat->slots)
		weir_estimate_one(i);
	bpf_for(i, 0, beat->devices)
		weir_weigh_one(i, begun, dt);
	bpf_for(i, 1, beat->slots)
		weir_charge_one(i, dt);
}

/* The workload after the one that was let in last is asked first, so that all have their turn. */
static void release_all(u64 slots, u64 now, u64 dt)
{
	struct weir_clockwork *work;
	u32 zero = 0, i;
	u64 next = 1;

	work = bpf_map_lookup_elem(&weir_timer, &zero);
	if (work && work->next && work->next < slots)
		next = work->next;
	bpf_for(i, next, slots)
		weir_release_one(i, now, dt);
	bpf_for(i, 1, next)
		weir_release_one(i, now, dt);
}

/* The timer may be late: its CPU is busy with interrupts, or the kernel left timers to a thread, which waits too. */
static void note_gap(struct weir_life *all, u64 dt, bool is_busy)
{
	struct weir_clockwork *work;
	u32 zero = 0;

	work = bpf_map_lookup_elem(&weir_timer, &zero);
	if (!work)
		return;
	if (work->was_busy)
		all->worst_gap_ns = weir_max(all->worst_gap_ns, dt);
	work->was_busy = is_busy;
}

/* Whether the daemon was heard lately; budgets are only as good as what it says. */
static void listen(struct weir_life *now_life, struct weir_beat *beat, struct weir_settings *set,
		   u64 now)
{
	if (beat->count != now_life->beat || !now_life->heard_ns) {
		now_life->beat = beat->count;
		now_life->heard_ns = now;
		now_life->open = 0;
	} else if (!now_life->open && weir_is_silent(now_life->heard_ns, now, set->patience_ns)) {
		now_life->open = 1;
		now_life->opened++;
	}
}

/* Looks are @every_ns apart, not that and what a look takes; however long one takes, others have the CPU in between. */
static u64 until_next(u64 begun, u64 every_ns)
{
	u64 took = bpf_ktime_get_ns() - begun;

	return every_ns - weir_min(took, every_ns - every_ns / 4);
}

/*
 * Time between two looks is the timer's own (ktime): the scheduler's clock may be read stale from here and go back, and each time it
 * does, all would be refilled for an interval that was not there.
 */
static int tick(void *map, int *key, struct bpf_timer *timer)
{
	struct weir_settings *set = settings();
	struct weir_life *all = life();
	struct weir_beat *beat = beat_of_daemon();
	u64 now = scx_bpf_now(), begun = bpf_ktime_get_ns(), dt, slots;
	u32 i;

	if (!set || !all || !beat)
		return 0;
	dt = all->ticked_ns && begun > all->ticked_ns ? begun - all->ticked_ns : set->tick_ns;
	all->ticked_ns = begun;
	note_gap(all, dt, beat->slots > 1);
	listen(all, beat, set, now);
	bpf_for(i, 0, set->cpu_count)
		weir_look_at_cpu(i, now);
	share_out(beat, begun, dt);
	bpf_for(i, 0, set->cpu_count)
		weir_cut_one(i);
	bpf_for(i, 0, weir_is_full ? set->queue_count : 1)
		weir_look_at_queue(i);
	hasten(set, now);
	/* Slots no longer in use may hold a task that came in between; it must not wait for long. */
	slots = beat->slots > 1 && all->ticks % SWEEP_TICKS ? beat->slots : WEIR_SLOTS;
	release_all(slots, now, dt);
	all->ticks++;
	all->tick_cost_ns += bpf_ktime_get_ns() - begun;
	bpf_timer_start(timer, until_next(begun, beat->slots > 1 ? set->tick_ns : WEIR_IDLE_NS), 0);
	return 0;
}

#endif /* WEIR_TICK_BPF_H */
