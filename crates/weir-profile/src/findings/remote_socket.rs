// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines that come from the other socket: its caches, its DRAM, its CXL memory.

use super::{Certainty, Evidence, Finding, Rule, RuleOutcome, View};
use crate::figure::{Figure, sum};
use crate::path_map::lines_of;
use crate::quality::Refusal;
use weir_core::window::role::{AccessPath, Target};

/// Part of the lines from memory and remote caches.
const SHARE_MIN: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "remote_socket",
    looks_for: "lines that come from another socket",
    condition: "caches, DRAM and CXL memory of another socket supply more than 30 % of the lines that the own \
                caches do not have; DRAM and CXL memory must be told apart by socket",
    refuted_by: "counts of each socket alone: a socket without load has the same share",
    next_move: "bind the workload to the socket of its memory (`numactl --cpunodebind`), or move its memory",
    places: &[],
    check,
};

fn check(view: View) -> RuleOutcome {
    let tries = [AccessPath::Reads, AccessPath::Drd].map(|path| (path, remote(view, path)));
    let [(_, Err(why)), (_, Err(_))] = &tries else {
        let known = tries
            .into_iter()
            .find_map(|(path, share)| Some((path, share.ok()?)));
        let Some((path, share)) = known.filter(|(_, share)| share.value > SHARE_MIN) else {
            return RuleOutcome::NotFound;
        };
        let percent = share.value * 100.0;
        return RuleOutcome::Found(Finding {
            what: format!(
                "{percent:.0} % of the lines behind the own caches come from another socket"
            ),
            certainty: Certainty::Counted,
            because_of: Vec::new(),
            places: Vec::new(),
            time_ratio: None,
            evidence: vec![Evidence::new(
                format!("remote share of {}", path.word()),
                Ok(share),
            )],
            caveat: None,
        });
    };
    RuleOutcome::CannotTell {
        why: why.to_string(),
    }
}

/// The remote part. DRAM must be known on both sides, else a share says nothing.
fn remote(view: View, path: AccessPath) -> Result<Figure, Refusal> {
    let get = |target| lines_of(view.counts, path, target);
    let (own, far) = (get(Target::DramOwn)?, get(Target::DramRemote)?);
    let known = |targets: [Target; 2]| targets.map(get).into_iter().flatten().collect::<Vec<_>>();
    let remote: Vec<Figure> = known([Target::RemoteCache, Target::CxlRemote])
        .into_iter()
        .chain([far])
        .collect();
    let local: Vec<Figure> = known([Target::CxlOwn, Target::Snc])
        .into_iter()
        .chain([own])
        .collect();
    let all: Vec<&Figure> = remote.iter().chain(&local).collect();
    let (Some(part), Some(whole)) = (sum(&remote), sum(all)) else {
        return Err(Refusal::NoRequests {
            what: "lines".into(),
        });
    };
    part.share_of(
        &whole,
        "lines that the own caches do not have, of the suppliers that were counted",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::counts;

    #[test]
    fn a_remote_share_is_found_where_both_sides_are_counted() {
        let of = |own, far| {
            let all = counts(&[
                ("sq.reads.dram-own.lines", own),
                ("sq.reads.dram-remote.lines", far),
                ("sq.reads.cxl-remote.lines", 10),
            ]);
            check(View::plain(&all, None))
        };
        let RuleOutcome::Found(found) = of(50, 40) else {
            panic!("not found")
        };
        assert!(found.what.starts_with("50 % of the lines"), "{found:?}");
        assert!(matches!(of(900, 40), RuleOutcome::NotFound));
        let one = counts(&[("sq.reads.dram-remote.lines", 40)]);
        assert!(matches!(
            check(View::plain(&one, None)),
            RuleOutcome::CannotTell { .. }
        ));
    }
}
