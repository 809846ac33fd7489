// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Readers that weir does not see, beside a light service with 4 MiB there and 0.01 CPU.

use crate::parts::{GROUP, decision};
use crate::steady::{Bench, steady};
use std::sync::Arc;
use weir_core::rates::attribution::Provenance::{Apportioned, Unknown};
use weir_core::seam::observation::{Observation, UnownedMemory};
use weir_core::{Bytes, BytesPerSec, Plan, Reading};

const MIB: u64 = 1 << 20;
/// What the device moves, and its set-point.
const MOVED: f64 = 400.0 * MIB as f64;
const SET_POINT: f64 = 200.0 * MIB as f64;

/// The light service, and another workload with so much memory there and so many CPUs.
fn bench(cpus: f64) -> Bench {
    let workloads = vec![
        steady("/light", 0.01, &[GROUP]),
        steady("/other", cpus, &[GROUP]),
    ];
    let mut bench = Bench::new(&[(GROUP, MOVED)], workloads).uncorrected();
    bench.config.set_point_bytes_per_sec = Some(BytesPerSec::new(SET_POINT));
    bench
}

fn with_memory(mut seen: Observation, mib: [u64; 2]) -> Observation {
    for (reading, mib) in seen.workloads.iter_mut().zip(mib) {
        let at = reading.cpu_ns.at;
        for use_ in Arc::make_mut(&mut reading.uses) {
            use_.resident_bytes = Reading::new(at, Bytes(mib * MIB));
        }
        reading.resident_bytes = Some(Bytes(mib * MIB));
    }
    seen
}

fn ticks(bench: &mut Bench, count: usize, other_mib: u64, unowned: &[UnownedMemory]) -> Plan {
    let mut plan = Plan::default();
    for _ in 0..count {
        let mut seen = with_memory(bench.see(), [4, other_mib]);
        seen.unowned_memory = unowned.to_vec();
        plan = bench.step(&seen);
    }
    plan
}

/// Parts of what was moved that are charged to the light service, to the other workload, and to no workload.
fn parts(plan: &Plan) -> [f64; 3] {
    let of = |id| decision(plan, id).bandwidth.bytes_per_sec.get() / MOVED;
    let none = plan.devices[0].unattributed_bytes_per_sec;
    let none = none.expect("the device is counted").get() / MOVED;
    [of("/light"), of("/other"), none]
}

fn is_limited(plan: &Plan, id: &str) -> bool {
    decision(plan, id).limit_cpus.is_some()
}

/// Pages of a file that belong to a workload without CPU time: another reads them.
#[test]
fn what_cpu_time_does_not_explain_is_not_poured_over_a_light_user() {
    for cpus in [0.0, 1e-5] {
        for unowned in [0, 32] {
            let mut bench = bench(cpus);
            let unowned = UnownedMemory {
                group: GROUP,
                bytes: Bytes(unowned * MIB),
                is_new: false,
            };
            let plan = ticks(&mut bench, 40, 32, &[unowned]);
            let found = parts(&plan);
            let [light, other, none] = found;
            assert!(
                light <= 0.01 && other <= 0.01 && none > 0.98,
                "{cpus}: {found:?}"
            );
            assert!(!is_limited(&plan, "/light"), "{plan:?}");
        }
    }
}

/// Page cache that its own cgroup reads.
#[test]
fn what_cpu_time_explains_is_shared_out_as_it_was() {
    let mut bench = bench(0.5);
    let found = ticks(&mut bench, 40, 32, &[]);
    let [light, other, none] = parts(&found);
    assert!(light < 0.01 && other > 0.99 && none == 0.0, "{found:?}");
    let provenance = decision(&found, "/other").bandwidth.provenance;
    assert_eq!(provenance, Apportioned);
    assert!(is_limited(&found, "/other") && !is_limited(&found, "/light"));
}

/// Memory that has come since workloads were looked for: it is charged to none, and limits stand.
#[test]
fn memory_that_has_just_come_is_no_workloads_and_changes_no_limit() {
    let mut bench = bench(1.0);
    let before = ticks(&mut bench, 40, 32, &[]);
    assert!(is_limited(&before, "/other"));
    let new = UnownedMemory {
        group: GROUP,
        bytes: Bytes(32 * MIB),
        is_new: true,
    };
    bench.set_rate(GROUP, 2.0 * MOVED);
    let meanwhile = ticks(&mut bench, 10, 32, &[new]);
    for id in ["/light", "/other"] {
        let found = decision(&meanwhile, id);
        assert_eq!(found.bandwidth.provenance, Unknown);
        assert_eq!(found.limit_cpus, decision(&before, id).limit_cpus);
    }
    bench.set_rate(GROUP, MOVED);
    let after = ticks(&mut bench, 1, 32, &[]);
    let allowed = |plan: &Plan| {
        let allowed = decision(plan, "/other").allowed_bytes_per_sec;
        allowed.expect("it claims a part")
    };
    let (before, after) = (allowed(&before).get(), allowed(&after).get());
    assert!(
        (after / before - 1.0).abs() < 0.1,
        "{before} before, {after} after"
    );
}
