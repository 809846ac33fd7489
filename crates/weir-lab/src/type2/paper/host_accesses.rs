// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Section V-C: accesses of a core to device memory.

use super::percent;
use crate::papers::Ours;
use weir_type2::time::{HostAccesses, Type2Profile, host_burst};
use weir_type2::{CacheState, HostOp};

/// Accesses of a measurement of bandwidth; V-C names none, V-A has 16.
const BURST: u32 = 16;

/// In the order in which the paper names them.
const OPS: [HostOp; 4] = [HostOp::Load, HostOp::NtLoad, HostOp::Store, HostOp::NtStore];

fn accesses(op: HostOp) -> HostAccesses {
    HostAccesses {
        op,
        is_type3: false,
        dmc: CacheState::Invalid,
        llc: CacheState::Invalid,
        is_posted: false,
    }
}

fn type3(op: HostOp) -> HostAccesses {
    HostAccesses {
        is_type3: true,
        ..accesses(op)
    }
}

fn with_dmc(op: HostOp, dmc: CacheState) -> HostAccesses {
    HostAccesses {
        dmc,
        ..accesses(op)
    }
}

fn latency_ns(profile: &Type2Profile, accesses: HostAccesses) -> f64 {
    host_burst(profile, accesses, 1).total_ns
}

/// The rate of 16 accesses. A non-temporal store is done when the CXL port has it (paper, V-C).
fn rate(profile: &Type2Profile, accesses: HostAccesses) -> f64 {
    let accesses = HostAccesses {
        is_posted: accesses.op == HostOp::NtStore,
        ..accesses
    };
    host_burst(profile, accesses, BURST).bytes_per_sec()
}

/// Latency and bandwidth of accesses against others, as changes in percent.
fn against(profile: &Type2Profile, of: HostAccesses, base: HostAccesses) -> [f64; 2] {
    [
        percent(latency_ns(profile, of), latency_ns(profile, base)),
        percent(rate(profile, of), rate(profile, base)),
    ]
}

pub fn host_to_device(profile: &Type2Profile, ours: &mut Ours) {
    for op in OPS {
        let name = op.name();
        for (what, of, base) in [
            ("Type 2 over Type 3", accesses(op), type3(op)),
            (
                "DMC owned over miss",
                with_dmc(op, CacheState::Exclusive),
                accesses(op),
            ),
        ] {
            let [latency, bandwidth] = against(profile, of, base);
            ours.put(format!("latency, {name}, {what}"), latency);
            ours.put(format!("bandwidth, {name}, {what}"), bandwidth);
        }
    }
    for (op, dmc, state) in [
        (HostOp::Load, CacheState::Modified, "modified"),
        (HostOp::Store, CacheState::Modified, "modified"),
        (HostOp::Load, CacheState::Shared, "shared"),
    ] {
        let [latency, _] = against(profile, with_dmc(op, dmc), accesses(op));
        let name = op.name();
        ours.put(format!("latency, {name}, DMC {state} over miss"), latency);
    }
    let posted = rate(profile, accesses(HostOp::NtStore));
    for op in [HostOp::NtLoad, HostOp::Load, HostOp::Store] {
        let times = posted / rate(profile, accesses(op));
        ours.put(format!("bandwidth, nt-st over {}", op.name()), times);
    }
    after_push(profile, ours);
}

/// NC-P has brought the line into the LLC before.
fn after_push(profile: &Type2Profile, ours: &mut Ours) {
    for op in [HostOp::Load, HostOp::Store] {
        let pushed = HostAccesses {
            llc: CacheState::Modified,
            ..accesses(op)
        };
        let of = |what: &str| format!("{what}, {}, after NC-P over DMC miss", op.name());
        let [latency, _] = against(profile, pushed, accesses(op));
        ours.put(of("latency"), latency);
        let times = rate(profile, pushed) / rate(profile, accesses(op));
        ours.put(of("bandwidth"), times);
    }
}
