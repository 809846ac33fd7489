// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measured figures of two machines, met within 3 %.

use super::{one, window};
use weir_server_model::{Machine, Server, ServerWindow, Workloads};

const CHASE: &str = "pattern = \"cycle\"\nchains = 1\ngap = 4";
const READ: &str = "pattern = \"stream\"\nper_line = 8\ngap = 10";

fn machine(name: &str) -> Machine {
    Machine::named(name).expect("built in")
}

fn within(value: f64, wanted: f64, what: &str) {
    let error = value / wanted - 1.0;
    assert!(
        error.abs() <= 0.03,
        "{what}: {value:.2}, {wanted} wanted ({:+.1} %)",
        100.0 * error
    );
}

/// Latency of a pointer chase in 64 MiB, nanoseconds.
fn chase_ns(machine: &Machine, area: &str) -> f64 {
    let workloads = one(machine, "[0]", &format!("kib = 65536\n{area}"), CHASE);
    let window = window(machine, &workloads, 5e3, 300e3);
    (window.truth.to_ns - window.truth.from_ns) / window.truth.cpus[0].accesses as f64
}

fn lines(window: &ServerWindow) -> u64 {
    let cpus = window.truth.cpus.iter();
    cpus.filter(|cpu| cpu.workload == "w")
        .map(|cpu| cpu.accesses)
        .sum()
}

fn read_gb_per_sec(machine: &Machine, threads: u32, area: &str, mix: &str, span_ns: f64) -> f64 {
    let cpus: Vec<u32> = (0..threads).collect();
    let workloads = one(
        machine,
        &format!("{cpus:?}"),
        &format!("kib = 131072\n{area}"),
        mix,
    );
    let window = window(machine, &workloads, 20e3, span_ns);
    lines(&window) as f64 * 64.0 / (window.truth.to_ns - window.truth.from_ns)
}

#[test]
fn the_papers_machine_has_its_latencies() {
    let machine = machine("spr-agilex");
    within(chase_ns(&machine, ""), 103.2, "local");
    within(chase_ns(&machine, "remote_part = 1.0"), 163.6, "remote");
    within(chase_ns(&machine, "cxl_part = 1.0"), 355.3, "CXL");
}

#[test]
fn the_papers_machine_has_its_bandwidths() {
    let machine = machine("spr-agilex");
    let read = |area| read_gb_per_sec(&machine, 32, area, READ, 60e3);
    within(read(""), 131.1, "local");
    within(read("remote_part = 1.0"), 94.4, "remote");
    within(read("cxl_part = 1.0"), 17.6, "CXL");
}

#[test]
fn the_public_emerald_rapids_has_its_latencies() {
    let machine = machine("emr-asic");
    within(chase_ns(&machine, ""), 84.6, "local");
    within(chase_ns(&machine, "cxl_part = 1.0"), 164.6, "CXL");
}

#[test]
fn the_public_emerald_rapids_has_its_bandwidths_by_threads() {
    let machine = machine("emr-asic");
    // The measuring program's own work, which bounds it where memory does not.
    let mix = "pattern = \"stream\"\nper_line = 8\ngap = 46";
    for (threads, cxl, local) in [
        (1, 8.9, 14.2),
        (2, 17.3, 28.7),
        (4, 24.1, 56.6),
        (8, 24.3, 107.4),
    ] {
        let read = |area| read_gb_per_sec(&machine, threads, area, mix, 60e3);
        within(
            read("cxl_part = 1.0"),
            cxl,
            &format!("CXL, {threads} threads"),
        );
        // One of eight threads gets 5 % less than one alone, and no public figure says why.
        let bound = if threads == 8 { 0.07 } else { 0.03 };
        let local_is = read("");
        assert!(
            (local_is / local - 1.0).abs() <= bound,
            "local, {threads}: {local_is}"
        );
    }
}

/// Time per access of a chase in 53 % of the last-level cache, beside eight streams of CXL memory.
fn displaced_ns(machine: &Machine, has_stream: bool, ways: &str) -> f64 {
    let llc_kib = f64::from(machine.cha.count * machine.cha.llc_kib);
    let text = format!(
        "[[workload]]\nname = \"w\"\ncpus = [0]\n{}\n[[workload.area]]\nname = \"a\"\nkib = {}\n\
         [[workload.phase]]\n[[workload.phase.mix]]\narea = \"a\"\n{CHASE}\n\
         [[workload]]\nname = \"stream\"\ncpus = [8, 9, 10, 11, 12, 13, 14, 15]\nstart_us = {}\n{ways}\n\
         [[workload.area]]\nname = \"a\"\nkib = 65536\ncxl_part = 1.0\n\
         [[workload.phase]]\n[[workload.phase.mix]]\narea = \"a\"\n{READ}\n",
        if ways.is_empty() {
            ""
        } else {
            "llc_ways = 0x1fff"
        },
        0.53 * llc_kib,
        if has_stream { 0.0 } else { 1e9 },
    );
    let workloads = Workloads::parse(&text, machine, "test").expect("workloads");
    let mut server = Server::new(machine, &workloads, 1).expect("a server");
    server.warm();
    // Twice the time in which the stream fills the cache, then two rounds of the chase.
    server.run(2.0 * llc_kib * 1024.0 / 24.0);
    let span_ns = 800e3;
    let window = server.window(span_ns);
    span_ns / lines(&window) as f64
}

#[test]
fn a_stream_displaces_a_working_set_unless_it_has_ways_of_its_own() {
    // A hundredth of the caches: the time of a round is in proportion, rates are not touched.
    let machine = machine("emr-asic").with_caches_divided_by(128);
    let quiet = displaced_ns(&machine, false, "");
    within(
        displaced_ns(&machine, true, "") / quiet,
        2.08,
        "with all ways",
    );
    within(
        displaced_ns(&machine, true, "llc_ways = 0xe000") / quiet,
        0.99,
        "with ways of its own",
    );
}
