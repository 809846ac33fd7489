# SPDX-License-Identifier: GPL-2.0-only
# Functions of the tests of run-in-guest.sh: results, and the device with registers that we imitate.
# Sourced; needs $driver and $scratch.

passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); echo "ok $((passed + failed + skipped)) - $1"; }
not_ok() { failed=$((failed + 1)); echo "not ok $((passed + failed + skipped)) - $1"; }
skip() { skipped=$((skipped + 1)); echo "ok $((passed + failed + skipped)) - $1 # SKIP $2"; }

# check WHAT COMMAND...: passes if the command succeeds.
check() { checked=$1; shift; if "$@"; then ok "$checked"; else not_ok "$checked"; fi; }

# same WHAT FOUND WANTED
same() {
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1: found '$2', wanted '$3'"; fi
}

fails() { ! "$@" 2>/dev/null; }

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	rm -rf "$scratch"
	[ "$failed" = 0 ]
	exit
}

# --- the device, played by us -------------------------------------------------------------------

# bar_of ADDRESS: where its BAR 2 lies.
bar_of() { sed -n 3p "/sys/bus/pci/devices/$1/resource" | cut -d' ' -f1; }

# poke BAR OFFSET BITS VALUE, peek BAR OFFSET BITS
poke() { busybox devmem $(($1 + $2)) "$3" "$4"; }
peek() { busybox devmem $(($1 + $2)) "$3"; }

magic=0x52494557
table=0x60000

# header BAR MAGIC VERSION GROUPS LINE_BYTES TABLE
header() {
	poke "$1" 0x18000 32 "$2"
	poke "$1" 0x18004 32 "$3"
	poke "$1" 0x18008 32 "$4"
	poke "$1" 0x1800c 32 "$5"
	poke "$1" 0x18010 64 "$6"
}

# group BAR INDEX BASE SIZE READ_LINES WRITE_LINES
group() {
	poke "$1" $((table + $2 * 16)) 64 "$3"
	poke "$1" $((table + $2 * 16 + 8)) 64 "$4"
	poke "$1" $((0x18100 + $2 * 16)) 64 "$5"
	poke "$1" $((0x18108 + $2 * 16)) 64 "$6"
}

# Put the kernel's log aside, so that `said` reads what comes after.
quiet() { dmesg -c >>"$scratch/log"; }
said() { dmesg | grep -q "$1"; }
bind() { echo "$1" >$driver/bind; }
unbind() { echo "$1" >$driver/unbind; }
