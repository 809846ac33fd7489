// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::options::{AttributionSource, By};
use std::io::Write;
use weir_core::{Bytes, BytesPerSec, DeviceId, NodeId};

const DEVICES: &str = "sys/bus/event_source/devices";

fn group(index: u32, node: Option<u32>) -> Group {
    Group {
        id: GroupId {
            device: DeviceId(0),
            index,
        },
        node: node.map(NodeId),
        size_bytes: Bytes(1),
    }
}

fn cpu(vendor: &str, family: u32, model: u32) -> Fake {
    let fake = Fake::new();
    let cpu = format!("vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n");
    fake.write("proc/cpuinfo", cpu);
    fake.write(format!("{DEVICES}/cpu/type"), "4\n");
    fake.write(format!("{DEVICES}/cpu/format/event"), "config:0-7\n");
    fake.write(format!("{DEVICES}/cpu/format/umask"), "config:8-15\n");
    fake
}

#[test]
fn each_family_has_its_event() {
    for model in [0x8f, 0xcf, 0xad] {
        let machine = Machine::probe(&cpu("GenuineIntel", 6, model).roots());
        let chosen = events::best(&machine).unwrap();
        assert_eq!(chosen.tapped.config.0, [0x20d1, 0, 0, 0]);
        assert_eq!((chosen.tapped.period, chosen.tapped.precise), (10_007, 2));
        assert_eq!(chosen.bytes, 640_448);
    }
    for (family, model) in [(25, 0x11), (26, 2)] {
        let fake = cpu("AuthenticAMD", family, model);
        let why = events::best(&Machine::probe(&fake.roots())).unwrap_err();
        assert!(why.to_string().contains("no PMU ibs_op; needs"), "{why}");
        fake.write(format!("{DEVICES}/ibs_op/type"), "11\n");
        fake.write(format!("{DEVICES}/ibs_op/format/cnt_ctl"), "config:19\n");
        // Zen 3 and older cannot leave out what hits the cache.
        let why = events::best(&Machine::probe(&fake.roots())).unwrap_err();
        assert!(why.to_string().contains("l3missonly"), "{why}");
        fake.write(format!("{DEVICES}/ibs_op/format/l3missonly"), "config:16\n");
        let chosen = events::best(&Machine::probe(&fake.roots())).unwrap();
        let tapped = &chosen.tapped;
        assert_eq!((tapped.kind, tapped.config.0[0]), (11, 0x9_0000));
        assert!(tapped.data_source && tapped.period.is_multiple_of(16));
    }
}

#[test]
fn what_has_none_says_so() {
    let sierra = Machine::probe(&cpu("GenuineIntel", 6, 0xaf).roots());
    let why = events::best(&sierra).unwrap_err().to_string();
    assert!(why.contains("no event of sierra-forest"), "{why}");
    let why = events::named(&sierra, "sw:cpu-clock").unwrap_err();
    assert!(why.to_string().contains("sw:minor-faults"), "{why}");
    let faults = events::named(&sierra, "sw:minor-faults").unwrap();
    assert_eq!((faults.tapped.kind, faults.tapped.config.0[0]), (1, 5));
}

#[test]
fn an_old_kernel_is_refused_by_its_number() {
    assert_eq!(version("6.2.0-39-generic\n"), Some((6, 2)));
    assert_eq!(version("7.2"), Some((7, 2)));
    assert_eq!(version("next"), None);
    let fake = Fake::new();
    fake.write("sys/kernel/btf/vmlinux", "");
    fake.write("proc/sys/kernel/osrelease", "6.2.16\n");
    let mut options = fake.options(By::Cgroup);
    options.attribution = AttributionSource::Sampling;
    options.attribution_event = Some("sw:minor-faults".into());
    let why = found(&options).unwrap_err().to_string();
    assert!(why.contains("use 6.3 or newer"), "{why}");
    fake.remove("sys/kernel/btf/vmlinux");
    let why = fact(&options).value.unwrap_err();
    assert!(why.reason().contains("CONFIG_DEBUG_INFO_BTF"), "{why}");
}

fn nodes(blocks: &[(u32, &[u64])]) -> Fake {
    let fake = Fake::new();
    fake.write("sys/devices/system/node/online", "0-2\n");
    fake.write("sys/devices/system/memory/block_size_bytes", "1000\n");
    for node in 0..3 {
        let dir = format!("sys/devices/system/node/node{node}");
        fake.write(format!("{dir}/distance"), "10 20 20\n");
        fake.write(format!("{dir}/meminfo"), "Node 0 MemTotal: 4 kB\n");
    }
    for (node, blocks) in blocks {
        for block in *blocks {
            let dir = format!("sys/devices/system/node/node{node}/memory{block}");
            fake.write(format!("{dir}/state"), "online\n");
        }
    }
    fake
}

#[test]
fn memory_is_where_its_blocks_are() {
    let fake = nodes(&[(0, &[0, 1]), (1, &[8, 9, 10, 12]), (2, &[11])]);
    let groups = [group(0, Some(2)), group(1, None), group(2, Some(1))];
    let found = memory::ranges(&fake.roots(), &groups).unwrap();
    let plain: Vec<_> = found.iter().map(|r| (r.first, r.last, r.group)).collect();
    let wanted = [
        (0xb000, 0xbfff, 0),
        (0x8000, 0xafff, 2),
        (0xc000, 0xcfff, 2),
    ];
    assert_eq!(plain, wanted);
    let odd: Vec<u64> = (0..20).map(|n| 2 * n + 1).collect();
    let why = memory::ranges(&nodes(&[(1, &odd)]).roots(), &[group(0, Some(1))]);
    assert!(why.unwrap_err().to_string().contains("20 pieces"));
    let many: Vec<Group> = (0..17).map(|n| group(n, Some(1))).collect();
    let why = memory::ranges(&nodes(&[(1, &[8])]).roots(), &many).unwrap_err();
    assert!(why.to_string().contains("16 groups"), "{why}");
    let bare = memory::ranges(&Fake::new().roots(), &groups).unwrap_err();
    assert!(bare.to_string().contains("node/online"), "{bare}");
}

fn device(bytes_per_sec: Option<f64>, set_point: Option<f64>) -> DeviceState {
    DeviceState {
        id: DeviceId(0),
        read_bytes_per_sec: bytes_per_sec.map(BytesPerSec::new),
        write_bytes_per_sec: bytes_per_sec.map(|_| BytesPerSec::new(1.0)),
        unattributed_bytes_per_sec: None,
        migrated_bytes_per_sec: None,
        set_point_bytes_per_sec: set_point.map(BytesPerSec::new),
        correction_ratio: 1.0,
        planned_bytes_per_sec: None,
        unenforceable: None,
        saturation: None,
    }
}

#[test]
fn near_is_half_of_a_set_point_of_any_device() {
    assert!(is_near(&[]), "nothing is known");
    assert!(
        is_near(&[device(Some(0.0), None)]),
        "nothing to be far from"
    );
    assert!(is_near(&[device(None, Some(100.0))]));
    assert!(!is_near(&[device(Some(48.0), Some(100.0))]));
    assert!(is_near(&[device(Some(49.0), Some(100.0))]), "with writes");
    let two = [
        device(Some(0.0), Some(100.0)),
        device(Some(99.0), Some(100.0)),
    ];
    assert!(is_near(&two));
}

fn taken(first: u64, second: u64) -> intf::SampleCounts {
    let mut taken = intf::SampleCounts::default();
    taken[..2].copy_from_slice(&[first, second]);
    taken
}

#[test]
fn the_ledger_adds_holds_and_forgets() {
    let mut ledger = SampleTotals::new(10);
    let (one, two) = (Key(1), Key(2));
    assert_eq!(ledger.add(one, &taken(100, 0))[0], 0, "the first reading");
    assert_eq!(ledger.add(one, &taken(105, 2))[..2], [50, 20]);
    assert_eq!(ledger.add(one, &taken(110, 4))[..2], [100, 40]);
    let held = ledger.hold(one, &taken(110, 4)).unwrap();
    let again = ledger.hold(one, &taken(110, 4)).unwrap();
    let more = [0, 1].map(|place| again[place] - held[place]);
    assert!(
        more[0] > 0 && more[0].abs_diff(more[1] * 5 / 2) <= 2,
        "{more:?}"
    );
    assert!(ledger.hold(two, &taken(0, 0)).is_err(), "never seen");
    ledger.skip(one, &taken(110, 4));
    assert_eq!(
        ledger.hold(one, &taken(110, 4)).unwrap(),
        again,
        "nothing known"
    );
    assert_eq!(
        ledger.add(one, &taken(3, 4))[0],
        again[0] + 30,
        "begun anew"
    );
    ledger.forget(&|_| false);
    assert!(ledger.hold(one, &taken(0, 0)).is_err());
}

/// The kernel's verdict on the program and the event, where this test may load it.
#[test]
fn the_kernel_takes_it() {
    let mut options = Options {
        read_only: true,
        attribution: AttributionSource::Sampling,
        ..Options::default()
    };
    options.attribution_event = Some("sw:minor-faults".into());
    let mut samples = match Samples::open(&options) {
        Ok(samples) => samples,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "SKIP the kernel: {why}");
            return;
        }
    };
    let page = vec![1u8; 64 << 20];
    assert!(page.iter().step_by(4096).all(|byte| *byte == 1));
    samples.refresh(&BTreeSet::new());
    let fate = samples.seen;
    assert!(fate.elsewhere > 0 && fate.counted == 0, "{fate:?}");
    samples.program.switch(false);
}
