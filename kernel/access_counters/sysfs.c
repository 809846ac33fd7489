// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files of /sys/class/weir_cxl/weir_cxlN
 *
 *   version, group_count, line_bytes   decimal
 *   counters                           group_count times {u64 read_bytes, u64 write_bytes},
 *                                      native byte order
 *   snapshot                           see snapshot.c
 *   devload                            see devload.c
 *   groupK/read_bytes, write_bytes     decimal
 *   groupK/node                        NUMA node of the group's memory, -1 if none
 *   groupK/base                        host-physical address, hexadecimal with 0x
 *   groupK/size_bytes                  decimal
 *
 * "counters" is for frequent readers: one system call instead of two files a
 * group. A read reads each register it covers once, in rising order, so its
 * figures are no older than the call. It is no snapshot: the device goes on
 * counting. Sysfs hands out at most a page at a time, 256 groups with pages of
 * 4 KiB: read on until the size is reached. Any offset and length are right;
 * begin at a multiple of 8, else a count is split and its halves are read
 * at different times.
 *
 * Permissions: counts reveal the activity of other users (as energy counters did:
 * CVE-2020-8694), and a physical address helps attacks on memory. Both are for root,
 * and weir runs as root; the shape of the device is readable by all users.
 *
 * The node is that of the address in the firmware's tables (SRAT, CEDT), so it
 * is the same before and after the memory goes online.
 */

#include <linux/numa.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "weir_cxl.h"

static ssize_t version_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	/* The only one that is bound. */
	return sysfs_emit(buf, "%u\n", WEIR_VERSION_VALUE);
}
static DEVICE_ATTR_RO(version);

static ssize_t group_count_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_weir_cxl(dev)->group_count);
}
static DEVICE_ATTR_RO(group_count);

static ssize_t line_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_weir_cxl(dev)->line_bytes);
}
static DEVICE_ATTR_RO(line_bytes);

/* One group's counters as user space sees them. */
struct weir_counters {
	u64 read_bytes;
	u64 write_bytes;
};

static size_t weir_counters_size(struct weir_cxl *cxl)
{
	return cxl->group_count * sizeof(struct weir_counters);
}

/**
 * weir_counters_read - copy counters as user space sees them
 * @cxl: the device, bound
 * @counters: where in the BAR they are
 * @buf: where to
 * @off: first byte wanted
 * @count: how many at most
 *
 * Return: bytes copied, 0 behind the end, or an error of weir_cxl_register_read().
 */
ssize_t weir_counters_read(struct weir_cxl *cxl, u64 counters, char *buf, loff_t off, size_t count)
{
	size_t size = weir_counters_size(cxl);
	size_t done, part, skip;
	u64 bytes;
	u32 index;
	int ret;

	if (off < 0 || off >= size)
		return 0;
	count = min(count, size - (size_t)off);

	for (done = 0; done < count; done += part) {
		index = (off + done) / sizeof(bytes);
		skip = (off + done) % sizeof(bytes);
		part = min(sizeof(bytes) - skip, count - done);
		ret = weir_cxl_read_at(cxl, counters, index / 2, index % 2, &bytes);
		if (ret)
			return ret;
		memcpy(buf + done, (char *)&bytes + skip, part);
	}
	return count;
}

static ssize_t counters_read(struct file *file, struct kobject *kobj,
			     const struct bin_attribute *attr, char *buf, loff_t off, size_t count)
{
	struct weir_cxl *cxl = to_weir_cxl(kobj_to_dev(kobj));

	return weir_counters_read(cxl, WEIR_COUNTERS_OFFSET_BYTES, buf, off, count);
}

static const BIN_ATTR_ADMIN_RO(counters, 0);

/**
 * weir_bin_size - size of a file with all counters
 * @kobj: the device's
 * @attr: the file
 * @n: its number
 */
size_t weir_bin_size(struct kobject *kobj, const struct bin_attribute *attr, int n)
{
	return weir_counters_size(to_weir_cxl(kobj_to_dev(kobj)));
}

static struct attribute *weir_device_attrs[] = {
	&dev_attr_version.attr,
	&dev_attr_group_count.attr,
	&dev_attr_line_bytes.attr,
	NULL
};

static const struct bin_attribute *const weir_device_bin_attrs[] = {
	&bin_attr_counters,
	NULL
};

static const struct attribute_group weir_device_group = {
	.attrs = weir_device_attrs,
	.bin_attrs = weir_device_bin_attrs,
	.bin_size = weir_bin_size,
};

/* A register shown as it is. */
ssize_t weir_register_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct weir_register *reg = container_of(attr, struct weir_register, attr);
	u64 value;
	int ret;

	ret = weir_cxl_register_read(to_weir_cxl(dev), reg->offset, reg->is_long, &value);
	return ret ?: sysfs_emit(buf, "%llu\n", value);
}

/* In a group's directory, var of a dev_ext_attribute is the group. */
static struct weir_group *to_weir_group(struct device_attribute *attr)
{
	return container_of(attr, struct dev_ext_attribute, attr)->var;
}

static ssize_t weir_show_counter(struct device *dev, struct device_attribute *attr, char *buf,
				 bool write)
{
	struct weir_cxl *cxl = to_weir_cxl(dev);
	u64 bytes;
	int ret;

	ret = weir_cxl_read(cxl, to_weir_group(attr) - cxl->groups, write, &bytes);
	return ret ?: sysfs_emit(buf, "%llu\n", bytes);
}

static ssize_t read_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return weir_show_counter(dev, attr, buf, false);
}

static ssize_t write_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return weir_show_counter(dev, attr, buf, true);
}

static ssize_t node_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", phys_to_target_node(to_weir_group(attr)->base));
}

static ssize_t base_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%llx\n", to_weir_group(attr)->base);
}

static ssize_t size_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", to_weir_group(attr)->size_bytes);
}

static const struct device_attribute weir_group_files[] = {
	__ATTR_RO_MODE(read_bytes, 0400),
	__ATTR_RO_MODE(write_bytes, 0400),
	__ATTR_RO_MODE(node, 0444),
	__ATTR_RO_MODE(base, 0400),
	__ATTR_RO_MODE(size_bytes, 0444),
};

#define WEIR_GROUP_FILES	ARRAY_SIZE(weir_group_files)

/**
 * struct weir_group_dir - the directory groupK
 * @name: its name
 * @group: what sysfs needs to know to make it
 * @files: the files in it
 * @attrs: pointers to them, NULL-terminated
 */
struct weir_group_dir {
	char name[sizeof("group4294967295")];
	struct attribute_group group;
	struct dev_ext_attribute files[WEIR_GROUP_FILES];
	struct attribute *attrs[WEIR_GROUP_FILES + 1];
};

static void weir_fill_dir(struct weir_group_dir *dir, u32 index, struct weir_group *group)
{
	size_t i;

	for (i = 0; i < WEIR_GROUP_FILES; i++) {
		dir->files[i].attr = weir_group_files[i];
		dir->files[i].var = group;
		sysfs_attr_init(&dir->files[i].attr.attr);
		dir->attrs[i] = &dir->files[i].attr.attr;
	}
	snprintf(dir->name, sizeof(dir->name), "group%u", index);
	dir->group.name = dir->name;
	dir->group.attrs = dir->attrs;
}

/**
 * weir_sysfs_prepare - describe the files of a device
 * @cxl: the device, its map read, not yet added
 *
 * The files then appear with the device, before user space hears of it. What is
 * allocated here is freed by weir_sysfs_free(), also after a failure.
 *
 * Return: 0 or -ENOMEM.
 */
int weir_sysfs_prepare(struct weir_cxl *cxl)
{
	const struct attribute_group **next;
	u32 i;

	cxl->dirs = kvcalloc(cxl->group_count, sizeof(*cxl->dirs), GFP_KERNEL);
	/* And the device's own files, two features, the NULL at the end. */
	cxl->attr_groups = kvcalloc(cxl->group_count + 4, sizeof(*cxl->attr_groups), GFP_KERNEL);
	if (!cxl->dirs || !cxl->attr_groups)
		return -ENOMEM;

	next = cxl->attr_groups;
	*next++ = &weir_device_group;
	if (cxl->features & WEIR_FEATURE_SNAPSHOT)
		*next++ = &weir_snapshot_group;
	if (cxl->features & WEIR_FEATURE_DEVLOAD)
		*next++ = &weir_devload_group;
	for (i = 0; i < cxl->group_count; i++) {
		weir_fill_dir(&cxl->dirs[i], i, &cxl->groups[i]);
		*next++ = &cxl->dirs[i].group;
	}
	cxl->dev.groups = cxl->attr_groups;
	return 0;
}

/**
 * weir_sysfs_free - free what describes the files of a device
 * @cxl: the device, no longer in sysfs
 */
void weir_sysfs_free(struct weir_cxl *cxl)
{
	kvfree(cxl->attr_groups);
	kvfree(cxl->dirs);
}
