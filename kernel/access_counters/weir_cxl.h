/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the parts of the driver: the device and how to read a counter of it.
 */
#ifndef WEIR_CXL_H
#define WEIR_CXL_H

#include <linux/device.h>
#include <linux/io.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/sysfs.h>
#include <linux/types.h>

#include "counts.h"
#include "weir_regs.h"

struct weir_group_dir;

/**
 * struct weir_group - a region of the device's memory with its own counter pair
 * @base: host-physical address of its first byte
 * @size_bytes: its size
 */
struct weir_group {
	u64 base;
	u64 size_bytes;
};

/**
 * struct weir_cxl - one device with access counters
 * @dev: weir_cxlN in the class; owns this structure
 * @entry: in weir_cxl_devices, ordered by @id, under weir_cxl_lock
 * @regs: the BAR, mapped until the PCI device is unbound
 * @id: the N, or -1
 * @group_count: groups the device announced
 * @line_bytes: bytes of one counted access
 * @features: bits WEIR_FEATURE_* of its features beside counters
 * @snapshot_offset: BAR offset of the counters of the last snapshot, if it has snapshots
 * @snapshot_lock: held while a snapshot is triggered
 * @unreadable: 0, or why no register is read: -EBUSY during a reset, -ENODEV after one that the
 *	device did not survive. Set under @snapshot_lock, or by the reset that set it
 * @groups: its group table when it was bound
 * @counts: what goes on over a reset, of reads and writes of each group in turn
 * @dirs: the sysfs directories of the groups
 * @attr_groups: all sysfs files of @dev, NULL-terminated
 * @pmu: its counters as events of perf
 * @has_pmu: @pmu is registered
 */
struct weir_cxl {
	struct device dev;
	struct list_head entry;
	void __iomem *regs;
	int id;
	u32 group_count;
	u32 line_bytes;
	u32 features;
	u64 snapshot_offset;
	struct mutex snapshot_lock;	/* snapshots, one at a time; unreadable becoming nonzero */
	int unreadable;
	struct weir_group *groups;
	struct weir_count *counts;
	struct weir_group_dir *dirs;
	const struct attribute_group **attr_groups;
	struct pmu pmu;
	bool has_pmu;
};

/* Bound devices, and the lock of the list. No other lock is held when it is taken. */
extern struct list_head weir_cxl_devices;
extern struct mutex weir_cxl_lock;

static inline struct weir_cxl *to_weir_cxl(struct device *dev)
{
	return container_of(dev, struct weir_cxl, dev);
}

/* Where in the BAR a counter of a group is, in the table at @counters. */
static inline u64 weir_counter_offset(u64 counters, u32 group, bool write)
{
	return counters + (u64)group * WEIR_COUNTER_STRIDE_BYTES +
	       (write ? WEIR_COUNTER_WRITES_REG : WEIR_COUNTER_READS_REG);
}

bool weir_cxl_lost(struct weir_cxl *cxl);
int weir_cxl_register_read(struct weir_cxl *cxl, u64 offset, bool is_long, u64 *value);
int weir_cxl_read(struct weir_cxl *cxl, u32 group, bool write, u64 *bytes);
int weir_cxl_read_at(struct weir_cxl *cxl, u64 counters, u32 group, bool write, u64 *bytes);

int weir_sysfs_prepare(struct weir_cxl *cxl);
void weir_sysfs_free(struct weir_cxl *cxl);
ssize_t weir_counters_read(struct weir_cxl *cxl, u64 counters, char *buf, loff_t off, size_t count);
size_t weir_bin_size(struct kobject *kobj, const struct bin_attribute *attr, int n);

/**
 * struct weir_register - a register of the device as a sysfs file
 * @attr: the file, decimal, for root
 * @offset: where in the BAR it is
 * @is_long: it has 64 bits
 */
struct weir_register {
	struct device_attribute attr;
	u32 offset;
	bool is_long;
};

ssize_t weir_register_show(struct device *dev, struct device_attribute *attr, char *buf);

#define WEIR_REGISTER(_var, _name, _offset, _is_long) \
	static struct weir_register _var = { \
		.attr = __ATTR(_name, 0400, weir_register_show, NULL), \
		.offset = _offset, \
		.is_long = _is_long, \
	}

extern const struct attribute_group weir_snapshot_group;
extern const struct attribute_group weir_devload_group;

extern const struct pci_error_handlers weir_error_handlers;
int weir_counts_begin(struct weir_cxl *cxl);
u64 weir_cxl_last(struct weir_cxl *cxl, u32 group, bool write);

int weir_pmu_register(struct weir_cxl *cxl);
void weir_pmu_unregister(struct weir_cxl *cxl);

int weir_bpf_init(void);
int weir_bpf_update(void);

#endif /* WEIR_CXL_H */
