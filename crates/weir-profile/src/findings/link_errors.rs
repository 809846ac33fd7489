// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors and retries on the CXL link. Each retry sends flits again, so it costs bandwidth and time.

use super::{Certainty, Evidence, Finding, Rule, RuleOutcome, View};
use crate::figure::places::PlaceKind;
use crate::figure::sum;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Errors for each line. A link within its specification (one wrong bit in 10^12) has 5 × 10^-10 for a flit
/// of 68 bytes.
const PER_LINE_MIN: f64 = 1e-6;

pub(super) const RULE: Rule = Rule {
    name: "link_errors",
    looks_for: "errors and retries on the CXL link",
    condition: "CRC errors and retries at the port are more than one in a million lines that the port moved",
    refuted_by: "the same counts on an idle machine: a counter that rises without traffic counts something else",
    next_move: "look for correctable errors of the port (`dmesg`, `rasdaemon`), reseat or replace the card",
    places: &[(PlaceKind::Port, Stage::Port)],
    check,
};

fn check(view: View) -> RuleOutcome {
    let at = |path, quantity| Role::new(Stage::Port, path, Target::Cxl, quantity);
    let get = |path, quantity| view.counts.get(at(path, quantity));
    let errors = [Quantity::Errors, Quantity::Rejects].map(|q| get(AccessPath::Any, q));
    let lines = [AccessPath::Reads, AccessPath::Wb].map(|path| get(path, Quantity::Lines));
    let (Some(all), Some(moved)) = (sum(errors.iter().flatten()), sum(lines.iter().flatten()))
    else {
        let why = errors
            .iter()
            .chain(&lines)
            .find_map(|answer| answer.as_ref().err());
        let why = why.map_or_else(String::new, ToString::to_string);
        return RuleOutcome::CannotTell { why };
    };
    let ratio = match all.share_of(&moved, "lines that the port moved") {
        Ok(ratio) => ratio,
        Err(why) => {
            return RuleOutcome::CannotTell {
                why: why.to_string(),
            };
        }
    };
    if ratio.value <= PER_LINE_MIN {
        return RuleOutcome::NotFound;
    }
    let [crc, retries] = errors;
    RuleOutcome::Found(Finding {
        what: format!(
            "the CXL link has {:.1e} errors a line, and sends flits again",
            ratio.value
        ),
        certainty: Certainty::Counted,
        because_of: Vec::new(),
        places: Vec::new(),
        time_ratio: None,
        evidence: vec![
            Evidence::new("errors a line", Ok(ratio)),
            Evidence::new("CRC errors", crc),
            Evidence::new("retries", retries),
        ],
        caveat: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;
    use crate::counts::tests::counts;

    fn outcome(counts: &Counts) -> RuleOutcome {
        check(View::plain(counts, None))
    }

    #[test]
    fn errors_are_found_by_their_rate() {
        let of = |crc, resent| {
            counts(&[
                ("port.any.cxl.errors", crc),
                ("port.any.cxl.rejects", resent),
                ("port.reads.cxl.lines", 900_000_000),
                ("port.wb.cxl.lines", 100_000_000),
            ])
        };
        let RuleOutcome::Found(found) = outcome(&of(20_000, 30_000)) else {
            panic!("not found")
        };
        assert!(found.what.contains("5.0e-5 errors a line"), "{found:?}");
        assert!(matches!(outcome(&of(3, 2)), RuleOutcome::NotFound));
        assert!(matches!(outcome(&of(0, 0)), RuleOutcome::NotFound));
    }

    #[test]
    fn without_counts_it_cannot_tell() {
        for known in [
            &[("port.any.cxl.errors", 5)][..],
            &[("port.reads.cxl.lines", 5)],
            &[],
        ] {
            assert!(
                matches!(outcome(&counts(known)), RuleOutcome::CannotTell { .. }),
                "{known:?}"
            );
        }
        let idle = counts(&[("port.any.cxl.errors", 5), ("port.reads.cxl.lines", 0)]);
        assert!(matches!(outcome(&idle), RuleOutcome::CannotTell { .. }));
    }
}
