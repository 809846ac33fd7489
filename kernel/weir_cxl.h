/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the driver share: the device and how to read a counter of it.
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
 * @features: what it has beyond counters, bits WEIR_FEATURE_*
 * @cut_offset: where in the BAR the counters of the last cut are, if it can take cuts
 * @cut_lock: who orders a cut
 * @groups: what its group table said when it was bound
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
	u64 cut_offset;
	struct mutex cut_lock;
	struct weir_group *groups;
	struct weir_group_dir *dirs;
	const struct attribute_group **attr_groups;
	struct pmu pmu;
	bool has_pmu;
};

/* Bound devices, and what protects the list. Taken outside of nothing else. */
extern struct list_head weir_cxl_devices;
extern struct mutex weir_cxl_lock;

static inline struct weir_cxl *to_weir_cxl(struct device *dev)
{
	return container_of(dev, struct weir_cxl, dev);
}

bool weir_cxl_lost(struct weir_cxl *cxl);
int weir_cxl_read(struct weir_cxl *cxl, u32 group, bool write, u64 *bytes);
int weir_cxl_read_at(struct weir_cxl *cxl, u64 counters, u32 group, bool write, u64 *bytes);

int weir_sysfs_prepare(struct weir_cxl *cxl);
void weir_sysfs_free(struct weir_cxl *cxl);
ssize_t weir_counters_read(struct weir_cxl *cxl, u64 counters, char *buf, loff_t off, size_t count);
size_t weir_bin_size(struct kobject *kobj, const struct bin_attribute *attr, int n);

extern const struct attribute_group weir_cut_group;
extern const struct attribute_group weir_devload_group;

int weir_pmu_register(struct weir_cxl *cxl);
void weir_pmu_unregister(struct weir_cxl *cxl);

int weir_bpf_init(void);
int weir_bpf_update(void);

#endif /* WEIR_CXL_H */
