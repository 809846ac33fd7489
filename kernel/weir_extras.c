// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a device may have beyond the counters, in sysfs beside them
 *
 *   cut/take                  write 1: all counters are kept as they are at one instant
 *   cut/count                 decimal: cuts taken since reset, modulo 2^32
 *   cut/counters              as "counters" of the device, at the last cut
 *   devload/load              decimal: 0 light, 1 optimal, 2 moderate, 3 severe overload
 *                             (CXL 3.1, 3.3.4)
 *   devload/fill_256ths       decimal: mean fill of the queue, in 1/256 entries
 *   devload/{light,optimal,moderate,severe}_clocks
 *                             decimal: clocks spent at each load since reset
 *   devload/clock_khz         decimal: what a clock is; 0 if the device does not know
 *
 * A directory is there if the device announces the feature. All of it is for
 * root, as the counters are.
 *
 * "counters" of the device is read while the device goes on counting; a cut is
 * not, so sums over groups and differences between two cuts are exact. Who reads
 * a cut reads cut/count before and after: if it has changed, somebody else has
 * taken one in between.
 */

#include <linux/delay.h>
#include <linux/iopoll.h>
#include <linux/sysfs.h>

#include "weir_cxl.h"

/* A device is through with a cut in a few clocks for each group. This is very long. */
#define WEIR_CUT_TIMEOUT_US	1000000
#define WEIR_CUT_POLL_US	50

static bool weir_cut_under_way(struct weir_cxl *cxl)
{
	return readl(cxl->regs + WEIR_CUT_CONTROL_REG) != 0;
}

/* Called with cut_lock held, so that no cut but ours is ordered meanwhile. */
static int weir_cut_take(struct weir_cxl *cxl)
{
	u32 before, after;
	bool busy;
	int ret;

	/* All ones look like a cut that never ends. */
	if (weir_cxl_lost(cxl))
		return -ENODEV;
	ret = read_poll_timeout(weir_cut_under_way, busy, !busy, WEIR_CUT_POLL_US,
				WEIR_CUT_TIMEOUT_US, false, cxl);
	if (ret)
		return weir_cxl_lost(cxl) ? -ENODEV : -EBUSY;

	before = readl(cxl->regs + WEIR_CUT_COUNT_REG);
	writel(1, cxl->regs + WEIR_CUT_CONTROL_REG);
	ret = readl_poll_timeout(cxl->regs + WEIR_CUT_COUNT_REG, after, after != before,
				 WEIR_CUT_POLL_US, WEIR_CUT_TIMEOUT_US);
	if (weir_cxl_lost(cxl))
		return -ENODEV;
	return ret;
}

static ssize_t take_store(struct device *dev, struct device_attribute *attr, const char *buf,
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
	ret = mutex_lock_interruptible(&cxl->cut_lock);
	if (ret)
		return ret;
	ret = weir_cut_take(cxl);
	mutex_unlock(&cxl->cut_lock);
	return ret ?: count;
}
static DEVICE_ATTR_WO(take);

static ssize_t counters_read(struct file *file, struct kobject *kobj,
			     const struct bin_attribute *attr, char *buf, loff_t off, size_t count)
{
	struct weir_cxl *cxl = to_weir_cxl(kobj_to_dev(kobj));

	return weir_counters_read(cxl, cxl->cut_offset, buf, off, count);
}
static const BIN_ATTR_ADMIN_RO(counters, 0);

/* A register that is shown as it is; a device that is lost has none. */
struct weir_register {
	struct device_attribute attr;
	u32 offset;
	bool is_long;
};

static ssize_t weir_register_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weir_register *reg = container_of(attr, struct weir_register, attr);
	struct weir_cxl *cxl = to_weir_cxl(dev);
	u64 value = reg->is_long ? readq(cxl->regs + reg->offset) : readl(cxl->regs + reg->offset);

	if (value == (reg->is_long ? U64_MAX : U32_MAX) && weir_cxl_lost(cxl))
		return -ENODEV;
	return sysfs_emit(buf, "%llu\n", value);
}

#define WEIR_REGISTER(_var, _name, _offset, _is_long) \
	static struct weir_register _var = { \
		.attr = __ATTR(_name, 0400, weir_register_show, NULL), \
		.offset = _offset, \
		.is_long = _is_long, \
	}

WEIR_REGISTER(weir_cut_count, count, WEIR_CUT_COUNT_REG, false);
WEIR_REGISTER(weir_load, load, WEIR_DEVLOAD_REG, false);
WEIR_REGISTER(weir_fill, fill_256ths, WEIR_DEVLOAD_FILL_REG, false);
WEIR_REGISTER(weir_light, light_clocks, WEIR_DEVLOAD_LIGHT_CLOCKS_REG, true);
WEIR_REGISTER(weir_optimal, optimal_clocks, WEIR_DEVLOAD_OPTIMAL_CLOCKS_REG, true);
WEIR_REGISTER(weir_moderate, moderate_clocks, WEIR_DEVLOAD_MODERATE_CLOCKS_REG, true);
WEIR_REGISTER(weir_severe, severe_clocks, WEIR_DEVLOAD_SEVERE_CLOCKS_REG, true);
WEIR_REGISTER(weir_clock, clock_khz, WEIR_CLOCK_KHZ_REG, false);

static struct attribute *weir_cut_attrs[] = {
	&dev_attr_take.attr,
	&weir_cut_count.attr.attr,
	NULL
};

static const struct bin_attribute *const weir_cut_bin_attrs[] = {
	&bin_attr_counters,
	NULL
};

const struct attribute_group weir_cut_group = {
	.name = "cut",
	.attrs = weir_cut_attrs,
	.bin_attrs = weir_cut_bin_attrs,
	.bin_size = weir_bin_size,
};

static struct attribute *weir_devload_attrs[] = {
	&weir_load.attr.attr,
	&weir_fill.attr.attr,
	&weir_light.attr.attr,
	&weir_optimal.attr.attr,
	&weir_moderate.attr.attr,
	&weir_severe.attr.attr,
	&weir_clock.attr.attr,
	NULL
};

const struct attribute_group weir_devload_group = {
	.name = "devload",
	.attrs = weir_devload_attrs,
};
