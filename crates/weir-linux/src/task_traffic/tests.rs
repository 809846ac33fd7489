// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::kernel::clock::thread_cpu;
use crate::options::{By, Roots};
use std::io::Write;
use std::sync::{Arc, Mutex};
use weir_core::DeviceId;
use weir_core::seam::observation::{EventCount, WorkloadKind};

fn sum(count: u64, enabled_ns: u64, running_ns: u64) -> Sum {
    let mut sum = Sum::default();
    sum.0[0] = EventCount {
        count,
        enabled_ns,
        running_ns,
    };
    sum
}

fn group(index: u32) -> GroupId {
    GroupId {
        device: DeviceId(0),
        index,
    }
}

fn use_of(index: u32, resident: Option<u64>) -> Use {
    let resident_bytes = match resident {
        Some(bytes) => Reading::new(Nanos(1), Bytes(bytes)),
        None => Reading::missing(Nanos(1), Missing::NotYetRead),
    };
    Use {
        group: group(index),
        resident_bytes,
        sampled_read_bytes: None,
        sampled_write_bytes: None,
    }
}

const READS: TaskEvent = TaskEvent {
    bytes_per_count: 64,
    counts_stores: false,
};

/// Counts by key; remembers the keys that were brought up to date.
#[derive(Clone, Default)]
struct FakeCounts(Arc<Mutex<BTreeMap<Key, Sum>>>, Arc<Mutex<Vec<Key>>>);

impl TrafficSource for FakeCounts {
    fn name(&self) -> &str {
        "counts"
    }

    fn events(&self) -> Vec<TaskEvent> {
        vec![READS]
    }

    fn refresh(&mut self, keys: &BTreeSet<Key>) -> u64 {
        *self.1.lock().unwrap() = keys.iter().copied().collect();
        0
    }

    fn of_cgroup(&mut self, _: Key) -> Result<Sum, Missing> {
        Err(Missing::NotYetRead)
    }

    fn of_process(&mut self, id: Key) -> Result<Sum, Missing> {
        Ok(self.0.lock().unwrap().get(&id).copied().unwrap_or_default())
    }

    fn forget(&mut self, is_there: &dyn Fn(Key) -> bool) {
        self.0.lock().unwrap().retain(|key, _| is_there(*key));
    }
}

fn process(pid: u32) -> Arc<crate::workloads::discovery::Process> {
    Arc::new(crate::workloads::discovery::Process {
        pid,
        start_ticks: 1,
        gone: false.into(),
    })
}

/// Processes, those of them with memory on a device first.
fn view(users: &[u32], others: &[u32]) -> View {
    let use_here = |pid: &u32| {
        if users.contains(pid) {
            [use_of(0, Some(1))].into()
        } else {
            Arc::default()
        }
    };
    let watched = |pid: &u32| crate::workloads::discovery::Watched {
        id: process(*pid).id(),
        source: Watches::Process(process(*pid)),
        weight: 100.0,
        limit: None,
        excluded: None,
        resident_bytes: None,
        processes: None,
        uses: use_here(pid),
    };
    View {
        workloads: users
            .iter()
            .chain(others)
            .map(watched)
            .map(Arc::new)
            .collect(),
        ..View::default()
    }
}

fn seen(pid: u32, uses: impl Into<Arc<[Use]>>) -> WorkloadReading {
    WorkloadReading {
        id: process(pid).id(),
        kind: WorkloadKind::Process,
        cpu_ns: Reading::new(Nanos(1), Nanos(1)),
        throttled_ns: Reading::new(Nanos(1), Nanos(0)),
        uses: uses.into(),
        resident_bytes: None,
        weight: 100.0,
        their_limit_cpus: None,
        limited_weight: None,
        excluded: None,
    }
}

/// Its counts are in the observation as they are, of as many events as there are.
#[test]
fn only_what_uses_a_group_is_counted() {
    let counts = FakeCounts::default();
    let mut shares = TaskTraffic::new(Box::new(counts.clone()));
    let view = view(&[6, 7, 9], &[8]);
    let asked = Arc::clone(&counts.1);
    let kept = |count| (Key(7), sum(count, 2 * count, count));
    for count in [10, 12] {
        counts.0.lock().unwrap().extend([kept(count)]);
        let use_here = || vec![use_of(0, Some(1))];
        // The first has ended since, and the last does not use the device now.
        let mut seen = [
            seen(7, use_here()),
            seen(8, Vec::new()),
            seen(9, Vec::new()),
        ];
        let mut skipped = Vec::new();
        let taken = shares.take(&view, &mut skipped);
        let wanted = TaskCountsReading {
            id: process(7).id(),
            counts: Reading::new(taken.at, EventCounts::of(&kept(count).1.0[..1])),
        };
        assert_eq!(taken.fill(&mut seen), [wanted]);
        assert_eq!(*asked.lock().unwrap(), [Key(6), Key(7), Key(9)]);
        assert_eq!((&seen[0].uses[..], skipped.len()), (&use_here()[..], 0));
    }
}

/// A source that distinguishes groups fills the uses, and there are no events.
#[test]
fn what_is_sampled_by_group_is_of_the_group() {
    let at = Nanos(5);
    let use_here = || vec![use_of(0, Some(1)), use_of(1, Some(1))];
    // The first has ended since, and the last does not use the device now.
    let mut seen = [seen(7, use_here()), seen(9, Vec::new())];
    let sums = |bytes| Ok(BTreeMap::from([(group(0), bytes)]));
    let by_group = [(6, 64), (7, 640), (9, 0)].map(|(pid, bytes)| (process(pid).id(), sums(bytes)));
    let taken = TrafficReading {
        at,
        counts: Vec::new(),
        by_group: by_group.into(),
    };
    assert_eq!(taken.fill(&mut seen), []);
    let sampled = seen[0].uses.iter().map(|u| u.sampled_read_bytes.clone());
    let wanted = [
        Reading::new(at, Bytes(640)),
        Reading::missing(at, Missing::NotYetRead),
    ];
    assert_eq!(sampled.collect::<Vec<_>>(), wanted.map(Some));
    assert!(seen[1].uses.is_empty());
}

#[test]
fn what_is_gone_is_forgotten() {
    let counts = FakeCounts::default();
    let mut shares = TaskTraffic::new(Box::new(counts.clone()));
    for pid in [7, 8] {
        counts.0.lock().unwrap().insert(Key(pid), sum(1, 1, 1));
    }
    let later = Nanos(shares.forgot_at.0 + FORGET_EVERY.0);
    shares.tidy(&view(&[], &[8]), later);
    let left: Vec<Key> = counts.0.lock().unwrap().keys().copied().collect();
    assert_eq!(left, [Key(8)]);
}

#[test]
fn a_machine_without_events_shares_by_cpu_time_and_says_why() {
    let fake = crate::fake::Fake::new();
    let options = Options {
        roots: fake.roots(),
        ..Options::default()
    };
    let mut machine = Description::default();
    let shares = TaskTraffic::choose(&options, &mut machine).unwrap();
    assert!(shares.is_none() && machine.task_events.is_empty());
    let facts = &machine.facts;
    assert!(facts[0].value.as_ref().unwrap().contains("CPU time"));
    let why = facts[1].value.as_ref().unwrap_err().to_string();
    assert!(
        why.contains("no counts for each task") && why.contains("cpuinfo"),
        "{why}"
    );
    assert_eq!(why.matches("not supported").count(), 1, "said once: {why}");
    let counts = Options {
        attribution: AttributionSource::TaskCounts,
        ..options.clone()
    };
    assert!(TaskTraffic::choose(&counts, &mut machine).is_err());
    // The kernel's own events stand everywhere, but not the types that the program needs.
    let named = Options {
        attribution_event: Some("sw:cpu-clock".into()),
        ..options
    };
    let why = TaskTraffic::choose(&named, &mut machine)
        .err()
        .unwrap()
        .to_string();
    assert!(why.contains("CONFIG_DEBUG_INFO_BTF"), "{why}");
}

/// On the kernel that runs the tests, where it lets us: our own process, by the clock of its CPUs.
#[test]
fn the_kernel_counts_this_process() {
    let roots = Roots::default();
    let chosen = core_events::named(&Machine::probe(&roots), "sw:cpu-clock").unwrap();
    let mut kernel = match CountingBpf::load(&roots, By::Process, chosen) {
        Ok(kernel) => kernel,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "SKIP counting program: {why}");
            return;
        }
    };
    let me = Key(std::process::id().into());
    let mut count = || {
        kernel.refresh(&BTreeSet::from([me]));
        kernel.of_process(me).unwrap().0
    };
    let before = count()[0];
    let from = thread_cpu();
    while thread_cpu().0 < from.0 + 20_000_000 {
        std::hint::spin_loop();
    }
    let [after, second] = count();
    assert!(after.count > before.count, "{before:?} {after:?}");
    assert_eq!(after.enabled_ns, after.running_ns, "nothing is multiplexed");
    assert_eq!(second, Default::default(), "there is no second event");
    let own = TaskEvent {
        bytes_per_count: 1,
        counts_stores: false,
    };
    assert_eq!(kernel.events(), [own]);
    assert!(kernel.of_process(Key(u64::MAX)).is_err());
    assert_eq!(kernel.of_cgroup(me), Ok(Sum::default()));
}

/// The same with a second event in the place of stores, of the same PMU as on a CPU: faults, and those that
/// read no disk.
#[test]
fn the_kernel_counts_stores_beside_reads() {
    let roots = Roots::default();
    let mut chosen = core_events::named(&Machine::probe(&roots), "sw:page-faults").unwrap();
    chosen.stores = Some(core_events::Stores {
        name: "sw:minor-faults".into(),
        config: weir_events::Config([5, 0, 0, 0]),
        bytes: 64,
    });
    let opened = counting_bpf::openable(&roots, chosen.clone());
    let mut kernel = match opened.and_then(|chosen| CountingBpf::load(&roots, By::Process, chosen))
    {
        Ok(kernel) => kernel,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "SKIP counting program: {why}");
            return;
        }
    };
    assert!(kernel.name().ends_with(", stores by sw:minor-faults"));
    let stores = TaskEvent {
        bytes_per_count: 64,
        counts_stores: true,
    };
    assert_eq!(kernel.events()[1..], [stores]);
    let me = Key(std::process::id().into());
    let mut faults = || {
        kernel.refresh(&BTreeSet::from([me]));
        kernel.of_process(me).unwrap().0[1].count
    };
    let before = faults();
    // More than an allocator keeps; pages may be huge ones.
    let pages = std::hint::black_box(vec![1u8; 64 << 20]);
    let more = faults() - before;
    assert!(more >= 30, "{more} for {} bytes", pages.len());
    // An event that is not there is left out, and that is said.
    if let Some(stores) = &mut chosen.stores {
        stores.config = weir_events::Config([9999, 0, 0, 0]);
    }
    let alone = counting_bpf::openable(&roots, chosen).unwrap();
    assert!(alone.stores.is_none() && alone.name.contains("stores not distinguished from loads"));
}
