// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Section V-C: accesses of a core to device memory.

use super::{ComparedFigure, FigureKind, FigureUnit, Figures};
use crate::type2::time::{HostAccesses, Type2Profile, host_burst};
use crate::type2::words::{CacheState, HostOp};

/// Accesses of a measurement of bandwidth; V-C names none, V-A has 16.
const BURST: u32 = 16;

/// In the order in which the paper names them.
const OPS: [HostOp; 4] = [HostOp::Load, HostOp::NtLoad, HostOp::Store, HostOp::NtStore];

const FITTED: (FigureKind, f64) = (FigureKind::Fitted, 2.0);
const PREDICTED: (FigureKind, f64) = (FigureKind::Predicted, 5.0);

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

/// The figures.
pub fn host_to_device(profile: &Type2Profile) -> Vec<ComparedFigure> {
    let mut figures = Figures::new("V-C");
    against_type3(&mut figures, profile);
    dmc_hits(&mut figures, profile);
    posted_stores(&mut figures, profile);
    after_push(&mut figures, profile);
    figures.found
}

fn latency_ns(profile: &Type2Profile, accesses: HostAccesses) -> f64 {
    host_burst(profile, accesses, 1).total_ns
}

/// Of 16 accesses. A non-temporal store is done when the CXL port has it (V-C).
fn rate(profile: &Type2Profile, accesses: HostAccesses) -> f64 {
    let accesses = HostAccesses {
        is_posted: accesses.op == HostOp::NtStore,
        ..accesses
    };
    host_burst(profile, accesses, BURST).bytes_per_sec()
}

fn against_type3(figures: &mut Figures, profile: &Type2Profile) {
    for (op, percent) in OPS.into_iter().zip([5.0, 4.0, 5.0, 2.0]) {
        let what = format!("latency, {}, Type 2 over Type 3", op.name());
        let pair = (
            latency_ns(profile, accesses(op)),
            latency_ns(profile, type3(op)),
        );
        figures.change(&what, (percent, percent), pair, FITTED);
    }
    for (op, percent) in OPS.into_iter().zip([-5.0, -4.0, -4.0, -4.0]) {
        let what = format!("bandwidth, {}, Type 2 over Type 3", op.name());
        let pair = (rate(profile, accesses(op)), rate(profile, type3(op)));
        figures.change(&what, (percent, percent), pair, PREDICTED);
    }
}

fn dmc_hits(figures: &mut Figures, profile: &Type2Profile) {
    let of = |op, dmc| {
        (
            latency_ns(profile, with_dmc(op, dmc)),
            latency_ns(profile, accesses(op)),
        )
    };
    for (op, percent) in OPS.into_iter().zip([11.0, 6.0, 17.0, 10.0]) {
        let what = format!("latency, {}, DMC owned over miss", op.name());
        let pair = of(op, CacheState::Exclusive);
        figures.change(&what, (percent, percent), pair, FITTED);
    }
    for (op, percent) in OPS.into_iter().zip([-18.0, -12.0, -26.0, -8.0]) {
        let what = format!("bandwidth, {}, DMC owned over miss", op.name());
        let owned = rate(profile, with_dmc(op, CacheState::Exclusive));
        let pair = (owned, rate(profile, accesses(op)));
        figures.change(&what, (percent, percent), pair, PREDICTED);
        figures.note(
            "16 posted stores are done at the host's CXL port before DCOH sees the first one, so nothing of the \
             device can slow them in the model; the paper's port must push back earlier",
        );
    }
    for op in [HostOp::Load, HostOp::Store] {
        let what = format!("latency, {}, DMC modified over miss", op.name());
        figures.change(&what, (36.0, 40.0), of(op, CacheState::Modified), FITTED);
    }
    let pair = of(HostOp::Load, CacheState::Shared);
    let what = "latency, ld, DMC shared over miss";
    figures.change(what, (0.0, 0.0), pair, (FigureKind::Predicted, 2.0));
}

fn posted_stores(figures: &mut Figures, profile: &Type2Profile) {
    let posted = rate(profile, accesses(HostOp::NtStore));
    for (op, times) in [
        (HostOp::NtLoad, 12.2),
        (HostOp::Load, 13.2),
        (HostOp::Store, 10.7),
    ] {
        let what = format!("bandwidth, nt-st over {}", op.name());
        let ours = posted / rate(profile, accesses(op));
        let bounds = (Some(times), Some(times));
        figures.figure(
            &what,
            FigureUnit::Times,
            bounds,
            ours,
            (FigureKind::Predicted, 0.15 * times),
        );
    }
}

/// NC-P has brought the line into the LLC before.
fn after_push(figures: &mut Figures, profile: &Type2Profile) {
    for op in [HostOp::Load, HostOp::Store] {
        let pushed = HostAccesses {
            llc: CacheState::Modified,
            ..accesses(op)
        };
        let what = format!("latency, {}, after NC-P over DMC miss", op.name());
        let pair = (
            latency_ns(profile, pushed),
            latency_ns(profile, accesses(op)),
        );
        figures.change(&what, (-87.0, -82.0), pair, FITTED);
        let what = format!("bandwidth, {}, after NC-P over DMC miss", op.name());
        figures.figure(
            &what,
            FigureUnit::Times,
            (Some(4.1), Some(6.7)),
            rate(profile, pushed) / rate(profile, accesses(op)),
            (FigureKind::Predicted, 0.3),
        );
    }
}
