// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two maps of where data comes from, never mixed: *loads by where they were found* counts retired
//! instructions, *lines by supplier* counts requests, speculative ones and prefetches too. Eight loads may
//! find one line, and a line that was prefetched has no load. (PathFinder's Table 7 puts both into one row.)

use crate::counts::Counts;
use crate::figure::{Answer, Figure, Unit, sum};
use crate::quality::Refusal;
use serde::Serialize;
use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// A cell: a count, its rate, and its share of the row.
#[derive(Clone, Debug, Serialize)]
pub struct PathCell {
    /// The supplier, or the place, in words.
    pub place: &'static str,
    pub role: Role,
    pub count: Answer,
    /// How many a second.
    pub per_sec: Answer,
    /// Which part of the row's known cells.
    pub share: Answer,
}

#[derive(Clone, Debug, Serialize)]
pub struct PathRow {
    pub path: AccessPathWord,
    /// Its cells, nearest first. Cells that no count of the recording is for are left out.
    pub cells: Vec<PathCell>,
}

/// A path, as it is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub struct AccessPathWord(pub AccessPath);

impl From<AccessPathWord> for &'static str {
    fn from(path: AccessPathWord) -> &'static str {
        path.0.word()
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct PathMap {
    /// Loads, by where they found their data. Instructions.
    pub loads: Vec<PathRow>,
    /// Lines, by supplier. Requests.
    pub lines: Vec<PathRow>,
    /// Lines from CXL memory, over the paths that have such a count.
    pub cxl_lines: Answer,
    /// Which part of all lines, with the parts of the paths in `cxl_by_path`.
    pub cxl_share: Answer,
    /// The share of CXL memory in the lines of each path.
    pub cxl_by_path: Vec<PathShare>,
    /// Lines from CXL memory ÷ lines from the own caches of the last level.
    pub cxl_per_llc: Answer,
    /// The path that most lines come by, behind L2.
    pub hot_path: Option<AccessPathWord>,
}

/// The share of CXL memory in a path's lines.
#[derive(Clone, Debug, Serialize)]
pub struct PathShare {
    pub path: AccessPathWord,
    pub share: Answer,
}

/// Places of loads, nearest first.
const LOADS: &[(&str, Stage, Target)] = &[
    ("L1D", Stage::L1d, Target::Own),
    ("fill buffer", Stage::FillBuffer, Target::Own),
    ("L2", Stage::L2, Target::Own),
    ("last-level cache", Stage::Llc, Target::Own),
    ("remote cache", Stage::Llc, Target::RemoteCache),
    ("DRAM, own", Stage::Imc, Target::DramOwn),
    ("DRAM, remote", Stage::Imc, Target::DramRemote),
    ("CXL, own", Stage::Device, Target::CxlOwn),
    ("CXL, remote", Stage::Device, Target::CxlRemote),
];

/// Suppliers of lines behind L2, nearest first.
const SUPPLIERS: &[(&str, Target)] = &[
    ("own caches", Target::Own),
    ("other cluster", Target::Snc),
    ("remote cache", Target::RemoteCache),
    ("DRAM", Target::Dram),
    ("DRAM, own", Target::DramOwn),
    ("DRAM, remote", Target::DramRemote),
    ("CXL", Target::Cxl),
    ("CXL, own", Target::CxlOwn),
    ("CXL, remote", Target::CxlRemote),
];

/// Rows of lines: each is a path of its own, no line is in two.
const LINE_PATHS: &[AccessPath] = &[AccessPath::Drd, AccessPath::Rfo, AccessPath::Pf];

pub fn path_map(counts: &Counts) -> PathMap {
    let lines: Vec<PathRow> = LINE_PATHS
        .iter()
        .filter_map(|path| line_row(counts, *path))
        .collect();
    let cxl_by_path = lines.iter().map(|row| PathShare {
        path: row.path,
        share: share_of_target(counts, row.path.0),
    });
    PathMap {
        loads: load_rows(counts),
        cxl_by_path: cxl_by_path.collect(),
        cxl_lines: cxl_lines(counts),
        cxl_share: cxl_share(counts),
        cxl_per_llc: cxl_per_llc(counts),
        hot_path: hot_path(counts),
        lines,
    }
}

fn load_rows(counts: &Counts) -> Vec<PathRow> {
    let at = |stage, path, target, quantity| Role::new(stage, path, target, quantity);
    let loads = LOADS.iter().map(|(place, stage, target)| {
        (
            *place,
            at(*stage, AccessPath::Drd, *target, Quantity::Loads),
        )
    });
    let stores = [
        (
            "store buffer",
            at(
                Stage::StoreBuffer,
                AccessPath::Wb,
                Target::Any,
                Quantity::Stores,
            ),
        ),
        (
            "L2",
            at(Stage::L2, AccessPath::Wb, Target::Own, Quantity::Stores),
        ),
    ];
    let row = |path, cells: Vec<(&'static str, Role)>, has_shares| {
        let cells: Vec<(&'static str, Role, Answer)> = cells
            .into_iter()
            .map(|(place, role)| (place, role, counts.get(role)))
            .collect();
        row(counts, path, cells, has_shares)
    };
    // All stores pass the buffer: the cells of stores are no parts of one whole.
    let rows = [
        row(AccessPath::Drd, loads.collect(), true),
        row(AccessPath::Wb, stores.to_vec(), false),
    ];
    rows.into_iter().flatten().collect()
}

fn line_row(counts: &Counts, path: AccessPath) -> Option<PathRow> {
    let l2 = Role::new(Stage::L2, path, Target::Own, Quantity::Lines);
    let mut cells = vec![("L2", l2, counts.get(l2))];
    for (place, target) in SUPPLIERS {
        let role = Role::new(Stage::SuperQueue, path, *target, Quantity::Lines);
        // A whole that was counted is not shown in parts too.
        let whole = match target {
            Target::DramOwn | Target::DramRemote => Some(Target::Dram),
            Target::CxlOwn | Target::CxlRemote => Some(Target::Cxl),
            _ => None,
        };
        if whole.is_some_and(|whole| lines_of(counts, path, whole).is_ok()) {
            continue;
        }
        cells.push((place, role, lines_of(counts, path, *target)));
    }
    row(counts, path, cells, true)
}

/// A row of the cells that the recording has; nothing where it has none.
fn row(
    counts: &Counts,
    path: AccessPath,
    cells: Vec<(&'static str, Role, Answer)>,
    has_shares: bool,
) -> Option<PathRow> {
    let known: Vec<Figure> = cells
        .iter()
        .filter_map(|cell| cell.2.clone().ok())
        .collect();
    let whole = sum(&known);
    let lacking = cells
        .iter()
        .filter(|cell| cell.2.is_err())
        .map(|cell| cell.0);
    let mut lacking: Vec<&str> = lacking.collect();
    // Where the whole is named, its parts need not be.
    let all = lacking.clone();
    lacking.retain(|place| {
        !place
            .split_once(", ")
            .is_some_and(|(whole, _)| all.contains(&whole))
    });
    let named = if lacking.is_empty() {
        format!("all {}", path.word())
    } else {
        format!(
            "{} that were counted; not counted: {}",
            path.word(),
            lacking.join("; ")
        )
    };
    let is_recorded = |answer: &Answer| !matches!(answer, Err(Refusal::NotRecorded { .. }));
    let cells: Vec<PathCell> = cells
        .into_iter()
        .filter(|cell| is_recorded(&cell.2))
        .map(|(place, role, count)| PathCell {
            place,
            role,
            per_sec: count
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|f| rate(counts, f)),
            share: match (&count, &whole) {
                (Ok(count), Some(whole)) if has_shares => count.share_of(whole, &named),
                (Err(why), _) => Err(why.clone()),
                _ => Err(Refusal::NotCounted {
                    what: "parts of one whole".into(),
                }),
            },
            count,
        })
        .collect();
    (!cells.is_empty()).then_some(PathRow {
        path: AccessPathWord(path),
        cells,
    })
}

fn rate(counts: &Counts, figure: &Figure) -> Answer {
    let length = counts.length().ok_or(Refusal::NoTime)?;
    let unit = match figure.unit {
        Unit::Instructions => Unit::InstructionsPerSec,
        _ => Unit::LinesPerSec,
    };
    Ok(figure.and(figure, figure.value / length.secs_f64(), unit))
}

/// Lines of a path from a supplier, as the cores count them: by the super queue, by what fills L1D where
/// there is no such count, and for prefetch as what demand leaves of all reads.
///
/// # Errors
/// None of these was counted, or a difference is below 0.
pub fn lines_of(counts: &Counts, path: AccessPath, target: Target) -> Answer {
    let at = |stage, path| Role::new(stage, path, target, Quantity::Lines);
    let first = counts.get(at(Stage::SuperQueue, path));
    if !matches!(first, Err(Refusal::NotRecorded { .. })) {
        return first;
    }
    let filled = match path {
        AccessPath::Pf => AccessPath::PfL1,
        path => path,
    };
    if let Ok(fills) = counts.get(at(Stage::L1d, filled)) {
        return Ok(fills.noting("fills of L1D: without what goes into L2 only"));
    }
    if path != AccessPath::Pf {
        return first;
    }
    let get = |path| counts.get(at(Stage::SuperQueue, path));
    let (Ok(reads), Ok(drd), Ok(rfo)) = (
        get(AccessPath::Reads),
        get(AccessPath::Drd),
        get(AccessPath::Rfo),
    ) else {
        return first;
    };
    let rest = reads.value - drd.value - rfo.value;
    if rest < 0.0 {
        return Err(Refusal::Negative {
            what: format!(
                "{} less drd less rfo",
                at(Stage::SuperQueue, AccessPath::Reads)
            ),
        });
    }
    let mut left = reads.and(&drd.and(&rfo, 0.0, Unit::Lines), rest, Unit::Lines);
    left.provenance = left.provenance.max(CountProvenance::Difference);
    Ok(left.noting("all reads less demand: never counted at the same time"))
}

/// All lines of a path behind L2, over the suppliers that were counted, and which were.
fn lines_behind_l2(counts: &Counts, path: AccessPath) -> Option<(Figure, Vec<&'static str>)> {
    let has = |target| lines_of(counts, path, target).is_ok();
    let is_part = |target: Target| match target {
        Target::DramOwn | Target::DramRemote => has(Target::Dram),
        Target::CxlOwn | Target::CxlRemote => has(Target::Cxl),
        _ => false,
    };
    let cells: Vec<(&str, Figure)> = SUPPLIERS
        .iter()
        .filter(|(_, target)| !is_part(*target))
        .filter_map(|(place, target)| Some((*place, lines_of(counts, path, *target).ok()?)))
        .collect();
    let named = cells.iter().map(|(place, _)| *place).collect();
    Some((sum(cells.iter().map(|(_, figure)| figure))?, named))
}

/// Lines of a path from CXL memory: of all sockets where that was counted, else own and remote together.
///
/// # Errors
/// Neither was counted.
pub fn cxl_of(counts: &Counts, path: AccessPath) -> Answer {
    let all = lines_of(counts, path, Target::Cxl);
    let parts = [Target::CxlOwn, Target::CxlRemote].map(|target| lines_of(counts, path, target));
    let known: Vec<&Figure> = parts.iter().flatten().collect();
    match (&all, sum(known)) {
        (Err(_), Some(sum)) => Ok(sum),
        _ => all,
    }
}

fn share_of_target(counts: &Counts, path: AccessPath) -> Answer {
    let cxl = cxl_of(counts, path)?;
    let (whole, named) = lines_behind_l2(counts, path).ok_or(Refusal::NotCounted {
        what: format!("lines of {}", path.word()),
    })?;
    cxl.share_of(
        &whole,
        &format!("{} from {}", path.word(), named.join(" + ")),
    )
}

/// Lines from CXL memory by all paths: by all reads where these were counted, else the sum of the paths.
///
/// # Errors
/// No path has such a count.
pub fn cxl_lines(counts: &Counts) -> Answer {
    let reads = cxl_of(counts, AccessPath::Reads);
    let paths: Vec<Figure> = LINE_PATHS
        .iter()
        .filter_map(|p| cxl_of(counts, *p).ok())
        .collect();
    match (reads, sum(&paths)) {
        (Ok(reads), _) => Ok(reads),
        (Err(_), Some(sum)) if paths.len() == LINE_PATHS.len() => Ok(sum),
        (Err(_), Some(sum)) => Ok(sum.noting("not of all paths: others were not counted")),
        (Err(why), None) => Err(why),
    }
}

fn cxl_share(counts: &Counts) -> Answer {
    let paths = LINE_PATHS
        .iter()
        .filter(|path| cxl_of(counts, **path).is_ok());
    let wholes: Vec<(Figure, Vec<&str>)> = paths
        .filter_map(|path| lines_behind_l2(counts, *path))
        .collect();
    let whole = sum(wholes.iter().map(|(figure, _)| figure));
    let cxl: Vec<Figure> = LINE_PATHS
        .iter()
        .filter_map(|p| cxl_of(counts, *p).ok())
        .collect();
    match (sum(&cxl), whole) {
        (Some(cxl), Some(whole)) => {
            cxl.share_of(&whole, "lines behind L2 of the paths that were counted")
        }
        _ => Err(Refusal::NotCounted {
            what: "lines by path and supplier".into(),
        }),
    }
}

fn cxl_per_llc(counts: &Counts) -> Answer {
    let paths = LINE_PATHS.iter().filter_map(|path| {
        let llc = lines_of(counts, *path, Target::Own).ok()?;
        Some((cxl_of(counts, *path).ok()?, llc))
    });
    let pairs: Vec<(Figure, Figure)> = paths.collect();
    let (cxl, llc) = (
        sum(pairs.iter().map(|p| &p.0)),
        sum(pairs.iter().map(|p| &p.1)),
    );
    match (cxl, llc) {
        (Some(cxl), Some(llc)) => cxl.share_of(&llc, "lines from the own last-level cache"),
        _ => Err(Refusal::NotCounted {
            what: "lines from cache and CXL of one path".into(),
        }),
    }
}

fn hot_path(counts: &Counts) -> Option<AccessPathWord> {
    let lines = |path: &AccessPath| lines_behind_l2(counts, *path).map_or(0.0, |(f, _)| f.value);
    let known: Vec<AccessPath> = LINE_PATHS
        .iter()
        .copied()
        .filter(|p| lines(p) > 0.0)
        .collect();
    // One path alone is not hotter than another.
    let hottest = known.iter().max_by(|a, b| lines(a).total_cmp(&lines(b)))?;
    (known.len() > 1).then_some(AccessPathWord(*hottest))
}

/// What a share hides: between two spans fewer lines come from CXL memory, although a larger part of some
/// path's lines does.
#[derive(Clone, Debug, Serialize)]
pub struct HiddenFall {
    /// Lines before ÷ lines after.
    pub fall_ratio: f64,
    /// Paths with a larger share, and the shares before and after.
    pub risen: Vec<(AccessPathWord, f64, f64)>,
}

pub fn hidden_fall(before: &Counts, after: &Counts) -> Option<HiddenFall> {
    let (first, second) = (cxl_lines(before).ok()?, cxl_lines(after).ok()?);
    let risen = LINE_PATHS.iter().filter_map(|path| {
        let share = |counts| Some(share_of_target(counts, *path).ok()?.value);
        let (a, b) = (share(before)?, share(after)?);
        (b > a).then_some((AccessPathWord(*path), a, b))
    });
    let risen: Vec<_> = risen.collect();
    let fall_ratio = first.value / second.value;
    (fall_ratio > 1.0 && fall_ratio.is_finite() && !risen.is_empty())
        .then_some(HiddenFall { fall_ratio, risen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::counts;

    #[test]
    fn prefetch_is_what_demand_leaves_and_never_below_nothing() {
        let of = |reads| {
            let all = [
                ("sq.reads.cxl.lines", reads),
                ("sq.drd.cxl.lines", 300),
                ("sq.rfo.cxl.lines", 100),
            ];
            lines_of(&counts(&all), AccessPath::Pf, Target::Cxl)
        };
        let left = of(1000).unwrap();
        assert_eq!(
            (left.value, left.provenance),
            (600.0, CountProvenance::Difference)
        );
        assert!(of(399).unwrap_err().to_string().contains("below 0"));
    }

    #[test]
    fn a_whole_is_not_added_to_its_parts() {
        let all = counts(&[
            ("sq.drd.dram.lines", 60),
            ("sq.drd.dram-own.lines", 40),
            ("sq.drd.dram-remote.lines", 20),
            ("sq.drd.cxl-own.lines", 40),
        ]);
        let map = path_map(&all);
        let share = map.cxl_by_path[0].share.as_ref().unwrap();
        assert_eq!(share.value, 0.4);
        assert_eq!(share.share_of.as_deref(), Some("drd from DRAM + CXL, own"));
        let places: Vec<&str> = map.lines[0].cells.iter().map(|cell| cell.place).collect();
        assert_eq!(places, ["DRAM", "CXL, own"]);
        assert!(
            map.hot_path.is_none(),
            "one path is not hotter than another"
        );
    }

    #[test]
    fn maps_do_not_mix_instructions_and_lines() {
        let all = counts(&[("llc.drd.own.loads", 8), ("sq.drd.own.lines", 1)]);
        let map = path_map(&all);
        assert_eq!(
            map.loads[0].cells[0].count.as_ref().unwrap().unit,
            Unit::Instructions
        );
        assert_eq!(map.lines[0].cells[0].count.as_ref().unwrap().value, 1.0);
        let per_sec = map.loads[0].cells[0].per_sec.as_ref().unwrap();
        assert_eq!(
            (per_sec.value, per_sec.unit),
            (8.0, Unit::InstructionsPerSec)
        );
    }

    #[test]
    fn fills_of_amd_are_lines_with_a_note() {
        let all = counts(&[("l1d.drd.cxl.lines", 8), ("l1d.drd.own.lines", 24)]);
        let share = share_of_target(&all, AccessPath::Drd).unwrap();
        assert_eq!(share.value, 0.25);
        assert!(share.notes[0].contains("fills of L1D"), "{share:?}");
    }
}
