// SPDX-License-Identifier: GPL-2.0-only
/*
 * The performance counter that the testbed's CPU does not have
 *
 * An emulated CPU has no PMU. This is the one event of one that weir wants most: how
 * many lines each core has filled from memory behind the device, told apart by core,
 * which the device itself cannot tell. The plugin counts them per vCPU into words
 * behind the device's registers (weir_hw::fills); here they are an event of perf,
 * with the name, the format and the encoding of AMD's Zen 5 (l2_fill_rsp_src and
 * ls_any_fills_from_sys, alternate memories). Who looks for such an event finds it
 * and cannot tell the difference, so that all of the way from the table of events
 * through the BPF program to a workload's figure is walked as on such a machine.
 *
 * What is different: one counter a core that everybody may read at once, so nothing
 * takes turns; nothing can be sampled; user and kernel are not told apart.
 *
 * Source of the encodings: Linux, tools/perf/pmu-events/arch/x86/amdzen5 (7.2).
 */

#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/perf_event.h>

PMU_FORMAT_ATTR(event, "config:0-7,32-35");
PMU_FORMAT_ATTR(umask, "config:8-15");

/* From extension memory: into the L1, and into the L2 on its way. Here that is the same. */
#define CORE_L1_FILLS	0x000008044ULL
#define CORE_L2_FILLS	0x100008065ULL

static unsigned long offset_bytes;
module_param(offset_bytes, ulong, 0444);
MODULE_PARM_DESC(offset_bytes, "where the plugin counts, in the device's BAR");

static unsigned int stride_bytes = 64;
module_param(stride_bytes, uint, 0444);
MODULE_PARM_DESC(stride_bytes, "from one CPU's word to the next");

static u8 __iomem *core_words;

static struct attribute *core_format_attrs[] = {
	&format_attr_event.attr,
	&format_attr_umask.attr,
	NULL
};

static const struct attribute_group core_format_group = {
	.name = "format",
	.attrs = core_format_attrs,
};

static const struct attribute_group *core_groups[] = {
	&core_format_group,
	NULL
};

static int core_event_init(struct perf_event *event)
{
	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (is_sampling_event(event))
		return -EOPNOTSUPP;
	if (event->attr.config != CORE_L1_FILLS && event->attr.config != CORE_L2_FILLS)
		return -EINVAL;
	return 0;
}

/* Of the CPU that this runs on, which perf sees to. */
static u64 core_count(void)
{
	return readq(core_words + smp_processor_id() * stride_bytes);
}

static void core_read(struct perf_event *event)
{
	u64 before, now;

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	now = core_count();
	before = local64_xchg(&event->hw.prev_count, now);
	local64_add(now - before, &event->count);
}

static void core_start(struct perf_event *event, int flags)
{
	local64_set(&event->hw.prev_count, core_count());
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
	.attr_groups = core_groups,
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
	if (!offset_bytes || offset_bytes % 8 || stride_bytes % 8 || needed > bytes) {
		pr_err("weir_core: %u CPUs from %#lx on do not fit a BAR of %llu bytes\n",
		       nr_cpu_ids, offset_bytes, (u64)bytes);
		pci_dev_put(device);
		return -EINVAL;
	}
	core_words = ioremap(pci_resource_start(device, 2) + offset_bytes, needed - offset_bytes);
	pci_dev_put(device);
	if (!core_words)
		return -ENOMEM;
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
