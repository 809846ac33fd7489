// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server as a graph: stages from the core to the device, lines that flow between them as widths, and how
//! full each stage is as its shade, its gauge and its number.

pub(in crate::profile) mod flows;

use super::words::{amount, time};
use crate::picture::chart::words;
use crate::picture::matrix::fill_ink;
use crate::picture::stack::{AreaStyle, swatch};
use flows::{Flows, Source};
use weir_core::window::role::{Stage, Target};
use weir_figures::text::{line, number, percent};
use weir_figures::{Anchor, At, Mark, Picture};
use weir_figures::{Hatch, Ink};
use weir_profile::report::Figures;
use weir_profile::stages::StageFigures;
use weir_profile::stalls::StallSplit;
use weir_profile::{Answer, Refusal};

const SIZE: At = (1200.0, 440.0);
const TOP: f32 = 50.0;
const BOX_WIDTH: f32 = 116.0;
/// Distance from the left end of a box to that of the next.
const STEP: f32 = 152.0;
const LEFT: f32 = 10.0;
/// Boxes of the six first columns.
const TALL: f32 = 318.0;
/// Where bands begin below the top, and how high all of them are.
const BANDS: (f32, f32) = (138.0, 120.0);
/// Columns in which the boxes stand, from the core (0) to the device.
const L1: usize = 1;
const L2: usize = 2;
const LLC: usize = 4;
const TABLE: usize = 5;
const MEMORY: usize = 6;
const DEVICE: usize = 7;
/// Top and height of the boxes of DRAM, the other socket, and the port and the device.
const DRAM_BOX: (f32, f32) = (TOP, 96.0);
const REMOTE_BOX: (f32, f32) = (TOP + 112.0, 62.0);
const CXL_BOX: (f32, f32) = (TOP + 190.0, 128.0);
/// A band is never thinner, so that little is not nothing.
const BAND_MIN: f32 = 1.5;

struct Node {
    at: At,
    height: f32,
    title: &'static str,
    lines: Vec<String>,
    pressure: Option<f64>,
}

/// What the boxes say: of the cores by the subject's own counts, of all else by the machine's.
struct Stations<'a> {
    own: &'a [StageFigures],
    full: &'a [(weir_core::Role, Answer)],
    stalls: &'a Result<StallSplit, Refusal>,
    machine: &'a Figures,
}

/// Draws the server with the lines of a subject. `whole`: lines that are as wide as all bands, where several
/// pictures are to be compared.
pub fn picture(title: &str, own: &Figures, machine: &Figures, whole: Option<f64>) -> Picture {
    let flows = Flows::new(own);
    let stations = Stations {
        own: &own.stages.queues,
        full: &own.stages.full,
        stalls: &own.stalls,
        machine,
    };
    let title = line(title, 110);
    let at = (LEFT, 28.0);
    let mut marks = vec![words(
        Ink::Text,
        at,
        Anchor::Start,
        17.0,
        true,
        title.clone(),
    )];
    legend(&mut marks, &flows);
    bands(&mut marks, &flows, whole.unwrap_or(0.0).max(flows.whole()));
    for node in stations.nodes(&flows) {
        draw(&mut marks, &node);
    }
    Picture {
        size: SIZE,
        label: title,
        marks,
    }
}

fn column(place: usize) -> f32 {
    LEFT + STEP * place as f32
}

fn legend(marks: &mut Vec<Mark>, flows: &Flows) {
    let y = SIZE.1 - 46.0;
    let muted = |at, text: String| words(Ink::Muted, at, Anchor::Start, 12.0, false, text);
    let names = [
        "DRAM",
        "other socket",
        "CXL memory",
        "last-level cache",
        "L2",
    ];
    let mut x = LEFT;
    for (source, name) in Source::ALL.iter().zip(names) {
        marks.push(swatch(source.look(), (x, y - 10.0)));
        marks.push(muted((x + 26.0, y), name.into()));
        x += 46.0 + 7.0 * name.len() as f32;
    }
    marks.push(swatch(WRITES, (x, y - 10.0)));
    marks.push(muted((x + 26.0, y), "writes".into()));
    let text = match (flows.sum() > 0.0, flows.is_rate) {
        (false, _) => "lines by supplier were not counted: no widths".into(),
        (true, true) => format!("widths: lines a second, as {} count them", flows.counted),
        (true, false) => format!("widths: lines, as {} count them", flows.counted),
    };
    marks.push(muted((LEFT, SIZE.1 - 22.0), text));
    let shades = "shade and bar: pressure, requests in a queue ÷ its entries (of the fullest queue of a stage)";
    marks.push(muted((LEFT + 420.0, SIZE.1 - 22.0), shades.into()));
}

const WRITES: AreaStyle = (Ink::Stores, Hatch::Dotted);

/// Each source's band, from its box to L1D; and writes from the table of requests on.
fn bands(marks: &mut Vec<Mark>, flows: &Flows, whole: f64) {
    if whole <= 0.0 {
        return;
    }
    let scale = f64::from(BANDS.1) / whole;
    let thick = |lines: f64| ((lines * scale) as f32).max(BAND_MIN);
    let mut y = TOP + BANDS.0;
    for source in Source::ALL {
        let lines = flows.from(source);
        if lines <= 0.0 {
            continue;
        }
        let height = thick(lines);
        let from = match source {
            Source::L2 => L2,
            Source::Llc => LLC,
            _ => TABLE,
        };
        // The boxes cover what lies behind them.
        let (left, right) = (column(L1) + BOX_WIDTH, column(from));
        marks.push(flat(source.look(), (left, y), (right, y), height));
        let into = match source {
            Source::Dram => Some(DRAM_BOX),
            Source::Remote => Some(REMOTE_BOX),
            Source::Cxl => Some(CXL_BOX),
            Source::Llc | Source::L2 => None,
        };
        if let Some((top, box_height)) = into {
            let (a, b) = (column(TABLE) + BOX_WIDTH, column(MEMORY));
            let target = middle(top, box_height, height);
            marks.push(curved(source.look(), (a, y), (b, target), height));
            if source == Source::Cxl {
                let (a, b) = (b + BOX_WIDTH, column(DEVICE));
                marks.push(flat(source.look(), (a, target), (b, target), height));
            }
        }
        y += height + 1.0;
    }
    for (lines, (top, box_height)) in flows.writes.iter().zip([DRAM_BOX, CXL_BOX]) {
        if *lines > 0.0 {
            let height = thick(*lines);
            let (a, b) = (column(TABLE) + BOX_WIDTH, column(MEMORY));
            let target = (top + box_height - height - 3.0).max(top);
            marks.push(curved(WRITES, (a, y), (b, target), height));
            if top == CXL_BOX.0 {
                let (a, b) = (b + BOX_WIDTH, column(DEVICE));
                marks.push(flat(WRITES, (a, target), (b, target), height));
            }
            y += height + 1.0;
        }
    }
}

/// Where a band of this height enters a box.
fn middle(top: f32, box_height: f32, height: f32) -> f32 {
    top + ((box_height - height) / 2.0).max(0.0)
}

fn flat((ink, hatch): AreaStyle, from: At, to: At, height: f32) -> Mark {
    let points = vec![from, to, (to.0, to.1 + height), (from.0, from.1 + height)];
    Mark::Area { ink, hatch, points }
}

/// A band from one height to another, without a corner.
fn curved((ink, hatch): AreaStyle, from: At, to: At, height: f32) -> Mark {
    const STEPS: usize = 16;
    let upper: Vec<At> = (0..=STEPS)
        .map(|step| {
            let part = step as f32 / STEPS as f32;
            let ease = part * part * (3.0 - 2.0 * part);
            (
                from.0 + (to.0 - from.0) * part,
                from.1 + (to.1 - from.1) * ease,
            )
        })
        .collect();
    let lower = upper.iter().rev().map(|(x, y)| (*x, y + height));
    let points = upper.iter().copied().chain(lower).collect();
    Mark::Area { ink, hatch, points }
}

fn draw(marks: &mut Vec<Mark>, node: &Node) {
    let (x, y) = node.at;
    let ink = node.pressure.map_or(Ink::Page, fill_ink);
    let size = (BOX_WIDTH, node.height);
    marks.push(Mark::Rect {
        ink,
        at: node.at,
        size,
    });
    let (right, bottom) = (x + BOX_WIDTH, y + node.height);
    marks.push(Mark::Line {
        ink: Ink::Axis,
        points: vec![(x, y), (right, y), (right, bottom), (x, bottom), (x, y)],
    });
    let text = |at, size, bold, text: &str| {
        words(Ink::Text, at, Anchor::Start, size, bold, line(text, 20))
    };
    marks.push(text((x + 6.0, y + 18.0), 11.0, true, node.title));
    let mut below = y + 26.0;
    if let Some(pressure) = node.pressure {
        let width = BOX_WIDTH - 14.0;
        let part = pressure.clamp(0.0, 1.0) as f32 * width;
        let bar = |ink, width| Mark::Rect {
            ink,
            at: (x + 7.0, y + 24.0),
            size: (width, 6.0),
        };
        marks.push(bar(Ink::Page, width));
        marks.push(bar(Ink::Text, part));
        below += 10.0;
    }
    for (place, words) in node.lines.iter().enumerate() {
        let at = (x + 7.0, below + 12.0 + 15.0 * place as f32);
        marks.push(text(at, 11.0, false, words));
    }
}

impl Stations<'_> {
    fn nodes(&self, flows: &Flows) -> Vec<Node> {
        let tall = |place: usize, title, lines, pressure| Node {
            at: (column(place), TOP),
            height: TALL,
            title,
            lines,
            pressure,
        };
        let supplies = |source| supplied(flows, source);
        let core_full = self
            .full(Stage::StoreBuffer)
            .map(|part| format!("stores full {part}"));
        let buffers_full = self
            .full(Stage::FillBuffer)
            .map(|part| format!("full {part}"));
        let before = &self.machine.stages;
        let mesh: Vec<String> = [
            said("stay", &before.before_tor_ns),
            said("wait", &before.before_tor_waiting_ns),
        ]
        .into_iter()
        .flatten()
        .collect();
        let of = |stages: &[Stage]| self.lines(stages);
        let all =
            |lines: Vec<String>, more: Option<String>| lines.into_iter().chain(more).collect();
        vec![
            tall(0, "core", all(self.stalled(), core_full), None),
            tall(
                L1,
                "L1D, fill buffers",
                all(of(&[Stage::FillBuffer]), buffers_full),
                self.pressure(&[Stage::FillBuffer]),
            ),
            tall(
                L2,
                "L2, super queue",
                all(of(&[Stage::SuperQueue]), supplies(Source::L2)),
                self.pressure(&[Stage::SuperQueue, Stage::L2]),
            ),
            tall(3, "mesh, ingress", mesh, self.pressure(&[Stage::Ingress])),
            tall(
                LLC,
                "last-level cache",
                all(Vec::new(), supplies(Source::Llc)),
                None,
            ),
            tall(
                TABLE,
                "table of requests",
                of(&[Stage::Tor]),
                self.pressure(&[Stage::Tor]),
            ),
        ]
        .into_iter()
        .chain(self.memory_nodes(flows))
        .collect()
    }

    fn memory_nodes(&self, flows: &Flows) -> Vec<Node> {
        let node = |place: usize, (top, height), title, lines, pressure| Node {
            at: (column(place), top),
            height,
            title,
            lines,
            pressure,
        };
        let behind = |targets: &[Target]| self.behind(targets);
        let mut dram = behind(&[Target::DramOwn, Target::Dram]);
        dram.extend(supplied(flows, Source::Dram));
        let mut remote = behind(&[Target::DramRemote]);
        remote.extend(supplied(flows, Source::Remote));
        let mut port = behind(&[Target::CxlOwn, Target::Cxl]);
        port.extend(supplied(flows, Source::Cxl));
        let ports = [Stage::M2pcie, Stage::Port];
        vec![
            node(MEMORY, DRAM_BOX, "DRAM", dram, self.pressure(&[Stage::Imc])),
            node(MEMORY, REMOTE_BOX, "other socket", remote, None),
            node(MEMORY, CXL_BOX, "CXL port", port, self.pressure(&ports)),
            node(
                DEVICE,
                CXL_BOX,
                "CXL device",
                self.lines(&[Stage::Device]),
                self.pressure(&[Stage::Device]),
            ),
        ]
    }

    fn queues(&self, stages: &[Stage]) -> impl Iterator<Item = &StageFigures> {
        let all = match stages {
            [Stage::FillBuffer | Stage::SuperQueue, ..] => self.own,
            _ => &self.machine.stages.queues,
        };
        all.iter()
            .filter(|queue| stages.contains(&queue.role.stage))
    }

    /// Pressure of the fullest queue.
    fn pressure(&self, stages: &[Stage]) -> Option<f64> {
        let known = self
            .queues(stages)
            .filter_map(|queue| queue.pressure.as_ref().ok());
        known.map(|figure| figure.value).max_by(f64::total_cmp)
    }

    /// What is known of the queue that most requests enter.
    fn lines(&self, stages: &[Stage]) -> Vec<String> {
        let pressure = self
            .pressure(stages)
            .map(|value| format!("pressure {}", number(value)));
        let rate = |queue: &&StageFigures| queue.requests_per_sec.as_ref().map_or(0.0, |f| f.value);
        let most = self
            .queues(stages)
            .max_by(|a, b| rate(a).total_cmp(&rate(b)));
        let entries = most.and_then(|queue| {
            let entries = queue.entries.as_ref().ok()?;
            Some(format!("{} requests in it", number(entries.value)))
        });
        let times = most.map(|queue| {
            [
                said("stay", &queue.residence_ns),
                said("wait", &queue.waiting_ns),
            ]
        });
        let times = times.into_iter().flatten().flatten();
        pressure.into_iter().chain(times).chain(entries).collect()
    }

    /// How long the table of requests holds what these supply.
    fn behind(&self, targets: &[Target]) -> Vec<String> {
        let rate = |queue: &&StageFigures| queue.requests_per_sec.as_ref().map_or(0.0, |f| f.value);
        let queues = self.queues(&[Stage::Tor]);
        let most = queues
            .filter(|queue| targets.contains(&queue.role.target) && rate(queue) > 0.0)
            .max_by(|a, b| rate(a).total_cmp(&rate(b)));
        let lines = most.map(|queue| {
            [
                said("answers in", &queue.residence_ns),
                said("wait", &queue.waiting_ns),
            ]
        });
        lines.into_iter().flatten().flatten().collect()
    }

    /// What the core stalls, and the part of it for CXL memory.
    fn stalled(&self) -> Vec<String> {
        let Ok(split) = self.stalls else {
            return Vec::new();
        };
        let stalled = split.stalled_ratio.as_ref().ok();
        let stalled = stalled.map(|ratio| format!("stalled {} %", percent(ratio.value, false)));
        let cxl = split.cxl_share.value.max(0.0);
        let cxl = format!("for CXL {} %", percent(cxl, false));
        stalled.into_iter().chain([cxl]).collect()
    }

    fn full(&self, stage: Stage) -> Option<String> {
        let (_, ratio) = self.full.iter().find(|(role, _)| role.stage == stage)?;
        let ratio = ratio.as_ref().ok()?;
        Some(format!("{} %", percent(ratio.value, false)))
    }
}

fn said(what: &str, answer: &Answer) -> Option<String> {
    let figure = answer.as_ref().ok()?;
    Some(format!("{what} {}", time(figure.value)))
}

/// What a source supplies, and its part of all lines.
fn supplied(flows: &Flows, source: Source) -> Option<String> {
    let (lines, all) = (flows.from(source), flows.sum());
    let unit = if flows.is_rate { "/s" } else { "" };
    (lines > 0.0).then(|| {
        let part = percent(lines / all, false);
        format!("{}{unit}, {part} %", amount(lines))
    })
}
