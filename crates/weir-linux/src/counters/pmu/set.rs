// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events that count together: one group of perf on one PMU and one CPU. The kernel counts all of them or
//! none, and says for how long they were enabled and for how long they ran.

use super::pmus::Pmu;
use perf_event::events::Raw;
use perf_event::{Builder, Counter, ReadFormat};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use weir_core::Missing;
use weir_events::Config;

/// What the kernel has counted so far. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Counts of the events, in their order.
    pub counts: Vec<u64>,
    /// How long they were to count.
    pub enabled_ns: u64,
    /// How long they ran: less, when sets were multiplexed.
    pub running_ns: u64,
}

/// The tasks and the CPUs for which events are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PerfScope<'a> {
    /// All tasks on a CPU.
    Cpu(u32),
    /// Tasks of the cgroup of this folder, on a CPU.
    Cgroup(&'a File, u32),
    /// A thread, and all that it starts from now on; `on_exec`: counting begins when it starts a program.
    Task {
        tid: i32,
        /// Whether its next program starts the counting.
        on_exec: bool,
    },
}

impl<'a> PerfScope<'a> {
    fn put(self, builder: &mut Builder<'a>) {
        match self {
            PerfScope::Cpu(cpu) => builder.any_pid().one_cpu(cpu as usize),
            PerfScope::Cgroup(dir, cpu) => builder.observe_cgroup(dir).one_cpu(cpu as usize),
            PerfScope::Task { tid, on_exec } => builder
                .observe_pid(tid)
                .any_cpu()
                .inherit(true)
                .enable_on_exec(on_exec),
        };
    }
}

pub(crate) struct Set {
    leader: Counter,
    others: Vec<Counter>,
}

impl Set {
    /// Opens events on a CPU, for all tasks that run there; they begin to count at once.
    pub(crate) fn open(pmu: &Pmu, cpu: u32, configs: &[Config]) -> Result<Set, Missing> {
        Set::open_raw(&pmu.name, pmu.kind, cpu, configs)
    }

    /// The same by the name and the type of the PMU.
    pub(crate) fn open_raw(
        pmu: &str,
        kind: u32,
        cpu: u32,
        configs: &[Config],
    ) -> Result<Set, Missing> {
        let on_cpu = |mut builder: Builder<'static>| {
            builder.any_pid().one_cpu(cpu as usize);
            builder
        };
        let builders = configs.iter().map(|config| on_cpu(builder(kind, *config)));
        Set::build(pmu, builders, |e| refused(pmu, cpu, &e))
    }

    /// Opens events for the thread that calls this, wherever it runs; they begin to count at once.
    pub(crate) fn open_here(pmu: &str, kind: u32, configs: &[Config]) -> Result<Set, Missing> {
        let builders = configs.iter().map(|config| builder(kind, *config));
        Set::build(pmu, builders, |e| denied(pmu, "this thread", &e))
    }

    fn build(
        pmu: &str,
        mut builders: impl Iterator<Item = Builder<'static>>,
        failed: impl Fn(io::Error) -> Missing,
    ) -> Result<Set, Missing> {
        let Some(first) = builders.next() else {
            return Err(Missing::NotSupported(format!("{pmu}: no event")));
        };
        let mut leader = first.build().map_err(&failed)?;
        let mut others = Vec::new();
        for builder in builders {
            others.push(builder.build_with_group(&mut leader).map_err(&failed)?);
        }
        leader.enable_group().map_err(&failed)?;
        Ok(Set { leader, others })
    }

    /// Opens events that count together and do not count yet.
    ///
    /// # Errors
    /// What the kernel says to one of them.
    pub(crate) fn open_idle(kind: u32, configs: &[Config], on: PerfScope<'_>) -> io::Result<Set> {
        let mut leader: Option<Counter> = None;
        let mut others = Vec::new();
        for config in configs {
            let mut builder = builder(kind, *config);
            on.put(&mut builder);
            match &mut leader {
                // The leader holds the others back, so that one call starts or stops all of them.
                Some(leader) => {
                    builder.enabled(true).enable_on_exec(false);
                    others.push(builder.build_with_group(leader)?);
                }
                None => leader = Some(builder.build()?),
            }
        }
        let leader = leader.ok_or_else(|| io::Error::other("no event"))?;
        Ok(Set { leader, others })
    }

    /// Lets the events of [`Set::open_idle`] count, or not.
    pub(crate) fn switch(&mut self, on: bool) -> io::Result<()> {
        if on {
            self.leader.enable()
        } else {
            self.leader.disable()
        }
    }

    /// File descriptors of the events, in the order of the events.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let all = std::iter::once(&self.leader).chain(&self.others);
        all.map(AsRawFd::as_raw_fd)
    }

    pub(crate) fn read(&mut self) -> io::Result<Counted> {
        let data = self.leader.read_group()?;
        let gone = || io::Error::other("the kernel left an event out");
        let of = |counter: &Counter| {
            data.get(counter)
                .map(|entry| entry.value())
                .ok_or_else(gone)
        };
        let counts = std::iter::once(&self.leader).chain(&self.others).map(of);
        let time = |time: Option<std::time::Duration>| {
            u64::try_from(time.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
        };
        Ok(Counted {
            counts: counts.collect::<io::Result<_>>()?,
            enabled_ns: time(data.time_enabled()),
            running_ns: time(data.time_running()),
        })
    }
}

fn builder<'a>(kind: u32, config: Config) -> Builder<'a> {
    let [config, config1, config2, config3] = config.0;
    let mut builder = Builder::new(Raw::new(config).config1(config1).config2(config2));
    builder.attrs_mut().type_ = kind;
    builder.attrs_mut().config3 = config3;
    // Devices do not know user from kernel, and many refuse a choice between them.
    builder.include_kernel().include_hv();
    builder.read_format(
        ReadFormat::GROUP
            | ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID,
    );
    builder
}

pub(super) fn refused(pmu: &str, cpu: u32, error: &io::Error) -> Missing {
    denied(pmu, &format!("CPU {cpu}"), error)
}

pub(crate) fn denied(pmu: &str, target: &str, error: &io::Error) -> Missing {
    let text = format!("perf_event_open on {pmu}, {target}: {error}");
    match error.kind() {
        io::ErrorKind::PermissionDenied => Missing::NotPermitted(text),
        _ => Missing::NotSupported(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Write;

    fn software() -> Pmu {
        Pmu {
            name: "software".into(),
            kind: 1,
            cpus: vec![0],
            fields: BTreeMap::new(),
        }
    }

    /// PERF_COUNT_SW_CPU_CLOCK, in nanoseconds, and PERF_COUNT_SW_CONTEXT_SWITCHES.
    const CLOCK: Config = Config([0, 0, 0, 0]);
    const SWITCHES: Config = Config([3, 0, 0, 0]);

    /// A set, or nothing and the reason where none may be opened.
    fn set(configs: &[Config]) -> Option<Set> {
        match Set::open(&software(), 0, configs) {
            Ok(set) => Some(set),
            Err(why @ Missing::NotPermitted(_)) => {
                let _ = writeln!(std::io::stderr(), "SKIP software events: {why}");
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    #[test]
    fn software_events_count_together_and_all_the_time() {
        let Some(mut set) = set(&[CLOCK, SWITCHES]) else {
            return;
        };
        let before = set.read().unwrap();
        let mut after = set.read().unwrap();
        while after.enabled_ns < before.enabled_ns + 20_000_000 {
            after = set.read().unwrap();
        }
        assert_eq!((before.counts.len(), after.counts.len()), (2, 2));
        assert_eq!(after.enabled_ns, after.running_ns, "nothing is multiplexed");
        // The clock of a CPU is the time that the set was enabled; read a moment later than it.
        let clock = after.counts[0] - before.counts[0];
        let enabled = after.enabled_ns - before.enabled_ns;
        assert!(
            clock.abs_diff(enabled) < enabled / 2,
            "{clock} ns of {enabled}"
        );
        assert!(after.counts[1] >= before.counts[1]);
    }

    #[test]
    fn what_the_kernel_refuses_is_named() {
        let mut pmu = software();
        pmu.kind = u32::MAX;
        let why = Set::open(&pmu, 0, &[CLOCK]).err().unwrap().to_string();
        assert!(why.contains("perf_event_open on software, CPU 0"), "{why}");
        let why = Set::open(&software(), 4000, &[CLOCK])
            .err()
            .unwrap()
            .to_string();
        assert!(why.contains("CPU 4000"), "{why}");
        assert!(Set::open(&software(), 0, &[]).is_err());
    }
}
