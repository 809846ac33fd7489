// SPDX-License-Identifier: GPL-2.0-only
/*
 * A PMU for the testbed's CPU
 *
 * An emulated CPU has no PMU. These are the events that weir needs most: lines that
 * each core has filled from memory behind the device, which the device itself cannot
 * attribute to a core, and how many of them for a store. The device model counts them
 * per vCPU into words behind the device's registers (weir_ipc::core_fills). This module
 * offers them as events of perf, with the name, the format and the encoding of the CPU
 * that QEMU's CPU identifies itself as:
 *
 *   AMD's Zen 5             l2_fill_rsp_src and ls_any_fills_from_sys, alternate memories
 *   Intel's Granite Rapids  OCR.READS_TO_CORE.CXL_MEM, and OCR.DEMAND_RFO.CXL_MEM for stores
 *
 * So the whole path from the table of events through the BPF program to a workload's
 * figure is tested as on such a machine.
 *
 * Differences: any number of readers may use a counter at once, so nothing is
 * multiplexed; nothing can be sampled; user and kernel mode are not distinguished.
 *
 * Sources of the encodings: Linux, tools/perf/pmu-events/arch/x86/amdzen5 (7.2), and
 * Intel's perfmon, GNR, version 1.20.
 */

#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/perf_event.h>
#include <asm/processor.h>

/* From extension memory: into the L1, and into the L2 on its way. Here that is the same. */
#define ZEN5_L1_FILLS	0x000008044ULL
#define ZEN5_L2_FILLS	0x100008065ULL
/* A second register selects the response of the uncore. Two events, so that two can count at once. */
#define GNR_RESPONSE_0	0x012aULL
#define GNR_RESPONSE_1	0x012bULL
#define GNR_READS_CXL	0x703c04477ULL
#define GNR_RFO_CXL	0x703c00002ULL

/* In a CPU's line of counts. */
#define WORD_FILLS	0
#define WORD_STORES	8

static unsigned long offset_bytes;
module_param(offset_bytes, ulong, 0444);
MODULE_PARM_DESC(offset_bytes, "where the device model counts, in the device's BAR");

static unsigned int stride_bytes = 64;
module_param(stride_bytes, uint, 0444);
MODULE_PARM_DESC(stride_bytes, "from one CPU's words to the next");

static u8 __iomem *core_words;

PMU_FORMAT_ATTR_SHOW(zen5_event, "config:0-7,32-35");
PMU_FORMAT_ATTR_SHOW(gnr_event, "config:0-7");
PMU_FORMAT_ATTR(umask, "config:8-15");
PMU_FORMAT_ATTR(offcore_rsp, "config1:0-63");

static struct device_attribute zen5_event = __ATTR(event, 0444, zen5_event_show, NULL);
static struct device_attribute gnr_event = __ATTR(event, 0444, gnr_event_show, NULL);

static struct attribute *zen5_attrs[] = {
	&zen5_event.attr,
	&format_attr_umask.attr,
	NULL
};

static struct attribute *gnr_attrs[] = {
	&gnr_event.attr,
	&format_attr_umask.attr,
	&format_attr_offcore_rsp.attr,
	NULL
};

static const struct attribute_group zen5_format = {
	.name = "format",
	.attrs = zen5_attrs,
};

static const struct attribute_group gnr_format = {
	.name = "format",
	.attrs = gnr_attrs,
};

static const struct attribute_group *zen5_groups[] = { &zen5_format, NULL };
static const struct attribute_group *gnr_groups[] = { &gnr_format, NULL };

static bool is_intel(void)
{
	return boot_cpu_data.x86_vendor == X86_VENDOR_INTEL;
}

/* Which word an event counts. */
static int core_word(const struct perf_event_attr *attr)
{
	if (!is_intel()) {
		if (attr->config == ZEN5_L1_FILLS || attr->config == ZEN5_L2_FILLS)
			return WORD_FILLS;
		return -EINVAL;
	}
	if (attr->config != GNR_RESPONSE_0 && attr->config != GNR_RESPONSE_1)
		return -EINVAL;
	if (attr->config1 == GNR_READS_CXL)
		return WORD_FILLS;
	if (attr->config1 == GNR_RFO_CXL)
		return WORD_STORES;
	return -EINVAL;
}

static int core_event_init(struct perf_event *event)
{
	int word;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (is_sampling_event(event))
		return -EOPNOTSUPP;
	word = core_word(&event->attr);
	if (word < 0)
		return word;
	event->hw.config = word;
	return 0;
}

/* Of the CPU that this runs on, which perf sees to. */
static u64 core_count(const struct perf_event *event)
{
	return readq(core_words + smp_processor_id() * stride_bytes + event->hw.config);
}

static void core_read(struct perf_event *event)
{
	u64 before, now;

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	now = core_count(event);
	before = local64_xchg(&event->hw.prev_count, now);
	local64_add(now - before, &event->count);
}

static void core_start(struct perf_event *event, int flags)
{
	local64_set(&event->hw.prev_count, core_count(event));
	event->hw.state = 0;
}

static void core_stop(struct perf_event *event, int flags)
{
	core_read(event);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int core_add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		core_start(event, flags);
	return 0;
}

static void core_del(struct perf_event *event, int flags)
{
	core_stop(event, PERF_EF_UPDATE);
}

static struct pmu core_pmu = {
	.module = THIS_MODULE,
	.capabilities = PERF_PMU_CAP_NO_INTERRUPT | PERF_PMU_CAP_NO_EXCLUDE,
	.task_ctx_nr = perf_hw_context,
	.event_init = core_event_init,
	.add = core_add,
	.del = core_del,
	.start = core_start,
	.stop = core_stop,
	.read = core_read,
};

static int __init core_init(void)
{
	struct pci_dev *device = pci_get_device(0x1af4, 0x1110, NULL);
	resource_size_t bytes, needed;
	int ret;

	if (!device)
		return -ENODEV;
	bytes = pci_resource_len(device, 2);
	needed = offset_bytes + (resource_size_t)nr_cpu_ids * stride_bytes;
	if (!offset_bytes || offset_bytes % 8 || stride_bytes % 8 ||
	    stride_bytes < WORD_STORES + 8 || needed > bytes) {
		pr_err("weir_guest_pmu: %u CPUs from %#lx on do not fit a BAR of %llu bytes\n",
		       nr_cpu_ids, offset_bytes, (u64)bytes);
		pci_dev_put(device);
		return -EINVAL;
	}
	core_words = ioremap(pci_resource_start(device, 2) + offset_bytes, needed - offset_bytes);
	pci_dev_put(device);
	if (!core_words)
		return -ENOMEM;
	core_pmu.attr_groups = is_intel() ? gnr_groups : zen5_groups;
	/* Fails where the CPU has a PMU of its own. */
	ret = perf_pmu_register(&core_pmu, "cpu", -1);
	if (ret)
		iounmap(core_words);
	return ret;
}

static void __exit core_exit(void)
{
	perf_pmu_unregister(&core_pmu);
	iounmap(core_words);
}

module_init(core_init);
module_exit(core_exit);

MODULE_DESCRIPTION("the testbed's CPU counts fills from the emulated device");
MODULE_LICENSE("GPL");
