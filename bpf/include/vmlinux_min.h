/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types that programs here use, with the few members they read.
 * Offsets are relocated to those of the running kernel when the program is loaded
 * (CO-RE), so this is no copy of vmlinux.h and does not age with it, and building
 * weir needs no kernel image.
 */
#ifndef WEIR_VMLINUX_MIN_H
#define WEIR_VMLINUX_MIN_H

#include <linux/types.h>
#include <stdbool.h>
/* Newer headers have these structs, older ones do not; ours are the same. */
#define bpf_iter_num bpf_iter_num_of_uapi
#define bpf_task_work bpf_task_work_of_uapi
#include <linux/bpf.h>
#undef bpf_iter_num
#undef bpf_task_work
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#define CORE __attribute__((preserve_access_index))

/* What a task had in its registers in user space. */
struct pt_regs___x86 {
	/* Number of the system call that it made; below 0: it came by an interrupt or a fault. */
	long orig_ax;
} CORE;

/* Complete, because a declaration alone does not match the kernel's kfuncs. */
struct cpumask {
	unsigned long bits[1];
} CORE;

struct bpf_map {
	u32 max_entries;
} CORE;

struct kernfs_node {
	u64 id;
} CORE;

struct task_cputime {
	unsigned long long sum_exec_runtime;
} CORE;

struct cgroup_base_stat {
	struct task_cputime cputime;
} CORE;

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} CORE;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	/* Of each controller: as many as there are. */
	struct cgroup_subsys_state *subsys[1];
	/* The cgroup itself; of a threaded one the domain cgroup that lists its processes in cgroup.procs. */
	struct cgroup *dom_cgrp;
	struct cgroup_base_stat bstat;
	int level;
	/* By level, itself included (Linux 6.1; before, their ids). */
	struct cgroup *ancestors[1];
} CORE;

struct css_set {
	struct cgroup *dfl_cgrp;
} CORE;

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
	unsigned long runnable_at;
} CORE;

struct sched_entity {
	u64 sum_exec_runtime;
} CORE;

typedef struct {
	int counter;
} CORE atomic_t;

struct signal_struct {
	atomic_t live;
	/* Sums of ended threads. */
	unsigned long min_flt;
	unsigned long maj_flt;
	unsigned long long sum_sched_runtime;
} CORE;

struct percpu_counter {
	s64 count;
} CORE;

/* Indices of rss_stat (include/linux/mm_types_task.h). */
#define MM_FILEPAGES	0
#define MM_ANONPAGES	1
#define MM_SHMEMPAGES	3

/* Linux 6.2; before, rss_stat is of another type. */
struct mm_struct {
	struct percpu_counter rss_stat[4];
} CORE;

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct mm_struct *mm;
	unsigned long min_flt;
	unsigned long maj_flt;
	u32 flags;
	u32 policy;
	int static_prio;
	u64 start_boottime;
	char comm[16];
	struct sched_entity se;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct css_set *cgroups;
	struct sched_ext_entity scx;
} CORE;

/*
 * Id of the cgroup that a task's process is in: the inode number of its directory. Threads of one process
 * may be in several threaded cgroups (libvirt has one for each virtual CPU); all of them count for their
 * domain.
 */
static __always_inline u64 task_cgroup_id(const struct task_struct *task)
{
	return task->cgroups->dfl_cgrp->dom_cgrp->kn->id;
}

/* Its value is the running kernel's (CO-RE): it has changed. */
enum scx_enq_flags {
	SCX_ENQ_HEAD,
};

struct scx_cpu_release_args;
struct scx_init_task_args;
enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
} CORE;

/* Members are matched by name when the program is loaded. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *p);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	char name[128];
};

struct bpf_iter_num {
	u64 opaque[1];
};

struct bpf_task_work {
	u64 opaque;
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 opaque[6];
};

#define SCX_OPS_ENQ_LAST	(1ULL << 1)
#define SCX_OPS_SWITCH_PARTIAL	(1ULL << 3)
#define SCX_OPS_ENQ_MIGRATION_DISABLED	(1ULL << 4)
#define SCX_TASK_QUEUED		(1U << 0)
#define PF_EXITING		0x00000004U
#define PF_KTHREAD		0x00200000U

/*
 * crates/weir-linux/src/backends/sched_ext/loader/kernel_enums.rs compares these with the running kernel's
 * before loading.
 */
#define SCX_ENQ_WAKEUP		(1ULL << 0)
#define SCX_ENQ_PREEMPT		(1ULL << 32)
#define SCX_ENQ_REENQ		(1ULL << 40)
#define SCX_ENQ_LAST		(1ULL << 41)
#define SCX_KICK_IDLE		(1ULL << 0)
#define SCX_KICK_PREEMPT	(1ULL << 1)
#define SCX_DSQ_ITER_REV	(1ULL << 16)
#define SCX_DSQ_GLOBAL		(1ULL << 63 | 1)
#define SCX_DSQ_LOCAL		(1ULL << 63 | 2)
#define SCX_DSQ_LOCAL_ON	(1ULL << 63 | 1ULL << 62)

#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC		1
#endif

/* Of the CPU. On x86 its highest bit is 0 where the current task must give up the CPU; absent elsewhere. */
extern const int __preempt_count __ksym __weak;
#define PREEMPT_NEED_RESCHED	0x80000000U

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern int bpf_task_work_schedule_resume(struct task_struct *task, struct bpf_task_work *tw, void *map__map,
					 int (*callback)(struct bpf_map *, void *, void *)) __ksym;

extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
			     u64 enq_flags) __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				     u64 enq_flags) __ksym;
extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime) __ksym;
extern bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
				   u64 enq_flags) __ksym;
extern struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym;
extern int scx_bpf_cpu_node(s32 cpu) __ksym;
extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym;
extern bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym;
extern u64 scx_bpf_now(void) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
				  bool *is_idle) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern u32 scx_bpf_reenqueue_local(void) __ksym;
extern struct task_struct *scx_bpf_cpu_curr(s32 cpu) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;

/* The driver's (kernel/access_counters/bpf.c); 0 where the module is not loaded. */
extern int weir_cxl_counter_read(int nid, bool write, __u64 *bytes) __weak __ksym;

#endif /* WEIR_VMLINUX_MIN_H */
