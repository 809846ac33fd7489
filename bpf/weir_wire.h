/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the daemon and the scheduler tell each other, through maps. Everything
 * is made of 64-bit words, so that both sides agree on the layout without being
 * asked; crates/weir-linux/src/scx/wire.rs is the other side.
 *
 * The daemon writes settings once, and rates, devices, owners and the beat
 * whenever they change; it never writes what the scheduler counts.
 */
#ifndef WEIR_WIRE_H
#define WEIR_WIRE_H

/* Workloads that can be limited at once. Index 0 is never used: "nobody's". */
#define WEIR_SLOTS	256
#define WEIR_DEVICES	8
/* Memory nodes of one device whose counters are added. */
#define WEIR_NODES	8
#define WEIR_CPUS	1024

/* Cgroups with a share of the CPUs in full mode. Index 0: each task is for itself. */
#define WEIR_SHARES	4096
/* Queues in full mode: one for each memory node with CPUs. */
#define WEIR_QUEUES	16

/**
 * struct weir_settings - written before the scheduler is attached
 * @tick_ns: between two looks at all budgets
 * @room_ns: budget that can be saved up, as time at the workload's rate
 * @debt_ns: debt that is carried at most, likewise
 * @turn_ns: a parked task runs after this long, debt or not; longer if many wait:
 * @turn_each_ns: for each that waits
 * @turn_most_ns: but never longer than this
 * @run_ns: a workload that was parked saves up for this long a run
 * @patience_ns: without a beat for this long, nobody is limited any more
 * @cpu_count: CPUs that can exist
 * @queue_count: memory nodes that can exist, at most WEIR_QUEUES
 */
struct weir_settings {
	u64 tick_ns;
	u64 room_ns;
	u64 debt_ns;
	u64 turn_ns;
	u64 turn_each_ns;
	u64 turn_most_ns;
	u64 run_ns;
	u64 patience_ns;
	u64 cpu_count;
	u64 queue_count;
};

/**
 * struct weir_beat - the daemon lives
 * @count: changes at each tick of the daemon
 * @epoch: changes when owners change; what is remembered of tasks is then looked up anew
 * @slots: slots in use lie below this
 * @devices: devices in use lie below this
 */
struct weir_beat {
	u64 count;
	u64 epoch;
	u64 slots;
	u64 devices;
};

/* What a slot does to its workload. */
#define WEIR_FREE	0
#define WEIR_LIMITED	1
/* Not limited, but held back, too, while the device is beyond its set-point and it has had more than its part. */
#define WEIR_GUARDED	2

/**
 * struct weir_rate - what one workload may do
 * @active: WEIR_FREE, WEIR_LIMITED or WEIR_GUARDED
 * @bytes_per_sec: what it may move; of who is guarded: its part
 * @intensity_bytes_per_sec: what it moves in a second of CPU time
 * @device: index of the device
 */
struct weir_rate {
	u64 active;
	u64 bytes_per_sec;
	u64 intensity_bytes_per_sec;
	u64 device;
};

/**
 * struct weir_device - a device and what is not ours to limit there
 * @node_count: memory nodes to add up; 0: its counters cannot be read from the kernel, see struct weir_seen
 * @nodes: which
 * @set_point_bytes_per_sec: what it is to be held at
 * @others_bytes_per_sec: room left for those who are not limited
 * @carry_bytes: most that one interval may leave open for the next
 * @guard_bytes: what the device may move beyond its set-point before guarded workloads are held back; 0: they never are
 */
struct weir_device {
	u64 node_count;
	u64 nodes[WEIR_NODES];
	u64 set_point_bytes_per_sec;
	u64 others_bytes_per_sec;
	u64 carry_bytes;
	u64 guard_bytes;
};

/**
 * struct weir_seen - what the daemon saw of a device whose counters cannot be read from the kernel
 * @bytes: all that it has moved
 * @at_ns: when (CLOCK_MONOTONIC); 0: never
 */
struct weir_seen {
	u64 bytes;
	u64 at_ns;
};

/**
 * struct weir_count - what became of one workload; written by the scheduler only
 * @budget_bytes: what it may still move (signed)
 * @part: parts of a byte
 * @run_ns: run time of runs that have ended
 * @live_ns: run time of those that go on, while a tick adds it up
 * @ran_ns: the part of both that is charged
 * @interval_ns: run time of the interval that is being charged
 * @charged_bytes: bytes charged so far
 * @runs: times one of its tasks ran
 * @parks: times one was parked
 * @parked_ns: time its tasks were parked, summed over tasks
 * @worst_ns: longest time one task was parked
 * @turns: parked tasks that ran because it was their turn, in spite of debt
 * @cuts: times a running task was cut
 * @waiting: tasks parked at the last tick
 * @gate: 1: its tasks are to wait, until its next run begins
 * @mode: what the slot did to it at the last tick
 */
struct weir_count {
	u64 budget_bytes;
	u64 part;
	u64 run_ns;
	u64 live_ns;
	u64 ran_ns;
	u64 interval_ns;
	u64 charged_bytes;
	u64 runs;
	u64 parks;
	u64 parked_ns;
	u64 worst_ns;
	u64 turns;
	u64 cuts;
	u64 waiting;
	u64 gate;
	u64 mode;
};

/**
 * struct weir_meter - one device's books; written by the scheduler only
 * @counted: sum of its counters when last read
 * @is_known: 0: never read so far
 * @carry_bytes: what the last intervals left open (signed)
 * @estimated_bytes: sum of the estimates of this interval
 * @load_bytes_per_sec: what those who run can move
 * @ratio: scale of the last interval, WEIR_RATIO_ONE is 1
 * @lost: intervals in which the counters could not be read
 * @guard_bytes: what the device may still move before guarded workloads are held back (signed)
 * @guard_part: parts of a byte
 * @guarded_bytes: sum of the estimates of this interval, of limited and of guarded workloads
 * @guard_ratio: scale of those
 * @guarded: ticks at which the guard held somebody back
 * @beyond_bytes: what it moved beyond its set-point of late (signed); 0 where that is not known
 * @seen_bytes, @seen_ns, @guessed_bytes, @missed_bytes, @spread_ns: struct weir_looks, where the daemon counts
 * @is_limiting: 1: somebody was limited at the last tick
 * @looks: how often the daemon has told its count
 */
struct weir_meter {
	u64 counted;
	u64 is_known;
	u64 carry_bytes;
	u64 estimated_bytes;
	u64 load_bytes_per_sec;
	u64 ratio;
	u64 lost;
	u64 guard_bytes;
	u64 guard_part;
	u64 guarded_bytes;
	u64 guard_ratio;
	u64 guarded;
	u64 beyond_bytes;
	u64 seen_bytes;
	u64 seen_ns;
	u64 guessed_bytes;
	u64 missed_bytes;
	u64 spread_ns;
	u64 is_limiting;
	u64 looks;
};

/**
 * struct weir_life - the scheduler as a whole; written by the scheduler only
 * @ticks: looks at all budgets
 * @tick_cost_ns: time spent in them
 * @ticked_ns: when the last one was
 * @heard_ns: when the daemon was last heard
 * @beat: its count then
 * @open: 1: the daemon is silent, nobody is limited
 * @opened: times that happened
 * @late: tasks that waited in a run queue for so long that they were let in out of turn
 * @worst_gap_ns: longest time from one look to the next while somebody was limited
 */
struct weir_life {
	u64 ticks;
	u64 tick_cost_ns;
	u64 ticked_ns;
	u64 heard_ns;
	u64 beat;
	u64 open;
	u64 opened;
	u64 late;
	u64 worst_gap_ns;
};

/**
 * struct weir_cost - what queueing costs on one CPU; written by the scheduler only
 * @enqueues: tasks that were queued or parked
 * @timed: of those, how many were timed
 * @timed_ns: the time those took together
 * @worst_ns: the longest of them
 */
struct weir_cost {
	u64 enqueues;
	u64 timed;
	u64 timed_ns;
	u64 worst_ns;
};

#define WEIR_REASON_LEN	128
#define WEIR_MESSAGE_LEN	512
/* Of the kernel's own report on who was where when it threw the scheduler out. */
#define WEIR_DUMP_LEN	32768

/**
 * struct weir_end - why the scheduler left the kernel
 * @kind: of enum scx_exit_kind; 0: it has not left
 * @code: the exit code
 * @reason: the kernel's words
 * @message: more of them
 * @dump: the kernel's report on all CPUs and the tasks that wait
 */
struct weir_end {
	u64 kind;
	u64 code;
	char reason[WEIR_REASON_LEN];
	char message[WEIR_MESSAGE_LEN];
	char dump[WEIR_DUMP_LEN];
};

#endif /* WEIR_WIRE_H */
