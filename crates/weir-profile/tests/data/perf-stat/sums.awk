# SPDX-License-Identifier: Apache-2.0 OR MIT
# The sums of a file of `perf stat`, by place and event, as they follow from its lines alone. What weir's
# importer has to find out, the maker of the file knows and says here:
#   events  the names that were asked for, by blanks
#   place   how wide the column of the place is: 0, 1 (`CPU0`, `COMM-TID`), 2 (`S0,2`), or `cgroup`
#   json    1 with -j
#   commas  1 where the separator and the decimal sign are commas
#   run     which run of the file; each begins with `# started on`
BEGIN {
    OFS = "\t"
    for (n = split(events, names, " "); n > 0; n--) is_event[names[n]] = 1
}
/^# started on/ { runs++ }
/^#/ || /^[ \t]*$/ { next }
run && runs != run { next }
json && !/"event"/ { next }
{
    at = ""
    if (json) {
        if (match($0, /"interval" : [0-9.]+/)) at = substr($0, RSTART, RLENGTH)
        event = text("event"); count = text("counter-value"); unit = text("unit")
        of = text("cpu") text("socket") text("thread") text("cgroup")
        if (text("cpu") != "") of = "CPU" of
    } else {
        for (i = 3; i <= NF && !($i in is_event); i++);
        if (i > NF) next
        if ($1 ~ /^ *[0-9]+\.[0-9]+$/ && length($1) > 10 && i > 3) at = $1
        event = $i; unit = $(i - 1); count = $(i - 2)
        first = i - 2
        if (commas && unit == "msec" && count ~ /^[0-9]+$/) count = $(--first) "." count
        sub(/,/, ".", count)
        of = place == "cgroup" ? $(i + 1) : place > 0 ? $(first - place) : ""
    }
    if (at != "") is_timed = 1
    number++
    ats[number] = at; ofs[number] = of; evs[number] = event; counts[number] = count
}
function text(key) {
    if (!match($0, "\"" key "\" : \"[^\"]*\"")) return ""
    key = substr($0, RSTART, RLENGTH)
    sub(/^"[^"]*" : "/, "", key); sub(/"$/, "", key)
    return key
}
END {
    for (n = 1; n <= number; n++) {
        key = ofs[n] OFS evs[n]
        # An event that was asked for twice stands twice; its count is one.
        if ((ats[n], key) in seen) continue
        seen[ats[n], key] = 1
        is_summary = is_timed && ats[n] == ""
        if (!(key in order)) { order[key] = ++keys; all[keys] = key; sum[key] = "none" }
        if (counts[n] !~ /^[0-9.]+$/) { if (!is_summary) lost[key] = 1; continue }
        if (is_summary) { whole[key] = counts[n]; continue }
        sum[key] = (sum[key] == "none" ? 0 : sum[key]) + counts[n]
        rows[key]++
    }
    for (n = 1; n <= keys; n++) {
        key = all[n]
        all_of = sum[key] == "none" ? "none" : sprintf("%.6f", sum[key])
        print file, run ? run : "-", key, all_of
        # perf's own sum, where it prints one.
        if (!(key in whole) || (key in lost)) continue
        off = (whole[key] - sum[key]) ^ 2
        if (off > (0.01 * (rows[key] + 1)) ^ 2 + 1e-9) {
            print file ": " key ": perf's sum is " whole[key] ", of its lines " sum[key] > "/dev/stderr"
            exit 1
        }
    }
}
