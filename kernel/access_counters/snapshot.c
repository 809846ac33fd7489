// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots of all counters, in sysfs beside the counters
 *
 *   snapshot/trigger          write 1: copies all counters at one instant
 *   snapshot/count            decimal: snapshots taken since the device was reset, modulo 2^32
 *   snapshot/counters         as "counters" of the device, at the last snapshot
 *
 * The directory exists if the device announces the feature. All of it is for
 * root, as the counters are.
 *
 * "counters" of the device is read while the device goes on counting; a snapshot
 * is not, so sums over groups and differences between two snapshots are exact. A
 * reader reads snapshot/count before and after: a change means that another
 * process has taken a snapshot in between.
 */

#include <linux/delay.h>
#include <linux/iopoll.h>
#include <linux/sysfs.h>

#include "weir_cxl.h"

/* A device needs a few clocks for each group. This is very long. */
#define WEIR_SNAPSHOT_TIMEOUT_US	1000000
#define WEIR_SNAPSHOT_POLL_US		50

static bool weir_snapshot_under_way(struct weir_cxl *cxl)
{
	return readl(cxl->regs + WEIR_SNAPSHOT_CONTROL_REG) != 0;
}

/* Called with snapshot_lock held, so that no other snapshot is triggered meanwhile. */
static int weir_snapshot_take(struct weir_cxl *cxl)
{
	u32 before, after;
	bool busy;
	int ret;

	if (cxl->unreadable)
		return cxl->unreadable;
	/* All ones would be a snapshot that never ends. */
	if (weir_cxl_lost(cxl))
		return -ENODEV;
	ret = read_poll_timeout(weir_snapshot_under_way, busy, !busy, WEIR_SNAPSHOT_POLL_US,
				WEIR_SNAPSHOT_TIMEOUT_US, false, cxl);
	if (ret)
		return weir_cxl_lost(cxl) ? -ENODEV : -EBUSY;

	before = readl(cxl->regs + WEIR_SNAPSHOT_COUNT_REG);
	writel(1, cxl->regs + WEIR_SNAPSHOT_CONTROL_REG);
	ret = readl_poll_timeout(cxl->regs + WEIR_SNAPSHOT_COUNT_REG, after, after != before,
				 WEIR_SNAPSHOT_POLL_US, WEIR_SNAPSHOT_TIMEOUT_US);
	if (weir_cxl_lost(cxl))
		return -ENODEV;
	return ret;
}

static ssize_t trigger_store(struct device *dev, struct device_attribute *attr, const char *buf,
			     size_t count)
{
	struct weir_cxl *cxl = to_weir_cxl(dev);
	u32 value;
	int ret;

	ret = kstrtou32(buf, 10, &value);
	if (ret)
		return ret;
	if (value != 1)
		return -EINVAL;
	ret = mutex_lock_interruptible(&cxl->snapshot_lock);
	if (ret)
		return ret;
	ret = weir_snapshot_take(cxl);
	mutex_unlock(&cxl->snapshot_lock);
	return ret ?: count;
}
static DEVICE_ATTR_WO(trigger);

static ssize_t counters_read(struct file *file, struct kobject *kobj,
			     const struct bin_attribute *attr, char *buf, loff_t off, size_t count)
{
	struct weir_cxl *cxl = to_weir_cxl(kobj_to_dev(kobj));

	return weir_counters_read(cxl, cxl->snapshot_offset, buf, off, count);
}

static const BIN_ATTR_ADMIN_RO(counters, 0);

WEIR_REGISTER(weir_snapshot_count, count, WEIR_SNAPSHOT_COUNT_REG, false);

static struct attribute *weir_snapshot_attrs[] = {
	&dev_attr_trigger.attr,
	&weir_snapshot_count.attr.attr,
	NULL
};

static const struct bin_attribute *const weir_snapshot_bin_attrs[] = {
	&bin_attr_counters,
	NULL
};

const struct attribute_group weir_snapshot_group = {
	.name = "snapshot",
	.attrs = weir_snapshot_attrs,
	.bin_attrs = weir_snapshot_bin_attrs,
	.bin_size = weir_bin_size,
};
