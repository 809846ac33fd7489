// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits in the unit of the resource that the back end limits: device bytes, or CPU time.

use crate::parts::decision;
use crate::plant::{CAPACITY, Loop, Plant};
use weir_core::seam::plan::{ActionKind, ByteBudget, Decision, Limit, Why};
use weir_core::seam::topology::Lever;
use weir_core::{BytesPerSec, Config, Plan, WorkloadId};

/// Heavy readers under control, with a back end that has these levers.
fn controlled(levers: &[Lever]) -> Loop {
    let mut plant = Plant::new(7, 4);
    if let Some(actuator) = &mut plant.description.actuator {
        actuator.levers = levers.to_vec();
    }
    let config = Config {
        set_point_bytes_per_sec: Some(BytesPerSec::new(0.4 * CAPACITY)),
        ..Config::default()
    };
    Loop::new(plant, config)
}

impl Loop {
    fn plans(&mut self, count: usize) -> Vec<Plan> {
        (0..count).map(|_| self.tick().clone()).collect()
    }
}

fn limits(plan: &Plan) -> Vec<(&WorkloadId, Limit)> {
    let limit = |action: &'_ weir_core::Action| match action.kind {
        ActionKind::Limit(limit) => Some(limit),
        ActionKind::Release => None,
    };
    let all = plan.actions.iter();
    all.filter_map(|action| Some((&action.workload, limit(action)?)))
        .collect()
}

fn is_part(decision: &Decision) -> bool {
    matches!(decision.why, Why::Limited { .. })
}

/// Budgets of a run, each with the decision on its workload.
fn budgets(plans: &[Plan]) -> Vec<(&ByteBudget, &Decision)> {
    let each = plans
        .iter()
        .flat_map(|plan| plan.budgets.iter().map(move |b| (plan, b)));
    each.map(|(plan, b)| (b, decision(plan, b.workload.as_str())))
        .collect()
}

#[test]
fn a_part_of_a_device_is_limited_in_its_bytes() {
    let plans = controlled(&[Lever::DeviceBytes]).plans(100);
    let parts: Vec<_> = budgets(&plans)
        .into_iter()
        .filter(|(_, d)| is_part(d))
        .collect();
    assert!(parts.len() > 100, "only {} budgets", parts.len());
    for (budget, decision) in parts {
        assert_eq!(Some(budget.bytes_per_sec), decision.allowed_bytes_per_sec);
        let kappa = decision.intensity_bytes_per_cpu_sec;
        assert_eq!(Some(budget.intensity_bytes_per_cpu_sec), kappa);
    }
}

#[test]
fn an_action_has_the_bytes_that_the_budget_has() {
    let plans = controlled(&[Lever::DeviceBytes]).plans(100);
    let mut count = 0;
    for plan in &plans {
        for (id, limit) in limits(plan) {
            let Limit::DeviceBytes { bytes_per_sec, .. } = limit else {
                panic!("{limit:?} of a back end that limits bytes");
            };
            let budget = plan.budget_of(id).expect("what is requested has a budget");
            assert_eq!(budget.bytes_per_sec, bytes_per_sec);
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} limits");
}

#[test]
fn budgets_follow_where_no_action_does() {
    let plans = controlled(&[Lever::DeviceBytes]).plans(100);
    let quiet = plans.iter().filter(|plan| plan.actions.is_empty());
    let with_budgets = quiet.filter(|plan| plan.budgets.len() == 4).count();
    assert!(with_budgets > 20, "{with_budgets} of 100 steps");
}

#[test]
fn at_its_floor_and_without_data_a_limit_is_cpu_time_times_intensity() {
    let mut world = controlled(&[Lever::DeviceBytes]);
    let _ = world.plans(60);
    // Without counters limits are held, and then raised.
    world.plant.counters_lost = true;
    let mut plans = world.plans(30);
    world.plant.counters_lost = false;
    let _ = world.plans(60);
    // A set-point that leaves nothing but floors.
    world.config.set_point_bytes_per_sec = Some(BytesPerSec::new(0.01 * CAPACITY));
    plans.extend(world.plans(100));
    let others: Vec<_> = budgets(&plans)
        .into_iter()
        .filter(|(_, d)| !is_part(d))
        .collect();
    let count = |why: fn(&Why) -> bool| others.iter().filter(|(_, d)| why(&d.why)).count();
    assert!(count(|why| matches!(why, Why::NoData { .. })) > 20);
    assert!(count(|why| matches!(why, Why::AtFloor)) > 20);
    for (budget, decision) in others {
        let in_force = decision.limit_cpus.expect("limited").get();
        let comes_to = budget.bytes_per_sec.get() / budget.intensity_bytes_per_cpu_sec;
        let is_requested = plans.iter().flat_map(limits).any(|(id, limit)| {
            *id == budget.workload && (limit.cpus().get() / comes_to - 1.0).abs() < 1e-9
        });
        let is_in_force = (comes_to / in_force - 1.0).abs() < 1e-9;
        assert!(is_in_force || is_requested, "{budget:?} {decision:?}");
    }
}

#[test]
fn without_the_lever_limits_are_cpu_time_and_nothing_else_differs() {
    let mut both = [&[Lever::CpuTime], &[Lever::DeviceBytes]].map(|levers| controlled(levers));
    for _ in 0..150 {
        let [by_time, by_bytes] = both.each_mut().map(|world| world.tick().clone());
        assert_eq!(by_time.budgets, []);
        let is_time = |(_, limit): &(&WorkloadId, Limit)| matches!(limit, Limit::CpuTime { .. });
        assert!(limits(&by_time).iter().all(is_time));
        let cpus = |plan: &Plan| -> Vec<(WorkloadId, f64)> {
            let all = limits(plan).into_iter();
            all.map(|(id, limit)| (id.clone(), limit.cpus().get()))
                .collect()
        };
        assert_eq!(cpus(&by_time), cpus(&by_bytes));
        assert_eq!(by_time.workloads, by_bytes.workloads);
        assert_eq!(by_time.devices, by_bytes.devices);
    }
}

#[test]
fn what_has_no_limit_has_no_budget() {
    let mut world = controlled(&[Lever::DeviceBytes]);
    let _ = world.plans(60);
    world.config.limit = false;
    let plans = world.plans(5);
    let last = plans.last().expect("five");
    assert_eq!(last.budgets, []);
    assert!(last.workloads.iter().all(|d| d.limit_cpus.is_none()));
}

/// A plan as text and back, and an action of each resource.
#[test]
fn limits_are_written_with_their_unit() {
    let plans = controlled(&[Lever::DeviceBytes]).plans(40);
    for plan in &plans {
        let text = serde_json::to_string(plan).expect("plain data");
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), *plan);
    }
    let text = serde_json::to_string(&plans).expect("plain data");
    assert!(text.contains(r#"{"limit":{"bytes_per_sec":"#));
    let read: ActionKind = serde_json::from_str(r#"{"limit":{"cpus":0.5}}"#).expect("an action");
    let ActionKind::Limit(limit @ Limit::CpuTime { cpus }) = read else {
        panic!("{read:?}");
    };
    assert_eq!((cpus.get(), limit.cpus().get()), (0.5, 0.5));
    let text = serde_json::to_string(&read).expect("plain data");
    assert_eq!(text, r#"{"limit":{"cpus":0.5}}"#);
    // A limit without a value is none.
    assert!(serde_json::from_str::<ActionKind>(r#"{"limit":{"watts":1}}"#).is_err());
}
