// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The eight cases of `scenarios/profile`: in each the truth is what the case is made for.

use std::path::Path as FilePath;
use weir_server_model::truth::PlaceTruth;
use weir_server_model::{Path, Scenario, ServerWindow, Stage, Target};

fn case(name: &str) -> Vec<ServerWindow> {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/profile");
    let path = folder.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let scenario = Scenario::parse(&text, name).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(scenario.name, name, "name and file");
    scenario.run(1).unwrap_or_else(|e| panic!("{e}"))
}

fn lines(windows: &[ServerWindow], workload: &str, is_it: impl Fn(Path, Target) -> bool) -> f64 {
    let rows = windows.iter().flat_map(|w| &w.truth.lines);
    let own = rows.filter(|row| row.workload == workload && is_it(row.path, row.target));
    own.map(|row| row.lines as f64).sum()
}

/// Stalled time of a workload in some windows, nanoseconds.
fn stalls(
    windows: &[ServerWindow],
    workload: &str,
    is_it: impl Fn(Stage, Path, Target) -> bool,
) -> f64 {
    let rows = windows.iter().flat_map(|w| &w.truth.stalls);
    let own = rows.filter(|row| row.workload == workload && is_it(row.stage, row.path, row.target));
    own.map(|row| row.ns).sum()
}

/// A time of a workload's requests at a stage, nanoseconds each.
fn each(
    windows: &[ServerWindow],
    workload: &str,
    stage: Stage,
    time: impl Fn(&PlaceTruth) -> f64,
) -> f64 {
    let rows = windows.iter().flat_map(|w| &w.truth.places);
    let own = rows.filter(|row| row.workload == workload && row.stage == stage);
    let (requests, ns) = own.fold((0, 0.0), |(n, ns), row| (n + row.requests, ns + time(row)));
    ns / (requests as f64).max(1.0)
}

fn accesses(windows: &[ServerWindow], workload: &str) -> f64 {
    let rows = windows.iter().flat_map(|w| &w.truth.cpus);
    rows.filter(|cpu| cpu.workload == workload)
        .map(|cpu| cpu.accesses as f64)
        .sum()
}

/// Waiting time of a workload at a stage behind another, nanoseconds.
fn behind(windows: &[ServerWindow], workload: &str, stage: Stage, other: &str) -> f64 {
    let rows = windows.iter().flat_map(|w| &w.truth.waits);
    let own = rows.filter(|row| row.workload == workload && row.stage == stage);
    own.filter(|row| row.behind.as_deref() == Some(other))
        .map(|row| row.ns)
        .sum()
}

#[test]
fn paths_and_phases() {
    let windows = case("1-paths");
    let (first, second) = (&windows[1..10], &windows[11..20]);
    let from_cxl = |windows, is_it: fn(Path) -> bool| {
        lines(windows, "gcc", |path, target| {
            target.is_cxl() && path.is_read() && is_it(path)
        })
    };
    let prefetched = from_cxl(first, Path::is_prefetch) / from_cxl(first, |_| true);
    assert!(prefetched > 0.85, "hot uncore path: {prefetched}");
    assert!(
        from_cxl(second, |_| true) < 0.5 * from_cxl(first, |_| true),
        "fewer lines from CXL"
    );
    let rfo = lines(second, "gcc", |path, target| {
        path == Path::Rfo && target.is_cxl()
    });
    let rfos = lines(second, "gcc", |path, target| {
        path == Path::Rfo && target != Target::Own
    });
    assert!(
        (0.55..0.85).contains(&(rfo / rfos)),
        "part of RFOs that CXL serves: {}",
        rfo / rfos
    );
    let stream = lines(&windows, "stream", |path, target| {
        path.is_prefetch() && target.is_cxl()
    });
    let all = lines(&windows, "stream", |path, target| {
        path.is_read() && target != Target::Own
    });
    assert!(stream > 0.95 * all, "{stream} of {all}");
}

#[test]
fn stalls_of_four_programs() {
    let windows = case("2-stalls");
    let part = |name: &str, is_it: &dyn Fn(Path) -> bool| {
        let own = stalls(&windows, name, |_, path, target| {
            is_it(path) && target.is_cxl()
        });
        own / stalls(&windows, name, |_, _, _| true)
    };
    assert!(part("chaser", &|path| path == Path::Drd) > 0.99);
    assert!(part("random", &|path| path == Path::Drd) > 0.99);
    assert!(part("streaming", &Path::is_prefetch) > 0.9);
    assert!(part("store-heavy", &|path| path == Path::Rfo) > 0.99);
}

#[test]
fn a_local_flow_beside_a_cxl_flow_on_one_core() {
    let windows = case("3-local-beside-cxl");
    let (first, last) = (&windows[0..4], &windows[16..20]);
    let wait = |windows, stage| each(windows, "local", stage, |row| row.wait_ns);
    let (before, after) = (
        wait(first, Stage::FillBuffer),
        wait(last, Stage::FillBuffer),
    );
    assert!(
        after > 3.0 * before,
        "wait for a fill buffer: {before} and {after} ns"
    );
    assert!(
        behind(last, "local", Stage::FillBuffer, "cxl")
            > behind(last, "local", Stage::FillBuffer, "local")
    );
    let there = |windows| {
        each(windows, "cxl", Stage::Port, |row| row.residence_ns)
            + each(windows, "cxl", Stage::Device, |row| row.residence_ns)
    };
    let (before, after): (f64, f64) = (there(first), there(last));
    assert!(
        (after / before - 1.0).abs() < 0.05,
        "port and device: {before} and {after} ns"
    );
}

#[test]
fn a_program_beside_others_on_one_device() {
    let windows = case("4-cxl-beside-cxl");
    let (first, last) = (&windows[0..4], &windows[20..24]);
    let wait = |windows| each(windows, "victim", Stage::Device, |row| row.wait_ns);
    let (before, after): (f64, f64) = (wait(first), wait(last));
    assert!(
        after > 2.0 * before,
        "wait in the device: {before} and {after} ns"
    );
    let by = |name| behind(last, "victim", Stage::Device, name);
    assert!(by("big") > by("small") && by("small") > 5.0 * by("victim"));
    assert!(accesses(last, "victim") < 0.95 * accesses(first, "victim"));
}

#[test]
fn shares_of_a_saturated_device() {
    let windows = case("5-partition");
    let streams = ["stream-500", "stream-700", "stream-1000", "stream-3700"];
    let bandwidths = |windows: &[ServerWindow]| {
        streams.map(|name| {
            lines(windows, name, |path, target| {
                path.is_read() && target.is_cxl()
            })
        })
    };
    let below = bandwidths(&windows[1..2]);
    let ratio = below[3] / below[0];
    assert!(
        (ratio / 7.4 - 1.0).abs() < 0.05,
        "below saturation each gets what it wants: {ratio}"
    );
    let above: f64 = bandwidths(&windows[4..7]).iter().sum();
    let bytes_per_sec = above * 64.0 / (3.0 * 75e-6);
    assert!(
        (bytes_per_sec / 4e9 - 1.0).abs() < 0.06,
        "saturated: {bytes_per_sec}"
    );
    let wait = |windows, name: &str| each(windows, name, Stage::Device, |row| row.wait_ns);
    assert!(wait(&windows[4..7], "stream-1000") > 3.0 * wait(&windows[0..2], "stream-1000"));
    let writes = lines(&windows[12..15], "updater-2800", |path, target| {
        path == Path::Wb && target.is_memory()
    });
    let reads = lines(&windows[12..15], "updater-2800", |path, target| {
        path.is_read() && target.is_cxl()
    });
    assert!(reads > writes, "{reads} read, {writes} written");
}

#[test]
fn a_working_set_beside_streams() {
    let hits = |windows: &[ServerWindow]| {
        let hits = lines(windows, "victim", |path, target| {
            path.is_read() && target == Target::Llc
        });
        hits / lines(windows, "victim", |path, _| path.is_read())
    };
    let windows = case("6-locality");
    assert!(hits(&windows[1..4]) > 0.98, "alone");
    for (name, from, to) in [("local", 6, 8), ("CXL", 10, 12), ("both", 14, 16)] {
        let is = hits(&windows[from..to]);
        assert!(is < 0.05, "beside {name}: {is}");
    }
    let windows = case("6-locality-ways");
    for from in [2, 6, 10, 14] {
        let is = hits(&windows[from..from + 2]);
        assert!(is > 0.98, "with ways of its own, from window {from}: {is}");
    }
}

#[test]
fn hot_pages_that_move() {
    let windows = case("7-tiering");
    let (before, after) = (&windows[1..7], &windows[18..24]);
    let cxl = |windows| {
        lines(windows, "gups", |path, target| {
            path.is_read() && target.is_cxl()
        })
    };
    assert!(
        cxl(after) < 0.25 * cxl(before),
        "lines from CXL: {} and {}",
        cxl(before),
        cxl(after)
    );
    assert!(accesses(after, "gups") > 1.5 * accesses(before, "gups"));
    assert!(accesses(after, "reader") > 1.2 * accesses(before, "reader"));
    let by = |windows| behind(windows, "reader", Stage::Device, "gups");
    let (less, more) = (by(after), by(before));
    assert!(
        less < 0.35 * more,
        "the culprit is gone: {more} and {less} ns"
    );
}

#[test]
fn a_disks_user_beside_non_temporal_stores() {
    let windows = case("8-reverse");
    let (before, after) = (&windows[2..7], &windows[9..16]);
    let wait = |windows, stage| each(windows, "disk-user", stage, |row| row.wait_ns);
    assert!(
        wait(before, Stage::Mesh) < 5.0,
        "alone: {}",
        wait(before, Stage::Mesh)
    );
    assert!(
        wait(after, Stage::Mesh) > 100.0,
        "beside: {}",
        wait(after, Stage::Mesh)
    );
    let by = |name| behind(after, "disk-user", Stage::Mesh, name);
    assert!(by("filler") > 10.0 * by("disk-user"));
    assert!(accesses(after, "disk-user") / 7.0 < 0.5 * accesses(before, "disk-user") / 5.0);
    let (less, more) = (wait(before, Stage::Dram), wait(after, Stage::Dram));
    assert!(more < less + 10.0, "not in DRAM: {less} and {more} ns");
}
