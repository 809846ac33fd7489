// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counters as events of perf
 *
 *     perf stat -e weir_cxl0/read,group=3/,weir_cxl0/write,group=3/ sleep 1
 *
 * One PMU a device, named like it. Its events count for the whole machine and
 * from when they are enabled, in bytes; there is nothing to sample and nothing to
 * filter by task, user or kernel: the device does not know which task accesses it. All
 * counters count at any time, so as many events as one likes run at once and none
 * is multiplexed. Wraps do no harm: a difference of two counts is right modulo
 * 2^64 (main.c).
 *
 * perf itself chooses the CPU that reads, and another when that goes offline
 * (PERF_PMU_SCOPE_SYS_WIDE). An event that is open keeps the module loaded, but
 * not the device bound: perf takes the events of a PMU away before its device is
 * removed. What a lost device had counted stays as it was; a reset of the function adds
 * nothing (reset.c).
 *
 * Permissions: counts reveal the activity of other users, so perf requires CAP_PERFMON or
 * perf_event_paranoid below 1, as for every event of a whole machine.
 *
 * Source: tools/perf/Documentation/perf-stat.txt, include/linux/perf_event.h.
 */

#include <linux/bitfield.h>
#include <linux/device.h>
#include <linux/module.h>
#include <linux/perf_event.h>

#include "weir_cxl.h"

/* The format of perf_event_attr.config, as sysfs shows it to perf. */
#define WEIR_PMU_EVENT	GENMASK_ULL(7, 0)
#define WEIR_PMU_GROUP	GENMASK_ULL(31, 8)
PMU_FORMAT_ATTR(event, "config:0-7");
PMU_FORMAT_ATTR(group, "config:8-31");

#define WEIR_PMU_READ	1
#define WEIR_PMU_WRITE	2
/* "?": perf list shows that a group is wanted, and perf stat does not go without. */
PMU_EVENT_ATTR_STRING(read, weir_event_read, "event=0x1,group=?");
PMU_EVENT_ATTR_STRING(read.unit, weir_event_read_unit, "Bytes");
PMU_EVENT_ATTR_STRING(write, weir_event_write, "event=0x2,group=?");
PMU_EVENT_ATTR_STRING(write.unit, weir_event_write_unit, "Bytes");

static struct attribute *weir_format_attrs[] = {
	&format_attr_event.attr,
	&format_attr_group.attr,
	NULL
};

static struct attribute *weir_event_attrs[] = {
	&weir_event_read.attr.attr,
	&weir_event_read_unit.attr.attr,
	&weir_event_write.attr.attr,
	&weir_event_write_unit.attr.attr,
	NULL
};

static const struct attribute_group weir_format_group = {
	.name = "format",
	.attrs = weir_format_attrs,
};

static const struct attribute_group weir_event_group = {
	.name = "events",
	.attrs = weir_event_attrs,
};

static const struct attribute_group *weir_pmu_groups[] = {
	&weir_format_group,
	&weir_event_group,
	NULL
};

static struct weir_cxl *cxl_of(struct perf_event *event)
{
	return container_of(event->pmu, struct weir_cxl, pmu);
}

static int weir_pmu_event_init(struct perf_event *event)
{
	u64 config = event->attr.config;
	u64 which = FIELD_GET(WEIR_PMU_EVENT, config);

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (is_sampling_event(event) || event->attach_state & PERF_ATTACH_TASK)
		return -EOPNOTSUPP;
	if (event->cpu < 0)
		return -EINVAL;
	if (config & ~(WEIR_PMU_EVENT | WEIR_PMU_GROUP) || event->attr.config1 ||
	    event->attr.config2)
		return -EINVAL;
	if (which != WEIR_PMU_READ && which != WEIR_PMU_WRITE)
		return -EINVAL;
	if (FIELD_GET(WEIR_PMU_GROUP, config) >= cxl_of(event)->group_count)
		return -EINVAL;
	return 0;
}

static u32 weir_pmu_group(struct perf_event *event)
{
	return FIELD_GET(WEIR_PMU_GROUP, event->attr.config);
}

static bool weir_pmu_is_write(struct perf_event *event)
{
	return FIELD_GET(WEIR_PMU_EVENT, event->attr.config) == WEIR_PMU_WRITE;
}

static int weir_pmu_count(struct perf_event *event, u64 *bytes)
{
	return weir_cxl_read(cxl_of(event), weir_pmu_group(event), weir_pmu_is_write(event), bytes);
}

static u64 weir_pmu_last(struct perf_event *event)
{
	return weir_cxl_last(cxl_of(event), weir_pmu_group(event), weir_pmu_is_write(event));
}

static void weir_pmu_read(struct perf_event *event)
{
	u64 before, now;

	if (event->hw.state & PERF_HES_STOPPED || weir_pmu_count(event, &now))
		return;
	before = local64_xchg(&event->hw.prev_count, now);
	local64_add(now - before, &event->count);
}

static void weir_pmu_start(struct perf_event *event, int flags)
{
	u64 now;
	int ret = weir_pmu_count(event, &now);

	/* During a reset: the count goes on from there. */
	if (ret == -EBUSY)
		now = weir_pmu_last(event);
	/* A lost device: the event stays stopped, at what it had. */
	else if (ret)
		return;
	local64_set(&event->hw.prev_count, now);
	event->hw.state = 0;
}

static void weir_pmu_stop(struct perf_event *event, int flags)
{
	weir_pmu_read(event);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int weir_pmu_add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		weir_pmu_start(event, flags);
	return 0;
}

static void weir_pmu_del(struct perf_event *event, int flags)
{
	weir_pmu_stop(event, PERF_EF_UPDATE);
}

/**
 * weir_pmu_register - offer a device's counters to perf
 * @cxl: the device, its map read and its name set
 *
 * Return: 0 or an error of perf_pmu_register().
 */
int weir_pmu_register(struct weir_cxl *cxl)
{
	int ret;

	cxl->pmu = (struct pmu) {
		.module = THIS_MODULE,
		.parent = cxl->dev.parent,
		.attr_groups = weir_pmu_groups,
		.capabilities = PERF_PMU_CAP_NO_INTERRUPT | PERF_PMU_CAP_NO_EXCLUDE,
		.scope = PERF_PMU_SCOPE_SYS_WIDE,
		.task_ctx_nr = perf_invalid_context,
		.event_init = weir_pmu_event_init,
		.add = weir_pmu_add,
		.del = weir_pmu_del,
		.start = weir_pmu_start,
		.stop = weir_pmu_stop,
		.read = weir_pmu_read,
	};
	ret = perf_pmu_register(&cxl->pmu, dev_name(&cxl->dev), -1);
	cxl->has_pmu = !ret;
	return ret;
}

/**
 * weir_pmu_unregister - take a device's counters away from perf
 * @cxl: the device
 *
 * When this returns, perf reads no register of it any more.
 */
void weir_pmu_unregister(struct weir_cxl *cxl)
{
	if (cxl->has_pmu)
		perf_pmu_unregister(&cxl->pmu);
	cxl->has_pmu = false;
}
