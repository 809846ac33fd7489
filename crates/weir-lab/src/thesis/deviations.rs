// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deviations of more than 10 % from printed figures, each with its tested cause, or listed as not explained.

use super::causes::{self, Cause, CauseResult};
use super::context::{Compared, EvalContext, NEAR};
use super::published_figures;
use weir_figures::text::signed_percent;
use weir_figures::{Cell, CellKind, Part, Table};

/// Readers and GiB of a block in table 3's experiment.
const READERS: f64 = 10.0;
const BLOCK_GIB: f64 = 4.0 / 1024.0;
/// The set-point of table 2 in GiB/s.
const SET_POINT: f64 = 4.0;

/// A table of the deviations above 10 % in one of the thesis's tables or figures, with their causes. Call it
/// after the table or figure was compared.
pub fn of(context: &mut EvalContext, printed_in: &str) -> Option<Part> {
    let mut rows = Vec::new();
    for n in 0..context.compared.len() {
        let compared = &context.compared[n];
        if compared.printed_in != printed_in || !compared.is_far() {
            continue;
        }
        let cause = cause(context, compared);
        let off = compared.deviation_ratio;
        let mut row = vec![
            Cell::words(&compared.backend),
            Cell::words(compared.figure),
            Cell::new(off.map_or("–".into(), signed_percent), CellKind::Missed),
        ];
        row.extend(causes::cells(&cause));
        rows.push(row);
        context.compared[n].cause = Some(cause);
    }
    (!rows.is_empty()).then(|| {
        Part::Table(Table::new(
            "More than 10 % from the thesis, and what was tried",
            &["", "figure", "off", "nearest with", "off then", ""],
            rows,
        ))
    })
}

/// What is known of a deviation: arithmetic first, then the assumption that comes nearest.
fn cause(context: &EvalContext, compared: &Compared) -> Cause {
    let off = compared.deviation_ratio.unwrap_or(f64::INFINITY);
    let nearest = causes::nearest(
        context,
        compared.printed_in,
        &compared.backend,
        compared.figure,
        off,
    );
    if nearest.verdict == CauseResult::Explained {
        return nearest;
    }
    let found = match (compared.printed_in, compared.figure) {
        ("table 2", "rmse_gib_per_sec") => rmse(context, compared),
        ("table 3", "mean_us") => littles_law(compared),
        _ => None,
    };
    found.unwrap_or(nearest)
}

/// A root mean square is made of mean and standard deviation: with the printed ones in place of ours it is
/// the printed one.
fn rmse(context: &EvalContext, compared: &Compared) -> Option<Cause> {
    let printed = |figure| published_figures::value("table 2", &compared.backend, figure);
    let (mean, stddev) = (printed("mean_gib_per_sec")?, printed("stddev_gib_per_sec")?);
    let ours = |figure: &str| {
        let same = |c: &&Compared| {
            (c.printed_in, c.backend.as_str(), c.figure) == ("table 2", &compared.backend, figure)
        };
        context.compared.iter().find(same)?.mean
    };
    let (our_mean, our_stddev) = (ours("mean_gib_per_sec")?, ours("stddev_gib_per_sec")?);
    // Each of both alone, then both: the smaller number says which it hangs on.
    let with = |mean: f64, stddev: f64| (mean - SET_POINT).hypot(stddev) / compared.printed - 1.0;
    let alone = [
        ("the printed mean in place of ours", with(mean, our_stddev)),
        (
            "the printed standard deviation in place of ours",
            with(our_mean, stddev),
        ),
        (
            "the printed mean and standard deviation in place of ours",
            with(mean, stddev),
        ),
    ];
    let (what, then) = alone.into_iter().find(|(_, off)| off.abs() <= NEAR)?;
    Some(Cause {
        verdict: CauseResult::Follows,
        what: what.into(),
        deviation_ratio: Some(then),
    })
}

/// A mean that Little's law forbids at the bandwidth of table 2 cannot be met by any machine.
fn littles_law(compared: &Compared) -> Option<Cause> {
    let of = |table, figure| published_figures::value(table, &compared.backend, figure);
    let (bandwidth, printed) = (
        of("table 2", "mean_gib_per_sec")?,
        of("table 3", "mean_us")?,
    );
    let law_us = READERS * BLOCK_GIB / bandwidth * 1e6;
    let contradicts = (printed / law_us - 1.0).abs() > NEAR;
    contradicts.then(|| Cause {
        verdict: CauseResult::Contradicts,
        what: format!("Little's law at the bandwidth of table 2 demands {law_us:.0} µs"),
        deviation_ratio: compared.mean.map(|ours| ours / law_us - 1.0),
    })
}

/// Where the thesis prints figures, in its order, and what they are.
const PLACES: [(&str, &str); 14] = [
    ("6.2.1", "what the device counts"),
    ("figure 7", "bandwidth by samples"),
    ("figure 8", "bandwidth by samples and counters"),
    ("table 2", "bandwidth (figure 9)"),
    ("figure 11", "bandwidth on an idle system"),
    ("figure 12", "CPU use and limits of unequal readers"),
    ("table 3", "latency of blocks (figure 17)"),
    ("figure 18", "CPU time per GiB"),
    ("figure 19", "throughput of others"),
    ("figure 20", "durations of the scheduler"),
    ("6.8.1", "duration of a plain scheduler"),
    ("figure 21", "durations of EEVDF"),
    ("figure 22", "duration of the loop"),
    ("all", "all that is printed"),
];

/// A line of the summary for each place: each figure within 10 %, or with a tested cause.
pub fn show(context: &mut EvalContext) {
    for (place, what) in PLACES {
        let mine = |c: &&Compared| place == "all" || c.printed_in == place;
        let all: Vec<&Compared> = context.compared.iter().filter(mine).collect();
        let compared = all.iter().filter(|c| c.not_compared.is_none());
        let count = compared.clone().count();
        let far = compared.filter(|c| c.is_far());
        let explained = |c: &&&Compared| {
            let verdict = c.cause.as_ref().map(|cause| cause.verdict);
            let open = [
                None,
                Some(CauseResult::InPart),
                Some(CauseResult::Unexplained),
            ];
            !open.contains(&verdict)
        };
        let (far_count, known) = (far.clone().count(), far.filter(explained).count());
        let measured = match count {
            0 => all
                .first()
                .and_then(|c| c.not_compared)
                .unwrap_or("not modelled")
                .to_owned(),
            _ => format!(
                "{} of {count} within 10 %, {known} more with a tested cause, {} not explained{}",
                count - far_count,
                far_count - known,
                match all.len() - count {
                    0 => String::new(),
                    given => format!("; {given} not compared"),
                }
            ),
        };
        let is_met = (count > 0).then_some(far_count == known);
        context.show(
            "6.2 to 6.8",
            format!("thesis, {place}: {what}"),
            "each printed figure within 10 %, or a tested cause",
            measured,
            is_met,
        );
    }
}

/// What the thesis prints and no section compared.
///
/// # Errors
/// Naming the first of them.
pub fn is_whole(context: &EvalContext) -> anyhow::Result<()> {
    for p in published_figures::all() {
        let same = |c: &Compared| {
            (c.printed_in, c.backend.as_str(), c.figure) == (p.printed_in, p.backend, p.figure)
        };
        let times = context.compared.iter().filter(|c| same(c)).count();
        anyhow::ensure!(
            times == 1,
            "{}, {}, {} was compared {times} times instead of once",
            p.printed_in,
            p.backend,
            p.figure
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(backend: &str, figure: &'static str, mean: f64, printed: f64) -> Compared {
        Compared {
            printed_in: "table 2",
            backend: backend.into(),
            figure,
            lowest: Some(mean),
            mean: Some(mean),
            highest: Some(mean),
            printed,
            deviation_ratio: Some(mean / printed - 1.0),
            not_compared: None,
            cause: None,
        }
    }

    #[test]
    fn a_root_mean_square_follows_from_what_it_is_made_of() {
        let mut context = super::super::summary::tests::context(&[]);
        context.compared = vec![
            compared("thesis-scx-throttle", "mean_gib_per_sec", 5.4, 4.86),
            compared("thesis-scx-throttle", "stddev_gib_per_sec", 0.74, 0.79),
            compared("thesis-scx-throttle", "rmse_gib_per_sec", 1.58, 1.16),
        ];
        let cause = rmse(&context, &context.compared[2]).unwrap();
        assert_eq!(cause.verdict, CauseResult::Follows);
        assert_eq!(cause.what, "the printed mean in place of ours");
        assert!(cause.deviation_ratio.unwrap().abs() < NEAR);
    }

    #[test]
    fn a_printed_mean_that_the_law_forbids_contradicts() {
        let of = |backend: &str| littles_law(&compared(backend, "mean_us", 9800.0, 6671.0));
        assert_eq!(
            of("thesis-cgroups").unwrap().verdict,
            CauseResult::Contradicts
        );
        // 6.18 GiB/s and 6292 µs belong together.
        assert_eq!(of("thesis-scx-vtime"), None);
    }

    #[test]
    fn what_nothing_was_varied_for_is_not_explained() {
        let context = super::super::summary::tests::context(&[]);
        let found = causes::nearest(&context, "figure 18", "none", "cpu_sec_per_gib", 0.3);
        assert_eq!(found.verdict, CauseResult::Unexplained);
    }

    #[test]
    fn every_place_that_prints_a_figure_has_a_verdict() {
        for p in published_figures::all() {
            let is_told = PLACES.iter().any(|(place, _)| *place == p.printed_in);
            assert!(is_told, "{}", p.printed_in);
        }
    }
}
