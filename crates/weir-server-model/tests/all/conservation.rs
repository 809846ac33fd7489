// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What goes in comes out, and sums are sums.

use super::{sum, window};
use proptest::prelude::*;
use weir_server_model::random::random_scenario;
use weir_server_model::{
    Machine, Path, Queue, Scenario, Server, ServerWindow, Stage, Target, Workloads,
};

fn random(seed: u64) -> (Scenario, ServerWindow) {
    let mut scenario = random_scenario(seed).expect("a scenario");
    scenario.run.window_us = 60.0;
    scenario.run.is_warm = false;
    let windows = scenario.run(seed).expect("windows");
    (scenario, windows.into_iter().next().expect("a window"))
}

/// Two programs and DMA, on memory of all kinds.
const MIXED: &str = r#"
[[workload]]
name = "reader"
cpus = [0, 1, 4]
[[workload.area]]
name = "all"
kib = 4096
cxl_part = 0.4
remote_part = 0.2
other_cluster_part = 0.2
[[workload.area]]
name = "far"
kib = 2048
cxl_part = 1.0
device = 1
[[workload.phase]]
[[workload.phase.mix]]
area = "all"
pattern = "random"
kind = "update"
chains = 2
dependence = 0.5
gap = 7
[[workload.phase.mix]]
area = "far"
pattern = "stream"
per_line = 8
[[workload]]
name = "writer"
cpus = [2, 3]
[[workload.area]]
name = "all"
kib = 4096
cxl_part = 0.5
[[workload.phase]]
[[workload.phase.mix]]
area = "all"
pattern = "stream"
kind = "nt-store"
per_line = 8
[[workload.phase.mix]]
area = "all"
pattern = "random"
kind = "store"
[[workload]]
name = "disk"
[[workload.area]]
name = "buffer"
kib = 256
cxl_part = 0.5
[workload.dma]
area = "buffer"
mb_per_sec = 2000.0
outstanding = 16
"#;

/// They on the small machine with two clusters and memory of all kinds.
fn mixed() -> (Machine, Workloads) {
    let mut machine = Machine::named("small").expect("built in");
    machine.cha.clusters = 2;
    machine.cha.tor_entries = 12;
    machine.cha.counts_ingress = true;
    machine.cores.threads_per_core = 2;
    machine.prefetch.llc_distance_lines = 30;
    let mut second = machine.device[0].clone();
    second.is_remote = true;
    machine.device.push(second);
    if let Some(remote) = &mut machine.remote {
        remote.cache_hit_part = 0.3;
    }
    let workloads = Workloads::parse(MIXED, &machine, "mixed").expect("workloads");
    (machine, workloads)
}

fn assert_near(a: f64, b: f64, part: f64, what: &str) {
    assert!(
        (a - b).abs() <= part * a.abs().max(b.abs()).max(1.0),
        "{what}: {a} and {b}"
    );
}

fn assert_stalls_sum_up(window: &ServerWindow) {
    for cpu in &window.truth.cpus {
        let rows = window.truth.stalls.iter().filter(|row| row.cpu == cpu.cpu);
        let whole: f64 = rows.map(|row| row.ns).sum();
        let what = format!("stalls of CPU {}", cpu.cpu);
        assert_near(whole, cpu.measured_stall_ns, 1e-9, &what);
        assert!(cpu.measured_stall_ns <= cpu.all_stall_ns + 1e-6);
    }
}

/// All waiting is charged to something, at every stage whose waits are charged.
fn assert_waits_are_charged(window: &ServerWindow) {
    for &stage in Stage::ALL {
        let places = window.truth.places.iter().filter(|row| row.stage == stage);
        let waited: f64 = places.map(|row| row.wait_ns).sum();
        let charged: f64 = window
            .truth
            .waits
            .iter()
            .filter(|row| row.stage == stage)
            .map(|row| row.ns)
            .sum();
        if stage == Stage::L2 {
            continue;
        }
        // Requests in flight at the edges of the window: at most some hundred of them for some microseconds.
        let edge_ns = 0.02 * charged + 2e6;
        assert!(
            (waited - charged).abs() <= edge_ns,
            "{}: {waited} and {charged}",
            stage.name()
        );
    }
}

/// No queue is ever fuller than it is large: occupancies are bounded by capacity × cycles, and what is nested
/// stays nested. A count that went below zero somewhere would show here.
fn assert_queues_are_bounded(machine: &Machine, window: &ServerWindow) {
    let ns = window.truth.to_ns - window.truth.from_ns;
    let bounded = |unit: &str, events: &[&str], each: u32, ghz: f64| {
        let counts = window.counts.counts.iter();
        let boxes: std::collections::BTreeSet<u32> = counts
            .filter(|c| c.unit.name() == unit)
            .map(|c| c.index)
            .collect();
        let occupancy: u64 = events.iter().map(|event| sum(window, unit, event)).sum();
        let most = f64::from(each) * boxes.len() as f64 * ns * ghz;
        assert!(
            occupancy as f64 <= most * 1.0001,
            "{unit} {events:?}: {occupancy} of {most}"
        );
    };
    let all_tor = ["ia", "wb", "clean", "io"].map(|path| format!("tor_occupancy.{path}.all"));
    let all_tor: Vec<&str> = all_tor.iter().map(String::as_str).collect();
    bounded("cha", &all_tor, machine.cha.tor_entries, machine.mesh.ghz);
    bounded(
        "imc",
        &["rpq_occupancy"],
        machine.dram.read_queue,
        machine.dram.clock_ghz,
    );
    bounded(
        "imc",
        &["wpq_occupancy"],
        machine.dram.write_queue,
        machine.dram.clock_ghz,
    );
    let ingress = machine.device[0].ingress_entries;
    bounded(
        "m2p",
        &["rxc_req_occupancy"],
        ingress,
        machine.device[0].clock_ghz,
    );
    bounded(
        "m2p",
        &["rxc_data_occupancy"],
        ingress,
        machine.device[0].clock_ghz,
    );
    let ghz = machine.cores.ghz;
    bounded(
        "cpu",
        &["l1d_pend_miss.pending"],
        machine.l1d.fill_buffers,
        ghz,
    );
    bounded(
        "cpu",
        &["offcore_outstanding.data_rd"],
        machine.l2.super_queue,
        ghz,
    );
    let nested = [
        "stalls.l3_miss",
        "stalls.l2_miss",
        "stalls.l1d_miss",
        "stalls.total",
        "cycles",
    ];
    for pair in nested.windows(2) {
        assert!(
            sum(window, "cpu", pair[0]) <= sum(window, "cpu", pair[1]),
            "{pair:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn stalls_sum_up_on_random_machines(seed in 0u64..1_000_000) {
        let (scenario, window) = random(seed);
        assert_queues_are_bounded(&scenario.machine, &window);
        assert_stalls_sum_up(&window);
        assert_waits_are_charged(&window);
        let ns = window.truth.to_ns - window.truth.from_ns;
        for row in &window.truth.places {
            prop_assert!(row.wait_ns >= 0.0 && row.wait_ns <= row.residence_ns * 1.0001 + 1.0, "{row:?}");
        }
        for cpu in &window.truth.cpus {
            prop_assert!(cpu.all_stall_ns <= ns + 1e-6, "{cpu:?}");
        }
    }
}

#[test]
fn everything_at_once_sums_up() {
    let (machine, workloads) = mixed();
    let window = window(&machine, &workloads, 10e3, 150e3);
    assert_queues_are_bounded(&machine, &window);
    assert_stalls_sum_up(&window);
    assert_waits_are_charged(&window);
    let has = |path: Path, target: Target| {
        let rows = window.truth.lines.iter();
        rows.filter(|row| row.path == path && row.target == target)
            .count()
            > 0
    };
    for (path, target) in [
        (Path::Drd, Target::Dram),
        (Path::Drd, Target::Cxl),
        (Path::Drd, Target::DramRemote),
        (Path::Drd, Target::RemoteCache),
        (Path::Drd, Target::Snc),
        (Path::PfL2, Target::CxlRemote),
        (Path::PfLlc, Target::CxlRemote),
        (Path::Rfo, Target::Cxl),
        (Path::Wb, Target::Cxl),
        (Path::Clean, Target::Llc),
        (Path::Nt, Target::Cxl),
        (Path::Io, Target::Llc),
    ] {
        assert!(has(path, target), "no {} of {}", path.name(), target.name());
    }
}

#[test]
fn lines_in_are_lines_out() {
    let (machine, workloads) = mixed();
    let mut server = Server::new(&machine, &workloads, 3).expect("a server");
    server
        .count(&weir_server_model::CountingPlan::everything(&machine))
        .expect("a plan");
    let window = server.window(200e3);
    let (begun, finished) = server.requests();
    assert!(begun > 10_000, "{begun}");
    // What is left is in flight, and queues are bounded.
    assert!(
        begun - finished < 2_000,
        "{begun} begun, {finished} finished"
    );
    let lines = |path: Path, is_in: fn(Target) -> bool| -> u64 {
        let rows = window.truth.lines.iter();
        rows.filter(|row| row.path == path && is_in(row.target))
            .map(|row| row.lines)
            .sum()
    };
    // Each line that leaves L2 came in before, and what came in and did not leave is there.
    let came: u64 = [Path::Drd, Path::Rfo, Path::PfL1, Path::PfL2]
        .iter()
        .map(|path| lines(*path, |target| target != Target::Own))
        .sum();
    let left = sum(&window, "cpu", "l2.out_clean") + sum(&window, "cpu", "l2.out_dirty");
    let there = server.cached_lines()[1] as u64;
    assert!(
        came >= left + there,
        "{came} came, {left} left, {there} are there"
    );
    // Non-temporal stores take lines out without counting them.
    let taken = lines(Path::Nt, |_| true) + lines(Path::Io, |_| true);
    assert!(
        came <= left + there + taken + 200,
        "{came} came, {left} left, {there} are there"
    );
    // The device's messages are the requests for its lines.
    let reads = sum(&window, "cxl_pmu", "m2s.req");
    let writes = sum(&window, "cxl_pmu", "m2s.rwd");
    let to_cxl = |path: Path| lines(path, Target::is_cxl);
    let all_reads = came_from_cxl(&window);
    assert_near(reads as f64, all_reads as f64, 0.02, "reads at the devices");
    assert_near(
        writes as f64,
        (to_cxl(Path::Wb) + to_cxl(Path::Nt)) as f64,
        0.02,
        "writes",
    );
}

fn came_from_cxl(window: &ServerWindow) -> u64 {
    let rows = window.truth.lines.iter();
    rows.filter(|row| row.path.is_read() && row.target.is_cxl())
        .map(|row| row.lines)
        .sum()
}

/// A window in which queues of all kinds are used.
struct Queues {
    machine: Machine,
    window: ServerWindow,
}

impl Queues {
    fn new() -> Self {
        let (machine, workloads) = mixed();
        let window = window(&machine, &workloads, 20e3, 300e3);
        Queues { machine, window }
    }

    /// Mean time that entries were held, by the truth, nanoseconds.
    fn held(&self, queue: Queue, is_it: impl Fn(Path, Target) -> bool) -> f64 {
        let rows = self.window.truth.held.iter();
        let rows = rows.filter(|row| row.queue == queue && is_it(row.path, row.target));
        let (entries, ns) = rows.fold((0, 0.0), |(n, ns), row| (n + row.entries, ns + row.held_ns));
        ns / entries as f64
    }

    /// The same by counters: occupancy by inserts, on a clock.
    fn counted(&self, unit: &str, occupancy: &str, inserts: &str, ghz: f64) -> f64 {
        let occupancy = sum(&self.window, unit, occupancy) as f64;
        occupancy / sum(&self.window, unit, inserts) as f64 / ghz
    }
}

#[test]
fn littles_law_holds_for_queues_of_cores_and_chas() {
    let queues = Queues::new();
    let ghz = queues.machine.cores.ghz;
    let requests = "offcore_requests.drd";
    let sq = queues.counted("cpu", "offcore_outstanding.drd", requests, ghz);
    let held = queues.held(Queue::SuperQueue, |path, _| path == Path::Drd);
    assert_near(sq, held, 0.02, "super queue");
    let ghz = queues.machine.mesh.ghz;
    for (event, path, class) in [
        ("drd.dram", Path::Drd, &[Target::Dram][..]),
        ("drd.cxl", Path::Drd, &[Target::Cxl]),
        ("drd.hit", Path::Drd, &[Target::Llc, Target::Snc]),
        ("nt.cxl", Path::Nt, &[Target::Cxl]),
    ] {
        let occupancy = format!("tor_occupancy.{event}");
        let tor = queues.counted("cha", &occupancy, &format!("tor_inserts.{event}"), ghz);
        let held = queues.held(Queue::Tor, |p, target| p == path && class.contains(&target));
        assert_near(tor, held, 0.02, event);
    }
    let ingress = queues.counted("cha", "rxc_occupancy.irq", "rxc_rejects.irq", ghz);
    assert_near(
        ingress,
        queues.held(Queue::Ingress, |_, _| true),
        0.02,
        "ingress",
    );
}

#[test]
fn littles_law_holds_for_queues_of_memory() {
    let queues = Queues::new();
    let ghz = queues.machine.dram.clock_ghz;
    for (name, queue) in [("rpq", Queue::Rpq), ("wpq", Queue::Wpq)] {
        let occupancy = format!("{name}_occupancy");
        let counted = queues.counted("imc", &occupancy, &format!("{name}_inserts"), ghz);
        assert_near(counted, queues.held(queue, |_, _| true), 0.02, name);
    }
    let ghz = queues.machine.device[0].clock_ghz;
    let device = queues.counted("cxl_pmu", "queue_occupancy", "queue_inserts", ghz);
    assert_near(
        device,
        queues.held(Queue::Device, |_, _| true),
        0.02,
        "device",
    );
    let reads = queues.counted("m2p", "rxc_req_occupancy", "rxc_req_inserts", ghz);
    let held = queues.held(Queue::PortIngress, |path, _| path.is_read());
    assert!((reads - held).abs() < 1.0, "port: {reads} and {held}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let (scenario, window) = random(seed);
        (scenario, serde_json::to_string(&window).expect("JSON"))
    };
    assert_eq!(run(7).1, run(7).1);
    assert_ne!(run(7).1, run(8).1);
    let (_, text) = run(7);
    let back: ServerWindow = serde_json::from_str(&text).expect("a window");
    // JSON's reader may be off by the last bit of a time.
    assert_eq!(back.truth.lines, random(7).1.truth.lines);
    assert_eq!(back.counts.counts.len(), random(7).1.counts.counts.len());
}

/// Two CPUs of the small machine that update lines of DRAM at random.
fn two_that_update(turnaround_ns: f64) -> ServerWindow {
    let mut machine = Machine::named("small").expect("built in");
    machine.dram.turnaround_ns = turnaround_ns;
    let mix = "pattern = \"random\"\nkind = \"update\"";
    let workloads = super::one(&machine, "[0, 1]", "kib = 16384", mix);
    window(&machine, &workloads, 10e3, 100e3)
}

#[test]
fn without_cxl_there_is_no_cxl_truth() {
    let window = two_that_update(10.0);
    assert!(window.truth.lines.iter().all(|row| !row.target.is_cxl()));
    assert!(window.truth.stalls.iter().all(|row| {
        !row.target.is_cxl() && row.stage != Stage::Port && row.stage != Stage::Device
    }));
    assert!(
        window
            .truth
            .waits
            .iter()
            .all(|row| row.stage != Stage::Device)
    );
    assert_eq!(
        sum(&window, "cxl_pmu", "m2s.req") + sum(&window, "cha", "tor_inserts.ia.cxl"),
        0
    );
    assert!(
        window
            .truth
            .lines
            .iter()
            .any(|row| row.target == Target::Dram)
    );
}

#[test]
fn while_a_bus_turns_around_requests_wait_and_none_has_it() {
    let waits_ns = |turnaround_ns| {
        let window = two_that_update(turnaround_ns);
        let rows = window.truth.waits.iter();
        let of_bus = rows.filter(|row| row.stage == Stage::Dram && row.behind.is_none());
        of_bus.map(|row| row.ns).sum::<f64>()
    };
    assert_eq!(waits_ns(0.0), 0.0);
    assert!(waits_ns(20.0) > 100.0, "{}", waits_ns(20.0));
}
