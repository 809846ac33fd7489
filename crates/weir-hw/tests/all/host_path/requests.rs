// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each op asks the path for.

use weir_hw::host_path::Keeping::{Held, Posted};
use weir_hw::host_path::{
    EventPlan, HostMachine, HostStream, Keeping, PathNetwork, PathOutcome, StorageMode, StreamOp,
    compile, simulate, solve,
};

const MMEM: usize = 0;
const CXL: usize = 1;
const PLAN: EventPlan = EventPlan {
    lines: 4000,
    seed: 1,
};

fn paper_b() -> HostMachine {
    HostMachine::named("paper-b").unwrap()
}

fn ssd(op: StreamOp, mode: StorageMode) -> HostStream {
    HostStream {
        storage: Some(mode),
        ..HostStream::new("ssd", op, 1)
    }
}

fn legs(network: &PathNetwork) -> Vec<(usize, Keeping)> {
    let legs = &network.flows[0].legs;
    legs.iter().map(|leg| (leg.memory, leg.keeping)).collect()
}

fn solved(machine: &HostMachine, stream: &HostStream) -> PathOutcome {
    solve(&compile(machine, std::slice::from_ref(stream)).unwrap())
}

fn lines_per_ns(machine: &HostMachine, stream: &HostStream) -> f64 {
    solved(machine, stream).flows[0].lines_per_ns
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!(
        (value / expected - 1.0).abs() < 1e-9,
        "{value} for {expected}"
    );
}

/// Loads and fetches are held, what writes is posted. Only movdir64b-from writes elsewhere.
#[test]
fn each_memory_op_has_its_requests() {
    let load = (CXL, Held);
    let write = (CXL, Posted);
    for (op, wanted, moved) in [
        (StreamOp::Ld, &[load][..], 1.0),
        (StreamOp::LdFlush, &[load], 1.0),
        (StreamOp::St, &[load, write], 2.0),
        (StreamOp::StClwb, &[load, write], 2.0),
        (StreamOp::Ntst, &[write], 1.0),
        (StreamOp::Movdir64b, &[write], 1.0),
        (StreamOp::Movdir64bFrom, &[load, (MMEM, Posted)], 1.0),
        (StreamOp::RepMovsb, &[load, write], 2.0),
        (StreamOp::Copy, &[load, load, write], 3.0),
    ] {
        let network = compile(&paper_b(), &[HostStream::new("cxl", op, 1)]).unwrap();
        assert_eq!(legs(&network), wanted, "{}", op.name());
        assert_eq!(op.lines_moved(), moved, "{}", op.name());
    }
}

/// A read of the SSD writes memory: posted, a part stays in the cache. Its write reads memory: held.
#[test]
fn dma_is_posted_where_it_writes_memory() {
    let mut machine = paper_b();
    machine.iio.cached_write_part = 0.2;
    for (op, keeping, credits, part) in [
        (StreamOp::RandRead, Posted, 92, 0.8),
        (StreamOp::Read, Posted, 92, 0.8),
        (StreamOp::RandWrite, Held, 164, 1.0),
        (StreamOp::Write, Held, 164, 1.0),
    ] {
        let network = compile(&machine, &[ssd(op, StorageMode::Direct)]).unwrap();
        assert_eq!(legs(&network), [(MMEM, keeping)], "{}", op.name());
        let leg = network.flows[0].legs[0];
        assert_eq!((leg.credits, leg.memory_part), (Some(credits), part));
        let network = compile(&machine, &[ssd(op, StorageMode::Buffered)]).unwrap();
        let copy = [(MMEM, Held), (MMEM, Held), (MMEM, Posted)];
        assert_eq!(legs(&network)[..3], copy, "{}", op.name());
        // Loads of the next lines begin before the stores of these are done.
        let buffers = network.flows[0].legs[..2].iter().map(|leg| leg.buffers);
        assert_eq!(buffers.collect::<Vec<_>>(), [8, 16], "copy_lines, twofold");
        assert_eq!(network.flows[0].legs[3].keeping, keeping);
    }
}

#[test]
fn an_ssd_is_as_fast_as_what_limits_it() {
    let mut machine = paper_b();
    let write = ssd(StreamOp::Write, StorageMode::Direct);
    let random = ssd(StreamOp::RandWrite, StorageMode::Direct);
    near(lines_per_ns(&machine, &random), 180e3 * 64.0 / 1e9);
    near(lines_per_ns(&machine, &write), 4.0 / 64.0);
    // A buffered random read waits for the device, a buffered sequential one does not.
    let read = ssd(StreamOp::Read, StorageMode::Buffered);
    let random = ssd(StreamOp::RandRead, StorageMode::Buffered);
    assert!(lines_per_ns(&machine, &random) < 64.0 / 81e3);
    assert!(lines_per_ns(&machine, &read) > 640.0 / 81e3);
    machine.iio.link_bytes_per_sec = 1e9;
    near(lines_per_ns(&machine, &write), 1.0 / 64.0);
    machine.iio.read_credits = 1;
    near(lines_per_ns(&machine, &write), 1.0 / machine.iio.idle_ns);
}

/// Occupancy ÷ inserts of one kind of line is its residence.
#[test]
fn the_mean_residence_of_equal_lines_is_theirs() {
    let chase = HostStream::new("cxl", StreamOp::LdChase, 1);
    let machine = paper_b();
    let mean_ns = solved(&machine, &chase).mean_residence_ns();
    near(mean_ns, 355.3 - machine.cores.path_ns);
}

/// What stays in the cache is no work of the memory.
#[test]
fn cached_writes_are_no_work_of_the_memory() {
    let work_of_a_line = |cached: f64| {
        let mut machine = paper_b();
        machine.iio.cached_write_part = cached;
        let outcome = solved(&machine, &ssd(StreamOp::Read, StorageMode::Direct));
        outcome.memories[MMEM].utilisation / outcome.flows[0].lines_per_ns
    };
    near(work_of_a_line(0.5), 0.5 * work_of_a_line(0.0));
    // A line of which nothing goes to memory has its tracker for a lookup.
    let mut machine = paper_b();
    machine.iio.cached_write_part = 1.0;
    let outcome = solved(&machine, &ssd(StreamOp::Read, StorageMode::Direct));
    near(outcome.flows[0].residence_ns, machine.trackers.lookup_ns);
}

/// Line by line too: what stays in the cache has its tracker for a lookup, and is no work of the memory.
#[test]
fn cached_writes_pass_by_the_memory_line_by_line() {
    let outcome = |cached: f64| {
        let mut machine = paper_b();
        machine.iio.cached_write_part = cached;
        let read = ssd(StreamOp::Read, StorageMode::Direct);
        let network = compile(&machine, &[read]).unwrap();
        (simulate(&network, PLAN), machine.trackers.lookup_ns)
    };
    let (all, lookup_ns) = outcome(1.0);
    assert!(
        (all.flows[0].residence_ns / lookup_ns - 1.0).abs() < 1e-3,
        "{all:?}"
    );
    assert_eq!(all.memories[MMEM].utilisation, 0.0);
    let work_of_a_line =
        |one: &PathOutcome| one.memories[MMEM].utilisation / one.flows[0].lines_per_ns;
    let half = work_of_a_line(&outcome(0.5).0) / work_of_a_line(&outcome(0.0).0);
    assert!((half - 0.5).abs() < 0.05, "{half}");
}

/// A limit makes up for a pause: one that is above a stream's mean rate takes nothing from it, though its
/// lines come together after each wait for the device.
#[test]
fn a_limit_above_the_mean_lets_what_comes_together_pass() {
    let mut read = ssd(StreamOp::RandRead, StorageMode::Buffered);
    let rate = |stream: &HostStream| {
        let network = compile(&paper_b(), std::slice::from_ref(stream)).unwrap();
        simulate(&network, PLAN).flows[0].lines_per_ns
    };
    let free = rate(&read);
    read.most_lines_per_sec = Some(1.2 * free * 1e9);
    let kept = rate(&read) / free;
    assert!((kept - 1.0).abs() < 0.03, "{kept}");
}

/// Direct I/O of a thread is no more than its own time for each I/O allows.
#[test]
fn a_threads_own_time_limits_direct_io() {
    let mut machine = paper_b();
    let write = ssd(StreamOp::Write, StorageMode::Direct);
    let by_device = lines_per_ns(&machine, &write);
    let figures = machine.ssd.as_mut().unwrap();
    let lines = figures.block_bytes as f64 / 64.0;
    figures.cpu_ns = 4.0 * lines / by_device;
    near(lines_per_ns(&machine, &write), by_device / 4.0);
}

/// A later request waits for a credit too, line by line.
#[test]
fn credits_of_a_copys_dma_hold_its_lines() {
    let mut machine = paper_b();
    machine.iio.read_credits = 1;
    let write = ssd(StreamOp::Write, StorageMode::Buffered);
    let network = compile(&machine, &[write]).unwrap();
    let (lines, solved) = (simulate(&network, PLAN), solve(&network));
    let apart = lines.flows[0].lines_per_ns / solved.flows[0].lines_per_ns;
    assert!((apart - 1.0).abs() < 0.05, "{apart}");
}

/// A flow through two pools: what the second makes it wait, the first has less to admit.
#[test]
fn the_waits_of_two_pools_fit_each_other() {
    let mut machine = paper_b();
    let streams = [
        HostStream::new("cxl", StreamOp::Movdir64bFrom, 16),
        HostStream::new("mmem", StreamOp::Ld, 16),
    ];
    for (count, slow) in [(40, 8), (120, 8), (120, 16), (200, 16), (240, 64)] {
        machine.trackers.count = count;
        machine.trackers.slow_count = Some(slow);
        let network = compile(&machine, &streams).unwrap();
        for (pool, got) in network.pools.iter().zip(&solve(&network).pools) {
            let full = got.occupancy / f64::from(pool.count);
            assert!(full <= 1.0 + 1e-6, "{count} {slow}: {got:?}");
            assert!(
                got.wait_ns == 0.0 || full >= 1.0 - 1e-4,
                "{count} {slow}: {got:?}"
            );
        }
    }
}
