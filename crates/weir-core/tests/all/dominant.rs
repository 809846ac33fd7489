// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policy drf in single decisions: all devices and CPU time together, beside what max-min does. Nothing
//! reacts here: bandwidth and CPU use stay what they are, whatever is decided.

use weir_core::policy::Policy;
use weir_core::seam::observation::{
    Excluded, GroupReading, Missing, Use, WorkloadKind, WorkloadReading,
};
use weir_core::seam::plan::{Decision, FairShare, OutcomeKind, SharedResource, Why};
use weir_core::seam::topology::{Actuator, CountedBy, Device, Group, Lever};
use weir_core::{
    Bytes, BytesPerSec, Config, Description, DeviceId, GroupId, Nanos, Observation, Outcome, Plan,
    Reading, State, WorkloadId, step,
};

const MS: u64 = 1_000_000;
const TICK_MS: u64 = 50;
const SET_POINT: f64 = 1e6;

/// A workload with a group of its own on each device that it uses, and what it moves there in a second.
#[derive(Clone)]
struct Load {
    id: &'static str,
    cpus: f64,
    weight: f64,
    moves: Vec<(u32, f64)>,
    excluded: bool,
}

fn load(id: &'static str, cpus: f64, moves: &[(u32, f64)]) -> Load {
    Load {
        id,
        cpus,
        weight: 100.0,
        moves: moves.to_vec(),
        excluded: false,
    }
}

struct Bench {
    cpu_count: u32,
    devices: u32,
    loads: Vec<Load>,
    state: State,
    config: Config,
    tick: u64,
    /// Counters of this device cannot be read.
    lost: Option<u32>,
}

impl Bench {
    fn new(policy: Policy, cpu_count: u32, devices: u32, loads: Vec<Load>) -> Self {
        Bench {
            cpu_count,
            devices,
            loads,
            state: State::default(),
            config: Config {
                set_point_bytes_per_sec: Some(BytesPerSec::new(SET_POINT)),
                policy,
                limit: true,
                ..Config::default()
            },
            tick: 0,
            lost: None,
        }
    }

    /// Groups with the load that each belongs to.
    fn groups(&self) -> Vec<(GroupId, f64, &'static str)> {
        let mut groups = Vec::new();
        for (index, load) in (0..).zip(&self.loads) {
            for &(device, rate) in load.moves.iter().filter(|(d, _)| *d < self.devices) {
                let device = DeviceId(device);
                groups.push((GroupId { device, index }, rate, load.id));
            }
        }
        groups.sort_by_key(|(id, _, _)| *id);
        groups
    }

    fn machine(&self) -> Description {
        let device = |id| Device {
            id: DeviceId(id),
            name: format!("weir_cxl{id}"),
            capacity_bytes_per_sec: None,
            counter_mask_bytes: u64::MAX,
            counted_by: CountedBy::Model,
        };
        let group = |(id, _, _): (GroupId, f64, &str)| Group {
            id,
            node: None,
            size_bytes: Bytes(1 << 30),
        };
        Description {
            cpu_count: self.cpu_count,
            devices: (0..self.devices).map(device).collect(),
            groups: self.groups().into_iter().map(group).collect(),
            actuator: Some(Actuator {
                name: "none".into(),
                levers: vec![Lever::CpuTime],
                min_cpus: 0.001,
                grain_ns: Nanos(4 * MS),
                refill_on_write_ratio: 0.0,
                period_ns: Nanos(20 * MS),
                min_quota_ns: Nanos(0),
                is_exact: false,
            }),
            ..Description::default()
        }
    }

    fn see(&self) -> Observation {
        let at = Nanos((self.tick + 1) * TICK_MS * MS);
        let groups = self.groups();
        let read = |id: GroupId, rate: f64| match self.lost == Some(id.device.0) {
            true => Reading::missing(at, Missing::Lost("busy".into())),
            false => Reading::new(at, Bytes((rate * at.secs_f64()) as u64)),
        };
        let use_ = |&(group, _, _): &(GroupId, f64, &str)| Use {
            group,
            resident_bytes: Reading::new(at, Bytes(1 << 20)),
            sampled_read_bytes: None,
            sampled_write_bytes: None,
        };
        let workload = |load: &Load| WorkloadReading {
            id: WorkloadId::new(load.id),
            kind: WorkloadKind::Cgroup,
            cpu_ns: Reading::new(at, Nanos((load.cpus * at.0 as f64) as u64)),
            throttled_ns: Reading::new(at, Nanos(0)),
            uses: groups.iter().filter(|g| g.2 == load.id).map(use_).collect(),
            resident_bytes: None,
            weight: load.weight,
            their_limit_cpus: None,
            limited_weight: None,
            excluded: load.excluded.then_some(Excluded::Kernel),
        };
        let group = |&(id, rate, _): &(GroupId, f64, &str)| GroupReading {
            id,
            read_bytes: read(id, rate),
            write_bytes: read(id, 0.0),
        };
        Observation {
            seq: self.tick,
            at,
            groups: groups.iter().map(group).collect(),
            workloads: self.loads.iter().map(workload).collect(),
            ..Observation::default()
        }
    }

    /// Without a correction: nothing reacts here, so that it would only run to its end.
    fn uncorrected(mut self) -> Self {
        (self.config.kp, self.config.ki_per_sec) = (0.0, 0.0);
        self
    }

    fn ticks(&mut self, n: u32) -> Plan {
        let mut plan = Plan::default();
        for _ in 0..n {
            let (seen, machine) = (self.see(), self.machine());
            self.tick += 1;
            plan = step(&mut self.state, &self.config, &machine, &seen);
            let done = |a: &weir_core::Action| Outcome {
                workload: a.workload.clone(),
                result: OutcomeKind::Applied,
            };
            let outcomes: Vec<Outcome> = plan.actions.iter().map(done).collect();
            self.state.note(&outcomes);
        }
        plan
    }
}

fn decision<'a>(plan: &'a Plan, id: &str) -> &'a Decision {
    let found = plan.workloads.iter().find(|v| v.id.as_str() == id);
    found.expect("a decision on it")
}

fn fair(plan: &Plan, id: &str) -> FairShare {
    decision(plan, id).fair.expect("a share")
}

fn allowed(plan: &Plan, id: &str) -> f64 {
    let allowed = decision(plan, id).allowed_bytes_per_sec;
    allowed.expect("a part").get()
}

fn near(what: &str, got: f64, want: f64) {
    assert!(
        (got - want).abs() <= 0.01 * want,
        "{what}: {got} should be {want}"
    );
}

/// One workload on both devices, and one of its own on each.
fn crossing(policy: Policy) -> Bench {
    let loads = vec![
        load("/both", 1.0, &[(0, 1e6), (1, 0.5e6)]),
        load("/first", 1.0, &[(0, 1e6)]),
        load("/second", 1.0, &[(1, 1e6)]),
    ];
    Bench::new(policy, 8, 2, loads)
}

#[test]
fn what_one_device_holds_back_is_left_on_the_other() {
    let plan = crossing(Policy::Drf).ticks(4);
    near("first", allowed(&plan, "/first"), 0.5e6);
    near("both", allowed(&plan, "/both"), 0.75e6);
    near("second", allowed(&plan, "/second"), 0.75e6);
    let both = fair(&plan, "/both");
    assert_eq!(both.dominant, SharedResource::Device(DeviceId(0)));
    assert_eq!(both.held_back_by, Some(both.dominant));
    near("target", both.target_ratio, 0.5);
    near("used", both.used_ratio, 1.0);
    // Max-min splits each device by itself, and leaves a quarter of the second one unused.
    let plan = crossing(Policy::MaxMin).ticks(4);
    near("second by max-min", allowed(&plan, "/second"), 0.5e6);
    assert_eq!(decision(&plan, "/both").fair, None);
}

#[test]
fn a_limit_on_several_devices_is_one_limit() {
    let mut bench = crossing(Policy::Drf);
    bench.ticks(3);
    let plan = bench.ticks(1);
    let limit = |id: &str| decision(&plan, id).limit_cpus.expect("limited").get();
    near("both", limit("/both"), 0.5);
    near("second", limit("/second"), 0.75);
}

/// Set 4 of the DRFQS thesis: a reader with 0.708 of the memory for a quarter of the CPUs, four that compute.
fn set_4(policy: Policy) -> Bench {
    let mut loads = vec![load("/mbw", 0.8, &[(0, 0.2 * 2.832 * SET_POINT)])];
    loads.extend(["/sjeng1", "/sjeng2", "/sjeng3", "/sjeng4"].map(|id| load(id, 0.8, &[])));
    Bench::new(policy, 4, 1, loads)
}

#[test]
fn a_device_user_is_limited_where_cpus_are_full() {
    let mut bench = set_4(Policy::Drf);
    let plan = bench.ticks(40);
    let limit = decision(&plan, "/mbw").limit_cpus.expect("limited").get();
    near("its CPU share", limit / 4.0, 0.0811);
    let share = fair(&plan, "/mbw");
    assert_eq!(share.dominant, SharedResource::Device(DeviceId(0)));
    assert_eq!(share.held_back_by, Some(SharedResource::Cpu));
    near("its dominant share", share.target_ratio, 0.2297);
    assert!(matches!(&decision(&plan, "/mbw").why, Why::Limited { policy, .. } if policy == "drf"));
    // The device has headroom: that it is not used is no error that a correction could remove.
    let plan = bench.ticks(400);
    assert_eq!(plan.devices[0].correction_ratio, 1.0);
    assert!(plan.workloads.iter().all(|v| v.id.as_str() == "/mbw"));
    // Max-min of one device has nothing to hold back.
    let plan = set_4(Policy::MaxMin).ticks(40);
    assert_eq!(decision(&plan, "/mbw").limit_cpus, None);
}

#[test]
fn weights_decide_between_a_device_and_the_cpus() {
    let mut bench = set_4(Policy::Drf);
    bench.loads[0].weight = 200.0;
    let plan = bench.ticks(40);
    let share = fair(&plan, "/mbw").target_ratio;
    // d of the reader is twice that of the others: d/2.832 + 4·d/2 = 1.
    near("share", share, 1.0 / (1.0 / 2.832 + 2.0));
}

#[test]
fn weights_at_their_ends_are_taken_as_they_are() {
    for (weight, want) in [(0.0, 1e-3 / (1e-3 + 100.0)), (10_000.0, 100.0 / 101.0)] {
        let loads = vec![load("/a", 1.0, &[(0, 1e6)]), load("/b", 1.0, &[(0, 1e6)])];
        let mut bench = Bench::new(Policy::Drf, 8, 1, loads);
        bench.loads[0].weight = weight;
        let plan = bench.ticks(4);
        near("target", fair(&plan, "/a").target_ratio, want);
    }
}

#[test]
fn idle_cpus_hold_nothing_back() {
    let mut bench = set_4(Policy::Drf);
    bench.cpu_count = 8;
    let plan = bench.ticks(40);
    assert_eq!(decision(&plan, "/mbw").limit_cpus, None);
    assert_eq!(fair(&plan, "/mbw").held_back_by, None);
    assert_eq!(decision(&plan, "/mbw").why, Why::Headroom);
}

/// The kernel holds it to its part of the CPUs by its weight; a limit would only cost.
#[test]
fn a_device_user_that_needs_cpus_most_is_left_to_the_kernel() {
    let mut bench = set_4(Policy::Drf);
    bench.loads[0] = load("/mbw", 0.8, &[(0, 0.05 * SET_POINT)]);
    let plan = bench.ticks(60);
    let share = fair(&plan, "/mbw");
    assert_eq!(share.dominant, SharedResource::Cpu);
    assert_eq!(decision(&plan, "/mbw").limit_cpus, None);
}

#[test]
fn what_may_not_be_limited_is_taken_off_first() {
    let mut bench = crossing(Policy::Drf).uncorrected();
    let mut excluded = load("/kernel", 6.0, &[(0, 0.4e6)]);
    excluded.excluded = true;
    bench.loads.push(excluded);
    let plan = bench.ticks(20);
    near("first", allowed(&plan, "/first"), 0.3e6);
    near("target", fair(&plan, "/first").target_ratio, 0.5);
    assert_eq!(decision(&plan, "/kernel").fair, None);
    // It takes all: the others keep their floor, and the reason names the device.
    bench.loads[3].moves[0].1 = 2e6;
    let mut bench = Bench::new(Policy::Drf, 8, 2, bench.loads).uncorrected();
    let plan = bench.ticks(40);
    assert_eq!(allowed(&plan, "/first"), 0.0);
    assert_eq!(decision(&plan, "/first").why, Why::AtFloor);
    let full = SharedResource::Device(DeviceId(0));
    assert_eq!(fair(&plan, "/first").held_back_by, Some(full));
}

#[test]
fn a_workload_without_counts_counts_by_its_cpu_time_and_that_is_said() {
    let mut bench = crossing(Policy::Drf);
    bench.lost = Some(1);
    let plan = bench.ticks(4);
    let second = fair(&plan, "/second");
    assert!(second.is_by_cpu_alone && second.dominant == SharedResource::Cpu);
    assert!(matches!(decision(&plan, "/second").why, Why::NoData { .. }));
    assert!(!fair(&plan, "/first").is_by_cpu_alone);
}

#[test]
fn a_device_that_vanishes_is_no_resource_any_more() {
    let mut bench = crossing(Policy::Drf).uncorrected();
    bench.ticks(4);
    bench.devices = 1;
    let plan = bench.ticks(40);
    near("both", allowed(&plan, "/both"), 0.5e6);
    let second = plan.workloads.iter().find(|v| v.id.as_str() == "/second");
    let is_free =
        second.is_none_or(|v| v.allowed_bytes_per_sec.is_none() && v.limit_cpus.is_none());
    assert!(is_free, "{second:?}");
    assert_eq!(plan.devices.len(), 1);
}

#[test]
fn without_a_set_point_a_device_is_no_resource() {
    let mut bench = crossing(Policy::Drf);
    bench.config.set_point_bytes_per_sec = None;
    bench.config.limit = false;
    let plan = bench.ticks(4);
    assert_eq!(fair(&plan, "/both").dominant, SharedResource::Cpu);
    assert_eq!(decision(&plan, "/both").why, Why::ObserveOnly);
}
