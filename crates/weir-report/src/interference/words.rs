// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of streams, changes, classes and places for people.

use crate::interference::class::InfluenceClass;
use crate::interference::document::{
    InterferenceCell, InterferenceDocument, InterferenceStream, World,
};
use crate::interference::grid::Precision;
use weir_figures::text::{NONE, line, number};

/// Columns of a name.
const NAME_COLUMNS: usize = 40;

/// A stream with all that it states; what is zero or absent is left out.
pub fn stream(stream: &InterferenceStream) -> String {
    let mut name = short(stream);
    match stream.direct {
        Some(true) => name += " direct",
        Some(false) => name += " buffered",
        None => {}
    }
    if let Some(width) = stream.width_bytes {
        name += &format!(" {width} B");
    }
    if let Some(block) = stream.block_bytes {
        name += &format!(" {}", bytes(block));
    }
    if let Some(depth) = stream.depth {
        name += &format!(" depth {depth}");
    }
    if stream.threads > 0 {
        name += &format!(" ×{}", stream.threads);
    }
    name
}

/// A stream's target and operation.
pub fn short(stream: &InterferenceStream) -> String {
    match stream.target.as_str() {
        "program" => line(&stream.op, NAME_COLUMNS),
        target => line(&format!("{target} {}", stream.op), NAME_COLUMNS),
    }
}

/// A stream for tables: without widths, blocks and depths, which its card has.
pub fn brief(stream: &InterferenceStream) -> String {
    let brief = InterferenceStream {
        threads: stream.threads,
        ..Precision::Cache.stream(stream)
    };
    self::stream(&brief)
}

/// A stream in a sentence: `cxl ntst with 16 threads`.
pub fn in_sentence(stream: &InterferenceStream) -> String {
    match stream.threads {
        0 => short(stream),
        1 => format!("{} with 1 thread", short(stream)),
        many => format!("{} with {many} threads", short(stream)),
    }
}

pub fn pair(victim: &InterferenceStream, background: &InterferenceStream) -> String {
    format!("{} beside {}", stream(victim), stream(background))
}

fn bytes(count: u64) -> String {
    match count {
        0 => "0 B".into(),
        c if c % (1 << 20) == 0 => format!("{} MiB", c >> 20),
        c if c % 1024 == 0 => format!("{} KiB", c >> 10),
        c => format!("{c} B"),
    }
}

/// The change that a ratio means, in percent, with a sign and without the unit.
pub fn change(ratio: Option<f64>) -> String {
    let Some(percent) = ratio.map(|r| (r - 1.0) * 100.0).filter(|p| p.is_finite()) else {
        return NONE.into();
    };
    match percent {
        p if p.abs() >= 9999.5 => format!("×{}", number(p / 100.0 + 1.0)),
        p if p.abs() < 0.05 => "0.0".into(),
        p if p < 0.0 => format!("−{:.1}", -p),
        p => format!("+{p:.1}"),
    }
}

/// Half of an interval of ratios, in points of percent.
pub fn half_width(low: Option<f64>, high: Option<f64>) -> String {
    let points = low.zip(high).map(|(low, high)| (high - low) * 50.0);
    match points {
        Some(points) if (0.0..9999.5).contains(&points) => format!("±{points:.1}"),
        Some(points) if points.is_finite() => format!("±{}", number(points.abs())),
        _ => format!("±{NONE}"),
    }
}

/// An interval of ratios as changes in percent.
pub fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match low.or(high) {
        Some(_) => format!("{} to {}", change(low), change(high)),
        None => NONE.into(),
    }
}

/// [`change`] with its unit, where it is known.
pub fn change_percent(ratio: Option<f64>) -> String {
    match ratio.filter(|r| r.is_finite()) {
        Some(_) => format!("{} %", change(ratio)),
        None => NONE.into(),
    }
}

pub fn why_not_measured(cell: &InterferenceCell) -> String {
    let reason = cell.missing.get("ratio");
    line(reason.map_or("no reason recorded", String::as_str), 300)
}

/// A cell's change with all that it rests on, in a sentence that begins small.
pub fn summary(cell: &InterferenceCell) -> String {
    if cell.ratio.is_none() {
        return format!("not measured: {}.", why_not_measured(cell));
    }
    let interval = match cell.ratio_low.zip(cell.ratio_high) {
        Some(_) => format!(
            "95 % interval {} %",
            interval(cell.ratio_low, cell.ratio_high)
        ),
        None => "no interval".into(),
    };
    let repeats = match cell.repeats {
        1 => "1 repetition".into(),
        many => format!("{many} repetitions"),
    };
    let (change, finding) = (change_percent(cell.ratio), finding(cell));
    format!("{change}, {interval}, {repeats}: {finding}.")
}

/// The text with a capital letter.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// The mark of a class where there are no colours.
fn mark_of(class: InfluenceClass) -> &'static str {
    match class {
        InfluenceClass::DeepSuppression => "▼▼▼",
        InfluenceClass::ModerateSuppression => "▼▼",
        InfluenceClass::MildSuppression => "▼",
        InfluenceClass::None => "=",
        InfluenceClass::MildPromotion => "▲",
        InfluenceClass::ModeratePromotion => "▲▲",
        InfluenceClass::DeepPromotion => "▲▲▲",
    }
}

/// The mark of a cell: `?` where it is not known whether there is an influence.
pub fn mark(cell: &InterferenceCell) -> String {
    match (cell.interferes, cell.class.as_slice()) {
        (Some(_), [only]) => mark_of(*only).into(),
        (Some(_), [worst, .., best]) => format!("{}/{}", mark_of(*worst), mark_of(*best)),
        _ => "?".into(),
    }
}

/// Classes in words: the one, or the ends of several.
pub fn classes(classes: &[InfluenceClass]) -> String {
    let word = |class: &InfluenceClass| class.name().replace('-', " ");
    match classes {
        [] => "not known".into(),
        [only] => word(only),
        [worst, .., best] => format!("{} to {}", word(worst), word(best)),
    }
}

/// What is known of a cell, in words.
pub fn finding(cell: &InterferenceCell) -> String {
    match cell.interferes {
        Some(true) => format!("interferes: {}", classes(&cell.class)),
        Some(false) => "no influence: all of the interval is within 5 %".into(),
        None if cell.ratio.is_none() => "not measured".into(),
        None => format!("not known, {}", classes(&cell.class)),
    }
}

/// Whether figures are measured, emulated or modelled, and when.
pub fn origin(document: &InterferenceDocument) -> String {
    let origin = match document.world {
        World::Machine => "measured",
        World::Vm => "measured in the testbed, with emulated memories",
        World::Sim => "computed by the model",
    };
    match &document.date_utc {
        Some(date) => format!("{origin}, {}", line(date, 30)),
        None => origin.into(),
    }
}

/// The machine's name, which may be empty in documents of others.
pub fn machine(document: &InterferenceDocument) -> String {
    match line(&document.machine.name, 60) {
        name if name.is_empty() => "a machine without a name".into(),
        name => name,
    }
}

/// A target with what plays it: `cxl (node2)`.
pub fn target(document: &InterferenceDocument, target: &str) -> String {
    match document.machine.targets.get(target) {
        Some(played) => format!("{} ({})", line(target, 20), line(played, 30)),
        None => line(target, 20),
    }
}
