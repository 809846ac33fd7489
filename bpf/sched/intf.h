/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Interface of the scheduler: the values of its maps, shared with the daemon.
 * crates/weir-linux/build.rs makes Rust of it: structs by their BTF types, and
 * constants of the lines that define a number.
 *
 * The daemon writes settings once, and configurations, cgroups and the heartbeat
 * whenever they change; it never writes the scheduler's contexts and statistics.
 */
#ifndef WEIR_SCHED_INTF_H
#define WEIR_SCHED_INTF_H

/* Workloads that can be limited at once. Index 0 is never used: it means none. */
#define MAX_SLOTS	256
#define MAX_DEVICES	8
/* Memory nodes of one device; their counters are added. */
#define MAX_NODES	8
#define MAX_CPUS	1024

/* Cgroups with an hweight in full mode. Index 0: each task counts alone. */
#define MAX_HWEIGHTS	4096
/* Queues in full mode: one for each memory node with CPUs. */
#define MAX_QUEUES	16

/**
 * struct sched_settings - written before the scheduler is attached
 * @tick_ns: period of the budget timer
 * @burst_ns: budget that can be saved up, as time at the workload's rate
 * @debt_ns: largest debt that is carried over, likewise
 * @starvation_ns: a parked task runs after this time, debt or not; later if many are parked:
 * @starvation_each_ns: this time for each parked task
 * @starvation_max_ns: longest time that a task stays parked
 * @run_ns: a throttled workload saves up budget for a run of this length
 * @heartbeat_timeout_ns: without a heartbeat for this long all limits are suspended
 * @cpu_count: CPUs that can exist
 * @queue_count: memory nodes that can exist, at most MAX_QUEUES
 */
struct sched_settings {
	u64 tick_ns;
	u64 burst_ns;
	u64 debt_ns;
	u64 starvation_ns;
	u64 starvation_each_ns;
	u64 starvation_max_ns;
	u64 run_ns;
	u64 heartbeat_timeout_ns;
	u64 cpu_count;
	u64 queue_count;
};

/**
 * struct heartbeat - sign of life of the daemon
 * @count: changes at each tick of the daemon
 * @epoch: changes with cgroup_to_workload; cached slots of tasks are then invalid
 * @slots: slots in use lie below this
 * @devices: devices in use lie below this
 */
struct heartbeat {
	u64 count;
	u64 epoch;
	u64 slots;
	u64 devices;
};

/* Modes of a slot. */
#define MODE_FREE	0
#define MODE_LIMITED	1
/*
 * Overload cap: throttled only while the device is above its set-point and the workload used more than its
 * part.
 */
#define MODE_CAPPED	2

/**
 * struct workload_cfg - limit of one workload
 * @active: MODE_FREE, MODE_LIMITED or MODE_CAPPED
 * @bytes_per_sec: its rate; of a capped workload: its part of the set-point
 * @intensity_bytes_per_sec: bytes it transfers in a second of CPU time
 * @device: index of the device
 */
struct workload_cfg {
	u64 active;
	u64 bytes_per_sec;
	u64 intensity_bytes_per_sec;
	u64 device;
};

/**
 * struct device_cfg - a device, and the bandwidth there that is not limited
 * @node_count: memory nodes to add up; 0: the kernel cannot read its counters, see struct device_sample
 * @nodes: the memory nodes
 * @set_point_bytes_per_sec: set-point
 * @others_bytes_per_sec: bandwidth left for workloads without a limit
 * @carry_bytes: largest remainder that one interval leaves for the next
 * @overload_cap_bytes: bytes above the set-point after which capped workloads are throttled; 0: never
 */
struct device_cfg {
	u64 node_count;
	u64 nodes[MAX_NODES];
	u64 set_point_bytes_per_sec;
	u64 others_bytes_per_sec;
	u64 carry_bytes;
	u64 overload_cap_bytes;
};

/**
 * struct device_sample - the daemon's last sample of a device that the kernel cannot read
 * @bytes: bytes transferred so far
 * @at_ns: time of the sample (CLOCK_MONOTONIC); 0: none
 */
struct device_sample {
	u64 bytes;
	u64 at_ns;
};

/**
 * struct workload_ctx - state of one workload; written by the scheduler only
 * @budget_bytes: bytes it may still transfer (signed)
 * @part: parts of a byte
 * @run_ns: run time of runs that have ended
 * @live_ns: run time of runs that go on, while a tick adds it up
 * @billed_run_ns: the part of both that has been charged
 * @interval_ns: run time of the interval that is being charged
 * @charged_bytes: bytes charged so far
 * @runs: runs of its tasks
 * @parks: times a task of it was parked
 * @parked_ns: time its tasks were parked, summed over tasks
 * @worst_ns: longest time one task was parked
 * @starvation_runs: parked tasks that ran after their starvation time, in spite of debt
 * @preempts: ticks at which a running task of it was told to leave its CPU for debt, summed over tasks
 * @waiting: tasks parked at the last tick
 * @is_throttled: 1: its tasks wait until its next run begins
 * @mode: mode of the slot at the last tick
 */
struct workload_ctx {
	u64 budget_bytes;
	u64 part;
	u64 run_ns;
	u64 live_ns;
	u64 billed_run_ns;
	u64 interval_ns;
	u64 charged_bytes;
	u64 runs;
	u64 parks;
	u64 parked_ns;
	u64 worst_ns;
	u64 starvation_runs;
	u64 preempts;
	u64 waiting;
	u64 is_throttled;
	u64 mode;
};

/**
 * struct device_ctx - state of one device; written by the scheduler only
 * @last_count: sum of its counters when last read
 * @is_known: 0: never read so far
 * @carry_bytes: remainder of the last intervals (signed)
 * @estimated_bytes: sum of the estimates of this interval
 * @load_bytes_per_sec: sum of the intensities of the running workloads
 * @scale: scale of the last interval, WEIR_SCALE_ONE is 1
 * @lost: intervals in which the counters could not be read
 * @failed_reads: times this was tried; less often the longer it fails
 * @retry_ns: time between the last try and the next; 0: the last one succeeded
 * @retry_at_ns: when they are read again
 * @overload_cap_bytes: bytes it may still transfer before capped workloads are throttled (signed)
 * @overload_cap_part: parts of a byte
 * @capped_bytes: sum of the estimates of this interval, of limited and of capped workloads
 * @capped_scale: scale of those
 * @capped_ticks: ticks at which the overload cap was reached
 * @overshoot_bytes: recent bytes above its set-point (signed); 0 where that is not known
 * @ext_bytes, @ext_ns, @ext_estimated_bytes, @ext_error_bytes, @ext_spread_ns: struct weir_ext_count,
 *     where the daemon counts
 * @is_limiting: 1: a workload was limited at the last tick
 * @ext_updates: samples of the daemon that were taken in
 */
struct device_ctx {
	u64 last_count;
	u64 is_known;
	u64 carry_bytes;
	u64 estimated_bytes;
	u64 load_bytes_per_sec;
	u64 scale;
	u64 lost;
	u64 failed_reads;
	u64 retry_ns;
	u64 retry_at_ns;
	u64 overload_cap_bytes;
	u64 overload_cap_part;
	u64 capped_bytes;
	u64 capped_scale;
	u64 capped_ticks;
	u64 overshoot_bytes;
	u64 ext_bytes;
	u64 ext_ns;
	u64 ext_estimated_bytes;
	u64 ext_error_bytes;
	u64 ext_spread_ns;
	u64 is_limiting;
	u64 ext_updates;
};

/**
 * struct sched_stats - the scheduler as a whole; written by the scheduler only
 * @ticks: ticks of the budget timer
 * @tick_cost_ns: time that they took
 * @last_tick_ns: time of the last one
 * @heartbeat_ns: time of the daemon's last heartbeat
 * @heartbeat: its count then
 * @is_suspended: 1: the heartbeat is missing, all limits are suspended
 * @suspensions: times that happened
 * @stalled_dispatches: tasks that were dispatched out of order by the starvation guard
 * @longest_gap_ns: longest time between two ticks while limits were in force
 */
struct sched_stats {
	u64 ticks;
	u64 tick_cost_ns;
	u64 last_tick_ns;
	u64 heartbeat_ns;
	u64 heartbeat;
	u64 is_suspended;
	u64 suspensions;
	u64 stalled_dispatches;
	u64 longest_gap_ns;
};

/**
 * struct enqueue_stats - cost of enqueueing on one CPU; written by the scheduler only
 * @enqueues: tasks that were enqueued or parked
 * @timed: how many of those were timed
 * @timed_ns: the time those took together
 * @worst_ns: the longest of them
 */
struct enqueue_stats {
	u64 enqueues;
	u64 timed;
	u64 timed_ns;
	u64 worst_ns;
};

#define EXIT_REASON_LEN	128
#define EXIT_MSG_LEN	512
/* Length of the kernel's dump of CPUs and tasks at the exit. */
#define EXIT_DUMP_LEN	32768

/**
 * struct user_exit_info - why the scheduler left the kernel (as scx's user_exit_info, of fixed-size words)
 * @kind: of enum scx_exit_kind; 0: it has not left
 * @code: the exit code
 * @reason: the kernel's reason
 * @message: the kernel's message
 * @dump: the kernel's dump of all CPUs and waiting tasks
 */
struct user_exit_info {
	u64 kind;
	u64 code;
	char reason[EXIT_REASON_LEN];
	char message[EXIT_MSG_LEN];
	char dump[EXIT_DUMP_LEN];
};

#endif /* WEIR_SCHED_INTF_H */
