#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Makes the corpus anew: what perf prints with many combinations of its options, and corpus.tsv, in which the
# sums of each file stand as sums.awk works them out. As root, with perf, and with the locale de_DE.UTF-8 or
# what makes it (localedef). The machine needs no PMU: software events count, `cycles` is then one of those
# that are not supported. Files `made-*` are derived from the others by the renaming that stands here.
set -eu
cd "$(dirname "$0")"
rm -f ./*.txt
index=corpus.tsv
scratch=$(mktemp -d)
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
groups="weir-corpus-a weir-corpus-b"
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || :; done
    wait || :
    for group in $groups; do rmdir "$root/$group" 2>/dev/null || :; done
    rm -rf "$scratch"
}
trap finish EXIT
localedef -i de_DE -f UTF-8 "$scratch/de_DE.UTF-8"
export LC_ALL=C

events="task-clock page-faults cycles context-switches duration_time dummy LLC-load-misses"
loop='i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done; ls / >/dev/null'
short="$loop"
long="$loop; sleep 0.08; $loop; sleep 0.05"
printf '# %s. Columns: file, run, place, event, sum; or file, run, `refused`, what is said.\n' \
    "Made by make-corpus.sh with $(perf --version), kernel $(uname -r)" >"$index"

# What a command begins with, and what stands behind -e where it is not the events.
before=
asked=

# NAME COMMAND: the head of a file's rows.
head_of() { printf '#\t%s\t%s\n' "$1" "$2" >>"$index"; }
sums() { # NAME SEPARATOR AWK-ARGUMENTS...
    local name=$1 separator=$2
    shift 2
    awk -F "$separator" -v file="$name" -v events="$events" "$@" -f sums.awk "$name" >>"$index"
}
refused() { printf '%s\t%s\trefused\t%s\n' "$1" "$2" "$3" >>"$index"; } # NAME RUN MESSAGE

# NAME OPTIONS WORK: a run into a file.
count() {
    local name=$1 options=$2 work=$3
    head_of "$name" "${before:+$before }perf stat $options -e ${asked:-${events// /,}}"
    # The options are words.
    # shellcheck disable=SC2086
    $before perf stat -o "$name" $options -e "${asked:-${events// /,}}" -- sh -c "$work" >/dev/null 2>&1 || :
    touch "$name"
}
ok() { # NAME PLACE OPTIONS WORK [SEPARATOR [AWK-ARGUMENTS...]]
    local name=$1 place=$2 separator=${5-,}
    count "$name" "$3" "$4"
    local json=0
    case " $3" in *" -j"*) json=1 ;; esac
    sums "$name" "$separator" -v place="$place" -v json=$json "${@:6}"
}
no() { # NAME MESSAGE OPTIONS WORK
    count "$1" "$3" "$4"
    refused "$1" - "$2"
}

ok csv.txt 0 "-x," "$short"
ok semicolon.txt 0 "-x;" "$short" ';'
ok tab.txt 0 "-x \\t" "$short" '\t'
ok bar.txt 0 "-x|" "$short" '|'
ok json.txt 0 "-j" "$short"
ok interval.txt 0 "-x, -I 50" "$long"
ok interval-json.txt 0 "-j -I 50" "$long"
ok interval-count.txt 0 "-x, -I 40 --interval-count 2" "$long"
ok interval-delay.txt 0 "-x, -I 40 -D 30" "$long"
ok interval-clear.txt 0 "-x, -I 50 --interval-clear" "$long"
ok summary.txt 0 "-x, -I 50 --summary" "$long"
ok summary-alone.txt 0 "-x, --summary" "$short"
ok summary-unmarked.txt 0 "-x; -I 50 --summary --no-csv-summary" "$long" ';'
ok summary-json.txt 0 "-j -I 50 --summary" "$long"
ok all-cpus.txt 0 "-x, -a" "$short"
ok all-cpus-json.txt 0 "-j -a -I 50 --summary" "$long"
ok one-cpu.txt 0 "-x, -C 1" "$short"
ok by-cpu.txt 1 "-x, -A -a" "$short"
ok by-cpu-interval.txt 1 "-x, -A -a -I 50 --summary" "$long"
ok by-cpu-json.txt 1 "-j -A -a" "$short"
ok by-cpu-list.txt 1 "-x, -A -C 0,1" "$short"
ok by-socket.txt 2 "-x, --per-socket -a" "$short"
ok by-socket-interval.txt 2 "-x, --per-socket -a -I 50 --summary" "$long"
ok by-socket-json.txt 2 "-j --per-socket -a -I 50 --summary" "$long"
ok by-socket-bar.txt 2 "-x| --per-socket -a -I 50" "$long" '|'
ok repeat.txt 0 "-x, -r 3" "$short"
ok repeat-json.txt 0 "-j -r 3" "$short"
every=$events
asked=${every// /,}
events="$every L1-dcache-loads L1-dcache-load-misses LLC-loads L1-icache-loads L1-icache-load-misses \
    dTLB-loads dTLB-load-misses iTLB-loads iTLB-load-misses"
ok detailed.txt 0 "-x, -d -d" "$short"
asked=
events=$every
no big-num.txt "no line of" "-x, --big-num" "$short"
ok no-big-num.txt 0 "-x, --no-big-num" "$short"
ok no-merge.txt 0 "-x, -a --no-merge --no-scale" "$short"
no quiet.txt "no line of" "-x, --quiet" "$short"
no csv-and-json.txt "no JSON" "-x, -j" "$short"
no by-core.txt "counts by core are" "-x, --per-core -a" "$short"
no by-core-json.txt "counts by core are" "-j --per-core -a" "$short"
no by-die.txt "counts by die are" "-x; --per-die -a -I 50" "$short"
no by-node.txt "counts by node are" "-x, --per-node -a" "$short"
no by-node-json.txt "counts by node are" "-j --per-node -a -I 50" "$short"
no metric-only.txt "metrics" "-x, --metric-only -a" "$short"
no metric-only-interval.txt "metrics" "-x, --metric-only -a -I 50" "$short"
no metric-only-json.txt "metrics" "-j --metric-only -a" "$short"
no for-people.txt "table for people" "" "$short"
no for-people-interval.txt "table for people" "-I 50" "$long"

# Events and their names.
asked='{page-faults,context-switches},{dummy,minor-faults},task-clock'
events="$every minor-faults"
ok groups.txt 0 "-x, -I 50 --summary" "$long"
asked=page-faults,dummy,page-faults,task-clock,dummy
ok twice.txt 0 "-x, -I 50 --summary" "$long"
ok twice-json.txt 0 "-j" "$short"
ok twice-by-cpu.txt 1 "-x, -A -a" "$short"
asked=
events="page-faults page-faults:u page-faults:k task-clock:u cycles:u"
ok modes.txt 0 "-x, -I 100" "$long"
events="sched:sched_switch page-faults faults task-clock cpu-clock cs"
ok names.txt 0 "-x, -a" "$short"
events=$every
ok all-user.txt 0 "-x, --all-user" "$short"

# Threads and cgroups.
events="task-clock page-faults cycles context-switches"
for child in 1 2; do
    sh -c "while :; do $loop; sleep 0.03; done" >/dev/null &
    children+=($!)
done
two="${children[0]},${children[1]}"
ok process.txt 0 "-x, -p ${children[0]}" "sleep 0.1"
ok by-thread.txt 1 "-x, --per-thread -p $two" "sleep 0.1"
ok by-thread-interval.txt 1 "-x; --per-thread -p $two -I 50 --summary" "sleep 0.12" ';'
ok by-thread-json.txt 1 "-j --per-thread -p $two -I 50 --summary" "sleep 0.12"
place=0
for group in $groups; do
    mkdir -p "$root/$group"
    echo "${children[$place]}" >"$root/$group/cgroup.procs"
    place=1
done
both=${groups/ /,}
ok cgroups.txt cgroup "-x, -a --for-each-cgroup $both" "sleep 0.1"
ok cgroups-interval.txt cgroup "-x, -a --for-each-cgroup $both -I 50 --summary" "sleep 0.12"
ok cgroups-json.txt cgroup "-j -a --for-each-cgroup $both -I 50 --summary" "sleep 0.12"
(
    export LOCPATH=$scratch
    before="env LC_ALL=de_DE.UTF-8"
    ok cgroups-commas.txt cgroup "-x, -a --for-each-cgroup $both -I 100" "sleep 0.12" , -v commas=1
    ok cgroups-commas-repeat.txt cgroup "-x; -a --for-each-cgroup $both -r 2" "sleep 0.05" ';'
    ok by-thread-commas.txt 1 "-x, --per-thread -p $two" "sleep 0.1" , -v commas=1
)
ok cgroups-repeat.txt cgroup "-x, -a --for-each-cgroup $both -r 2" "sleep 0.05"
events=$every

# Several runs in one file, perf's own messages between the lines, and decimal commas.
appended() { # NAME OPTIONS
    count "$1" "$2" "$short"
    local head
    head=$(grep -c . "$index")
    count "$1" "$2 --append" "$short"
    sed -i "$((head + 1))d" "$index"
    refused "$1" - "a second run begins"
    local json=0
    case "$2" in *-j*) json=1 ;; esac
    sums "$1" , -v json=$json -v run=1
    sums "$1" , -v json=$json -v run=2
}
appended append.txt "-x,"
appended append-interval.txt "-x, -I 15 --summary"
appended append-json.txt "-j -I 15 --summary"
verbose() { # NAME OPTIONS AWK-ARGUMENTS...
    head_of "$1" "perf stat $2 -v -e ${events// /,} 2> FILE"
    # shellcheck disable=SC2086
    perf stat $2 -v -e "${events// /,}" -- sh -c "$short" >/dev/null 2>"$1"
    sums "$1" , "${@:3}"
}
verbose verbose.txt "-x,"
verbose verbose-json.txt "-j" -v json=1
export LOCPATH=$scratch
before="env LC_ALL=de_DE.UTF-8"
ok commas.txt 0 "-x," "$short" , -v commas=1
ok commas-interval.txt 0 "-x, -I 50 --summary" "$long" , -v commas=1
ok commas-by-cpu.txt 1 "-x, -A -a" "$short" , -v commas=1
ok commas-by-socket.txt 2 "-x, --per-socket -a" "$short" , -v commas=1
ok commas-repeat.txt 0 "-x, -r 3" "$short" , -v commas=1
ok commas-semicolon.txt 2 "-x; --per-socket -a -I 50 --summary" "$long" ';'
no commas-json.txt "LC_ALL=C" "-j" "$short"

# Files that this machine's perf does not print: NAME FROM SED, which is of the lines and of the sums.
made() {
    head_of "$1" "sed '$3' $2"
    sed "$3" "$2" >"$1"
    grep "^$2	" "$index" | sed "$3; s/^$2/$1/" >"$scratch/rows"
    cat "$scratch/rows" >>"$index"
}
cha=unc_cha_tor_inserts.ia_miss_drd_cxl_acc
made made-uncore.txt by-socket-interval.txt "s/page-faults/$cha/; s/context-switches/unc_cha_clockticks/"
made made-uncore-json.txt summary-json.txt "s/page-faults/$cha/; s/context-switches/unc_cha_clockticks/"
made made-boxes.txt twice.txt "s/page-faults/unc_cha_clockticks [uncore_cha_0]/; s/dummy/uncore_cha_11\/$cha\//"
made made-terms.txt interval.txt 's/page-faults/cpu\/event=0x3c,umask=0x0\//; s/dummy/r01c2/'
made made-scaled.txt summary.txt 's/,100\.00,/,37.50,/'
made made-comm.txt by-thread.txt 's/sh-/a b,c-/'
made made-path.txt cgroups.txt 's/weir-corpus-a/system.slice\/a,b.service/'
head_of made-metric-only.txt "its head as the manual of perf has it"
printf ' time,insn per cycle,branch-misses of all branches,\n     1.000137841,0.87,1.24,\n' >made-metric-only.txt
refused made-metric-only.txt - metrics
