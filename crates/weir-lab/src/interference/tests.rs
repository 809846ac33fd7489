// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions of command lines, cells and tables that the model gives for them, and the page that shows them.

use super::ask::PathModel;
use super::cli::{FormName, InterferenceArgs};
use super::paper::{self, beside};
use super::{document, matrix, page, pair, sensitivity, tables, trade};
use clap::Parser;
use std::collections::BTreeMap;
use weir_figures::Bound;
use weir_hw::host_path::{HostMachine, HostStream, Lever, StreamOp};
use weir_report::Fonts;
use weir_report::interference::class::InfluenceClass;
use weir_report::interference::document::InterferenceCell;

/// The arguments as a command line has them.
#[derive(Parser)]
struct Words {
    #[command(flatten)]
    args: InterferenceArgs,
}

const LD: (&str, StreamOp, u32) = ("mmem", StreamOp::Ld, 16);
const NTST: (&str, StreamOp, u32) = ("cxl", StreamOp::Ntst, 16);

fn model() -> PathModel {
    PathModel {
        machine: HostMachine::named("paper-b").unwrap(),
        form: FormName::Solver,
        seed: 1,
    }
}

fn cells(words: &[&str], levers: &[Lever]) -> Vec<InterferenceCell> {
    let model = model();
    let pairs = words
        .iter()
        .map(|one| pair::parse(one, &model.machine).unwrap());
    matrix::cells(&model, &pairs.collect::<Vec<_>>(), levers).unwrap()
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!(
        (value / expected - 1.0).abs() < 1e-9,
        "{value} for {expected}"
    );
}

/// A quota of half: half of the time as alone, half as together.
#[test]
fn parts_of_the_time_are_put_together() {
    let model = model();
    let free = beside(&model, LD, NTST, &[]).unwrap();
    let half = beside(&model, LD, NTST, &[Lever::Quota(0.5)]).unwrap();
    near(half.kept(), 0.5 + 0.5 * free.kept());
    let moved = |mix: &paper::VictimBeside| mix.together.streams[1].bytes_per_sec();
    near(moved(&half), 0.5 * moved(&free));
    // The mean of loads counts each load once: few are done while the writers run.
    let (slow, fast) = (free.l2_ratio(), half.l2_ratio());
    let (with, without) = (0.5 * free.kept(), 0.5);
    near(fast, (with * slow + without) / (with + without));
}

/// Little's law holds for what is told of a stream: lines under way are those of its buffers.
#[test]
fn counters_fit_the_bandwidth() {
    let mix = model()
        .plain(&[HostStream::new("mmem", StreamOp::LdChase, 1)])
        .unwrap();
    let stream = mix.streams[0];
    let latency_ns = stream.counters.l2_miss_latency_ns.unwrap();
    near(stream.bytes_per_sec() * latency_ns, 64e9);
    assert_eq!(stream.counters.admission_wait_ns, Some(0.0));
    // No core waits for the data of nt stores.
    let writers = model()
        .plain(&[HostStream::new("cxl", StreamOp::Ntst, 1)])
        .unwrap();
    assert_eq!(writers.streams[0].counters.l2_miss_latency_ns, None);
}

#[test]
fn the_lines_one_by_one_are_asked_where_they_are_wanted() {
    let events = |seed| PathModel {
        form: FormName::Events,
        seed,
        ..model()
    };
    let kept = |model: &PathModel| beside(model, LD, NTST, &[]).unwrap().kept();
    let (one, other, solver) = (kept(&events(1)), kept(&events(2)), kept(&model()));
    assert!(one != other && one != solver, "{one} {other} {solver}");
    assert!((one / solver - 1.0).abs() < 0.1, "{one} {solver}");
}

#[test]
fn a_cell_is_the_greatest_effect_over_all_threads() {
    let both = cells(&["mmem:ld:16+cxl:ntst"], &[]);
    let [hit, other] = &both[..] else { panic!() };
    assert_eq!(
        (hit.victim.op.as_str(), other.victim.op.as_str()),
        ("ld", "ntst")
    );
    let threads: Vec<u32> = hit
        .sweep
        .iter()
        .map(|point| point.background_threads)
        .collect();
    assert_eq!(threads, [1, 2, 4, 8, 16]);
    let least = hit
        .sweep
        .iter()
        .filter_map(|point| point.ratio)
        .fold(1.0, f64::min);
    assert_eq!(hit.ratio, Some(least));
    assert_eq!(hit.background.threads, 16);
    assert_eq!(hit.class, [InfluenceClass::of(least)]);
    assert!(hit.place.as_ref().unwrap().starts_with("Before admission"));
    let idle = &cells(&["mmem:ld:1+cxl:ld:1"], &[])[0];
    assert_eq!((idle.interferes, idle.sweep.len()), (Some(false), 0));
    assert!(idle.place.as_ref().unwrap().starts_with("No request waits"));
}

/// A value that is null has its reason.
#[test]
fn what_a_cell_lacks_is_named() {
    for cell in cells(&["mmem:ld:4+cxl:ntst:4", "ssd:randwrite:1+cxl:ld:4"], &[]) {
        let lacks = [
            ("together.ops_per_sec", cell.together.ops_per_sec.is_none()),
            (
                "counters.l2_miss_latency_ns",
                cell.counters.l2_miss_latency_ns.is_none(),
            ),
        ];
        for (name, is_null) in lacks {
            let group = name.split('.').next().unwrap();
            let has = cell.missing.contains_key(name) || cell.missing.contains_key(group);
            assert!(
                has || !is_null,
                "{name} of {} {}",
                cell.victim.target,
                cell.victim.op
            );
        }
    }
}

#[test]
fn a_lever_holds_the_background_only() {
    let half = Lever::named("mba-linear", 0.5, &model().machine).unwrap();
    let free = cells(&["mmem:ld:16+cxl:ntst:16"], &[]);
    let held = cells(&["mmem:ld:16+cxl:ntst:16"], &[half]);
    assert!(held[0].ratio > Some(0.95) && free[0].ratio < Some(0.2));
    assert_eq!(held[0].alone, free[0].alone);
}

/// What is met is what lies within its bounds, and both tables have the same figures and bounds.
#[test]
fn tables_agree_on_figures_and_bounds() {
    let model = model();
    let (rows, table) = (
        paper::rows(&model).unwrap(),
        sensitivity::sensitivity(&model).unwrap(),
    );
    for row in &rows {
        assert!(row.value.is_ok() || !row.why.is_empty(), "{}", row.name);
    }
    for (of_paper, of_table) in [
        ("MMEM ld lost under 16 CXL ntst", "MMEM ld lost under ntst"),
        ("L2-miss latency under 16 CXL ntst", "L2-miss latency"),
        ("tracker residence, all misses", "tracker residence"),
        (
            "MMEM ld kept at a quota of 1/16",
            "MMEM ld kept, quota 1/16",
        ),
        (
            "MMEM ld kept with MBA at half of CXL",
            "MMEM ld kept, MBA at half",
        ),
        (
            "MMEM ld kept at the lowest clock",
            "MMEM ld kept, lowest clock",
        ),
        ("SSD sequential write lost", "SSD sequential write lost"),
        ("SSD random write lost", "SSD random write lost"),
    ] {
        let one = rows.iter().find(|row| row.name == of_paper).unwrap();
        let other = table.rows.iter().find(|row| row.name == of_table).unwrap();
        near(*one.value.as_ref().unwrap(), other.values[0].unwrap());
        let bound = other.bounds.and_then(Bound::between);
        assert_eq!(one.bound, bound, "{of_paper}");
    }
}

/// Each variation changes what it names, and one that a machine has no cores for is left out.
#[test]
fn variations_change_what_they_name() {
    let table = sensitivity::sensitivity(&model()).unwrap();
    let at = |row: &str, column: &str| {
        let place = table
            .columns
            .iter()
            .position(|name| *name == column)
            .unwrap();
        let row = table.rows.iter().find(|one| one.name == row).unwrap();
        row.values[place]
    };
    let lost = |column| at("MMEM ld lost under ntst", column).unwrap();
    assert!(lost("n 8") < lost("base") && lost("base") < lost("n 31"));
    assert!(lost("W −30 %") < lost("W +30 %"));
    assert!(lost("r 80 ns") > lost("r 150 ns"));
    near(lost("T −30 %"), lost("base"));
    let residence = |column| at("tracker residence", column).unwrap();
    assert!(residence("T −30 %") < residence("base") && residence("base") < residence("T +30 %"));
    let clock = |column| at("MMEM ld kept, lowest clock", column).unwrap();
    assert!(clock("own ÷ 2") < clock("base") && clock("base") < clock("own × 4"));
    assert!(
        table
            .rows
            .iter()
            .all(|row| row.values.len() == table.columns.len())
    );
    let marked = tables::sensitivity_cell(Some(90.0), Some([20.0, 62.0]));
    assert_eq!(marked, "90.0*");
    assert!(!tables::sensitivity_cell(Some(90.0), Some([88.2, 98.2])).ends_with('*'));
}

#[test]
fn a_machine_unlike_the_papers_has_no_such_tables() {
    let mut small = model();
    small.machine.cores.count = 8;
    let said = paper::rows(&small).unwrap_err().to_string();
    assert!(said.contains("32 cores"), "{said}");
    assert!(sensitivity::sensitivity(&small).is_err());
}

#[test]
fn the_page_shows_all_tables_and_every_row() {
    let model = model();
    let (paper, fonts) = (paper::rows(&model).unwrap(), Fonts::load().unwrap());
    let (sensitivity, trade) = (
        sensitivity::sensitivity(&model).unwrap(),
        trade::trade(&model).unwrap(),
    );
    let args = Words::parse_from(["weir"]).args;
    let cells = cells(&["mmem:ld:16+cxl:ntst:16"], &[]);
    let document = document::document(&args, &model, &BTreeMap::new(), cells, BTreeMap::new());
    let content = page::PageContent {
        document: &document,
        paper: &paper,
        sensitivity: &sensitivity,
        trade: &trade,
    };
    let html = page::page(&content, &fonts, "weir sim interference --out x");
    for id in [
        "picture",
        "paper",
        "what-ifs",
        "sensitivity",
        "matrix",
        "again",
    ] {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    for row in &paper {
        assert!(html.contains(&row.name), "{}", row.name);
    }
    assert!(html.contains(&weir_figures::met_of(&paper)));
    assert!(html.contains("deep-suppression") && html.contains("weir sim interference --out x"));
}
