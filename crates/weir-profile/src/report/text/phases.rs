// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Phases, what is to be expected next, and workloads that go together, as text.

use crate::phases::{FollowedFigure, LaggedPair, NoPhases, PhaseChange, PhaseFigure};
use crate::report::headline::time;
use crate::report::phase_rows::{PhaseReport, PhaseRow};
use crate::report::text::{LABEL, line};

/// Phases that are shown.
const PHASES_SHOWN: usize = 12;
/// Figures whose forecasts are shown; --json has all.
const FORECASTS_SHOWN: &[PhaseFigure] = &[PhaseFigure::StalledRatio, PhaseFigure::CxlLinesPerSec];
/// Pairs of workloads that are shown.
const PAIRS_SHOWN: usize = 10;

/// All phases of a subject, or why none were looked for.
pub fn phases(out: &mut String, phases: &Result<PhaseReport, NoPhases>) {
    let found = match phases {
        Ok(found) => found,
        // A subject without any of these counts has none.
        Err(NoPhases::NotCounted) => return,
        Err(why) => return line(out, &format!("phases: not looked for: {why}")),
    };
    let sure = number(found.significance);
    match &found.phases[..] {
        [_] | [] => line(
            out,
            &format!("phases: one, nothing changes (significance {sure} a figure)"),
        ),
        all => line(
            out,
            &format!("phases: {} (significance {sure} a figure)", all.len()),
        ),
    }
    if found.block_windows > 1 {
        let (block, short) = (found.block_windows, 4 * found.block_windows);
        line(
            out,
            &format!("  {block} windows are taken together: none shorter than {short} is seen"),
        );
    }
    if found.gaps > 0 {
        line(
            out,
            &format!("  time is missing between windows in {} places", found.gaps),
        );
    }
    if found.phases.len() > 1 {
        let shown = found.phases.iter().enumerate().take(PHASES_SHOWN);
        for (place, row) in shown {
            let before = place
                .checked_sub(1)
                .and_then(|before| found.phases.get(before));
            phase(out, place + 1, row, before, &found.phases);
        }
        let more = found.phases.len().saturating_sub(PHASES_SHOWN);
        if more > 0 {
            line(out, &format!("  {more} more phases: --json has them"));
        }
    }
    for figure in &found.figures {
        one_figure(out, figure);
    }
}

fn phase(
    out: &mut String,
    place: usize,
    row: &PhaseRow,
    before: Option<&PhaseRow>,
    all: &[PhaseRow],
) {
    let own = &row.phase;
    let alike = all
        .iter()
        .position(|other| other.phase.cluster == own.cluster);
    let alike = alike.filter(|first| first + 1 < place);
    let alike = alike.map_or_else(String::new, |first| format!(", like phase {}", first + 1));
    let (from, to) = (time(own.from), time(own.to));
    let (first, windows) = (own.first_window, own.windows);
    line(
        out,
        &format!("  phase {place}: {from} to {to}, {windows} windows from {first}{alike}"),
    );
    for change in &own.changes {
        let label = format!("  {}", change.figure.words());
        line(out, &format!("  {label:LABEL$} {}", changed(change)));
    }
    let label = "  part of CXL memory in stalls";
    if let Some([share, error]) = row.cxl_of_stalls {
        let was = before.and_then(|before| before.cxl_of_stalls);
        let was = was.map_or_else(String::new, |[was, _]| format!("{:.1} % → ", was * 100.0));
        let (share, error) = (share * 100.0, error * 100.0);
        line(
            out,
            &format!("  {label:LABEL$} {was}{share:.1} % ± {error:.0} points  [modelled]"),
        );
    }
    if let Some(path) = row.hot_path {
        let was = before.and_then(|before| before.hot_path);
        let was = was.filter(|was| was.0 != path.0);
        let was = was.map_or_else(String::new, |was| format!("{} → ", was.0.word()));
        let label = "  path of most lines behind L2";
        line(out, &format!("  {label:LABEL$} {was}{}", path.0.word()));
    }
    if !row.findings.is_empty() {
        line(
            out,
            &format!("  {:LABEL$} {}", "  found here", row.findings.join(", ")),
        );
    }
}

fn changed(change: &PhaseChange) -> String {
    let [before, after] = [change.before, change.after].map(|value| said(change.figure, value));
    let times = match (change.figure.is_share(), change.after / change.before) {
        (false, ratio) if ratio.is_finite() && ratio >= 1.0 => format!(" (× {ratio:.2})"),
        (false, ratio) if ratio > 0.0 => format!(" (÷ {:.2})", 1.0 / ratio),
        _ => String::new(),
    };
    let chance = number(change.chance_max);
    format!("{before} → {after}{times}  [by chance: {chance} or less]")
}

/// What is absent of a figure, and what is to be expected of it, where there is something to say.
fn one_figure(out: &mut String, figure: &FollowedFigure) {
    let words = figure.figure.words();
    let mut all = Vec::new();
    if figure.absent_windows > 0 {
        let windows = figure.known_windows + figure.absent_windows;
        let lacks = if figure.is_searched {
            ""
        } else {
            ", too many to look for changes"
        };
        all.push(format!(
            "absent in {} of {windows} windows{lacks}",
            figure.absent_windows
        ));
    }
    if let Some(trend) = figure.outlook.trend {
        let [slope, error] = [trend.per_window, trend.error].map(|v| said(figure.figure, v));
        all.push(format!("trend {slope} ± {error} a window"));
    }
    if let Some(season) = figure.outlook.season {
        let high = said(figure.figure, season.amplitude);
        all.push(format!(
            "comes round every {} windows, ± {high}",
            season.windows
        ));
    }
    if FORECASTS_SHOWN.contains(&figure.figure)
        && let Ok(forecast) = &figure.outlook.forecast
        && let Some(last) = forecast.points.last()
    {
        let [mean, low, high] = [last.mean, last.low, last.high].map(|v| said(figure.figure, v));
        let ahead = forecast.points.len();
        all.push(format!("in {ahead} windows {mean} ({low} to {high})"));
    }
    if !all.is_empty() {
        line(out, &format!("  {words:LABEL$} {}", all.join("; ")));
    }
}

fn said(figure: PhaseFigure, value: f64) -> String {
    match figure {
        _ if figure.is_share() => format!("{:.1} %", value * 100.0),
        PhaseFigure::ReadNs => format!("{value:.1} ns"),
        PhaseFigure::InstructionsPerCycle => format!("{value:.3}"),
        _ => format!("{value:.3e} lines/s"),
    }
}

fn number(chance: f64) -> String {
    match chance {
        chance if chance < 1e-9 => "1e-9".to_owned(),
        chance if chance < 1e-3 => format!("{chance:.0e}"),
        chance => format!("{chance}"),
    }
}

/// Workloads that go together.
pub fn lags(out: &mut String, lags: &[LaggedPair]) {
    if lags.is_empty() {
        return;
    }
    line(
        out,
        "\n== workloads that go together (correlation of what is new in each window)",
    );
    for pair in lags.iter().take(PAIRS_SHOWN) {
        let when = match (pair.lag_windows, pair.lag) {
            (0, _) => "in the same window".to_owned(),
            (lag, Some(ns)) => format!("{lag} windows ({}) later", time(ns)),
            (lag, None) => format!("{lag} windows later"),
        };
        line(
            out,
            &format!(
                "  {}: {}; {}: {} {when}: {:+.2}  [by chance: {} or less]",
                pair.leader,
                pair.leads_by.words(),
                pair.follower,
                pair.follows_in.words(),
                pair.correlation,
                number(pair.chance_max)
            ),
        );
    }
    let more = lags.len().saturating_sub(PAIRS_SHOWN);
    if more > 0 {
        line(out, &format!("  {more} more: --json has them"));
    }
}
