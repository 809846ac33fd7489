# SPDX-License-Identifier: GPL-2.0-only
# A reset of the second device's function, by the bus. Sourced by run-in-guest.sh, with both devices
# bound. The emulated device keeps its registers over a reset; a real one begins at 0. So they are
# set to 0 during it, through a third device that has the same memory.

reset=/sys/bus/pci/devices/$second/reset
# counted5 COMMAND: what perf counts of group 5 while the command runs.
counted5() {
	weir-agent count weir_cxl1 read group=5 \
		": >$scratch/counts; while [ -e $scratch/counts ]; do usleep 1000; done" >"$scratch/count" 2>&1 &
	agent=$!
	until [ -e "$scratch/counts" ] || ! kill -0 $agent; do :; done
	"$1"
	rm -f "$scratch/counts"
	wait $agent
	cut -d' ' -f1 "$scratch/count"
}
lines5() { poke "$bar2" 0x18150 64 "$1"; }
value5() { cat $class/weir_cxl1/group5/read_bytes; }

# in_reset COMMAND: resets; the command is run once the driver says that it is so (EBUSY), and has to
# end before the reset does. The loop starts no process: a reset takes a tenth of a second.
in_reset() {
	rm -f "$scratch/was-away" "$scratch/watching"
	(
		tries=0
		: >"$scratch/watching"
		while read -r bytes <$class/weir_cxl1/group5/read_bytes; do
			tries=$((tries + 1))
			[ $tries -lt 100000 ] || exit
		done 2>/dev/null
		"$1"
		read -r bytes <$class/weir_cxl1/group5/read_bytes || : >"$scratch/was-away"
	) &
	until [ -e "$scratch/watching" ]; do :; done
	echo 1 >"$reset"
	wait $!
	[ -e "$scratch/was-away" ]
}

# in_reset_at LINES COMMAND: the same with a counter that a reader has seen, again where the reset was
# shorter than the command. No reader looks in between.
in_reset_at() {
	tries=0
	while [ $tries -lt 20 ]; do
		tries=$((tries + 1))
		lines5 "$1"
		value5 >/dev/null
		in_reset "$2" && return
	done
	return 1
}

begins_anew() { busybox devmem $((mirror + 0x18150)) 64 0; }
comes_back() { in_reset_at 1500 begins_anew && lines5 7; }
is_read() { cat $class/weir_cxl1/group5/read_bytes 2>"$scratch/why"; }
loses_its_map() { poke "$mirror" 0x18000 32 0; }

if ! [ "$mirror" ] || ! [ $relaxed ]; then
	skip "a reset of the function" "no third device with the memory of $second, or no iomem=relaxed"
elif [ ! -e "$reset" ]; then
	skip "a reset of the function" "$second cannot be reset"
else
	lines5 1000
	same "perf counts over a reset that sets counters to 0" "$(counted5 comes_back)" $((507 * 64))
	same "and the counters go on" "$(value5)" $((1507 * 64))
	check "a device that keeps its counters is read during a reset" in_reset_at 20 is_read
	check "which fails with its reason" grep -qi 'busy' "$scratch/why"
	same "and it counts nothing twice" "$(value5)" $((1520 * 64))
	quiet
	check "a device comes back without its map" in_reset_at 20 loses_its_map
	check "the log says so" said "another register map after a reset"
	check "and nothing is read of it" fails cat $class/weir_cxl1/group5/read_bytes
	poke "$bar2" 0x18000 32 $magic
	check "until it is bound anew" fails cat $class/weir_cxl1/counters
	unbind "$second"
	bind "$second"
	same "then its counts are what its registers hold" "$(value5)" $((20 * 64))
	lines5 0
fi
