// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of CXL memory in stall cycles, as counts alone would have it: by lines, and by lines × a fixed
//! latency. Both are wrong by much: a core hides the first 60 ns, and all that is in the shadow of a slower
//! load. A trial on 60 simulated machines missed by 0.41 and 0.22 on average.

use super::estimator::{Edition, Step, hand_back};
use crate::counts::Counts;
use crate::figure::sources::Sources;
use crate::figure::{Answer, Class, Figure, Unit, sum};
use crate::path_map::{cxl_lines, cxl_of, lines_of};
use crate::quality::Refusal;
use crate::stalls::ways::in_table;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Idle latencies of the paper's machine, section 5.1 and 2.3, ns: DRAM, DRAM of the other socket, CXL
/// memory.
pub const PAPER_LATENCIES_NS: [(Target, f64); 4] = [
    (Target::Dram, 103.2),
    (Target::DramOwn, 103.2),
    (Target::DramRemote, 163.6),
    (Target::Cxl, 355.3),
];

/// The share of CXL memory in demand reads from memory, each weighing `weight` of its target.
///
/// # Errors
/// The lines were not counted, or there were none.
pub fn share_of_cxl(counts: &Counts, weight: impl Fn(Target) -> Option<f64>) -> Answer {
    let get = |target| lines_of(counts, AccessPath::Drd, target);
    let dram: Vec<(Target, Figure)> = match get(Target::Dram) {
        Ok(all) => vec![(Target::Dram, all)],
        Err(why) => {
            let parts = [Target::DramOwn, Target::DramRemote];
            let known = parts.into_iter().filter_map(|t| Some((t, get(t).ok()?)));
            let known: Vec<_> = known.collect();
            if known.is_empty() {
                return Err(why);
            }
            known
        }
    };
    let cxl = crate::path_map::cxl_of(counts, AccessPath::Drd)?;
    let weighed = |(target, lines): &(Target, Figure)| {
        let weight = weight(*target).filter(|w| w.is_finite() && *w > 0.0)?;
        Some(lines.and(lines, lines.value * weight, Unit::Ns))
    };
    let all: Option<Vec<Figure>> = dram.iter().map(&weighed).collect();
    let cxl = weighed(&(Target::Cxl, cxl));
    let (Some(mut all), Some(cxl)) = (all, cxl) else {
        return Err(Refusal::NotCounted {
            what: "latencies of all targets".into(),
        });
    };
    all.push(cxl.clone());
    let whole = sum(&all).unwrap_or_else(|| cxl.clone());
    let mut share = cxl.share_of(&whole, "demand reads from memory, weighed")?;
    share.class = Class::Modelled;
    Ok(share)
}

/// The share by lines alone.
///
/// # Errors
/// As [`share_of_cxl`].
pub fn by_counts(counts: &Counts) -> Answer {
    share_of_cxl(counts, |_| Some(1.0))
}

/// The share by lines × measured residences in the table of requests.
///
/// # Errors
/// As [`share_of_cxl`]; or a residence is not known.
pub fn by_residences(sources: &Sources) -> Answer {
    share_of_cxl(sources.own, |target| {
        in_table(sources, target).ok().map(|ns| ns.value)
    })
}

/// By Algorithm 2, mended, in a charitable reading: the cycles in which the port's buffer of reads is not
/// empty are handed back to workloads by their lines, and to one's cores as a part of its stalls at most.
///
/// # Errors
/// Busy cycles, clocks, lines or stalls were not counted.
pub fn by_algorithm_2(sources: &Sources) -> Answer {
    let port = |quantity, path, target| sources.count(Stage::Port, path, target, quantity);
    let busy = port(Quantity::Busy, AccessPath::Reads, Target::Cxl)?;
    let ticks = port(Quantity::Clock, AccessPath::Any, Target::Any)?;
    let lines = |counts| cxl_of(counts, AccessPath::Reads).or_else(|_| cxl_lines(counts));
    let (own, all) = (lines(sources.own)?, lines(sources.peers)?);
    let stalls = sources.count(Stage::L1d, AccessPath::Drd, Target::Miss, Quantity::Stalls)?;
    let cycles = sources.core(Quantity::Clock)?;
    let step = Step {
        requests: vec![vec![own.value, (all.value - own.value).max(0.0)]],
        own: vec![0.0; 2],
    };
    let ratio = busy.share_of(&ticks, "cycles of the port")?;
    let device = [ratio.value * cycles.value];
    let back = hand_back(&device, &[step], Edition::Mended).map_err(|why| Refusal::NotCounted {
        what: format!("amounts that Algorithm 2 takes ({why})"),
    })?;
    let part = back
        .stalls
        .last()
        .and_then(|last| last.first())
        .copied()
        .unwrap_or(0.0);
    let mut share = stalls
        .and(&ratio, part, Unit::Cycles)
        .share_of(&stalls, "stalls on loads")?;
    share.value = share.value.min(1.0);
    share.class = Class::Modelled;
    Ok(share)
}

/// The share by lines × the latencies of the paper's machine.
///
/// # Errors
/// As [`share_of_cxl`].
pub fn by_fixed_latencies(counts: &Counts) -> Answer {
    share_of_cxl(counts, |target| {
        let known = PAPER_LATENCIES_NS
            .iter()
            .find(|(known, _)| *known == target);
        known.map(|(_, ns)| *ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::counts;

    #[test]
    fn a_fixed_latency_weighs_a_line() {
        let half = counts(&[("sq.drd.dram.lines", 50), ("sq.drd.cxl.lines", 50)]);
        let lines = by_counts(&half).unwrap();
        assert_eq!((lines.value, lines.class), (0.5, Class::Modelled));
        let fixed = by_fixed_latencies(&half).unwrap().value;
        assert!((fixed - 355.3 / (355.3 + 103.2)).abs() < 1e-12, "{fixed}");
        let none = counts(&[("sq.drd.dram.lines", 50)]);
        assert!(by_counts(&none).is_err());
        let nothing = counts(&[("sq.drd.dram.lines", 0), ("sq.drd.cxl.lines", 0)]);
        assert!(by_counts(&nothing).is_err());
        assert!(share_of_cxl(&half, |_| Some(f64::NAN)).is_err());
    }
}
