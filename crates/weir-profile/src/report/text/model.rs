// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes of the model of stalls, and the waits of workloads for each other, as text.

use crate::culprit::Waits;
use crate::quality::Refusal;
use crate::report::WhatIf;
use crate::report::text::{LABEL, answer, line, said};
use crate::stalls::StallSplit;

/// Parts that are shown.
const PARTS_SHOWN: usize = 12;
/// Workloads that are shown as served meanwhile.
const BEHIND_SHOWN: usize = 4;

pub fn stalls(out: &mut String, stalls: &Result<StallSplit, Refusal>) {
    let split = match stalls {
        Ok(split) => split,
        // A subject without counts of a core has no stalls to split.
        Err(Refusal::NotRecorded { .. }) => return,
        Err(why) => return line(out, &format!("stalls: not split: {why}")),
    };
    line(out, "stalls: measured by the core, split by a model");
    answer(out, "stalled cycles", &Ok(split.measured.clone()));
    answer(out, "  their part of all cycles", &split.stalled_ratio);
    let share = said(&Ok(split.cxl_share.clone()));
    let error = split.cxl_error * 100.0;
    line(
        out,
        &format!(
            "  {:LABEL$} {share} ± {error:.0} points",
            "part of CXL memory"
        ),
    );
    for part in split.parts.iter().take(PARTS_SHOWN) {
        let (percent, error) = (part.share * 100.0, part.error * 100.0);
        let label = part.role.to_string();
        line(
            out,
            &format!(
                "  {label:LABEL$} {percent:.1} % ± {error:.0}  {:.3e} cycles  [modelled]",
                part.cycles
            ),
        );
    }
    let more = split.parts.iter().skip(PARTS_SHOWN);
    let (count, share) = more.fold((0, 0.0), |(n, share), part| (n + 1, share + part.share));
    if count > 0 {
        line(
            out,
            &format!("  {count} more parts: {:.1} %", share * 100.0),
        );
    }
    if let (Some(dependence), Some(ratio)) = (split.dependence, split.model_ratio) {
        let fit = if (ratio - 1.0).abs() < 0.02 {
            String::new()
        } else {
            format!("; no dependence fits: the model stalls {ratio:.2} times as much")
        };
        line(
            out,
            &format!(
                "  {:LABEL$} {dependence:.2}  [modelled]{fit}",
                "loads that need the load before"
            ),
        );
    }
}

/// How much faster it would be.
pub fn what_if(out: &mut String, all: &[WhatIf]) {
    if all.is_empty() {
        return;
    }
    line(out, "what if: time now ÷ time then, by the same model");
    for one in all {
        line(
            out,
            &format!("  {:LABEL$} {}", one.otherwise, said(&one.speedup)),
        );
    }
}

/// Waits of workloads for each other.
pub fn waits(out: &mut String, waits: &Result<Waits, Refusal>) {
    line(out, "\n== waits at shared stages");
    let waits = match waits {
        Ok(waits) => waits,
        Err(why) => return line(out, &format!("  not known: {why}")),
    };
    let named = waits.bottleneck().map_or_else(
        || "none: nothing waits for 30 % of its idle residence or more".to_owned(),
        |stage| stage.shown(stage.stage),
    );
    line(out, &format!("  bottleneck: {named}"));
    for stage in &waits.stages {
        answer(
            out,
            &format!("{}: waiting ÷ idle residence", stage.shown(stage.stage)),
            &Ok(stage.wait_ratio.clone()),
        );
        answer(out, "  requests that wait", &Ok(stage.waiting.clone()));
        for row in &stage.rows {
            let waiting = Ok(row.waiting_ns.clone());
            answer(
                out,
                &format!("  {}: its requests wait, in all", row.workload),
                &waiting,
            );
        }
        let served = stage.behind.iter().take(BEHIND_SHOWN);
        let served: Vec<String> = served
            .map(|one| format!("{} {:.0} %", one.workload, one.share * 100.0))
            .collect();
        line(out, &format!("    served meanwhile: {}", served.join(", ")));
    }
}
