// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machines and mixes by seed.

use weir_core::random::SplitMix;
use weir_hw::host_path::{HostMachine, HostStream, StorageMode, StreamOp};

pub struct Dice(SplitMix);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(SplitMix::new(seed))
    }

    pub fn below(&mut self, count: u64) -> u64 {
        self.0.bits() % count
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// Between low and high, evenly on a logarithmic scale.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        let part = self.0.unit();
        low * (high / low).powf(part)
    }

    pub fn whole(&mut self, low: f64, high: f64) -> u32 {
        self.between(low, high).round() as u32
    }
}

/// A machine between half and twice the figures of paper-b.
pub fn machine(dice: &mut Dice) -> HostMachine {
    let mut machine = HostMachine::named("paper-b").unwrap();
    machine.cores.path_ns = dice.between(5.0, 20.0);
    for kind in [
        &mut machine.cores.load,
        &mut machine.cores.store,
        &mut machine.cores.nt,
        &mut machine.cores.movdir64b,
        &mut machine.cores.write_back,
    ] {
        kind.lines = dice.whole(8.0, 32.0);
        kind.own_ns *= dice.between(0.5, 2.0);
    }
    machine.cores.nt.is_fenced = dice.below(2) == 0;
    machine.cores.movdir64b.is_fenced = dice.below(2) == 0;
    machine.trackers.count = dice.whole(240.0, 960.0);
    if dice.below(4) == 0 {
        machine.trackers.slow_count = Some(dice.whole(32.0, 256.0));
    }
    let (mmem, cxl) = (&mut 0.0, &mut 0.0);
    (*mmem, *cxl) = (dice.between(0.5, 2.0), dice.between(0.5, 4.0));
    machine.memory[0].read_bytes_per_sec = Some(73.5e9 * *mmem);
    machine.memory[0].write_bytes_per_sec = Some(59e9 * *mmem);
    machine.memory[0].idle_ns = Some(dice.between(80.0, 150.0));
    machine.memory[1].read_bytes_per_sec = Some(17.6e9 * *cxl);
    machine.memory[1].write_bytes_per_sec = Some(13.2e9 * *cxl);
    machine.memory[1].idle_ns = Some(dice.between(200.0, 600.0));
    machine
}

const MEMORY_OPS: [StreamOp; 9] = [
    StreamOp::Ld,
    StreamOp::Ld,
    StreamOp::LdChase,
    StreamOp::St,
    StreamOp::Ntst,
    StreamOp::Movdir64b,
    StreamOp::Movdir64bFrom,
    StreamOp::Copy,
    StreamOp::RepMovsb,
];

/// Two to four streams that fit the machine.
pub fn streams(dice: &mut Dice) -> Vec<HostStream> {
    let count = 2 + dice.below(3);
    let mut streams: Vec<HostStream> = (0..count)
        .map(|_| {
            let target = dice.pick(&["mmem", "cxl"]);
            HostStream::new(target, dice.pick(&MEMORY_OPS), dice.whole(1.0, 8.0))
        })
        .collect();
    if dice.below(4) == 0 {
        let op = dice.pick(&[
            StreamOp::RandRead,
            StreamOp::RandWrite,
            StreamOp::Read,
            StreamOp::Write,
        ]);
        let mode = dice.pick(&[StorageMode::Direct, StorageMode::Buffered]);
        streams.push(HostStream {
            storage: Some(mode),
            ..HostStream::new("ssd", op, dice.whole(1.0, 4.0))
        });
    }
    streams
}

/// The streams in words, such as `mmem:ld:8+cxl:ntst:4`.
pub fn words(streams: &[HostStream]) -> String {
    let one = |s: &HostStream| format!("{}:{}:{}", s.target, s.op.name(), s.threads);
    let all: Vec<String> = streams.iter().map(one).collect();
    all.join("+")
}
