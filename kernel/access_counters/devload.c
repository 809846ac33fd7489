// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load of the device's queue (CXL 3.1, 3.3.4: DevLoad), in sysfs beside the counters
 *
 *   devload/load              decimal: 0 light, 1 optimal, 2 moderate, 3 severe overload
 *   devload/fill_256ths       decimal: mean fill of the queue, in 1/256 entries
 *   devload/{light,optimal,moderate,severe}_clocks
 *                             decimal: clocks at each load since reset
 *   devload/clock_khz         decimal: frequency of a clock; 0 if the device does not know it
 *
 * The directory exists if the device announces the feature. All of it is for
 * root, as the counters are.
 */

#include <linux/sysfs.h>

#include "weir_cxl.h"

WEIR_REGISTER(weir_load, load, WEIR_DEVLOAD_REG, false);
WEIR_REGISTER(weir_fill, fill_256ths, WEIR_DEVLOAD_FILL_REG, false);
WEIR_REGISTER(weir_light, light_clocks, WEIR_DEVLOAD_LIGHT_CLOCKS_REG, true);
WEIR_REGISTER(weir_optimal, optimal_clocks, WEIR_DEVLOAD_OPTIMAL_CLOCKS_REG, true);
WEIR_REGISTER(weir_moderate, moderate_clocks, WEIR_DEVLOAD_MODERATE_CLOCKS_REG, true);
WEIR_REGISTER(weir_severe, severe_clocks, WEIR_DEVLOAD_SEVERE_CLOCKS_REG, true);
WEIR_REGISTER(weir_clock, clock_khz, WEIR_CLOCK_KHZ_REG, false);

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
