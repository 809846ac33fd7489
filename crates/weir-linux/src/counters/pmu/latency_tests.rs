// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use proptest::prelude::*;

fn counted(counts: &[u64], enabled_ns: u64, running_ns: u64) -> Counted {
    Counted {
        counts: counts.to_vec(),
        enabled_ns,
        running_ns,
    }
}

/// A box at 2.4 GHz for 10 ms in which `inserts` requests wait `wait_ns` each, counted for a part of the
/// time.
fn cha(inserts: u64, wait_ns: u64, part: f64) -> Counted {
    let of = |x: f64| (x * part).round() as u64;
    let occupancy = (inserts * wait_ns) as f64 * 2.4;
    counted(
        &[of(occupancy), of(inserts as f64), of(24e6)],
        10_000_000,
        of(10e6),
    )
}

fn all(boxes: &[Counted]) -> Result<Nanos, Missing> {
    let start = Counted::default();
    mean(
        boxes
            .iter()
            .map(|now| waited(&start, now, Unit::Cycles))
            .collect(),
    )
}

/// Little's law: whatever rate, wait and clock, it is the wait.
#[test]
fn occupancy_over_inserts_is_the_wait() {
    assert_eq!(all(&[cha(20_000, 412, 1.0)]), Ok(Nanos(412)));
    // The mean is over requests, not over boxes: a box with nine times the requests counts nine times.
    assert_eq!(
        all(&[cha(90_000, 300, 1.0), cha(10_000, 800, 1.0)]),
        Ok(Nanos(350))
    );
    // One that had a third of the time: it counted in that third alone, and it weighs as much as all of it.
    assert_eq!(
        all(&[cha(30_000, 300, 1.0), cha(30_000, 600, 1.0 / 3.0)]),
        Ok(Nanos(450))
    );
}

#[test]
fn it_is_of_the_time_since_the_last_reading() {
    let (early, late) = (
        counted(&[9000, 10, 2000], 1000, 1000),
        counted(&[9900, 20, 4000], 2000, 2000),
    );
    // 900 waiting cycles of half a nanosecond, for ten requests.
    let part = waited(&early, &late, Unit::Cycles).unwrap();
    assert_eq!(
        part,
        Waited {
            ns: 450.0,
            requests: 10.0
        }
    );
    let tens = waited(
        &counted(&[0, 0], 0, 0),
        &counted(&[3100, 100], 5, 5),
        Unit::Nanos(10.0),
    );
    assert_eq!(mean(vec![tens]), Ok(Nanos(310)));
}

#[test]
fn without_traffic_or_a_turn_there_is_none() {
    let none = all(&[cha(0, 300, 1.0)]).unwrap_err().to_string();
    assert!(none.contains("no traffic"), "{none}");
    let idle = all(&[counted(&[0, 0, 0], 1000, 0)])
        .unwrap_err()
        .to_string();
    assert!(idle.contains("did not run"), "{idle}");
    // Others had one: requests are spread over all boxes.
    assert_eq!(
        all(&[counted(&[0, 0, 0], 1000, 0), cha(10, 500, 1.0)]),
        Ok(Nanos(500))
    );
    let still = all(&[counted(&[500, 5, 0], 1000, 1000)])
        .unwrap_err()
        .to_string();
    assert!(still.contains("stood still"), "{still}");
    assert_eq!(all(&[counted(&[0, 0, 0], 0, 0)]), Err(Missing::NotYetRead));
    assert_eq!(
        mean(Vec::new()).unwrap_err().to_string(),
        "lost: no traffic since the last tick"
    );
}

fn intel(model: u32, boxes: u32) -> Fake {
    let fake = Fake::new();
    let cpu = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n");
    fake.write("proc/cpuinfo", cpu);
    for number in 0..boxes {
        let dir = format!("sys/bus/event_source/devices/uncore_cha_{number}");
        fake.write(format!("{dir}/type"), format!("{}\n", 40 + number));
        fake.write(format!("{dir}/cpumask"), "0,28\n");
        fake.write(format!("{dir}/format/event"), "config:0-7\n");
        fake.write(format!("{dir}/format/umask"), "config:8-15,32-63\n");
    }
    fake
}

#[test]
fn one_group_for_each_box_and_socket() {
    let source = find(&intel(0x8f, 3).roots()).unwrap();
    assert!(
        source.name.contains("TOR_OCCUPANCY.IA_MISS_DRD_CXL_ACC"),
        "{}",
        source.name
    );
    assert_eq!(source.plans.len(), 6);
    let first = &source.plans[0];
    let configs = [0x10c8_1782_0000_0136, 0x10c8_1782_0000_0135, 0x1];
    assert_eq!(
        first.configs,
        configs.map(|config| Config([config, 0, 0, 0]))
    );
    assert_eq!((first.kind, first.cpu, first.unit), (40, 0, Unit::Cycles));
    // Emerald Rapids calls memory expanders by another name.
    let emerald = find(&intel(0xcf, 1).roots()).unwrap();
    assert_eq!(
        emerald.plans[0].configs[0],
        Config([0x20c8_1682_0000_0136, 0, 0, 0])
    );
}

#[test]
fn near_and_far_memory_of_zen_are_sampled_in_tens_of_nanoseconds() {
    let fake = Fake::new();
    fake.write(
        "proc/cpuinfo",
        "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n",
    );
    let dir = "sys/bus/event_source/devices/amd_l3";
    fake.write(format!("{dir}/type"), "9\n");
    fake.write(format!("{dir}/cpumask"), "0,8\n");
    for (field, bits) in [
        ("event", "config:0-7"),
        ("umask", "config:8-15"),
        ("enallslices", "config:46"),
        ("enallcores", "config:47"),
        ("sliceid", "config:48-50"),
        ("threadmask", "config:56-57"),
    ] {
        fake.write(format!("{dir}/format/{field}"), format!("{bits}\n"));
    }
    let source = find(&fake.roots()).unwrap();
    assert_eq!(source.plans.len(), 4, "near and far on two caches");
    assert!(
        source
            .plans
            .iter()
            .all(|p| p.configs.len() == 2 && p.unit == Unit::Nanos(10.0))
    );
}

#[test]
fn why_there_is_none_is_said() {
    let why = |fake: &Fake| find(&fake.roots()).unwrap_err().to_string();
    assert!(why(&intel(0x55, 1)).contains("no table has an event of CXL latency"));
    let bare = intel(0x8f, 0);
    bare.write("sys/bus/event_source/devices/software/type", "1\n");
    let without = why(&bare);
    assert!(without.contains("no PMU uncore_cha_#"), "{without}");
    // The kernels before 6.11, which truncate the umask.
    let old = intel(0x8f, 1);
    old.write(
        "sys/bus/event_source/devices/uncore_cha_0/format/umask",
        "config:8-15,32-55\n",
    );
    assert!(why(&old).contains("6.11"), "{}", why(&old));
}

/// The kernel's own events through the same code: the clock of a CPU counts nanoseconds, as waiting and as
/// clock.
#[test]
fn a_real_group_is_opened_and_read() {
    let _clock = crate::kernel::clock::made::clock();
    let plan = |kind| LatencyEvents {
        pmu: "software".into(),
        kind,
        cpu: 0,
        configs: [0, 3, 0].map(|config| Config([config, 0, 0, 0])).to_vec(),
        unit: Unit::Cycles,
    };
    let source = |kind| LatencyCounters {
        name: String::new(),
        plans: vec![plan(kind)],
    };
    let refused = source(u32::MAX).open(DeviceId(3)).err().unwrap();
    assert!(
        refused.to_string().contains("perf_event_open on software"),
        "{refused}"
    );
    let mut waits = match source(1).open(DeviceId(3)) {
        Ok(waits) => waits,
        Err(why @ Missing::NotPermitted(_)) => return eprintln!("SKIP events of latency: {why}"),
        Err(why) => panic!("{why}"),
    };
    let before = waits.gauges[0].set.read().unwrap();
    while waits.gauges[0].set.read().unwrap().counts[1] == before.counts[1] {
        std::thread::yield_now();
    }
    let seen = waits.read();
    assert_eq!(
        (seen.id, seen.source),
        (DeviceId(3), LatencySource::PerfEvents)
    );
    // Time per switch of context, of all the time since the group was opened. That may be some microseconds,
    // and each event of the group begins and is read a little after the one before: the two clocks and the
    // running time agree only over a long time.
    let last = &waits.gauges[0].last;
    let [waited, switches, cycles] = [0, 1, 2].map(|place| last.counts[place] as f64);
    let wanted = waited * (last.running_ns as f64 / cycles) / switches;
    let mean = seen.mean_ns.ok().unwrap().0 as f64;
    assert!((mean - wanted).abs() <= 1.0, "{mean} of {wanted}");
    assert_eq!(waits.read(), seen, "not so soon again");
}

proptest! {
    /// Whatever the kernel says, the result is a mean or a reason, and never a mean over no requests.
    #[test]
    fn odd_counts_give_no_odd_means(
        readings in prop::collection::vec((any::<[u64; 3]>(), any::<u64>(), any::<u64>()), 2..6),
    ) {
        let readings: Vec<Counted> = readings.iter().map(|(c, e, r)| counted(c, *e, *r)).collect();
        for pair in readings.windows(2) {
            let part = waited(&pair[0], &pair[1], Unit::Cycles);
            if let Ok(part) = &part {
                prop_assert!(part.ns.is_finite() && part.ns >= 0.0 && part.requests >= 0.0);
            }
            let requests = part.as_ref().map_or(0.0, |p| p.requests);
            prop_assert_eq!(mean(vec![part]).is_ok(), requests > 0.0);
        }
    }
}
