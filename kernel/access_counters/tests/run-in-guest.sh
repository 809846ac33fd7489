#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests the driver on a live kernel, as root, inside a virtual machine.
#
#   run-in-guest.sh weir_cxl.ko [kfunc.bpf.o]          (lib.sh, perf.sh and reset.sh beside it)
#
# Needs two ivshmem-plain devices (1af4:1110) of 1 MiB or more with a blank BAR; one that holds a
# register map already is only unbound. The script plays the device: it writes registers with
# busybox devmem, so boot with iomem=relaxed (else the kernel forbids that while the driver is
# bound). With memory on node 1 it is used for the groups, else that of node 0. Needs busybox; for
# events of perf weir-agent of the testbed, and the program perf; for the kfunc bpftool, kfunc.bpf.o
# (built by clang -O2 -g -target bpf) and sched_ext; for resets a second device behind a port of its
# own, and a third one of the same memory; for the way of the FPGA (BAR 0, bound by name) a
# standard VGA; its frame buffer then imitates the registers.
# The module must not be loaded, and is not afterwards.
#
# Prints one line "ok N - what", "not ok N - what" or "ok N - what # SKIP why" for each test, and
# ends with "N passed, N failed, N skipped". Exit status: 0 if none failed.

module=$1
program=$2
[ -f "$module" ] || { echo "usage: $0 weir_cxl.ko [kfunc.bpf.o]" >&2; exit 2; }

driver=/sys/bus/pci/drivers/weir_cxl
class=/sys/class/weir_cxl
dump=/sys/kernel/debug/cxl-counter-driver/counter-dump
scratch=$(mktemp -d) || exit 2
. "$(dirname "$0")/lib.sh"

# --- where we are -------------------------------------------------------------------------------

[ -d /sys/kernel/debug/tracing ] || mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null

blank=
for path in /sys/bus/pci/devices/*; do
	[ "$(cat "$path/vendor"):$(cat "$path/device")" = 0x1af4:0x1110 ] || continue
	address=${path##*/}
	echo 1 >"$path/enable"
	# Larger ones are not blank, even if they have a zero here: the testbed's has the guest's files.
	[ "$(stat -c %s "$path/resource2")" -eq 1048576 ] || continue
	[ "$(peek "$(bar_of "$address")" 0x18000 32)" = 0x00000000 ] && blank="$blank $address"
done
set -- $blank
if [ $# -lt 2 ]; then
	echo "$0: needs two blank ivshmem-plain devices of 1 MiB, found $#" >&2
	exit 2
fi
# The last one is behind a port of its own, so that it can be reset. Another may have its memory.
first= second=
for address; do second=$address; done
bar2=$(bar_of "$second")
mirror=
poke "$bar2" 0 32 90
for address; do
	[ "$address" = "$second" ] && continue
	if [ "$(peek "$(bar_of "$address")" 0 32)" = 0x0000005A ]; then
		mirror=$(bar_of "$address")
	else
		first=$address
	fi
done
bar=$(bar_of "$first")

# Memory of node 1, or of node 0: the address of one of its blocks, and the node.
node=1
[ -d /sys/devices/system/node/node1 ] || node=0
block=$(ls -d /sys/devices/system/node/node$node/memory* | head -n 1)
base=$((0x$(cat "$block/phys_index") * 0x$(cat /sys/devices/system/memory/block_size_bytes)))
base=$(printf '0x%x' $base)
nowhere=0xfffffffff0000000
relaxed=
grep -q iomem=relaxed /proc/cmdline && relaxed=yes
why_not_relaxed="registers cannot change while bound: boot with iomem=relaxed"

[ -d $driver ] && { echo "$0: rmmod weir_cxl first" >&2; exit 2; }

# --- binding ------------------------------------------------------------------------------------

dmesg -n 1
dmesg -c >/dev/null
check "the module loads beside blank devices" insmod "$module"
for path in $driver/0000:*; do
	[ -e "$path" ] && unbind "${path##*/}"
done
same "blank devices are not bound" "$(ls $class)" ""
check "and nothing is said of them" fails said "weir_cxl 0000"
same "the dump without devices is its first line" "$(cat $dump)" "read write"

# refused WHAT MESSAGE: after a good header was spoilt, binding fails and says why.
refused() {
	quiet
	check "$1 is refused" fails bind "$first"
	check "$1: the log says '$2'" said "$2"
}

good_header() { header "$bar" $magic 1 3 64 $table; }
good_groups() {
	group "$bar" 0 "$base" 0x1000000 1 2
	group "$bar" 1 $nowhere 0x1000 0x0400000000000001 0xffffffffffffffff
	group "$bar" 2 "$(printf '0x%x' $((base + 0x1000000)))" 0x1000 1000000007 0
}
good_groups
good_header; poke "$bar" 0x18004 32 2
refused "an unknown version" "register map of version 2, this driver knows 1"
good_header; poke "$bar" 0x18008 32 0
refused "no group" "0 groups announced, the map allows 1 to 16384"
poke "$bar" 0x18008 32 16385
refused "too many groups" "16385 groups announced"
poke "$bar" 0x18008 32 0xffffffff
refused "absurdly many groups" "4294967295 groups announced"
good_header; poke "$bar" 0x1800c 32 128
refused "another line size" "lines of 128 bytes, the map says 64"
good_header; poke "$bar" 0x18010 64 0xfffd8
refused "a table that ends outside the BAR" "table of 0x30 bytes at 0xfffd8, the BAR ends at 0x100000"
poke "$bar" 0x18010 64 0xfffffffffffffff8
refused "a table far outside the BAR" "table of 0x30 bytes at 0xfffffffffffffff8"
poke "$bar" 0x18010 64 0x60004
refused "a crooked table" "table of 0x30 bytes at 0x60004"
poke "$bar" 0x18010 64 0x18128
refused "a table in the counters" "lies in header and counters"
good_header; poke "$bar" $((table + 24)) 64 0
refused "a group without size" "group 1: base $nowhere and size 0x0"
poke "$bar" $((table + 24)) 64 0x10000001
refused "a group above the last address" "group 1: base $nowhere and size 0x10000001"
poke "$bar" $((table + 24)) 64 0x1000
table=0xfffd0
group "$bar" 0 0 0x1000 0 0
group "$bar" 1 0 0x1000 0 0
group "$bar" 2 0 0x1000 0 0
poke "$bar" 0x18010 64 $table
check "a table that ends with the BAR is not too far" bind "$first"
unbind "$first"
table=0x60000
good_groups
good_header
quiet
check "a good map is bound" bind "$first"
check "and the log says how many groups" said "3 groups"

# --- sysfs --------------------------------------------------------------------------------------

device=$class/weir_cxl0
value() { cat "$device/$1" 2>/dev/null; }
same "version" "$(value version)" 1
same "group_count" "$(value group_count)" 3
same "line_bytes" "$(value line_bytes)" 64
same "group directories" "$(cd $device && echo group[0-9]*)" "group0 group1 group2"
same "reads are bytes" "$(value group0/read_bytes)" 64
same "writes are bytes" "$(value group0/write_bytes)" 128
same "bytes wrap at 2^64" "$(value group1/read_bytes)" 64
same "all ones is a count while the device lives" "$(value group1/write_bytes)" 18446744073709551552
same "a large count" "$(value group2/read_bytes)" 64000000448
same "base" "$(value group0/base)" "$base"
same "size" "$(value group0/size_bytes)" 16777216
same "node of memory" "$(value group0/node)" $node
same "node of no memory" "$(value group1/node)" -1
same "the shape is for all users" "$(stat -c %a $device/group0/node)" 444
for name in counters group0/read_bytes group0/write_bytes group0/base; do
	same "$name is for root" "$(stat -c %a $device/$name)" 400
done
check "nothing can be written" fails sh -c "echo 0 >$device/group0/read_bytes"

# The six words as bytes, made without the driver.
le64() { printf '%016x' "$1" | sed 's/../&\n/g' | tac | tr -d '\n'; }
cat $device/counters >"$scratch/all"
wanted=$(for word in 64 128 64 -64 64000000448 0; do le64 $word; done)
same "counters holds all pairs" "$(xxd -p "$scratch/all" | tr -d '\n')" "$wanted"
same "the size of counters" "$(stat -c %s $device/counters)" 48
torn=0
for piece in 1:0:48 3:0:16 5:1:3 7:2:4 8:1:5 16:1:1 16:2:9 48:0:1 64:0:1 13:3:2; do
	bs=${piece%%:*} rest=${piece#*:}
	start=${rest%%:*} count=${rest#*:}
	for source in $device/counters "$scratch/all"; do
		dd if="$source" bs="$bs" skip="$start" count="$count" 2>/dev/null | xxd -p
	done >"$scratch/pieces"
	half=$(($(wc -l <"$scratch/pieces") / 2))
	[ "$(head -n $half "$scratch/pieces")" = "$(tail -n $half "$scratch/pieces")" ] || torn=$((torn + 1))
done
same "partial and unaligned reads of counters give the same bytes" $torn 0
same "reading behind the end gives nothing" \
	"$(dd if=$device/counters bs=48 skip=1 2>/dev/null | wc -c)" 0

# --- features of a device beside the counters ----------------------------------------------------

check "a device that announces no snapshots has none" [ ! -e $device/snapshot ]
check "and none that announces no load" [ ! -e $device/devload ]
unbind "$first"
poke "$bar" 0x18018 32 9
poke "$bar" 0x18040 64 0xfffd8
refused "a snapshot that ends outside the BAR" "snapshot of 0x30 bytes at 0xfffd8, the BAR ends at 0x100000"
snapshot=0x70000
poke "$bar" 0x18040 64 $snapshot
poke "$bar" 0x180b4 32 2
poke "$bar" 0x180b8 32 640
poke "$bar" 0x1801c 32 400000
poke "$bar" 0x180d0 64 12345678901
check "a device with snapshots and load is bound" bind "$first"
same "files of the snapshot" "$(cd $device/snapshot && echo *)" "count counters trigger"
same "the load" "$(value devload/load) $(value devload/fill_256ths)" "2 640"
same "clocks at a load" "$(value devload/moderate_clocks) $(value devload/severe_clocks)" "12345678901 0"
same "the clock" "$(value devload/clock_khz)" 400000
for name in snapshot/count snapshot/counters devload/load; do
	same "$name is for root" "$(stat -c %a $device/$name)" 400
done
same "before the first snapshot there is nothing in it" \
	"$(xxd -p $device/snapshot/counters | tr -d '\n0')" ""
check "nothing but 1 triggers a snapshot" fails sh -c "echo 2 >$device/snapshot/trigger"

# The device: keeps all words of the counters, and says so. One snapshot.
take_a_snapshot() {
	while [ "$(peek "$bar" 0x18038 32)" != 0x00000001 ]; do :; done
	for word in 0 8 16 24 32 40; do
		poke "$bar" $((snapshot + word)) 64 "$(peek "$bar" $((0x18100 + word)) 64)"
	done
	poke "$bar" 0x18038 32 0
	poke "$bar" 0x1803c 32 7
}
if [ $relaxed ]; then
	take_a_snapshot &
	check "a snapshot is taken" sh -c "echo 1 >$device/snapshot/trigger"
	wait
	same "and counted" "$(value snapshot/count)" 7
	poke "$bar" 0x18100 64 99
	same "the counters go on" "$(value group0/read_bytes)" $((99 * 64))
	same "and the snapshot does not" "$(xxd -p $device/snapshot/counters | tr -d '\n')" "$wanted"
	poke "$bar" 0x18038 32 0
	check "a device that takes none fails the writer" fails sh -c "echo 1 >$device/snapshot/trigger"
	check "and so does one that is busy for ever" fails sh -c "echo 1 >$device/snapshot/trigger"
	poke "$bar" 0x18000 32 0xffffffff
	poke "$bar" 0x180b4 32 0xffffffff
	check "and one that is lost" fails sh -c "echo 1 >$device/snapshot/trigger"
	check "which has no load either" fails cat $device/devload/load
	poke "$bar" 0x18000 32 $magic
	poke "$bar" 0x18100 64 1
else
	skip "snapshots" "$why_not_relaxed"
fi
unbind "$first"
poke "$bar" 0x18018 32 0
poke "$bar" 0x18038 32 0
bind "$first"

# --- several devices, debugfs, many groups --------------------------------------------------------

# 300 groups need more than a page of counters.
header "$bar2" $magic 1 300 64 $table
i=0
while [ $i -lt 300 ]; do
	poke "$bar2" $((table + i * 16 + 8)) 64 0x1000
	# 2 MiB lies in node 0 wherever Linux runs; 0 in none.
	[ $i -lt 20 ] && poke "$bar2" $((table + i * 16)) 64 $((0x200000 + i * 0x1000))
	i=$((i + 1))
done
poke "$bar2" $((table + 16 * 299)) 64 $nowhere
poke "$bar2" $((0x18100 + 16 * 255 + 8)) 64 255
poke "$bar2" $((0x18100 + 16 * 256)) 64 256
poke "$bar2" $((0x18100 + 16 * 299 + 8)) 64 299
check "a second device is bound" bind "$second"
same "both are there" "$(cd $class && echo *)" "weir_cxl0 weir_cxl1"
same "counters of 300 groups" "$(wc -c <$class/weir_cxl1/counters)" 4800
pair() { dd if=$class/weir_cxl1/counters bs=16 skip="$1" count=1 2>/dev/null | xxd -p; }
same "the last pair of the first page" "$(pair 255)" "$(le64 0)$(le64 $((255 * 64)))"
same "the first pair of the second page" "$(pair 256)" "$(le64 $((256 * 64)))$(le64 0)"
same "the last pair" "$(pair 299)" "$(le64 0)$(le64 $((299 * 64)))"
same "the dump has a line for each group" "$(wc -l <$dump)" 304
same "the dump begins with the first device" "$(head -n 4 $dump)" "read write
64 128
64 18446744073709551552
64000000448 0"
same "and ends with the last group of the second" "$(tail -n 1 $dump)" "0 $((299 * 64))"
unbind "$first"
same "a device that leaves keeps the other's name" "$(ls $class)" weir_cxl1
same "the dump goes on without it" "$(wc -l <$dump)" 301
bind "$first"
same "the free name is used again, in order" "$(sed -n 2p $dump)" "64 128"

. "$(dirname "$0")/perf.sh"
. "$(dirname "$0")/reset.sh"

# --- counts that change, a device that is lost ----------------------------------------------------

if [ $relaxed ]; then
	poke "$bar" 0x18100 64 5
	same "a count that rises is seen" "$(value group0/read_bytes)" 320
	poke "$bar" 0x18100 64 0xffffffffffffffff
	poke "$bar" 0x18000 32 0xffffffff
	check "a lost device fails the reader" fails cat $device/group0/read_bytes
	check "and the readers of counters" fails cat $device/counters
	check "and the dump" fails cat $dump
	same "a counter that is not all ones is still one" "$(value group0/write_bytes)" 128
	poke "$bar" 0x18000 32 $magic
	poke "$bar" 0x18100 64 1
	same "back again" "$(value group0/read_bytes)" 64
else
	skip "counts that change, a lost device" "$why_not_relaxed"
fi

# --- the kfunc ------------------------------------------------------------------------------------

slots=/sys/fs/bpf/weir_slots

# slot N: the value there, as hexadecimal digits in memory order.
slot() {
	bpftool map lookup pinned $slots key "$1" 0 0 0 |
		sed -n 's/.*"value": \(-\{0,1\}[0-9]*\).*/\1/p'
}

ask_about() { bpftool map update pinned $slots key 0 0 0 0 value "$1" 0 0 0 0 0 0 0; }

# answers PROGRAM SLOT RESULT READS WRITES
answers() {
	same "$1" "$(slot "$2") $(slot $(($2 + 1))) $(slot $(($2 + 2)))" "$3 $4 $5"
}

# Results are errno values of the kernel, as u64: -7 E2BIG, -19 ENODEV.
too_big=18446744073709551609
no_device=18446744073709551597

# 20 groups of the second device lie in node 0: more than the kfunc adds up. Without that device,
# the groups 0 and 2 of the first lie in one node: (1 + 1000000007) * 64 and (2 + 0) * 64 bytes.
kfunc() {
	ask_about 0
	usleep 1000
	answers "kfunc: too many groups in a node" 1 $too_big 0 0
	unbind "$second"
	ask_about $node
	usleep 1000
	answers "kfunc in a tracing program" 1 0 64000000512 128
	ask_about 77
	usleep 1000
	answers "kfunc: a node without counters" 1 $no_device 0 0
	ask_about $node
	check "rmmod is refused while a program holds the kfunc" fails rmmod weir_cxl
	bpftool struct_ops register "$program" >/dev/null 2>&1
	answers "kfunc in a sched_ext scheduler" 4 0 64000000512 128

	# Programs go on calling while devices come and go.
	: >"$scratch/calling"
	(while [ -e "$scratch/calling" ]; do usleep 500; done) &
	runs=$(slot 7)
	i=0
	while [ $i -lt 20 ]; do
		unbind "$first"
		usleep 1000
		[ $i = 0 ] && answers "kfunc: no device" 1 $no_device 0 0
		bind "$first"
		i=$((i + 1))
	done
	rm "$scratch/calling"
	wait
	check "the program ran while devices came and went" [ "$(slot 7)" -gt "$runs" ]
	usleep 1000
	answers "kfunc: the device is back" 1 0 64000000512 128
	bind "$second"
}

if ! command -v bpftool >/dev/null || [ ! -f "$program" ]; then
	skip "the kfunc" "needs bpftool and kfunc.bpf.o"
elif [ ! -d /sys/kernel/sched_ext ]; then
	skip "the kfunc" "this kernel has no sched_ext"
else
	[ -d /sys/fs/bpf ] && mount -t bpf bpf /sys/fs/bpf 2>/dev/null
	if bpftool prog loadall "$program" /sys/fs/bpf/weir_test autoattach 2>"$scratch/why"; then
		ok "tracing, system call and sched_ext programs may call the kfunc"
		kfunc
	else
		cat "$scratch/why"
		not_ok "tracing, system call and sched_ext programs may call the kfunc"
	fi
	bpftool struct_ops unregister name weir_scx >/dev/null 2>&1
	rm -rf /sys/fs/bpf/weir_test $slots
	# Programs are freed after a grace period.
	sleep 1
fi

# --- the FPGA's way: bound by name, registers in BAR 0 ----------------------------------------------

vga=
for path in /sys/bus/pci/devices/*; do
	[ "$(cat "$path/vendor"):$(cat "$path/device")" = 0x1234:0x1111 ] && [ ! -e "$path/driver" ] &&
		vga=${path##*/}
done
if [ "$vga" ]; then
	screen=$(sed -n 1p "/sys/bus/pci/devices/$vga/resource" | cut -d' ' -f1)
	header "$screen" $magic 1 1 64 $table
	group "$screen" 0 $nowhere 0x1000 11 12
	echo "$vga" >/sys/bus/pci/drivers_probe
	check "a device of another ID is not bound unasked" [ ! -e "/sys/bus/pci/devices/$vga/driver" ]
	echo weir_cxl >"/sys/bus/pci/devices/$vga/driver_override"
	echo "$vga" >/sys/bus/pci/drivers_probe
	same "but by name, with its registers in BAR 0" "$(tail -n 1 $dump)" "704 768"
	unbind "$vga"
	echo >"/sys/bus/pci/devices/$vga/driver_override"
else
	skip "a device bound by name, registers in BAR 0" "no unbound standard VGA"
fi

# --- removal under load ---------------------------------------------------------------------------

# reader NAME COMMAND: reads for as long as it may, and leaves a file when it has read something.
reader() {
	name=$1
	shift
	while [ -e "$scratch/reading" ]; do
		"$@" >/dev/null 2>&1 && : >"$scratch/$name.has-read"
	done
	: >"$scratch/$name.ended"
}

have() { # a file of each reader that ends in $1
	[ "$(find "$scratch" -name "*.$1" | wc -l)" = $readers ]
}

: >"$scratch/reading"
readers=4
if command -v weir-agent >/dev/null; then
	readers=5
	reader perf weir-agent count weir_cxl0 read group=0 true &
fi
reader counters cat $device/counters &
reader bytes cat $device/group0/read_bytes &
reader node cat $device/group2/node &
reader dump cat $dump &
quiet
# A reader that takes long, beside four that are quick on two CPUs, may find the device gone each
# time: it is away thirty times at least, then stays longer until all of them have read.
i=0
while [ $i -lt 30 ] || { [ $i -lt 230 ] && ! have has-read; }; do
	unbind "$first"
	bind "$first"
	[ $i -lt 30 ] || sleep 0.1
	i=$((i + 1))
done
echo 1 >/sys/bus/pci/devices/$first/remove
check "a removed PCI function has no device" [ ! -e $device ]
echo 1 >/sys/bus/pci/rescan
check "a rescan brings it back" [ -e $device ]
rm "$scratch/reading"
wait
check "all readers lived through it" have ended
check "and each read something" have has-read

exec 3<$device/counters 4<$device/group0/read_bytes
check "rmmod with sysfs files open" rmmod weir_cxl
same "an open binary file then has no device" "$(dd bs=16 count=1 <&3 2>/dev/null | wc -c)" 0
check "and so has an open text file" fails cat <&4
exec 3<&- 4<&-
check "the dump is gone" [ ! -e $dump ]
check "the class is gone" [ ! -e $class ]

insmod "$module"
exec 3<$dump
check "rmmod is refused while the dump is open" fails rmmod weir_cxl
exec 3<&-
check "and then goes" rmmod weir_cxl
quiet
check "the kernel has nothing to complain of" \
	fails grep 'BUG:\|WARNING:\|Oops\|Call Trace\|refcount_t\|sysfs: cannot' "$scratch/log"

# Leave the devices as they were found.
poke "$bar" 0x18000 32 0
poke "$bar2" 0x18000 32 0
finish
