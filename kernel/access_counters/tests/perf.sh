# SPDX-License-Identifier: GPL-2.0-only
# The events of perf, as the kernel offers them and as the program perf counts them. Sourced by
# run-in-guest.sh, with two devices bound; it imitates their registers.

# --- events --------------------------------------------------------------------------------------

pmu=/sys/bus/event_source/devices/weir_cxl0
same "perf has the format" "$(cat $pmu/format/event $pmu/format/group | tr '\n' ' ')" "config:0-7 config:8-31 "
same "and the events" "$(cat $pmu/events/read $pmu/events/write $pmu/events/read.unit | tr '\n' ' ')" \
	"event=0x1,group=? event=0x2,group=? Bytes "
same "one CPU counts for all" "$(cat $pmu/cpumask)" 0

# counted EVENT GROUP COMMAND: what perf counts of it while the command runs.
counted() { weir-agent count weir_cxl0 "$1" "group=$2" "$3" 2>&1 | cut -d' ' -f1; }
# set_lines GROUP OFFSET LINES: a command that changes a count.
set_lines() { echo "busybox devmem $((bar + 0x18100 + $1 * 16 + $2)) 64 $3"; }
if ! command -v weir-agent >/dev/null; then
	skip "perf counts" "no weir-agent"
elif [ $relaxed ]; then
	same "perf counts the bytes that were read of a group" \
		"$(counted read 2 "$(set_lines 2 0 1000001007)")" 64000
	same "and those written, over the end of the counter" "$(counted write 1 "$(set_lines 1 8 4)")" 320
	same "and nothing where nothing is" "$(counted write 0 true)" 0
	set -- $(weir-agent count weir_cxl0 read group=0 'sleep 1')
	same "an event runs all the time it is enabled" "$2" "$3"
	check "a group that the device does not have is refused" \
		fails weir-agent count weir_cxl0 read group=3 true
	check "so is a group of no device" fails weir-agent count weir_cxl0 read group=16777216 true
	check "and an event that there is none of" fails weir-agent count weir_cxl0 erased group=0 true
	gone=$(counted read 0 "$(set_lines 0 0 11); echo $first >$driver/unbind")
	check "the device may be unbound under an event" [ ! -e $pmu ]
	bind "$first"
	check "and comes back with its PMU" [ -e $pmu/format/group ]
	same "which counts again" "$(counted read 0 "$(set_lines 0 0 21)")" 640
	echo "# under the event the device was taken from: $gone"
	good_groups
else
	skip "perf counts" "$why_not_relaxed"
fi

# --- the program perf ----------------------------------------------------------------------------

# stat_of EVENTS COMMAND: count, unit, event and share of the time that it ran, of each event. With
# semicolons, because events have commas.
stat_of() { perf stat -x ';' $1 -a -- sh -c "$2" 2>&1 | cut -d ';' -f 1-3,5; }
two="weir_cxl0/read,group=2/ weir_cxl0/write,group=1/"
set_both="$(set_lines 2 0 1000001007); $(set_lines 1 8 4)"
wanted="64000;Bytes;weir_cxl0/read,group=2/;100.00
320;Bytes;weir_cxl0/write,group=1/;100.00"
if ! command -v perf >/dev/null; then
	skip "the program perf" "no perf"
elif [ $relaxed ]; then
	same "perf list has the events and shows that they need a group" \
		"$(perf list weir_cxl0 | awk '/weir/ { print $1 }' | tr '\n' ' ')" \
		"weir_cxl0/read,group=?/ weir_cxl0/write,group=?/ "
	same "perf stat counts several, in bytes, all the time" \
		"$(stat_of "-e ${two% *} -e ${two#* }" "$set_both")" "$wanted"
	good_groups
	same "and several as one" "$(stat_of "-e {${two% *},${two#* }}" "$set_both")" "$wanted"
	good_groups
	same "and a group of all devices" \
		"$(stat_of "-e weir_cxl/read,group=0/" "$(set_lines 0 0 1001)" | cut -d ';' -f 1,2 | tr '\n' ' ')" \
		"64000;Bytes 0;Bytes "
	check "perf stat without a group fails" fails perf stat -e weir_cxl0/read/ true
	perf stat -v -e weir_cxl0/read/ true >"$scratch/why" 2>&1
	check "and says so with -v" grep -q "Required parameter 'group' not specified" "$scratch/why"
	check "perf stat of a group that the device does not have fails" \
		fails perf stat -e weir_cxl0/read,group=3/ true
	check "and that of a process" fails perf stat -e weir_cxl0/read,group=0/ -p $$ true
	check "and perf record" fails perf record -o "$scratch/perf" -e weir_cxl0/read,group=0/ -a true
	gone=$(stat_of "-e weir_cxl0/read,group=0/" "$(set_lines 0 0 1001); echo $first >$driver/unbind")
	check "perf stat ends when the device is unbound under it" [ ! -e $pmu ]
	bind "$first"
	echo "# perf stat under which the device was taken: $gone"
	good_groups
else
	skip "the program perf" "$why_not_relaxed"
fi
