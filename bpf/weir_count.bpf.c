// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what tasks do: one or two counters of the CPU are read whenever the CPU
 * goes from one task to the next, and the difference is of who ran.
 *
 *   sched_switch ──► read events ──► difference ─┬─► sum of its cgroup (per CPU)
 *   daemon asks ───►                             └─► or of its process
 *
 * A task that is never switched out would never be counted, so the daemon asks
 * busy CPUs before it reads (weir_count_now, on that CPU). Sums of cgroups lie
 * per CPU and are added by who reads them; those of a process lie with its first
 * thread and go when it goes, so that no process id can be mistaken for its
 * successor's.
 */

#include "weir_kernel.h"
#include <bpf/bpf_tracing.h>
#include "weir_count_wire.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile u64 weir_event_count;
const volatile u64 weir_by_process;

/* WEIR_COUNTED for each CPU, side by side; as many as there are CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
	__uint(max_entries, WEIR_COUNTED);
} weir_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct weir_turn);
} weir_turns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, WEIR_KEYS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct weir_sum);
} weir_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct weir_sum);
} weir_processes SEC(".maps");

/* Whose count it is; 0 for an idle CPU. */
static __always_inline u64 key_of(struct task_struct *task)
{
	if (!task->pid)
		return 0;
	if (weir_by_process)
		return task->tgid;
	return weir_cgroup_id(task);
}

static __always_inline bool read_events(struct weir_sum *now)
{
	u32 place = bpf_get_smp_processor_id() * WEIR_COUNTED;
	struct bpf_perf_event_value value = {};

	if (bpf_perf_event_read_value(&weir_events, place, &value, sizeof(value)))
		return false;
	now->first = value.counter;
	now->first_enabled_ns = value.enabled;
	now->first_running_ns = value.running;
	if (weir_event_count < 2)
		return true;
	if (bpf_perf_event_read_value(&weir_events, place + 1, &value, sizeof(value)))
		return false;
	now->second = value.counter;
	now->second_enabled_ns = value.enabled;
	now->second_running_ns = value.running;
	return true;
}

static __always_inline struct weir_sum *sum_of_cgroup(u64 key)
{
	struct weir_sum *sum = bpf_map_lookup_elem(&weir_cgroups, &key);
	struct weir_sum none = {};

	if (sum)
		return sum;
	bpf_map_update_elem(&weir_cgroups, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&weir_cgroups, &key);
}

/* A sum per CPU is nobody else's at the moment. */
static __always_inline void add(struct weir_sum *sum, const struct weir_sum *now,
				const struct weir_sum *last)
{
	sum->first += now->first - last->first;
	sum->first_enabled_ns += now->first_enabled_ns - last->first_enabled_ns;
	sum->first_running_ns += now->first_running_ns - last->first_running_ns;
	if (weir_event_count < 2)
		return;
	sum->second += now->second - last->second;
	sum->second_enabled_ns += now->second_enabled_ns - last->second_enabled_ns;
	sum->second_running_ns += now->second_running_ns - last->second_running_ns;
}

/* Threads of a process run on several CPUs at once. */
static __always_inline void add_shared(struct weir_sum *sum, const struct weir_sum *now,
				       const struct weir_sum *last)
{
	__sync_fetch_and_add(&sum->first, now->first - last->first);
	__sync_fetch_and_add(&sum->first_enabled_ns,
			     now->first_enabled_ns - last->first_enabled_ns);
	__sync_fetch_and_add(&sum->first_running_ns,
			     now->first_running_ns - last->first_running_ns);
	if (weir_event_count < 2)
		return;
	__sync_fetch_and_add(&sum->second, now->second - last->second);
	__sync_fetch_and_add(&sum->second_enabled_ns,
			     now->second_enabled_ns - last->second_enabled_ns);
	__sync_fetch_and_add(&sum->second_running_ns,
			     now->second_running_ns - last->second_running_ns);
}

static __always_inline bool give(struct task_struct *who, const struct weir_sum *now,
				 const struct weir_sum *last)
{
	struct task_struct *leader;
	struct weir_sum *sum;

	if (!weir_by_process) {
		sum = sum_of_cgroup(key_of(who));
		if (sum)
			add(sum, now, last);
		return sum;
	}
	leader = who->group_leader;
	if (!leader)
		return false;
	sum = bpf_task_storage_get(&weir_processes, leader, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (sum)
		add_shared(sum, now, last);
	return sum;
}

/* The time since the last look at this CPU was of `who`; from now on it is of `next`. */
static __always_inline void turn_over(struct task_struct *who, struct task_struct *next)
{
	struct weir_sum now = {};
	struct weir_turn *turn;
	u32 zero = 0;

	turn = bpf_map_lookup_elem(&weir_turns, &zero);
	if (!turn)
		return;
	turn->key = key_of(next);
	if (!read_events(&now)) {
		turn->known = 0;
		turn->lost++;
		return;
	}
	if (turn->known && who->pid && !give(who, &now, &turn->last))
		turn->lost++;
	turn->last = now;
	turn->known = 1;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(weir_count_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	turn_over(prev, next);
	return 0;
}

/* Run by the daemon, on a CPU of its choice. */
SEC("raw_tp")
int weir_count_now(void *ctx)
{
	struct task_struct *current = bpf_get_current_task_btf();

	turn_over(current, current);
	return 0;
}
