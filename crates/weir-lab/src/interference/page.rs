// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `--out`: the picture, the paper's figures beside the model's, what-ifs, sensitivity, the
//! matrix.

use super::sensitivity::Sensitivity;
use super::tables::{percent, sensitivity_cell, shown, trade_table};
use super::trade::{Trade, TradeCurve, line};
use weir_figures::{
    Cell, CellKind, Comparison, Document, Ink, Part, Picture, Section, Table, compared, met_of,
};
use weir_report::interference::class::InfluenceClass;
use weir_report::interference::document::InterferenceDocument;
use weir_report::{Axis, Curve, Fonts, Panel, Plot, Shape};

pub struct PageContent<'a> {
    pub document: &'a InterferenceDocument,
    pub paper: &'a [Comparison],
    /// How they depend on the machine file.
    pub sensitivity: &'a Sensitivity,
    pub trade: &'a Trade,
}

/// Heads of the paper's figures: value, bound, reference, reason.
const PAPER_HEADS: [&str; 4] = ["model", "bound", "paper", "why"];

/// Curves of a picture: the lever, its name in the legend, its ink.
type Drawn = [(&'static str, &'static str, Ink)];

const LEVERS: &Drawn = &[
    ("quota", "quota", Ink::Free),
    ("quota, one at a time", "one writer at a time", Ink::Third),
    (
        "staggered, 1 to 16",
        "1 to 16 writers at a time",
        Ink::Fourth,
    ),
    ("smba", "SMBA", Ink::Fifth),
    ("mba-linear", "MBA", Ink::Held),
    ("frequency", "clock", Ink::Limit),
];

/// What the machine could have.
const WHAT_IFS: &Drawn = &[
    ("own-pool", "trackers of its own", Ink::Third),
    (
        "device-regulator-before",
        "device, before admission",
        Ink::Held,
    ),
    (
        "device-regulator-after",
        "device, behind admission",
        Ink::Free,
    ),
];

/// The picture: victim kept against background kept, a curve for each lever.
pub fn picture(trade: &Trade, fonts: &Fonts) -> Picture {
    let title = "What each lever leaves of DRAM's readers and of CXL memory's writers";
    drawn(trade, fonts, title, LEVERS)
}

fn drawn(trade: &Trade, fonts: &Fonts, title: &str, levers: &Drawn) -> Picture {
    let without = trade.victim_kept_without;
    let straight = (0..=20).map(|step| f64::from(step) / 20.0);
    let straight = straight.map(|part| (part * 1e2, line(part, without) * 1e2));
    let straight = Curve {
        name: "straight line of shared time".into(),
        ink: Ink::Muted,
        shape: Shape::Line,
        points: straight.collect(),
    };
    let curves = levers.iter().flat_map(|one| curves(trade, one));
    let axis = |name: &str| Axis {
        to: Some(105.0),
        ..Axis::linear(name)
    };
    weir_report::plot(
        &Plot {
            title: title.into(),
            x: axis("writers of CXL memory keep, %"),
            y: axis("readers of DRAM keep, %"),
            panels: vec![Panel {
                title: String::new(),
                curves: std::iter::once(straight).chain(curves).collect(),
            }],
            reference: None,
            panels_a_row: 1,
            has_own_axes: false,
        },
        fonts,
    )
}

/// A lever's curve, with a dot for each value, by rising value.
fn curves(trade: &Trade, (lever, name, ink): &(&str, &str, Ink)) -> Vec<Curve> {
    let Some(found) = of_lever(trade, lever) else {
        return Vec::new();
    };
    let of = |name: &str, shape| Curve {
        name: name.to_owned(),
        ink: *ink,
        shape,
        points: found
            .points
            .iter()
            .map(|p| (p.background_kept * 1e2, p.victim_kept * 1e2))
            .collect(),
    };
    vec![of(name, Shape::Line), of("", Shape::Dots)]
}

pub fn page(content: &PageContent, fonts: &Fonts, command: &str) -> String {
    let machine = &content.document.machine;
    let title = machine.facts.get("title").cloned().unwrap_or_default();
    weir_figures::html(&Document {
        title: format!("Interference, modelled: {}", machine.name),
        about: vec![
            format!("{title}. Figures come from the model of weir-hw; nothing was measured."),
            "One mechanism: a request needs one of a finite number of trackers. Posted writes keep theirs until the \
             memory is done, so that writers of a slow memory fill the pool and all others wait in front of it."
                .into(),
        ],
        answer: answer(content),
        sections: vec![
            Section::new("picture", "What each lever leaves", picture_parts(content, fonts)),
            Section::new("paper", "The paper's figures beside the model's", vec![Part::Table(compared(PAPER_HEADS, content.paper))]),
            Section::new("what-ifs", "Levers and what-ifs", what_if_parts(content, fonts)),
            Section::new("sensitivity", "What the figures hang on", sensitivity_parts(content.sensitivity)),
            Section::new("matrix", "The matrix", matrix_parts(content.document)),
            Section::new("again", "Made by", vec![Part::Command(command.to_owned())]),
        ],
    })
}

fn of_lever<'a>(trade: &'a Trade, name: &str) -> Option<&'a TradeCurve> {
    trade.curves.iter().find(|curve| curve.lever == name)
}

fn answer(content: &PageContent) -> Vec<String> {
    let at = |name: &str, pick: fn(&TradeCurve) -> Option<f64>| {
        percent(of_lever(content.trade, name).and_then(pick))
    };
    let at_92 = |curve: &TradeCurve| curve.background_at_92_percent;
    let at_97 = |curve: &TradeCurve| curve.background_at_97_percent;
    vec![
        format!(
            "{} on the paper's figures are met; the table says why the others are not.",
            met_of(content.paper)
        ),
        format!(
            "A quota shares time: while DRAM's readers keep 92 %, the writers keep {}. One writer at a time: {}. MBA slows \
             requests: while the readers keep 97 %, the writers keep {}.",
            at("quota", at_92),
            at("quota, one at a time", at_92),
            at("mba-linear", at_97),
        ),
    ]
}

fn picture_parts(content: &PageContent, fonts: &Fonts) -> Vec<Part> {
    vec![
        Part::Picture(picture(content.trade, fonts)),
        Part::Words(
            "16 readers of DRAM beside 16 non-temporal writers of CXL memory, under one lever on the writers; a dot is a \
             value of the lever. The upper right corner is best. Without a lever all curves meet at the lower right."
                .into(),
        ),
    ]
}

fn what_if_parts(content: &PageContent, fonts: &Fonts) -> Vec<Part> {
    let title = "What if the machine were another";
    vec![
        Part::Table(trade_table(
            content.trade,
            "What the writers keep at most while the readers keep 97 and 92 %",
            &["lever", "how", "points off the line", "at 97 %", "at 92 %"],
        )),
        Part::Picture(drawn(content.trade, fonts, title, WHAT_IFS)),
    ]
}

fn sensitivity_parts(table: &Sensitivity) -> Vec<Part> {
    let row = |row: &super::sensitivity::SensitivityRow| {
        let mut cells = vec![Cell::words(format!(
            "{}, {} (paper {})",
            row.name, row.unit, row.paper
        ))];
        cells.extend(row.values.iter().map(|value| {
            let text = sensitivity_cell(*value, row.bounds);
            let kind = match (text.ends_with('*'), row.bounds) {
                (true, _) => CellKind::Missed,
                (false, Some(_)) => CellKind::Met,
                (false, None) => CellKind::Number,
            };
            Cell::new(text, kind)
        }));
        cells
    };
    let mut columns = vec![""];
    columns.extend(&table.columns);
    vec![
        Part::Words(
            "T: trackers. W: lines of a core, all kinds. r: idle residence of DRAM. n: writers, beside 16 victims or as \
             many as cores are left. own: a core's own time for a line. * misses the bound."
                .into(),
        ),
        Part::Table(Table::new("", &columns, table.rows.iter().map(row))),
    ]
}

fn matrix_parts(document: &InterferenceDocument) -> Vec<Part> {
    let more = "matrix.html beside this page has the same as a map, with all thread counts.";
    vec![matrix_table(document), Part::Words(more.into())]
}

fn matrix_table(document: &InterferenceDocument) -> Part {
    let name = |s: &weir_report::interference::document::InterferenceStream| {
        format!("{} {} × {}", s.target, s.op, s.threads)
    };
    let row = |cell: &weir_report::interference::document::InterferenceCell| {
        let class = cell.class.first();
        let shade = match class {
            Some(InfluenceClass::DeepSuppression) => 4,
            Some(InfluenceClass::ModerateSuppression) => 2,
            Some(InfluenceClass::MildSuppression) => 1,
            _ => 0,
        };
        vec![
            Cell::words(name(&cell.victim)),
            Cell::words(name(&cell.background)),
            Cell::new(percent(cell.ratio), CellKind::Shaded(shade)),
            Cell::words(class.map_or("–", |class| class.name())),
            Cell::number(shown(cell.counters.admission_wait_ns)),
            Cell::long(cell.place.clone().unwrap_or_default()),
        ]
    };
    let title = "The greatest effect over 1, 2, 4 … threads of both sides";
    let heads = ["victim", "background", "kept", "class", "wait, ns", "where"];
    Part::Table(Table::new(title, &heads, document.cells.iter().map(row)))
}
