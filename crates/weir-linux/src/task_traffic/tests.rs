// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::counting_intf::{COUNTED, EventCount};
use super::*;
use crate::kernel::clock::thread_cpu;
use crate::options::{By, Roots};
use proptest::prelude::*;
use std::io::Write;
use std::sync::{Arc, Mutex};
use weir_core::DeviceId;
use weir_core::seam::observation::WorkloadKind;

fn sum(count: u64, enabled_ns: u64, running_ns: u64) -> Sum {
    let mut sum = Sum::default();
    sum.0[0] = EventCount {
        count,
        enabled_ns,
        running_ns,
    };
    sum
}

/// Reads and, of them, stores; both were counted all the time.
fn reads_and_stores(reads: u64, stores: u64, ns: u64) -> Sum {
    let mut sum = sum(reads, ns, ns);
    sum.0[1] = EventCount {
        count: stores,
        enabled_ns: ns,
        running_ns: ns,
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

fn given(uses: &[Use]) -> Vec<Option<u64>> {
    let bytes = |u: &Use| {
        u.sampled_read_bytes
            .as_ref()
            .and_then(|r| r.ok().map(|b| b.0))
    };
    uses.iter().map(bytes).collect()
}

#[test]
fn counts_begin_at_the_first_look_and_are_scaled_by_turns() {
    let mut account = Account::default();
    let first = account.advance(sum(1000, 500, 500), &[64], None).unwrap();
    assert_eq!(first.bytes, [0.0, 0.0]);
    let all = account.advance(sum(1010, 600, 600), &[64], None).unwrap();
    assert_eq!((all.bytes, all.running_ratio), ([640.0, 0.0], 1.0));
    let half = account.advance(sum(1020, 800, 700), &[64], None).unwrap();
    assert_eq!((half.bytes, half.running_ratio), ([1280.0, 0.0], 0.5));
    let idle = account.advance(sum(1020, 800, 700), &[64], None).unwrap();
    assert_eq!((idle.bytes, idle.running_ratio), ([0.0, 0.0], 1.0));
}

#[test]
fn without_a_turn_nothing_is_known_and_nothing_is_lost() {
    let mut account = Account::default();
    account.advance(sum(0, 0, 0), &[1], None).unwrap();
    let why = account.advance(sum(0, 100, 0), &[1], None).unwrap_err();
    assert!(matches!(why, Missing::Lost(_)), "{why}");
    let more = account.advance(sum(10, 200, 50), &[1], None).unwrap();
    assert_eq!((more.bytes, more.running_ratio), ([40.0, 0.0], 0.25));
}

#[test]
fn what_was_forgotten_begins_anew() {
    let mut account = Account::default();
    account.advance(sum(50, 1000, 1000), &[1], None).unwrap();
    assert!(account.advance(sum(5, 10, 10), &[1], None).is_err());
    assert_eq!(
        account.advance(sum(6, 20, 20), &[1], None).unwrap().bytes,
        [0.0; 2]
    );
    assert_eq!(
        account.advance(sum(9, 30, 30), &[1], None).unwrap().bytes,
        [3.0, 0.0]
    );
}

#[test]
fn groups_get_what_memory_they_hold() {
    let mut account = Account::default();
    let mut uses = [use_of(0, Some(300)), use_of(1, Some(100)), use_of(2, None)];
    account.share_out(Nanos(5), Ok([80.0, 0.0]), false, &mut uses);
    assert_eq!(given(&uses), [Some(60), Some(20), Some(0)]);
    let mut unknown = [use_of(0, None), use_of(1, None)];
    account.share_out(Nanos(6), Ok([10.0, 0.0]), false, &mut unknown);
    assert_eq!(given(&unknown), [Some(65), Some(25)], "sums go on");
    account.share_out(Nanos(7), Err(Missing::NotYetRead), false, &mut unknown);
    assert_eq!(given(&unknown), [None, None]);
}

#[test]
fn stores_are_taken_out_of_the_reads_that_they_cause() {
    let mut account = Account::default();
    let mut advance = |sum| account.advance(sum, &[64], Some(64)).unwrap().bytes;
    assert_eq!(advance(reads_and_stores(100, 40, 10)), [0.0, 0.0]);
    assert_eq!(advance(reads_and_stores(110, 43, 20)), [448.0, 192.0]);
    // The store's counter was read a moment later.
    assert_eq!(advance(reads_and_stores(110, 45, 30)), [0.0, 128.0]);
    let mut partial = reads_and_stores(120, 49, 50);
    partial.0[1].running_ns = 40;
    let half = account.advance(partial, &[64], Some(64)).unwrap();
    assert_eq!((half.bytes, half.running_ratio), ([128.0, 512.0], 0.5));
}

#[test]
fn loads_and_stores_are_told_apart_where_the_source_can() {
    let mut account = Account::default();
    let written = |uses: &[Use]| -> Vec<Option<Reading<Bytes>>> {
        uses.iter().map(|u| u.sampled_write_bytes.clone()).collect()
    };
    let mut uses = [use_of(0, Some(300)), use_of(1, Some(100))];
    account.share_out(Nanos(5), Ok([80.0, 40.0]), true, &mut uses);
    assert_eq!(given(&uses), [Some(60), Some(20)]);
    let bytes = [30, 10].map(|bytes| Some(Reading::new(Nanos(5), Bytes(bytes))));
    assert_eq!(written(&uses), bytes);
    let lost = Err(Missing::NotYetRead);
    account.share_out(Nanos(6), lost, true, &mut uses);
    let missing = Reading::missing(Nanos(6), Missing::NotYetRead);
    assert_eq!(written(&uses), [Some(missing.clone()), Some(missing)]);
    account.share_out(Nanos(7), Ok([0.0, 0.0]), false, &mut uses);
    assert_eq!(written(&uses), [None, None], "nothing is not zero");
}

/// Counts by key; remembers the keys that were brought up to date.
#[derive(Clone, Default)]
struct FakeCounts(Arc<Mutex<BTreeMap<Key, Sum>>>, Arc<Mutex<Vec<Key>>>);

impl TrafficSource for FakeCounts {
    fn name(&self) -> &str {
        "counts"
    }

    fn bytes(&self) -> &[u64] {
        &[64]
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
    let use_here = |pid: &u32| match users.contains(pid) {
        true => vec![use_of(0, Some(1))],
        false => Vec::new(),
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

fn seen(pid: u32, uses: Vec<Use>) -> WorkloadReading {
    WorkloadReading {
        id: process(pid).id(),
        kind: WorkloadKind::Process,
        cpu_ns: Reading::new(Nanos(1), Nanos(1)),
        throttled_ns: Reading::new(Nanos(1), Nanos(0)),
        uses,
        resident_bytes: None,
        weight: 100.0,
        their_limit_cpus: None,
        limited_weight: None,
        excluded: None,
    }
}

#[test]
fn only_who_uses_a_group_is_asked_for() {
    let counts = FakeCounts::default();
    let mut shares = TaskTraffic::new(Box::new(counts.clone()));
    let view = view(&[7], &[8]);
    for (count, wanted) in [(10, 0), (12, 128)] {
        counts
            .0
            .lock()
            .unwrap()
            .insert(Key(7), sum(count, count, count));
        let mut both = [seen(7, vec![use_of(0, Some(1))]), seen(8, Vec::new())];
        let mut skipped = Vec::new();
        let taken = shares.take(&view, &mut skipped);
        shares.fill(taken, &mut both, &mut skipped);
        assert_eq!(*counts.1.lock().unwrap(), [Key(7)]);
        assert_eq!(
            (given(&both[0].uses), skipped.len()),
            (vec![Some(wanted)], 0)
        );
        assert!(both[1].uses.is_empty());
    }
}

#[test]
fn turns_are_told() {
    let counts = FakeCounts::default();
    let mut shares = TaskTraffic::new(Box::new(counts.clone()));
    let mut skipped = Vec::new();
    for running in [0, 50] {
        counts
            .0
            .lock()
            .unwrap()
            .insert(Key(7), sum(running, 2 * running, running));
        let mut one = [seen(7, vec![use_of(0, Some(1))])];
        let taken = shares.take(&view(&[7], &[]), &mut skipped);
        shares.fill(taken, &mut one, &mut skipped);
    }
    let text = skipped[0].why.to_string();
    assert!(text.contains("ran 50 %"), "{text}");
}

#[test]
fn who_is_gone_is_forgotten() {
    let counts = FakeCounts::default();
    let mut shares = TaskTraffic::new(Box::new(counts.clone()));
    for pid in [7, 8] {
        counts.0.lock().unwrap().insert(Key(pid), sum(1, 1, 1));
        shares.accounts.insert(process(7).id(), Account::default());
    }
    let later = Nanos(shares.forgot_at.0 + FORGET_EVERY.0);
    shares.tidy(&view(&[], &[8]), later);
    let left: Vec<Key> = counts.0.lock().unwrap().keys().copied().collect();
    assert_eq!((left, shares.accounts.len()), (vec![Key(8)], 0));
}

#[test]
fn a_machine_without_events_shares_by_cpu_time_and_says_why() {
    let fake = crate::fake::Fake::new();
    let options = Options {
        roots: fake.roots(),
        ..Options::default()
    };
    let mut facts = Vec::new();
    let shares = TaskTraffic::choose(&options, &[], &mut facts).unwrap();
    assert!(shares.is_none());
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
    assert!(TaskTraffic::choose(&counts, &[], &mut facts).is_err());
    // The kernel's own events stand everywhere, but not the types that the program needs.
    let named = Options {
        attribution_event: Some("sw:cpu-clock".into()),
        ..options
    };
    let why = TaskTraffic::choose(&named, &[], &mut facts)
        .err()
        .unwrap()
        .to_string();
    assert!(why.contains("CONFIG_DEBUG_INFO_BTF"), "{why}");
}

proptest! {
    #[test]
    fn bytes_never_go_back_and_nothing_panics(
        readings in prop::collection::vec(any::<[u64; 3]>(), 0..8),
        residents in prop::collection::vec(prop::option::of(any::<u64>()), 0..4),
        tells_stores in any::<bool>(),
    ) {
        let mut account = Account::default();
        let mut before = vec![0; 2 * residents.len()];
        for [count, enabled, running] in readings {
            let mut uses: Vec<Use> = residents
                .iter()
                .zip(0u32..)
                .map(|(resident, index)| use_of(index, *resident))
                .collect();
            let mut now = sum(count, enabled, running);
            now.0[1] = EventCount { count: running, enabled_ns: enabled, running_ns: count };
            let more = match tells_stores {
                true => account.advance(now, &[64], Some(64)),
                false => account.advance(now, &[64; COUNTED], None),
            };
            account.share_out(Nanos(1), more.map(|more| more.bytes), tells_stores, &mut uses);
            let stored = uses.iter().filter_map(|u| u.sampled_write_bytes.as_ref());
            let stored: Vec<Option<u64>> = stored.map(|r| r.ok().map(|b| b.0)).collect();
            for (before, now) in before.iter_mut().zip(given(&uses).into_iter().chain(stored)) {
                let now = now.unwrap_or(*before);
                prop_assert!(now >= *before);
                *before = now;
            }
        }
    }
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
    assert_eq!(kernel.store_bytes(), None);
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
    assert_eq!(kernel.store_bytes(), Some(64));
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
