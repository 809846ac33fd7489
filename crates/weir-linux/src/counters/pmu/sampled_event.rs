// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One event on one CPU that is sampled: a BPF program sees each sample, and nothing of it is written down.
//! What the ring buffer is there for is the kernel's word that it held samples back.

use super::set::refused;
use perf_event::events::Raw;
use perf_event::{Builder, ReadFormat, SampleFlag, SampleSkid, Sampler};
use std::io;
use std::os::fd::RawFd;
use weir_core::Missing;
use weir_events::Config;

/// The kernel's number for a record of throttling (`include/uapi/linux/perf_event.h`).
const PERF_RECORD_THROTTLE: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tapped {
    pub(crate) pmu: String,
    pub(crate) kind: u32,
    pub(crate) config: Config,
    pub(crate) period: u64,
    pub(crate) precise: u8,
    pub(crate) data_source: bool,
}

pub(crate) struct Tap(Sampler);

impl Tap {
    /// Opens it on a CPU, for all tasks that run there. It does not sample yet.
    pub(crate) fn open(what: &Tapped, cpu: u32, program: Option<RawFd>) -> Result<Tap, Missing> {
        let failed = |e: io::Error| refused(&what.pmu, cpu, &e);
        let mut counter = builder(what, cpu).build().map_err(failed)?;
        if let Some(program) = program {
            counter.set_bpf(program).map_err(failed)?;
        }
        Ok(Tap(counter.sampled(0).map_err(failed)?))
    }

    pub(crate) fn switch(&mut self, on: bool) -> io::Result<()> {
        if on {
            self.0.enable()
        } else {
            self.0.disable()
        }
    }

    /// How often the kernel held samples back since the last time, because there were too many.
    pub(crate) fn throttled(&mut self) -> u64 {
        let mut times = 0;
        while let Some(record) = self.0.next_record() {
            times += u64::from(record.ty() == PERF_RECORD_THROTTLE);
        }
        times
    }
}

fn builder(what: &Tapped, cpu: u32) -> Builder<'static> {
    let [config, config1, config2, config3] = what.config.0;
    let mut builder = Builder::new(Raw::new(config).config1(config1).config2(config2));
    builder.attrs_mut().type_ = what.kind;
    builder.attrs_mut().config3 = config3;
    builder.any_pid().one_cpu(cpu as usize);
    builder.include_kernel().include_hv();
    builder.read_format(ReadFormat::empty());
    builder.sample_period(what.period);
    builder.sample(SampleFlag::ADDR | SampleFlag::PHYS_ADDR);
    if what.data_source {
        builder.sample(SampleFlag::DATA_SRC);
    }
    builder.precise_ip(match what.precise {
        0 => SampleSkid::Arbitrary,
        1 => SampleSkid::Constant,
        2 => SampleSkid::RequestZero,
        _ => SampleSkid::RequireZero,
    });
    // Else Intel's driver gathers samples in a buffer, and of a bufferful shows the program the last alone.
    builder.wakeup_events(1);
    builder
}
