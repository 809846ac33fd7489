// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resets of the PCI function, and errors of its link
 *
 * During a reset the BAR answers nothing, and after it the counters begin at 0. Readers
 * take differences: perf's events, the kfunc, weir. So
 *
 *  1. before a reset, registers are no longer read (-EBUSY), the last reader is waited for,
 *     and each counter is read once more if the device still answers;
 *  2. after it, the device must identify itself with the map that it was bound with, and
 *     each count goes on where it was (counts.h). A device that does not is lost: -ENODEV
 *     until it is bound anew.
 *
 * After an error of the link nothing can be read before the reset. What was counted since
 * the last read is then in no count.
 *
 * The caller holds the device's lock, so neither probe nor remove run meanwhile.
 *
 * Source: Documentation/PCI/pci-error-recovery.rst.
 */

#include <linux/pci.h>
#include <linux/rcupdate.h>

#include "weir_cxl.h"

static struct weir_count *weir_count_at(struct weir_cxl *cxl, u32 group, bool write)
{
	return &cxl->counts[2 * (u64)group + write];
}

static u64 weir_lines(struct weir_cxl *cxl, u32 group, bool write)
{
	return readq(cxl->regs + weir_counter_offset(WEIR_COUNTERS_OFFSET_BYTES, group, write));
}

/**
 * weir_counts_begin - note what the counters of a device hold when it is bound
 * @cxl: the device, its map read
 *
 * Return: 0 or -ENOMEM.
 */
int weir_counts_begin(struct weir_cxl *cxl)
{
	u32 i;

	cxl->counts = kvcalloc(cxl->group_count, 2 * sizeof(*cxl->counts), GFP_KERNEL);
	if (!cxl->counts)
		return -ENOMEM;
	for (i = 0; i < cxl->group_count; i++) {
		weir_count_begin(weir_count_at(cxl, i, false), weir_lines(cxl, i, false));
		weir_count_begin(weir_count_at(cxl, i, true), weir_lines(cxl, i, true));
		cond_resched();
	}
	return 0;
}

/**
 * weir_cxl_last - the last count of a group that a reader saw, in bytes
 * @cxl: the device
 * @group: below its group_count
 * @write: of writes, else of reads
 */
u64 weir_cxl_last(struct weir_cxl *cxl, u32 group, bool write)
{
	return READ_ONCE(weir_count_at(cxl, group, write)->last) * cxl->line_bytes;
}

/* When this returns, no register is read until weir_resume(). */
static void weir_pause(struct weir_cxl *cxl, bool answers)
{
	u32 i;

	/* A snapshot under way polls registers for longer than a read takes. */
	scoped_guard(mutex, &cxl->snapshot_lock) {
		if (cxl->unreadable)
			return;
		WRITE_ONCE(cxl->unreadable, -EBUSY);
	}
	synchronize_rcu();
	for (i = 0; answers && i < cxl->group_count; i++) {
		if (weir_cxl_lost(cxl))
			return;
		weir_count_of(weir_count_at(cxl, i, false), weir_lines(cxl, i, false));
		weir_count_of(weir_count_at(cxl, i, true), weir_lines(cxl, i, true));
		cond_resched();
	}
}

static bool weir_same_map(struct weir_cxl *cxl)
{
	return !weir_cxl_lost(cxl) &&
	       readl(cxl->regs + WEIR_VERSION_REG) == WEIR_VERSION_VALUE &&
	       readl(cxl->regs + WEIR_GROUP_COUNT_REG) == cxl->group_count &&
	       readl(cxl->regs + WEIR_LINE_BYTES_REG) == cxl->line_bytes;
}

static void weir_resume(struct weir_cxl *cxl)
{
	u32 i;

	if (cxl->unreadable != -EBUSY)
		return;
	if (!weir_same_map(cxl)) {
		dev_err(&cxl->dev, "another register map after a reset: unbind the device and bind it again\n");
		WRITE_ONCE(cxl->unreadable, -ENODEV);
		return;
	}
	for (i = 0; i < cxl->group_count; i++) {
		weir_count_resume(weir_count_at(cxl, i, false), weir_lines(cxl, i, false));
		weir_count_resume(weir_count_at(cxl, i, true), weir_lines(cxl, i, true));
		cond_resched();
	}
	/* Pairs with weir_cxl_load(): a reader that sees 0 sees the new offsets. */
	smp_store_release(&cxl->unreadable, 0);
}

static void weir_reset_prepare(struct pci_dev *pdev)
{
	struct weir_cxl *cxl = pci_get_drvdata(pdev);

	weir_pause(cxl, true);
}

static void weir_reset_done(struct pci_dev *pdev)
{
	struct weir_cxl *cxl = pci_get_drvdata(pdev);

	weir_resume(cxl);
}

static pci_ers_result_t weir_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct weir_cxl *cxl = pci_get_drvdata(pdev);

	weir_pause(cxl, state == pci_channel_io_normal);
	switch (state) {
	case pci_channel_io_normal:
		return PCI_ERS_RESULT_CAN_RECOVER;
	case pci_channel_io_frozen:
		return PCI_ERS_RESULT_NEED_RESET;
	default:
		WRITE_ONCE(cxl->unreadable, -ENODEV);
		return PCI_ERS_RESULT_DISCONNECT;
	}
}

/* Another function of the slot may still want a reset. */
static pci_ers_result_t weir_mmio_enabled(struct pci_dev *pdev)
{
	return PCI_ERS_RESULT_RECOVERED;
}

static pci_ers_result_t weir_slot_reset(struct pci_dev *pdev)
{
	struct weir_cxl *cxl = pci_get_drvdata(pdev);

	pci_restore_state(pdev);
	if (!weir_cxl_lost(cxl))
		return PCI_ERS_RESULT_RECOVERED;
	WRITE_ONCE(cxl->unreadable, -ENODEV);
	return PCI_ERS_RESULT_DISCONNECT;
}

static void weir_error_resume(struct pci_dev *pdev)
{
	struct weir_cxl *cxl = pci_get_drvdata(pdev);

	weir_resume(cxl);
}

const struct pci_error_handlers weir_error_handlers = {
	.error_detected = weir_error_detected,
	.mmio_enabled = weir_mmio_enabled,
	.slot_reset = weir_slot_reset,
	.resume = weir_error_resume,
	.reset_prepare = weir_reset_prepare,
	.reset_done = weir_reset_done,
};
