// SPDX-License-Identifier: GPL-2.0-only
/*
 * Event counts of tasks: one or two counters of the CPU are read at each context
 * switch, and the difference is added to the task that ran (as bperf does for
 * perf stat --bpf-counters).
 *
 *   sched_switch ─────► read events ──► difference ─┬─► sum of its cgroup (per CPU)
 *   weir_count_now ───►                             └─► or of its process
 *
 * A task that is never switched out would never be counted, so the daemon runs
 * weir_count_now on busy CPUs before it reads. Sums of cgroups are kept per CPU and
 * added up by the reader. The sum of a process is stored with its first thread and
 * freed with it, so that a reused process id never gets the counts of its
 * predecessor.
 */

#include "vmlinux_min.h"
#include <bpf/bpf_tracing.h>
#include "delegated.bpf.h"
#include "task_counts_intf.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile u64 event_count;
const volatile u64 by_process;

/* MAX_EVENTS for each CPU, side by side; as many as there are CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
	__uint(max_entries, MAX_EVENTS);
} cpu_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_CGROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct event_counts);
} cgroup_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct event_counts);
} process_counts SEC(".maps");

/* Id of the cgroup or process of a task; 0 for the idle task. */
static __always_inline u64 key_of(struct task_struct *task)
{
	if (!task->pid)
		return 0;
	if (by_process)
		return task->tgid;
	return workload_cgroup_id(task);
}

static __always_inline bool read_events(struct event_counts *now)
{
	u32 place = bpf_get_smp_processor_id() * MAX_EVENTS;
	struct bpf_perf_event_value value = {};

	if (bpf_perf_event_read_value(&cpu_events, place, &value, sizeof(value)))
		return false;
	now->first = value.counter;
	now->first_enabled_ns = value.enabled;
	now->first_running_ns = value.running;
	if (event_count < 2)
		return true;
	if (bpf_perf_event_read_value(&cpu_events, place + 1, &value, sizeof(value)))
		return false;
	now->second = value.counter;
	now->second_enabled_ns = value.enabled;
	now->second_running_ns = value.running;
	return true;
}

static __always_inline struct event_counts *sum_of_cgroup(u64 key)
{
	struct event_counts *sum = bpf_map_lookup_elem(&cgroup_counts, &key);
	struct event_counts none = {};

	if (sum)
		return sum;
	bpf_map_update_elem(&cgroup_counts, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&cgroup_counts, &key);
}

/* No other CPU writes a per-CPU sum. */
static __always_inline void add(struct event_counts *sum, const struct event_counts *now,
				const struct event_counts *last)
{
	sum->first += now->first - last->first;
	sum->first_enabled_ns += now->first_enabled_ns - last->first_enabled_ns;
	sum->first_running_ns += now->first_running_ns - last->first_running_ns;
	if (event_count < 2)
		return;
	sum->second += now->second - last->second;
	sum->second_enabled_ns += now->second_enabled_ns - last->second_enabled_ns;
	sum->second_running_ns += now->second_running_ns - last->second_running_ns;
}

/* Threads of a process run on several CPUs at once. */
static __always_inline void add_atomic(struct event_counts *sum, const struct event_counts *now,
				       const struct event_counts *last)
{
	__sync_fetch_and_add(&sum->first, now->first - last->first);
	__sync_fetch_and_add(&sum->first_enabled_ns,
			     now->first_enabled_ns - last->first_enabled_ns);
	__sync_fetch_and_add(&sum->first_running_ns,
			     now->first_running_ns - last->first_running_ns);
	if (event_count < 2)
		return;
	__sync_fetch_and_add(&sum->second, now->second - last->second);
	__sync_fetch_and_add(&sum->second_enabled_ns,
			     now->second_enabled_ns - last->second_enabled_ns);
	__sync_fetch_and_add(&sum->second_running_ns,
			     now->second_running_ns - last->second_running_ns);
}

static __always_inline bool account_counts(struct task_struct *prev, const struct event_counts *now,
				 const struct event_counts *last)
{
	struct task_struct *leader;
	struct event_counts *sum;

	if (!by_process) {
		sum = sum_of_cgroup(key_of(prev));
		if (sum)
			add(sum, now, last);
		return sum;
	}
	leader = prev->group_leader;
	if (!leader)
		return false;
	sum = bpf_task_storage_get(&process_counts, leader, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (sum)
		add_atomic(sum, now, last);
	return sum;
}

/* Adds the counts since the last switch of this CPU to `prev`; from now on `next` runs. */
static __always_inline void account_switch(struct task_struct *prev, struct task_struct *next)
{
	struct event_counts now = {};
	struct cpu_state *state;
	u32 zero = 0;

	state = bpf_map_lookup_elem(&cpu_states, &zero);
	if (!state)
		return;
	state->key = key_of(next);
	if (!read_events(&now)) {
		state->known = 0;
		state->lost++;
		return;
	}
	if (state->known && prev->pid && !account_counts(prev, &now, &state->last))
		state->lost++;
	state->last = now;
	state->known = 1;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(weir_count_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	account_switch(prev, next);
	return 0;
}

/* Run by the daemon, on a CPU of its choice. */
SEC("raw_tp")
int weir_count_now(void *ctx)
{
	struct task_struct *current = bpf_get_current_task_btf();

	account_switch(current, current);
	return 0;
}
