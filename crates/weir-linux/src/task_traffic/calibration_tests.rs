// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::core_events::Stores;
use super::*;
use crate::fake::Fake;
use crate::options::Roots;
use std::io::Write;
use weir_core::{DeviceId, NodeId};
use weir_events::Config;

const MIB: f64 = 1_048_576.0;

fn counts(event: f64, device: Option<f64>, others: f64) -> CalibrationCounts {
    CalibrationCounts {
        read: 4.0 * MIB,
        event: event * MIB,
        device: device.map(|d| d * MIB),
        others: others * MIB,
    }
}

fn chosen(is_documented: bool) -> ChosenEvents {
    ChosenEvents {
        name: "READS".into(),
        is_documented,
        kind: 1,
        pmu: "software".into(),
        // Context switches: a test knows how many it makes.
        configs: vec![Config([3, 0, 0, 0])],
        bytes: vec![64],
        stores: None,
    }
}

#[test]
fn an_event_is_judged_by_the_device() {
    assert_eq!(
        compared(counts(4.0, Some(4.0), 0.0)),
        CalibrationResult::Holds(1.0)
    );
    // Neighbours of lines that a prefetcher brings are in both.
    assert_eq!(
        compared(counts(7.6, Some(8.0), 0.0)),
        CalibrationResult::Holds(0.95)
    );
    assert_eq!(
        compared(counts(4.0, Some(8.0), 0.0)),
        CalibrationResult::Differs(0.5)
    );
    assert_eq!(
        compared(counts(0.0, Some(4.0), 0.0)),
        CalibrationResult::Differs(0.0)
    );
    // Without one, by what was read.
    assert_eq!(
        compared(counts(4.2, None, 0.0)),
        CalibrationResult::Holds(1.05)
    );
    assert_eq!(
        compared(counts(6.0, None, 0.0)),
        CalibrationResult::Differs(1.5)
    );
}

#[test]
fn a_burst_of_others_is_tried_again_and_a_wrong_event_is_not_made_right_by_that() {
    let unknown = || CalibrationResult::Unknown(Missing::NotYetRead);
    let (holds, low, lower) = (
        CalibrationResult::Holds(0.98),
        CalibrationResult::Differs(0.8),
        CalibrationResult::Differs(0.7),
    );
    let of = |all: &[&CalibrationResult]| best_of(all.iter().map(|verdict| (*verdict).clone()));
    assert_eq!(of(&[&low, &unknown(), &holds]), holds);
    assert_eq!(of(&[&low, &lower, &unknown()]), lower);
    assert_eq!(of(&[&unknown(), &unknown()]), unknown());
    let mut tries = 0;
    best_of(std::iter::repeat_with(|| {
        tries += 1;
        holds.clone()
    }));
    assert_eq!(tries, 1, "an event that holds is not calibrated again");
}

#[test]
fn what_cannot_be_judged_is_not() {
    let why = |counts| match compared(counts) {
        CalibrationResult::Unknown(why) => why.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(why(counts(4.0, Some(1.0), 0.0)).contains("0.25 of what was read"));
    assert!(why(counts(4.0, Some(4.0), 3.0)).contains("others use the device"));
    let nothing = CalibrationCounts {
        read: 0.0,
        ..counts(1.0, None, 0.0)
    };
    assert!(why(nothing).contains("nothing was read"));
}

#[test]
fn who_asks_has_it_and_others_what_holds() {
    let gone = || CalibrationResult::Unknown(Missing::Lost("no node".into()));
    let name = |is_documented, verdict, is_chosen| {
        admitted(chosen(is_documented), verdict, is_chosen).map(|chosen| chosen.name)
    };
    for is_documented in [true, false] {
        let holds = name(is_documented, CalibrationResult::Holds(0.97), false).unwrap();
        assert_eq!(holds, "READS; calibrated: 0.97 of what the device moved");
        let differs = name(is_documented, CalibrationResult::Differs(1.9), false).unwrap_err();
        assert!(differs.to_string().contains("counts 1.90"), "{differs}");
        let asked = name(is_documented, CalibrationResult::Differs(1.9), true).unwrap();
        assert!(asked.contains("uncalibrated: it counts 1.90"), "{asked}");
        assert!(
            name(is_documented, gone(), true)
                .unwrap()
                .contains("no node")
        );
    }
    assert!(
        name(true, gone(), false)
            .unwrap()
            .contains("uncalibrated: lost: no node")
    );
    let raw = name(false, gone(), false).unwrap_err().to_string();
    assert!(raw.contains("could not be calibrated"), "{raw}");
}

#[test]
fn counts_are_scaled_by_the_time_they_had() {
    let counted = |count, enabled_ns, running_ns| Counted {
        counts: vec![count],
        enabled_ns,
        running_ns,
    };
    let from = counted(10, 100, 100);
    assert_eq!(bytes(&from, &counted(30, 200, 200), &[64]), Ok(1280.0));
    assert_eq!(bytes(&from, &counted(30, 300, 200), &[64]), Ok(2560.0));
    assert!(bytes(&from, &counted(30, 300, 100), &[64]).is_err());
}

/// Each nap takes the thread from its CPU once.
const NAPS: u64 = 200;

fn naps(_: &Roots, node: u32) -> Result<Box<dyn FnMut() -> u64>, Missing> {
    if node != 1 {
        return Err(Missing::NotSupported(format!("node{node} is full")));
    }
    Ok(Box::new(|| {
        (0..NAPS).for_each(|_| std::thread::sleep(Duration::from_micros(50)));
        NAPS
    }))
}

fn group(node: u32) -> Group {
    Group {
        id: GroupId {
            device: DeviceId(0),
            index: 0,
        },
        node: Some(NodeId(node)),
        size_bytes: weir_core::Bytes(1 << 30),
    }
}

/// The kernel's own event through the whole way, on a fake device whose counters stand still.
#[test]
fn an_event_of_this_thread_is_counted_while_it_reads() {
    let fake = Fake::new();
    let options = Options {
        roots: fake.roots(),
        reads: Some(naps),
        ..Options::default()
    };
    let place = group(1).id;
    let counts = match measured(&options, naps, place, 1, &chosen(true)) {
        Ok(counts) => counts,
        Err(why @ Missing::NotPermitted(_)) => {
            let _ = writeln!(std::io::stderr(), "SKIP events of this thread: {why}");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    let naps = NAPS as f64 * 64.0;
    assert_eq!((counts.read, counts.device), (naps, Some(0.0)));
    let ratio = counts.event / naps;
    assert!((ratio - 1.0).abs() < BOUND_RATIO, "{counts:?}");
    // Stores are counted beside, and an event of reads is not compared with them.
    let stores = Stores {
        name: "STORES".into(),
        config: Config([0, 0, 0, 0]),
        bytes: 64,
    };
    let with_stores = ChosenEvents {
        stores: Some(stores),
        ..chosen(true)
    };
    let counts = measured(&options, options.reads.unwrap(), place, 1, &with_stores).unwrap();
    let ratio = counts.event / (NAPS as f64 * 64.0);
    assert!((ratio - 1.0).abs() < BOUND_RATIO, "{counts:?}");
    // None of it came from the device, and that is what is said.
    let verdict = of(&options, &[group(1)], &chosen(true));
    let CalibrationResult::Unknown(why) = verdict else {
        panic!("{verdict:?}");
    };
    assert!(
        why.to_string().contains("only 0.00 of what was read"),
        "{why}"
    );
    let full = of(&options, &[group(7)], &chosen(true));
    assert_eq!(
        full,
        CalibrationResult::Unknown(Missing::NotSupported("node7 is full".into()))
    );
}
