// SPDX-License-Identifier: GPL-2.0-only
/*
 * weir_cxl - the access counters of a CXL memory device
 *
 * Such a device divides its memory into groups and counts, for each, the lines
 * read and written. This driver shows the counts, and changes nothing (but for
 * snapshots on demand, snapshot.c):
 *
 *     PCI BAR                    /sys/class/weir_cxl/weir_cxlN/      sysfs.c, snapshot.c, devload.c
 *   header, counters,  ──readq── debugfs cxl-counter-driver/         this file
 *   group table, DevLoad         kfunc weir_cxl_counter_read()       bpf.c
 *                                perf weir_cxlN/read,group=K/        pmu.c
 *
 * The registers are defined once, in contract/registers.toml; weir_regs.h is
 * generated from it. All counts leave the driver in bytes (lines times
 * line_bytes) and wrap at 2^64, as the products of wrapping 64-bit counters do.
 *
 * Words: a group is a region of host-physical memory with its own counter pair;
 * a line is what one access moves; lost is a device that no longer answers.
 *
 * Steps:
 *  1. probe maps the BAR and believes nothing in it before it is checked:
 *     identity, version, number of groups, place of the table, each region;
 *  2. the device joins weir_cxl_devices, which debugfs and the kfunc use;
 *  3. remove takes it out of there, waits for the last reader (RCU for
 *     BPF, the mutex for debugfs, kernfs for sysfs, perf for its events), and only
 *     then lets the BAR be unmapped. So no register is ever read after removal;
 *  4. a reset of the function stops readers, and counts go on after it (reset.c);
 *  5. a device that vanished without warning answers with ones in every bit
 *     until remove is called. Readers then get -ENODEV, never a giant count.
 *
 * Which devices: QEMU's ivshmem-plain is bound if, and only if, its BAR holds
 * the map. The FPGA of the thesis answers to the PCI ID of Intel's CXL IP
 * (8086:0ddb), which every image made with that IP has, and reads of such a BAR
 * are reported to hang hosts; so it is not bound unasked. Name the one you mean:
 *
 *   echo weir_cxl >/sys/bus/pci/devices/ADDRESS/driver_override
 *   echo ADDRESS >/sys/bus/pci/drivers_probe
 *
 * Never run on hardware so far: the FPGA, surprise removal by a hot-plug slot.
 *
 * Source: L. Kaemmerer, Hardware-Assisted Memory Bandwidth Management for
 * CXL-based Memory Devices, 2025 ("the thesis"), 5.1.3 counters, 5.1.4 module.
 */

#include <linux/debugfs.h>
#include <linux/idr.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "weir_cxl.h"

#ifndef CONFIG_64BIT
#error "a 64-bit counter must be read at once: this driver needs a 64-bit kernel"
#endif

/* The longest line of the dump: two 20-digit numbers, a space, a newline. */
#define WEIR_DUMP_LINE_CHARS	42

LIST_HEAD(weir_cxl_devices);
/* Of the list above, and of what bpf.c makes of it. */
DEFINE_MUTEX(weir_cxl_lock);

static DEFINE_IDA(weir_cxl_ida);
static struct dentry *weir_cxl_debugfs;

static const struct class weir_cxl_class = {
	.name = "weir_cxl",
};

/**
 * weir_cxl_lost - whether the device no longer answers
 * @cxl: the device
 *
 * One that is gone cannot identify itself.
 */
bool weir_cxl_lost(struct weir_cxl *cxl)
{
	return readl(cxl->regs + WEIR_MAGIC_REG) != WEIR_MAGIC_VALUE;
}

/* Called under RCU, for which a reset waits. The value of @value is only set with 0. */
static int weir_cxl_load(struct weir_cxl *cxl, u64 offset, bool is_long, u64 *value)
{
	int ret;

	/* Pairs with weir_resume(): a reader that sees 0 sees its offsets. */
	ret = smp_load_acquire(&cxl->unreadable);
	if (ret)
		return ret;
	*value = is_long ? readq(cxl->regs + offset) : readl(cxl->regs + offset);
	/* All ones may be a value: only then the magic number is read again. */
	if (*value == (is_long ? U64_MAX : U32_MAX) && weir_cxl_lost(cxl))
		return -ENODEV;
	return 0;
}

/**
 * weir_cxl_register_read - read a register of the device
 * @cxl: the device; the caller keeps it from being removed
 * @offset: where in the BAR it is
 * @is_long: it has 64 bits
 * @value: set to what it holds
 *
 * Return: 0; -EBUSY while the function is being reset; -ENODEV if the device is lost.
 */
int weir_cxl_register_read(struct weir_cxl *cxl, u64 offset, bool is_long, u64 *value)
{
	guard(rcu)();
	return weir_cxl_load(cxl, offset, is_long, value);
}

/**
 * weir_cxl_read_at - read one of a table of counters
 * @cxl: the device; the caller keeps it from being removed
 * @counters: where in the BAR the table is: the counters, or those of the last snapshot
 * @group: below its group_count
 * @write: the counter of writes, else that of reads
 * @bytes: set to the count, modulo 2^64; it goes on over a reset of the function
 *
 * One MMIO read, from any context.
 *
 * Return: as weir_cxl_register_read().
 */
int weir_cxl_read_at(struct weir_cxl *cxl, u64 counters, u32 group, bool write, u64 *bytes)
{
	struct weir_count *count = &cxl->counts[2 * (u64)group + write];
	u64 lines;
	int ret;

	guard(rcu)();
	ret = weir_cxl_load(cxl, weir_counter_offset(counters, group, write), true, &lines);
	if (ret)
		return ret;
	/* A snapshot is older than the last count. */
	lines = counters == WEIR_COUNTERS_OFFSET_BYTES ? weir_count_of(count, lines) :
							 count->offset + lines;
	*bytes = lines * cxl->line_bytes;
	return 0;
}

/* As above, of the counters as they are now. */
int weir_cxl_read(struct weir_cxl *cxl, u32 group, bool write, u64 *bytes)
{
	return weir_cxl_read_at(cxl, WEIR_COUNTERS_OFFSET_BYTES, group, write, bytes);
}

/*
 * The dump of the thesis (5.1.4, listing 2): a header, then a line for each
 * group, all devices in order. A line's place says which group it is, so a lost
 * device fails the dump: leaving its lines out would shift the others.
 */
static int weir_cxl_dump_show(struct seq_file *seq, void *unused)
{
	struct weir_cxl *cxl;
	u64 reads, writes;
	u32 group;
	int ret = 0;

	seq_puts(seq, "read write\n");

	guard(mutex)(&weir_cxl_lock);
	list_for_each_entry(cxl, &weir_cxl_devices, entry) {
		for (group = 0; group < cxl->group_count; group++) {
			ret = weir_cxl_read(cxl, group, false, &reads);
			if (!ret)
				ret = weir_cxl_read(cxl, group, true, &writes);
			if (ret)
				return ret;
			seq_printf(seq, "%llu %llu\n", reads, writes);
			cond_resched();
		}
	}
	return 0;
}

/* The buffer is made large enough at once: growing it would read all again. */
static int weir_cxl_dump_open(struct inode *inode, struct file *file)
{
	size_t size = PAGE_SIZE;
	struct weir_cxl *cxl;

	scoped_guard(mutex, &weir_cxl_lock)
		list_for_each_entry(cxl, &weir_cxl_devices, entry)
			size += cxl->group_count * WEIR_DUMP_LINE_CHARS;

	return single_open_size(file, weir_cxl_dump_show, NULL, size);
}

static const struct file_operations weir_cxl_dump_fops = {
	.owner = THIS_MODULE,
	.open = weir_cxl_dump_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

/* Reads the group table into memory: later changes of it have no effect. */
static int weir_cxl_read_groups(struct weir_cxl *cxl, u64 table)
{
	struct device *parent = cxl->dev.parent;
	u32 i;

	cxl->groups = kvcalloc(cxl->group_count, sizeof(*cxl->groups), GFP_KERNEL);
	if (!cxl->groups)
		return -ENOMEM;

	for (i = 0; i < cxl->group_count; i++) {
		void __iomem *entry = cxl->regs + table + (u64)i * WEIR_GROUP_TABLE_STRIDE_BYTES;
		u64 base = readq(entry + WEIR_GROUP_BASE_BYTES_REG);
		u64 size_bytes = readq(entry + WEIR_GROUP_SIZE_BYTES_REG);
		u64 end;

		if (!size_bytes || check_add_overflow(base, size_bytes, &end)) {
			dev_err(parent, "group %u: base 0x%llx and size 0x%llx are no region\n",
				i, base, size_bytes);
			return -EINVAL;
		}
		cxl->groups[i].base = base;
		cxl->groups[i].size_bytes = size_bytes;
	}
	return 0;
}

/* Features that this driver does not know are ignored. */
static int weir_cxl_read_features(struct weir_cxl *cxl, u64 bar_bytes)
{
	u64 snapshot_bytes = (u64)cxl->group_count * WEIR_COUNTER_STRIDE_BYTES;
	u64 snapshot;

	cxl->features = readl(cxl->regs + WEIR_FEATURES_REG);
	if (!(cxl->features & WEIR_FEATURE_SNAPSHOT))
		return 0;
	snapshot = readq(cxl->regs + WEIR_SNAPSHOT_OFFSET_BYTES_REG);
	if (snapshot % sizeof(u64) || snapshot > bar_bytes ||
	    snapshot_bytes > bar_bytes - snapshot) {
		dev_err(cxl->dev.parent, "snapshot of 0x%llx bytes at 0x%llx, the BAR ends at 0x%llx\n",
			snapshot_bytes, snapshot, bar_bytes);
		return -EINVAL;
	}
	cxl->snapshot_offset = snapshot;
	return 0;
}

/* Checks what the device says of itself against the map and the BAR's length. */
static int weir_cxl_read_map(struct weir_cxl *cxl, u64 bar_bytes)
{
	struct device *parent = cxl->dev.parent;
	u32 version = readl(cxl->regs + WEIR_VERSION_REG);
	u32 group_count = readl(cxl->regs + WEIR_GROUP_COUNT_REG);
	u32 line_bytes = readl(cxl->regs + WEIR_LINE_BYTES_REG);
	u64 table = readq(cxl->regs + WEIR_GROUP_TABLE_OFFSET_BYTES_REG);
	u64 counters_end, table_bytes;
	int ret;

	if (version != WEIR_VERSION_VALUE) {
		dev_err(parent, "register map of version %u, this driver knows %u\n",
			version, WEIR_VERSION_VALUE);
		return -EINVAL;
	}
	if (!group_count || group_count > WEIR_GROUP_COUNT_MAX) {
		dev_err(parent, "%u groups announced, the map allows 1 to %u\n",
			group_count, WEIR_GROUP_COUNT_MAX);
		return -EINVAL;
	}
	if (line_bytes != WEIR_LINE_BYTES_VALUE) {
		dev_err(parent, "lines of %u bytes, the map says %u\n",
			line_bytes, WEIR_LINE_BYTES_VALUE);
		return -EINVAL;
	}
	counters_end = WEIR_COUNTERS_OFFSET_BYTES + (u64)group_count * WEIR_COUNTER_STRIDE_BYTES;
	if (counters_end > bar_bytes) {
		dev_err(parent, "counters of %u groups end at 0x%llx, the BAR at 0x%llx\n",
			group_count, counters_end, bar_bytes);
		return -EINVAL;
	}
	table_bytes = (u64)group_count * WEIR_GROUP_TABLE_STRIDE_BYTES;
	if (table % sizeof(u64) || table > bar_bytes || table_bytes > bar_bytes - table) {
		dev_err(parent, "group table of 0x%llx bytes at 0x%llx, the BAR ends at 0x%llx\n",
			table_bytes, table, bar_bytes);
		return -EINVAL;
	}
	if (table < counters_end && table + table_bytes > WEIR_HEADER_OFFSET_BYTES) {
		dev_err(parent, "group table at 0x%llx lies in header and counters (0x%x to 0x%llx)\n",
			table, WEIR_HEADER_OFFSET_BYTES, counters_end);
		return -EINVAL;
	}

	cxl->group_count = group_count;
	cxl->line_bytes = line_bytes;
	ret = weir_cxl_read_features(cxl, bar_bytes);
	ret = ret ?: weir_cxl_read_groups(cxl, table);
	return ret ?: weir_counts_begin(cxl);
}

static void weir_cxl_release(struct device *dev)
{
	struct weir_cxl *cxl = container_of(dev, struct weir_cxl, dev);

	weir_sysfs_free(cxl);
	kvfree(cxl->groups);
	kvfree(cxl->counts);
	if (cxl->id >= 0)
		ida_free(&weir_cxl_ida, cxl->id);
	kfree(cxl);
}

/* Lets debugfs and BPF see the device. */
static int weir_cxl_publish(struct weir_cxl *cxl)
{
	struct list_head *next;
	int ret;

	guard(mutex)(&weir_cxl_lock);
	list_for_each(next, &weir_cxl_devices)
		if (list_entry(next, struct weir_cxl, entry)->id > cxl->id)
			break;
	list_add_tail(&cxl->entry, next);
	ret = weir_bpf_update();
	if (ret)
		list_del(&cxl->entry);
	return ret;
}

/* When this returns, neither debugfs nor BPF reads the device or ever will. */
static void weir_cxl_unpublish(struct weir_cxl *cxl)
{
	guard(mutex)(&weir_cxl_lock);
	list_del(&cxl->entry);
	weir_bpf_update();
}

static int weir_cxl_register(struct weir_cxl *cxl)
{
	int ret;

	ret = dev_set_name(&cxl->dev, "weir_cxl%d", cxl->id);
	if (ret)
		return ret;
	ret = weir_sysfs_prepare(cxl);
	if (ret)
		return ret;
	ret = device_add(&cxl->dev);
	if (ret)
		return ret;
	ret = weir_cxl_publish(cxl);
	if (ret)
		device_del(&cxl->dev);
	return ret;
}

static int weir_cxl_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int bar = id->driver_data;
	u64 bar_bytes = pci_resource_len(pdev, bar);
	struct weir_cxl *cxl;
	void __iomem *regs;
	int ret;

	/* Other uses of ivshmem are none of our business: leave without a word. */
	if (!(pci_resource_flags(pdev, bar) & IORESOURCE_MEM) ||
	    bar_bytes < WEIR_COUNTERS_OFFSET_BYTES)
		return -ENODEV;
	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	regs = pcim_iomap_region(pdev, bar, KBUILD_MODNAME);
	if (IS_ERR(regs))
		return PTR_ERR(regs);
	if (readl(regs + WEIR_MAGIC_REG) != WEIR_MAGIC_VALUE)
		return -ENODEV;

	cxl = kzalloc(sizeof(*cxl), GFP_KERNEL);
	if (!cxl)
		return -ENOMEM;
	mutex_init(&cxl->snapshot_lock);
	device_initialize(&cxl->dev);
	cxl->dev.class = &weir_cxl_class;
	cxl->dev.parent = &pdev->dev;
	cxl->dev.release = weir_cxl_release;
	cxl->regs = regs;
	cxl->id = ida_alloc(&weir_cxl_ida, GFP_KERNEL);
	ret = cxl->id < 0 ? cxl->id : weir_cxl_read_map(cxl, bar_bytes);
	if (!ret)
		ret = weir_cxl_register(cxl);
	if (ret) {
		put_device(&cxl->dev);
		return ret;
	}
	/* The counters are worth having without perf. */
	ret = weir_pmu_register(cxl);
	if (ret)
		dev_warn(&cxl->dev, "no events for perf: error %d\n", ret);
	pci_set_drvdata(pdev, cxl);
	/* What an error's recovery restores. */
	pci_save_state(pdev);
	dev_info(&cxl->dev, "%u groups\n", cxl->group_count);
	return 0;
}

static void weir_cxl_remove(struct pci_dev *pdev)
{
	struct weir_cxl *cxl = pci_get_drvdata(pdev);

	weir_pmu_unregister(cxl);
	weir_cxl_unpublish(cxl);
	device_unregister(&cxl->dev);
}

/* driver_data is the BAR; a device named by driver_override comes with 0, the FPGA's. */
static_assert(WEIR_FPGA_BAR == 0);

static const struct pci_device_id weir_cxl_ids[] = {
	{ PCI_DEVICE(WEIR_EMULATED_PCI_VENDOR, WEIR_EMULATED_PCI_DEVICE),
	  .driver_data = WEIR_EMULATED_BAR },
	{ }
};
MODULE_DEVICE_TABLE(pci, weir_cxl_ids);

static struct pci_driver weir_cxl_driver = {
	.name = KBUILD_MODNAME,
	.id_table = weir_cxl_ids,
	.probe = weir_cxl_probe,
	.remove = weir_cxl_remove,
	.err_handler = &weir_error_handlers,
};

static int __init weir_cxl_init(void)
{
	int ret;

	ret = class_register(&weir_cxl_class);
	if (ret)
		return ret;
	/* The counters are worth having without BPF. */
	ret = weir_bpf_init();
	if (ret)
		pr_warn("no kfunc for BPF programs: error %d\n", ret);

	weir_cxl_debugfs = debugfs_create_dir("cxl-counter-driver", NULL);
	debugfs_create_file("counter-dump", 0400, weir_cxl_debugfs, NULL, &weir_cxl_dump_fops);

	ret = pci_register_driver(&weir_cxl_driver);
	if (ret) {
		debugfs_remove(weir_cxl_debugfs);
		class_unregister(&weir_cxl_class);
	}
	return ret;
}
module_init(weir_cxl_init);

static void __exit weir_cxl_exit(void)
{
	debugfs_remove(weir_cxl_debugfs);
	pci_unregister_driver(&weir_cxl_driver);
	class_unregister(&weir_cxl_class);
	ida_destroy(&weir_cxl_ida);
}
module_exit(weir_cxl_exit);

MODULE_DESCRIPTION("Access counters of CXL memory devices");
MODULE_AUTHOR("The weir authors");
MODULE_LICENSE("GPL");
