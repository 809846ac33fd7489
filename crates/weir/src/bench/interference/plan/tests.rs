// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use std::collections::BTreeSet;

fn operations(names: &[&str]) -> Vec<StreamOperation> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

const USUAL: [&str; 5] = ["ld", "st", "ntst", "randread", "randwrite"];

#[test]
fn with_three_targets_it_is_the_papers_matrix() {
    use StreamTarget::{Cxl, Mmem, Ssd};
    let pairs = matrix(&[Mmem, Cxl, Ssd], &operations(&USUAL), &[true]);
    let plans: Vec<PairPlan> = pairs
        .into_iter()
        .map(|p| with_threads(p, 4, true).unwrap())
        .collect();
    assert_eq!(plans.len(), 15);
    assert_eq!(
        plans.iter().map(|plan| plan.victims().len()).sum::<usize>(),
        30
    );
    let labels: BTreeSet<String> = plans.iter().map(PairPlan::label).collect();
    assert_eq!(labels.len(), 15, "each once");
    assert!(labels.contains("ssd:randwrite + cxl:ntst") && labels.contains("mmem:ld + cxl:st"));
}

#[test]
fn with_one_node_local_memory_stands_beside_itself_and_storage() {
    use StreamTarget::{Mmem, Ssd};
    let pairs = matrix(&[Mmem, Ssd], &operations(&USUAL), &[true]);
    let plans: Vec<PairPlan> = pairs
        .into_iter()
        .map(|p| with_threads(p, 1, true).unwrap())
        .collect();
    assert_eq!(plans.len(), 6 + 6);
    // The diagonal of memory has one cell each.
    assert_eq!(
        plans.iter().map(|plan| plan.victims().len()).sum::<usize>(),
        9 + 12
    );
    // A stream beside its like is measured alone once.
    assert_eq!(plans[0].label(), "mmem:ld + mmem:ld");
    assert_eq!(
        plans[0].tasks(),
        [PairTask::Alone(0), PairTask::Together([1, 1])]
    );
    assert_eq!(matrix(&[Mmem], &operations(&USUAL), &[true]).len(), 6);
    let both = matrix(&[Mmem, Ssd], &operations(&["ld", "read"]), &[true, false]);
    let labels: Vec<String> = both.iter().map(|[one, _]| one.label()).collect();
    assert_eq!(labels, ["mmem:ld", "ssd:read", "ssd:read (buffered)"]);
}

#[test]
fn a_repetition_has_each_measurement_once_in_an_order_of_its_own() {
    let [one, other] = matrix(
        &[StreamTarget::Mmem, StreamTarget::Cxl],
        &operations(&["ld"]),
        &[true],
    )[0]
    .clone();
    let plan = with_threads([one, other], 6, false).unwrap();
    assert_eq!(plan.sweep, [vec![1, 2, 4, 6], vec![1, 2, 4, 6]]);
    assert_eq!(plan.points(0), [[6, 1], [6, 2], [6, 4], [6, 6]]);
    assert_eq!(plan.points(1), [[1, 6], [2, 6], [4, 6], [6, 6]]);
    let tasks: BTreeSet<PairTask> = plan.tasks().into_iter().collect();
    assert_eq!(
        (tasks.len(), plan.tasks().len()),
        (9, 9),
        "both at full serve both"
    );
    let mut firsts = BTreeSet::new();
    for repetition in 0..200 {
        let order = plan.order(7, 3, repetition);
        assert_eq!(order, plan.order(7, 3, repetition));
        assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), tasks);
        firsts.insert(order[0]);
    }
    assert_eq!(firsts.len(), 9, "each comes first now and then");
    assert_ne!(
        (0..9).map(|r| plan.order(7, 3, r)).collect::<Vec<_>>(),
        (0..9).map(|r| plan.order(8, 3, r)).collect::<Vec<_>>(),
        "the seed decides"
    );
}

#[test]
fn a_background_program_is_not_judged_and_not_measured_alone() {
    let [memory, _] = matrix(&[StreamTarget::Mmem], &operations(&["ld"]), &[true])[0].clone();
    let program = PlannedStream::BackgroundProgram("yes".into());
    let plan = with_threads([memory, program], 2, false).unwrap();
    assert_eq!(plan.victims(), [0]);
    assert_eq!(
        plan.tasks(),
        [PairTask::Alone(0), PairTask::Together([2, 2])]
    );
}

#[test]
fn cpus_are_shared_and_one_measures_latency() {
    let share = |count: u32, asked| CpuShare::of(&(0..count).collect::<Vec<_>>(), asked);
    let two = share(2, None).unwrap();
    assert_eq!((two.sides, two.probe), ([vec![0], vec![1]], None));
    let five = share(5, None).unwrap();
    assert_eq!(
        (five.sides, five.probe),
        ([vec![0, 1], vec![2, 3]], Some(4))
    );
    let four = share(4, None).unwrap();
    assert_eq!((four.each(), four.probe), (1, Some(3)));
    let eight = share(8, Some(4)).unwrap();
    assert_eq!((eight.each(), eight.probe), (4, None));
    for (count, asked, wanted) in [
        (1, None, "too few"),
        (0, None, "too few"),
        (8, Some(5), "--threads 5"),
    ] {
        let said = share(count, asked).unwrap_err();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn numbers_of_threads_that_are_said_are_kept() {
    let pairs = named(&["mmem:ld:3+cxl:ntst".parse().unwrap()], &[true, false]);
    assert_eq!(pairs.len(), 1, "no storage, one way");
    let plan = with_threads(pairs[0].clone(), 8, false).unwrap();
    assert_eq!(
        (plan.full, plan.sweep),
        ([3, 8], [vec![3], vec![1, 2, 4, 8]])
    );
    let said = with_threads(pairs[0].clone(), 2, false).unwrap_err();
    assert!(
        said.contains("mmem:ld:3") && said.contains("CPUs for 2"),
        "{said}"
    );
    assert_eq!(
        named(&["mmem:ld+ssd:read".parse().unwrap()], &[true, false]).len(),
        2
    );
}

#[test]
fn quick_fits_into_its_time_whatever_the_machine_has() {
    use StreamTarget::{Cxl, Mmem, Ssd};
    for targets in [&[Mmem][..], &[Mmem, Ssd], &[Mmem, Cxl], &[Mmem, Cxl, Ssd]] {
        for each in [1, 16, 200] {
            let pairs = matrix(targets, &operations(&USUAL), &[true]);
            let plans: Vec<_> = pairs
                .into_iter()
                .map(|p| with_threads(p, each, true).unwrap())
                .collect();
            let time = TimePlan::of(&plans, true, None, 20, 0.1);
            let seven: f64 = plans
                .iter()
                .map(|plan| 7.0 * time.repetition_seconds(plan))
                .sum();
            assert!(
                seven <= QUICK_SECONDS,
                "{targets:?}: {seven} s for seven repetitions"
            );
            let none_done = plans.iter().map(|plan| (time.repetition_seconds(plan), 0));
            assert!(time.left_seconds(none_done, 0.0) <= QUICK_SECONDS);
        }
    }
    // What takes long to make is measured for a shorter time.
    let pairs = matrix(&[Mmem], &operations(&USUAL), &[true]);
    let plans: Vec<_> = pairs
        .into_iter()
        .map(|p| with_threads(p, 1, true).unwrap())
        .collect();
    let of = |prepare| TimePlan::of(&plans, true, None, 20, prepare).seconds;
    assert!(of(2.0) < of(0.0), "{} {}", of(2.0), of(0.0));
    let time = TimePlan::of(&[], false, Some(2.0), 5, 0.0);
    assert_eq!((time.seconds, time.total_seconds), (2.0, None));
}

#[test]
fn what_is_left_falls_with_each_repetition() {
    let pairs = matrix(&[StreamTarget::Mmem], &operations(&["ld", "st"]), &[true]);
    let plans: Vec<_> = pairs
        .into_iter()
        .map(|p| with_threads(p, 1, false).unwrap())
        .collect();
    let time = TimePlan::of(&plans, false, Some(1.0), 3, 0.5);
    let mut last = f64::MAX;
    for done in 0..3 {
        for of_first in 0..2 {
            let all = plans.iter().enumerate();
            let all = all.map(|(place, plan)| {
                (
                    time.repetition_seconds(plan),
                    done + usize::from(place < of_first),
                )
            });
            let left = time.left_seconds(all, 0.0);
            assert!(left < last, "{done} {of_first}");
            last = left;
        }
    }
    let all_done = plans.iter().map(|plan| (time.repetition_seconds(plan), 3));
    assert_eq!(time.left_seconds(all_done, 0.0), 0.0);
}
