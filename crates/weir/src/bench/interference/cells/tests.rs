// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::super::plan::{matrix, with_threads};
use super::*;
use crate::bench::interference::names::StreamTarget;

fn described(op: &str, threads: u32) -> InterferenceStream {
    InterferenceStream {
        target: "mmem".into(),
        op: op.into(),
        threads,
        width_bytes: Some(64),
        block_bytes: None,
        depth: None,
        direct: None,
    }
}

fn moved(bytes_per_sec: f64) -> StreamFigures {
    StreamFigures {
        bytes_per_sec: Some(bytes_per_sec),
        ..StreamFigures::default()
    }
}

/// A little noise that is the same in each run.
fn noise(n: usize) -> f64 {
    1.0 + 0.001 * ((n * 7919 % 13) as f64 - 6.0) / 6.0
}

/// A pair whose first side keeps `kept(threads of the other)`, and whose second keeps all.
fn invented(each: u32, repetitions: usize, kept: impl Fn(u32) -> f64) -> PairSamples {
    let operations: Vec<_> = ["ld", "ntst"].map(|o| o.parse().unwrap()).into();
    let pairs = matrix(
        &[StreamTarget::Mmem, StreamTarget::Cxl],
        &operations,
        &[true],
    );
    let plan = with_threads(pairs[2].clone(), each, false).unwrap();
    let sample = |r: usize| -> RepetitionSample {
        // A drift that both measurements of a repetition share.
        let drift = 1.0 + 0.05 * r as f64;
        let figures = |task: &PairTask, place: usize| match task {
            PairTask::Alone(0) => [moved(100.0 * drift * noise(r)), StreamFigures::default()],
            PairTask::Alone(_) => [StreamFigures::default(), moved(40.0 * drift * noise(r + 3))],
            PairTask::Together([_, threads]) => [
                moved(100.0 * drift * kept(*threads) * noise(5 * r + place)),
                moved(40.0 * drift * noise(3 * r + place + 1)),
            ],
        };
        let tasks = plan.tasks().into_iter().enumerate();
        tasks
            .map(|(place, task)| (task, figures(&task, place)))
            .collect()
    };
    PairSamples {
        streams: [described("ld", each), described("ntst", each)],
        repetitions: (0..repetitions).map(sample).collect(),
        plan,
        placements: Vec::new(),
        missing: Default::default(),
    }
}

#[test]
fn one_pair_gives_a_cell_for_each_side() {
    let pair = invented(1, 9, |_| 0.3);
    let cells = cells(std::slice::from_ref(&pair), 1);
    assert_eq!(cells.len(), 2);
    let (hit, other) = (&cells[0], &cells[1]);
    assert_eq!(
        (hit.victim.op.as_str(), hit.background.op.as_str()),
        ("ld", "ntst")
    );
    assert_eq!(
        (other.victim.op.as_str(), other.background.op.as_str()),
        ("ntst", "ld")
    );
    assert!((hit.ratio.unwrap() - 0.3).abs() < 0.003, "{:?}", hit.ratio);
    assert_eq!(hit.interferes, Some(true));
    assert_eq!(hit.class, [InfluenceClass::DeepSuppression]);
    assert_eq!(
        (other.interferes, &other.class[..]),
        (Some(false), &[InfluenceClass::None][..])
    );
    // Drift is in both and cancels; what is shown fits together.
    let shown = hit.together.bytes_per_sec.unwrap() / hit.alone.bytes_per_sec.unwrap();
    assert!((shown / hit.ratio.unwrap() - 1.0).abs() < 0.01, "{shown}");
    assert!(pair.is_enough(), "{:?}", pair.half_width_ratio());
    assert_eq!((hit.repeats, hit.sweep.len()), (9, 0));
}

#[test]
fn a_sweep_shows_all_points_and_names_the_greatest() {
    let kept = |threads| if threads == 2 { 0.5 } else { 0.9 };
    let cells = cells(&[invented(6, 9, kept)], 1);
    let hit = &cells[0];
    assert_eq!((hit.victim.threads, hit.background.threads), (6, 2));
    let threads: Vec<u32> = hit.sweep.iter().map(|p| p.background_threads).collect();
    assert_eq!(threads, [1, 2, 4, 6]);
    assert!((hit.sweep[1].ratio.unwrap() - 0.5).abs() < 0.01);
    assert!((hit.sweep[2].ratio.unwrap() - 0.9).abs() < 0.01);
    // The greatest of several has a wider interval than it has for itself.
    let (own, all) = (&hit.sweep[1], hit);
    assert!(all.ratio_low.unwrap() <= own.ratio_low.unwrap() + 1e-9);
    assert!(all.ratio_high.unwrap() >= own.ratio_high.unwrap() - 1e-9);
    // The other side's sweep is over the first side's threads.
    assert_eq!(
        cells[1]
            .sweep
            .iter()
            .map(|p| p.background_threads)
            .collect::<Vec<_>>(),
        [1, 2, 4, 6]
    );
    assert_eq!(cells[1].victim.threads, 6);
}

#[test]
fn each_null_has_a_reason() {
    let whole = invented(1, 9, |_| 0.3);
    let once = invented(1, 1, |_| 0.3);
    for cell in cells(&[whole, once], 1) {
        let json = serde_json::to_value(&cell).unwrap();
        let mut nulls = Vec::new();
        for (name, value) in json.as_object().unwrap() {
            let inner = value.as_object().into_iter().flatten();
            nulls.extend(
                inner
                    .filter(|(_, v)| v.is_null())
                    .map(|(part, _)| format!("{name}.{part}")),
            );
            nulls.extend(value.is_null().then(|| name.clone()));
        }
        for name in nulls {
            assert!(
                cell.missing.contains_key(&name),
                "{name} of {:?}",
                cell.missing
            );
        }
    }
}

#[test]
fn too_few_repetitions_are_no_cell_with_a_verdict() {
    let pair = invented(1, 1, |_| 0.3);
    assert!(!pair.is_enough());
    let cell = &cells(&[pair], 1)[0];
    assert_eq!(
        (cell.ratio, cell.interferes, cell.class.len()),
        (None, None, 0)
    );
    assert!(
        cell.missing["ratio"].contains("1 whole"),
        "{:?}",
        cell.missing
    );
    assert!(
        cell.alone.bytes_per_sec.is_some(),
        "what was measured is shown"
    );
}

#[test]
fn a_blocked_victim_is_deeply_suppressed_and_says_why_there_is_no_interval() {
    let cells = cells(
        &[
            invented(1, 9, |_| 0.0),
            invented(6, 9, |n| f64::from(u8::from(n < 4))),
        ],
        1,
    );
    let (hit, swept) = (&cells[0], &cells[2]);
    for cell in [hit, swept] {
        assert_eq!(
            (cell.ratio, cell.ratio_low, cell.repeats),
            (Some(0.0), None, 9)
        );
        assert_eq!(cell.class, [InfluenceClass::DeepSuppression]);
        assert_eq!(cell.interferes, Some(true));
        assert_eq!(cell.together.bytes_per_sec, Some(0.0));
        for name in ["ratio_low", "ratio_high"] {
            assert!(cell.missing[name].contains("moved nothing"), "{name}");
        }
    }
    assert_eq!(swept.background.threads, 4);
    assert_eq!(swept.sweep[2].ratio, Some(0.0));
    assert!(swept.sweep[0].ratio_low.is_some());
}

#[test]
fn a_victim_that_moves_nothing_alone_needs_longer_measurements() {
    let mut pair = invented(1, 9, |_| 1.0);
    for sample in &mut pair.repetitions {
        sample.get_mut(&PairTask::Alone(0)).unwrap()[0] = moved(0.0);
    }
    let cell = &cells(&[pair], 1)[0];
    assert_eq!((cell.ratio, cell.alone.bytes_per_sec), (None, Some(0.0)));
    assert!(
        cell.missing["ratio"].contains("--seconds"),
        "{:?}",
        cell.missing
    );
}

#[test]
fn each_placement_has_its_own_effect() {
    let (near, far) = (invented(1, 9, |_| 0.6), invented(1, 8, |_| 1.0));
    let pair = PairSamples {
        placements: vec![
            (80.0, near.repetitions.clone()),
            (381.0, far.repetitions),
            (900.0, Vec::new()),
        ],
        ..near
    };
    let hit = &cells(&[pair], 1)[0];
    let points: Vec<_> = hit
        .placements
        .iter()
        .map(|p| (p.round_trip_ns, p.repeats))
        .collect();
    assert_eq!(
        points,
        [(80.0, 9), (381.0, 8)],
        "one without a repetition has none"
    );
    assert_eq!(hit.placements[0].ratio, hit.ratio);
    assert!((hit.placements[1].ratio.unwrap() - 1.0).abs() < 0.01);
}
