// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RTL behind the server counts what is in the trace, and a register shows all that was there before
//! it was read. No virtual machine: accesses are put into the file, registers are read over vfio-user.

use crate::common::{BASE_BYTES, GROUP_BYTES, GROUPS, RINGS, Server, rtl, text};
use std::process::Command;
use vfio_user::Client;
use weir_core::random::SplitMix;
use weir_hw::access_counters::regmap;
use weir_ipc::access_trace::{AccessTrace, TraceRecord};

/// Pushes as the device model does; there is space, since each round is smaller than a ring.
fn push(trace: &AccessTrace, ring: usize, records: &[TraceRecord]) {
    for record in records {
        assert!(trace.push(ring, *record), "the ring is full");
    }
}

fn load(client: &mut Client, register: u64) -> u64 {
    let mut data = [0; 8];
    client
        .region_read(0, register, &mut data)
        .expect("a register");
    u64::from_le_bytes(data)
}

fn load32(client: &mut Client, register: u64) -> u32 {
    let mut data = [0; 4];
    client
        .region_read(0, register, &mut data)
        .expect("a register");
    u32::from_le_bytes(data)
}

fn store32(client: &mut Client, register: u64, value: u32) {
    let bytes = value.to_le_bytes();
    client
        .region_write(0, register, &bytes)
        .expect("a register");
}

fn counters(client: &mut Client, window: u64) -> Vec<u64> {
    let entries = (0..2 * GROUPS).map(|i| window + 8 * i);
    entries.map(|at| load(client, at)).collect()
}

/// Accesses within the groups and around them, and what counters must say of them: reads and writes of each
/// group, and outside.
fn accesses(random: &mut SplitMix, count: u64, queue_fill: u8) -> (Vec<TraceRecord>, [u64; 6]) {
    let mut counts = [0; 6];
    let mut records = Vec::new();
    for _ in 0..count {
        let address = BASE_BYTES - GROUP_BYTES / 8 + random.below(GROUP_BYTES * 9 / 4);
        let is_write = random.below(3) == 0;
        let group = match address.checked_sub(BASE_BYTES) {
            Some(offset) if offset < GROUPS * GROUP_BYTES => offset / GROUP_BYTES,
            _ => GROUPS,
        };
        counts[group as usize * 2 + usize::from(is_write)] += 1;
        records.push(TraceRecord {
            line: address / 64,
            is_write,
            queue_fill,
        });
    }
    (records, counts)
}

#[test]
fn registers_show_all_that_was_pushed_before() {
    let Some(library) = rtl() else { return };
    let server = Server::start(&library);
    let mut client = server.connect();
    let trace = &AccessTrace::open(server.trace_words()).expect("a trace");
    assert_eq!(
        load32(&mut client, regmap::VERSION_REG),
        regmap::VERSION_VALUE
    );
    assert_eq!(load(&mut client, regmap::HOST_BASE_BYTES_REG), BASE_BYTES);
    let seed = 20_261_121;
    println!("seed {seed}");
    let mut random = SplitMix::new(seed);
    let mut wanted = [0; 6];
    for round in 0..40 {
        let count = 1 + random.below(2000);
        let (records, counts) = accesses(&mut random, count, 0);
        push(trace, round % RINGS, &records);
        for (sum, count) in wanted.iter_mut().zip(counts) {
            *sum += count;
        }
        let is = counters(&mut client, regmap::COUNTERS_OFFSET_BYTES);
        assert_eq!(is, wanted[..4], "round {round}");
        let high = load32(&mut client, regmap::COUNTERS_OFFSET_BYTES + 4);
        assert_eq!(high, 0, "the upper half of a small number");
    }
    assert_eq!(load(&mut client, regmap::OUTSIDE_READS_REG), wanted[4]);
    assert_eq!(load(&mut client, regmap::OUTSIDE_WRITES_REG), wanted[5]);

    // A snapshot stays while the counters go on.
    let window = load(&mut client, regmap::SNAPSHOT_OFFSET_BYTES_REG);
    store32(&mut client, regmap::SNAPSHOT_CONTROL_REG, 1);
    assert_eq!(load32(&mut client, regmap::SNAPSHOT_COUNT_REG), 1);
    let (records, counts) = accesses(&mut random, 500, 0);
    push(trace, 0, &records);
    assert_eq!(counters(&mut client, window), wanted[..4], "the snapshot");
    let now: Vec<u64> = wanted.iter().zip(counts).map(|(a, b)| a + b).collect();
    let is = counters(&mut client, regmap::COUNTERS_OFFSET_BYTES);
    assert_eq!(is, now[..4], "the counters");

    drop(client);
    let out = server.end();
    let summary = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let all: u64 = now.iter().sum();
    assert!(
        summary.contains(&format!("\"accesses\":{all},")),
        "{summary}"
    );
    assert!(summary.contains("\"lost\":0"), "{summary}");
}

/// Thresholds are 2, 8 and 16 entries.
#[test]
fn load_is_that_of_the_queue_the_accesses_met() {
    let Some(library) = rtl() else { return };
    let server = Server::start(&library);
    let mut client = server.connect();
    let trace = &AccessTrace::open(server.trace_words()).expect("a trace");
    let mut random = SplitMix::new(1);
    for (entries, at_load) in [
        (5, regmap::DEVLOAD_OPTIMAL_CLOCKS_REG),
        (12, regmap::DEVLOAD_MODERATE_CLOCKS_REG),
        (40, regmap::DEVLOAD_SEVERE_CLOCKS_REG),
    ] {
        let before = load(&mut client, at_load);
        // Several windows of 256 clocks, of at most 4 accesses each.
        let (records, _) = accesses(&mut random, 16_000, entries);
        push(trace, 0, &records);
        let after = load(&mut client, at_load);
        assert!(
            after >= before + 256,
            "{entries} entries: {before} to {after} clocks"
        );
    }
    let light = load(&mut client, regmap::DEVLOAD_LIGHT_CLOCKS_REG);
    while load32(&mut client, regmap::DEVLOAD_REG) != 0 {
        std::thread::yield_now();
    }
    assert!(load(&mut client, regmap::DEVLOAD_LIGHT_CLOCKS_REG) > light);
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let Some(library) = rtl() else { return };
    let server = Server::start(&library);
    let pid = server.child.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(kill.expect("kill").success());
    let dir = server.dir.path().to_path_buf();
    let out = server.child.wait_with_output().expect("its output");
    assert!(out.status.success(), "{}", text(&out.stderr));
    for left in ["socket", "trace"] {
        assert!(!dir.join(left).exists(), "{left} is left");
    }
}
