// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is each byte that the device moved with the owner that moved it? A heavy user comes by ways that are seen
//! in different files, beside a light service with some MiB on the device. What weir gives each workload is
//! compared with the ground truth: a workload may have less than it moved, and the rest has no owner, but
//! none may have more, by 1 % of all bytes together.
//!
//! The ground truth knows the owner of a page, and not the task that accesses it. So each workload has pages
//! of its own. The kernel keeps nothing in the groups, as in memory that a CXL driver brings online. Pages
//! that the kernel migrates are read and written by no task of a workload: they have no owner.

use crate::common::{
    self, Bench, LINES, MODULE, Questions, SET_POINT, SLICE, aside, empty_cgroup, hurried,
    last_line_says, lines_more, load_weir, make_cgroup, mount_group, says, signal_weir, snapshots,
    start_in, until,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::live::guest::{clock_offsets, own_pages};
use weir_testbed::vm::image::firmware;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

/// Workloads: owner 1 and owner 2 of the ground truth.
const NAMES: [&str; 2] = ["light", "heavy"];
const LIGHT_OWNER: u8 = 1;
const HEAVY_OWNER: u8 = 2;
/// How long figures are compared.
const SPAN: Duration = Duration::from_secs(5);
/// The most that may be with a wrong owner.
const WRONG_MAX: f64 = 0.01;
/// A workload that moves this part of what it moved before is not held back.
const NOT_HELD_BACK: f64 = 0.9;
/// Less than this moved shows nothing.
const LEAST_BYTES: f64 = (8u32 << 20) as f64;
/// Pages that kswapd must demote while the model is on: twice [`LEAST_BYTES`].
const DEMOTED_PAGES_MIN: u64 = 4096;
const HEAVY_MIB: u64 = 32;
const LIGHT_MIB: u64 = 4;
const OBSERVES: &str = "";

fn limits() -> String {
    format!("--limit --backend cpu-max --set-point {SET_POINT}")
}

/// Memory of a CXL device as its driver brings it online, slower by its firmware's figures too: the kernel
/// demotes to such a node.
fn machine() -> TestbedMachine {
    TestbedMachine {
        dram_mib: 2048,
        groups_mib: vec![768],
        firmware_figures: true,
        movable: true,
        ..common::machine_with_a_device()
    }
}

/// What the device moved in a span, in bytes, and which part of it each workload has.
struct Ownership {
    all: f64,
    /// What each of [`NAMES`] moved, by the ground truth.
    moved: [f64; 2],
    /// What weir charges to each workload that it shows.
    said: BTreeMap<String, f64>,
    /// What weir gives to no workload.
    unattributed: f64,
    /// All bytes that weir saw, as a part of those that the ground truth has.
    seen_ratio: f64,
    /// Whether weir limits each of [`NAMES`] in one of its lines.
    is_limited: [bool; 2],
}

impl Ownership {
    fn said(&self, name: &str) -> f64 {
        let mine = |id: &str| id.ends_with(&format!("/{name}.service"));
        let found = self.said.iter().filter(|(id, _)| mine(id));
        found.map(|(_, bytes)| bytes).sum()
    }

    /// What owners were given that they did not move.
    fn wrong(&self) -> f64 {
        let known = NAMES.map(|name| self.said(name));
        let above = known.iter().zip(self.moved);
        let above: f64 = above.map(|(said, moved)| (said - moved).max(0.0)).sum();
        let others = self.said.values().sum::<f64>() - known.iter().sum::<f64>();
        above + others
    }

    fn print(&self, kind: &str) {
        let percent = |bytes: f64| 100.0 * bytes / self.all;
        let [light, heavy] = [0, 1].map(|i| (percent(self.said(NAMES[i])), percent(self.moved[i])));
        println!(
            "| {kind} | {:.1} MiB | {:.2} of {:.2} | {:.2} of {:.2} | {:.2} | {:.2} |",
            self.all / 1_048_576.0,
            light.0,
            light.1,
            heavy.0,
            heavy.1,
            percent(self.unattributed),
            percent(self.wrong()),
        );
        println!(
            "  {:.3} of the bytes seen; {:.0?}",
            self.seen_ratio, self.said
        );
    }

    fn check(&self) -> Result<()> {
        ensure!(self.all > LEAST_BYTES, "only {} bytes moved", self.all);
        ensure!(
            (0.9..1.1).contains(&self.seen_ratio),
            "weir saw {} of what the device moved",
            self.seen_ratio
        );
        let wrong = self.wrong() / self.all;
        ensure!(
            wrong <= WRONG_MAX,
            "{wrong} of the bytes are with an owner that did not move them: {:?}",
            self.said
        );
        Ok(())
    }
}

/// Bytes so far: of the device, and of each of [`NAMES`].
fn bytes_so_far(vm: &Vm) -> [f64; 3] {
    let truth = vm.ground_truth();
    let tallies = [
        truth.group(0),
        truth.owner(LIGHT_OWNER),
        truth.owner(HEAVY_OWNER),
    ];
    tallies.map(|tally| ((tally.read_lines + tally.write_lines) * 64) as f64)
}

/// Runs weir, and compares what it says over [`SPAN`] with the ground truth.
fn compare(vm: &Vm, arguments: &str) -> Result<Ownership> {
    compare_after(vm, arguments, || Ok(()))
}

/// The same from the time before something happens.
fn compare_after(
    vm: &Vm,
    arguments: &str,
    event: impl FnOnce() -> Result<()>,
) -> Result<Ownership> {
    let pid = load_weir(vm, arguments)?;
    let met = until(vm, last_line_says("/light.service")).and_then(|()| lines_more(vm, 40));
    let (begun, before) = (vm.now(), bytes_so_far(vm));
    let slept = met.and_then(|()| event()).and_then(|()| vm.sleep(SPAN));
    let (ended, after) = (vm.now(), bytes_so_far(vm));
    // The time that this takes matters to no figure.
    let (lines, offset_ms) = aside(vm, || {
        let lines = snapshots(vm);
        let status = signal_weir(vm, pid, "TERM")?;
        ensure!(status == 0, "weir ended with {status}");
        Ok((lines?, clock_offsets(vm)?.boot_ms))
    })?;
    slept?;
    let ms = |at: Duration| at.as_secs_f64() * 1e3 + offset_ms;
    let [all, light, heavy] = [0, 1, 2].map(|i| after[i] - before[i]);
    let mut found = Ownership {
        all,
        moved: [light, heavy],
        said: BTreeMap::new(),
        unattributed: 0.0,
        seen_ratio: 0.0,
        is_limited: [false; 2],
    };
    let mut seen = 0.0;
    for pair in lines.windows(2) {
        let at = |line: &Value| line["plan"]["at"].as_f64().context("plan.at");
        let (from, to) = (at(&pair[0])? / 1e6, at(&pair[1])? / 1e6);
        if from >= ms(begun) && to <= ms(ended) {
            seen += add(&mut found, &pair[1]["plan"], (to - from) / 1e3);
        }
    }
    found.seen_ratio = seen / all;
    // A tick at either end is in one of the two only.
    let scale = all / seen;
    found.said.values_mut().for_each(|bytes| *bytes *= scale);
    found.unattributed *= scale;
    Ok(found)
}

/// Adds what one line says of so many seconds; how many bytes the device moved in them.
fn add(found: &mut Ownership, plan: &Value, secs: f64) -> f64 {
    let device = &plan["devices"][0];
    let rate = |name: &str| device[name].as_f64().unwrap_or(0.0);
    found.unattributed += rate("unattributed_bytes_per_sec") * secs;
    for verdict in plan["workloads"].as_array().into_iter().flatten() {
        let id = verdict["id"].as_str().unwrap_or_default();
        // What is not known is said of no workload.
        let bytes = verdict["bandwidth"]["bytes_per_sec"]
            .as_f64()
            .unwrap_or(0.0)
            * secs;
        *found.said.entry(id.to_owned()).or_default() += bytes;
        let place = NAMES
            .iter()
            .position(|name| id.ends_with(&format!("/{name}.service")));
        if let Some(place) = place {
            found.is_limited[place] |= !verdict["limit_cpus"].is_null();
        }
    }
    (rate("read_bytes_per_sec") + rate("write_bytes_per_sec")) * secs
}

/// Starts `owner` in a cgroup of this name, and waits until its memory is there.
fn start(vm: &Vm, name: &str, words: &str) -> Result<u32> {
    let path = make_cgroup(vm, name)?;
    vm.run("rm -f /run/out.txt")?;
    let pid = start_in(vm, &path, &format!("/tests/owner {words}"))?;
    until(vm, says("/run/out.txt", "ready"))?;
    Ok(pid)
}

/// The heavy user reads a file in one of the ways of `owner`: weir must find it, and must not give its bytes
/// to the light service, whether it limits or not.
fn reads(vm: &Vm, kind: &str, way: &str, file: &str) -> Result<()> {
    let pid = hurried(vm, || {
        let pid = start(vm, NAMES[1], &format!("{way} {file} {HEAVY_MIB}"))?;
        own_pages(vm, file, HEAVY_OWNER)?;
        Ok(pid)
    })?;
    let answer = each_way_of_weir(vm, kind);
    hurried(vm, || {
        // `cgroup.kill` sends its signal to first threads, and one that has ended takes none.
        vm.run(&format!("kill -KILL {pid}"))?;
        empty_cgroup(vm, &format!("{SLICE}/{}.service", NAMES[1]))?;
        own_pages(vm, file, 0)?;
        vm.run(&format!("rm {file}")).map(drop)
    })?;
    answer
}

/// Ends the heavy user and what it has read.
fn end_heavy(vm: &Vm, file: &str) -> Result<()> {
    hurried(vm, || {
        empty_cgroup(vm, &format!("{SLICE}/{}.service", NAMES[1]))?;
        own_pages(vm, file, 0)?;
        vm.run(&format!("rm {file}")).map(drop)
    })
}

/// The heavy user has nothing on the device: by read(2) it reads what another cgroup has written, and that
/// one waits. No file of the kernel says so.
fn reads_of_another(vm: &Vm) -> Result<()> {
    let (kind, file) = ("tmpfs of another by read(2)", "/cxl0/heavy");
    hurried(vm, || {
        start(vm, "writer", &format!("written {file} {HEAVY_MIB}"))?;
        start(vm, NAMES[1], &format!("unmapped {file} {HEAVY_MIB}"))?;
        own_pages(vm, file, HEAVY_OWNER)
    })?;
    let observed = compare(vm, OBSERVES);
    let limited = compare(vm, &limits());
    end_heavy(vm, file)?;
    hurried(vm, || empty_cgroup(vm, &format!("{SLICE}/writer.service")))?;
    let (observed, limited) = (observed?, limited?);
    observed.print(&format!("{kind}, observed"));
    limited.print(&format!("{kind}, limited"));
    observed.check()?;
    limited.check()?;
    ensure!(!limited.is_limited[0], "the light one is limited");
    let [before, now] = [observed.moved[0], limited.moved[0]];
    ensure!(
        now >= NOT_HELD_BACK * before,
        "the light one moved {before} bytes, and {now} where weir limits"
    );
    Ok(())
}

/// A heavy user that comes while weir limits, and reads at once.
fn a_newcomer(vm: &Vm) -> Result<()> {
    let file = "/cxl0/heavy";
    let come = || {
        hurried(vm, || {
            start(vm, NAMES[1], &format!("mapped {file} {HEAVY_MIB}"))?;
            own_pages(vm, file, HEAVY_OWNER)
        })
    };
    let found = compare_after(vm, &limits(), come);
    end_heavy(vm, file)?;
    let found = found?;
    found.print("a newcomer, limited");
    let above = (found.said(NAMES[0]) - found.moved[0]) / found.all;
    ensure!(
        above <= WRONG_MAX,
        "{above} of the bytes are wrongly with the light one"
    );
    ensure!(
        found.is_limited == [false, true],
        "the light one, the heavy one limited: {:?}",
        found.is_limited
    );
    Ok(())
}

fn each_way_of_weir(vm: &Vm, kind: &str) -> Result<()> {
    let observed = compare(vm, OBSERVES)?;
    observed.print(&format!("{kind}, observed"));
    let limited = compare(vm, &limits())?;
    limited.print(&format!("{kind}, limited"));
    observed.check()?;
    limited.check()?;
    // Else this shows little.
    let found = observed.said(NAMES[1]) / observed.moved[1];
    ensure!(
        found > 0.9,
        "{found} of what the heavy one moved is with it"
    );
    ensure!(
        limited.is_limited == [false, true],
        "the light one, the heavy one limited: {:?}",
        limited.is_limited
    );
    Ok(())
}

/// Two schemes of DAMON move a process's pages to the device and back, all the time: the process itself only
/// waits.
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

fn start_damon(vm: &Vm, pid: u32) -> Result<()> {
    let any = u64::MAX;
    // Where its memory is.
    let said = vm.run("cat /run/out.txt")?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let [_, from, to] = words[..] else {
        anyhow::bail!("no addresses: {said}");
    };
    vm.run(&format!(
        "set -e; echo N > /sys/module/damon_stat/parameters/enabled
         cd {DAMON}; echo 1 > nr_kdamonds; echo 1 > 0/contexts/nr_contexts; cd 0/contexts/0
         echo fvaddr > operations
         echo 20000 > monitoring_attrs/intervals/sample_us
         echo 200000 > monitoring_attrs/intervals/aggr_us
         echo 1 > targets/nr_targets; echo {pid} > targets/0/pid_target
         echo 1 > targets/0/regions/nr_regions
         echo {from} > targets/0/regions/0/start; echo {to} > targets/0/regions/0/end
         echo 2 > schemes/nr_schemes
         for scheme in '0 migrate_cold 1' '1 migrate_hot 0'; do
             set -- $scheme; at=schemes/$1
             echo $2 > $at/action; echo $3 > $at/target_nid
             for what in sz nr_accesses age; do echo {any} > $at/access_pattern/$what/max; done
             echo 1048576 > $at/quotas/bytes; echo 200 > $at/quotas/reset_interval_ms
         done
         echo on > {DAMON}/0/state"
    ))
    .context("DAMON does not begin")
    .map(drop)
}

fn damon_moves_pages(vm: &Vm) -> Result<()> {
    const MOVED_MIB: u64 = 128;
    hurried(vm, || {
        let pid = start(vm, NAMES[1], &format!("still - {MOVED_MIB}"))?;
        start_damon(vm, pid)?;
        until(vm, says(&format!("/proc/{pid}/numa_maps"), " anon=* N1="))
    })?;
    let kind = ("pages moved by DAMON", "pgmigrate_success");
    let answer = the_kernel_moves(vm, kind, || Ok(()));
    hurried(vm, || {
        vm.run(&format!(
            "echo off > {DAMON}/0/state; echo 0 > {DAMON}/nr_kdamonds"
        ))?;
        empty_cgroup(vm, &format!("{SLICE}/{}.service", NAMES[1]))
    })?;
    answer
}

/// Huge pages that no process uses leave so little of node 0 that a process which grows makes kswapd demote.
/// The memory of weir and of the harness stays where it is: what they read of it has no owner in the ground
/// truth.
fn kswapd_demotes(vm: &Vm) -> Result<()> {
    const HUGE: &str = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
    hurried(vm, || {
        vm.run(&format!(
            "for other in testbed.slice weir.service; do
                 mkdir -p /sys/fs/cgroup/$other; echo max > /sys/fs/cgroup/$other/memory.min
             done
             echo 1 > /sys/kernel/mm/numa/demotion_enabled
             free=$(sed -n 's/.*MemFree: *\\([0-9]*\\) kB/\\1/p' /sys/devices/system/node/node0/meminfo)
             echo $((free / 2048 - 80)) > {HUGE}"
        ))
        .context("no memory pressure")
    })?;
    let counted_as = "pgdemote_kswapd";
    // weir comes first: under pressure its own memory would be on the device.
    let begin = || {
        hurried(vm, || {
            start(vm, NAMES[1], "grows - 1024")?;
            let some = format!("grep -q '{counted_as} [1-9]' /proc/vmstat");
            until(vm, some.as_str())
        })?;
        // kswapd works in bursts, and the model sees nothing of one that ended in a hurry: there must be
        // another.
        let enough = event_count(vm, counted_as)? + DEMOTED_PAGES_MIN;
        let more = format!("test $(sed -n 's/^{counted_as} //p' /proc/vmstat) -ge {enough}");
        until(vm, more.as_str())
    };
    let answer = the_kernel_moves(vm, ("demoted by kswapd", counted_as), begin);
    hurried(vm, || {
        empty_cgroup(vm, &format!("{SLICE}/{}.service", NAMES[1]))?;
        vm.run(&format!(
            "echo 0 > {HUGE}; echo 0 > /sys/kernel/mm/numa/demotion_enabled"
        ))
        .map(drop)
    })?;
    answer
}

/// How often the kernel did something since it began.
fn event_count(vm: &Vm, name: &str) -> Result<u64> {
    let text = vm.run(&format!("sed -n 's/^{name} //p' /proc/vmstat"))?;
    text.trim().parse().context(text)
}

/// No task of a workload moves these pages: what the heavy one has of its own is not in the ground truth, and
/// it may be given nothing.
fn the_kernel_moves(
    vm: &Vm,
    (kind, counted_as): (&str, &str),
    begin: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let before = event_count(vm, counted_as)?;
    let observed = compare_after(vm, OBSERVES, begin)?;
    println!(
        "{} pages: {counted_as}",
        event_count(vm, counted_as)? - before
    );
    observed.print(kind);
    observed.check()
}

fn prepare(vm: &Vm) -> Result<()> {
    firmware::clear(vm)?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(vm)?;
    vm.run(&format!(
        "echo {} > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages
         echo +hugetlb > /sys/fs/cgroup/cgroup.subtree_control
         mkdir -p {SLICE} /huge && echo +hugetlb > {SLICE}/cgroup.subtree_control
         mount -t hugetlbfs -o pagesize=2M huge /huge",
        HEAVY_MIB / 2
    ))
    .context("no huge pages")?;
    let file = "/cxl0/light";
    start(vm, NAMES[0], &format!("light {file} {LIGHT_MIB}"))?;
    own_pages(vm, file, LIGHT_OWNER)?;
    vm.switch_model_on()
}

#[test]
fn each_byte_is_with_the_workload_that_moved_it() -> Result<()> {
    let Some(bench) = Bench::ready("owners")? else {
        return Ok(());
    };
    let tables = tempfile::tempdir()?;
    let options: BootOptions = firmware::movable(&bench.env, &machine(), tables.path())?;
    let files = vec![GuestFile::new(bench.program("owner")?, "tests/owner")];
    let vm = &bench.boot(&machine(), files, &options)?;
    prepare(vm)?;
    println!("percent of the bytes, by weir and by the ground truth");
    println!("| kind | moved | light | heavy | of no workload | at a wrong owner |");
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn(&Vm) -> Result<()>| {
        let tidy = format!(
            "for of in heavy writer; do echo 1 > {SLICE}/$of.service/cgroup.kill; done; tail -n 1 {LINES}"
        );
        common::ask_about_scheduler(&mut q, vm, &tidy, name, question);
    };
    ask("tmpfs by read(2)", &|vm| {
        reads(vm, "tmpfs by read(2)", "unmapped", "/cxl0/heavy")
    });
    ask("huge pages", &|vm| {
        reads(vm, "huge pages, mapped", "mapped", "/huge/heavy")
    });
    ask("huge pages by read(2)", &|vm| {
        reads(vm, "huge pages by read(2)", "unmapped", "/huge/heavy")
    });
    ask("the first thread has ended", &|vm| {
        reads(vm, "the first thread has ended", "leader", "/cxl0/heavy")
    });
    ask("tmpfs that another has written", &reads_of_another);
    ask("a newcomer", &a_newcomer);
    ask("DAMON moves pages", &damon_moves_pages);
    ask("kswapd demotes", &kswapd_demotes);
    q.done()
}
