// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that is said of a file of windows: three lines that answer first, then the figures of each subject.

mod by_place;
mod each_window;
mod headline;
mod judged;
pub mod methods;
mod named;
pub mod over_time;
mod phase_rows;
mod places;
mod scene;
pub mod text;

pub use by_place::{PlaceFigures, PlaceLines, PlaceQueue};
pub use headline::{because_of, since, time};
pub use judged::{FoundPhases, MACHINE, RuleReport};
pub use named::NamedFigure;
pub use phase_rows::{PhaseReport, PhaseRow};
pub use places::CountedPlaces;
pub use text::places::{shown_lines, shown_queues};

use crate::counts::Counts;
use crate::culprit::{Waits, blame};
use crate::figure::sources::Sources;
use crate::figure::{printable, printable_within};
use crate::paper::{path_classes, stall_share};
use crate::path_map::{self, HiddenFall, PathMap};
use crate::phases::{Followed, LaggedPair, NoPhases, lagged, phases};
use crate::quality::{self, Agreement};
use crate::stages::{self, Stages};
use crate::stalls::what_if::{Otherwise, speedup};
use crate::stalls::{StallSplit, stalls};
use crate::window_file::WindowFile;
use crate::{Answer, Refusal};
use each_window::EachWindow;
use judged::{Span, judged};
use over_time::OverTime;
use scene::{Scene, total_length};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::role::Stage;
use weir_core::{Nanos, Role, Window};

/// Version of the formulas: figures of two versions need not agree.
pub const METHOD_VERSION: u32 = 5;
/// Events without a role that a report names.
const EVENTS_SHOWN: usize = 40;
/// Neighbours without which a workload's time is estimated.
const NEIGHBOURS_MAX: usize = 3;
/// Characters of a note that are shown.
const NOTE_CHARS_MAX: usize = 400;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// A recording of the idle machine.
    pub idle: Option<&'a WindowFile>,
    /// Only workloads with this in their name, and not the machine.
    pub workload: Option<&'a str>,
    /// Each window beside their sum.
    pub each: bool,
    /// What PathFinder would say, too.
    pub pathfinder: bool,
    /// What changes over the recording, too.
    pub over_time: bool,
    /// Without what would be otherwise, each of which is another fit of the model of stalls.
    pub brief: bool,
}

#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of the formulas.
    pub method_version: u32,
    /// The program that counted.
    pub source: String,
    pub family: Option<String>,
    pub windows: usize,
    /// How long they are together; nothing where that is not known.
    pub length_ns: Option<Nanos>,
    /// Where it was counted.
    pub places: CountedPlaces,
    /// Sockets, ports and devices one by one, of those kinds of which there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_place: Vec<PlaceFigures>,
    /// What is wrong, for which subject; how sure; what to do. Or that nothing was found.
    pub headline: [String; 3],
    /// What each rule says of each subject.
    pub rules: Vec<RuleReport>,
    /// Waits at the stages that workloads share, or why they are not known.
    pub waits: Result<Waits, Refusal>,
    /// Workloads that go together, now or some windows later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lags: Vec<LaggedPair>,
    /// The machine, and each workload.
    pub subjects: Vec<Subject>,
    /// Stalls, load and waiting by span of time, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
    /// What the file says of itself.
    pub notes: Vec<String>,
    /// Events without a role.
    pub unassigned: Vec<String>,
}

/// Figures of the machine, or of a workload.
#[derive(Debug, Serialize)]
pub struct Subject {
    /// `machine`, or the workload's name.
    pub name: String,
    /// Figures of all windows together.
    pub figures: Figures,
    /// How much faster it would be otherwise, by the model of its stalls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<WhatIf>,
    /// When what it does changes, or why that was not looked for.
    pub phases: Result<PhaseReport, NoPhases>,
    /// Figures of each window, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Figures>,
    /// Windows of which the one before had more lines from CXL memory, although shares rose: their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_falls: Vec<(usize, HiddenFall)>,
}

/// Figures of some counts.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Where loads and lines come from.
    pub path_map: PathMap,
    /// How long requests stay.
    pub stages: Stages,
    /// The measured stalls, split by a model.
    pub stalls: Result<StallSplit, Refusal>,
    /// What sources say of the same lines.
    pub agreements: Vec<Agreement>,
    /// What PathFinder would say, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pathfinder: Option<Pathfinder>,
}

/// What would be otherwise, in the words of the truth of a simulated server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Lines of CXL memory are in DRAM; where it is not known what DRAM gives: CXL memory is as fast as DRAM.
    NoCxl,
    /// All memory takes as long as on the idle machine.
    IdleMachine,
    /// A workload, by its name, is not there.
    Without(String),
}

/// A workload's time if something were otherwise.
#[derive(Debug, Serialize)]
pub struct WhatIf {
    pub condition: Condition,
    /// The condition in words.
    pub otherwise: String,
    /// Time now ÷ time then.
    pub speedup: Answer,
}

impl WhatIf {
    fn new(condition: Condition, speedup: Answer) -> WhatIf {
        let otherwise = match &condition {
            Condition::NoCxl => "CXL memory were as fast as DRAM".into(),
            Condition::IdleMachine => "the machine were idle".into(),
            Condition::Without(workload) => format!("{workload} were not there"),
        };
        WhatIf {
            condition,
            otherwise,
            speedup,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Pathfinder {
    /// Figures of its Table 7.
    pub classes: path_classes::PathClasses,
    /// The share of CXL memory in stalls by lines alone.
    pub stall_share_by_counts: Answer,
    /// The same by lines × fixed latencies.
    pub stall_share_by_fixed_latencies: Answer,
    /// The same by lines × measured residences.
    pub stall_share_by_residences: Answer,
    /// Algorithm 2, mended: cycles in which the port's buffer is not empty, handed back by requests.
    pub stall_share_by_algorithm_2: Answer,
}

/// What is made of the windows once, for all subjects.
struct Recorded<'a> {
    file: &'a WindowFile,
    options: &'a Options<'a>,
    idle: Option<Scene>,
    whole: Span,
    /// Spans that rules look at.
    spans: Vec<Span>,
    /// Nanoseconds of a line of DRAM if those of CXL memory come from there too, by socket.
    dram_ns: BTreeMap<Option<u32>, f64>,
}

impl<'a> Recorded<'a> {
    fn new(file: &'a WindowFile, options: &'a Options<'a>) -> Recorded<'a> {
        let idle = options.idle;
        let idle = idle.map(|idle| Scene::new(&idle.windows, &file.header));
        let whole = Span::whole(file, idle.as_ref());
        Recorded {
            dram_ns: if options.brief {
                BTreeMap::new()
            } else {
                dram_ns(whole.scene(), idle.as_ref())
            },
            whole,
            spans: Span::all(file, idle.as_ref()),
            file,
            options,
            idle,
        }
    }

    /// What rules and figures say of a subject, in all windows and in its phases.
    fn judged(&self, followed: &Followed, each: EachWindow) -> (Vec<RuleReport>, Subject) {
        let (name, idle) = (followed.name.as_deref(), self.idle.as_ref());
        let phases = phases(&self.file.windows, followed);
        let by_phase = phase_rows::spans(self.file, &phases, idle);
        let spans = [&self.spans[..], &by_phase];
        let rules = judged(self.file, &self.whole, spans, name, idle);
        let phases = phases.map(|phases| phase_rows::rows(phases, &by_phase, name, &rules));
        let subject = self.subject(name, phases, each);
        (rules, subject)
    }

    fn subject(
        &self,
        name: Option<&str>,
        phases: Result<PhaseReport, NoPhases>,
        each: EachWindow,
    ) -> Subject {
        let idle = self.idle.as_ref();
        let of_all = figures(self.whole.scene(), self.file, self.options, idle, name);
        Subject {
            name: name.map_or_else(|| MACHINE.to_owned(), printable),
            what_if: match &of_all.stalls {
                Ok(_) if !self.options.brief => what_if(self, name),
                _ => Vec::new(),
            },
            figures: of_all,
            phases,
            hidden_falls: each.hidden_falls,
            each: each.figures,
        }
    }
}

pub fn report(file: &WindowFile, options: &Options) -> Report {
    let recorded = Recorded::new(file, options);
    let names = subjects_of(file, options.workload);
    let followed = names
        .iter()
        .map(|name| Followed::new(&file.windows, name.as_deref()));
    let followed: Vec<Followed> = followed.collect();
    let each = EachWindow::all(file, options, recorded.idle.as_ref(), &names);
    let judged = followed.iter().zip(each);
    let judged = judged.map(|(one, each)| recorded.judged(one, each));
    let (rules, subjects): (Vec<_>, Vec<_>) = judged.unzip();
    let rules: Vec<RuleReport> = rules.into_iter().flatten().collect();
    let length_ns = total_length(&file.windows);
    let over_time = options
        .over_time
        .then(|| OverTime::new(file, recorded.idle.as_ref(), &names, &subjects));
    let notes = file.header.notes.iter();
    Report {
        method_version: METHOD_VERSION,
        source: printable_within(&file.header.source, NOTE_CHARS_MAX),
        family: file.header.family.as_deref().map(printable),
        windows: file.windows.len(),
        length_ns,
        places: CountedPlaces::new(&file.windows),
        by_place: if options.brief {
            Vec::new()
        } else {
            by_place::by_place(file, options.idle)
        },
        headline: headline::headline(file, &rules, length_ns),
        rules,
        waits: recorded.whole.waits(),
        over_time,
        lags: lagged(&file.windows, &followed),
        subjects,
        notes: notes
            .map(|note| printable_within(note, NOTE_CHARS_MAX))
            .collect(),
        unassigned: unassigned(&file.windows),
    }
}

/// The stalls of each workload in all windows together, and nothing else of a report.
pub fn workload_stalls(file: &WindowFile) -> BTreeMap<String, Result<StallSplit, Refusal>> {
    let scene = Scene::new(&file.windows, &file.header);
    let all = scene.sharers();
    let names = all.iter().map(|sharer| sharer.name);
    let split = |name: &str| {
        (
            name.to_owned(),
            stalls(&scene.of(Some(name)).sources(Some(name))),
        )
    };
    names.map(split).collect()
}

/// The machine, and the workloads of all windows.
fn subjects_of(file: &WindowFile, wanted: Option<&str>) -> Vec<Option<String>> {
    let ids = file
        .windows
        .iter()
        .flat_map(|w| &w.workloads)
        .map(|w| w.id.as_str());
    let ids: BTreeSet<&str> = ids
        .filter(|id| wanted.is_none_or(|part| id.contains(part)))
        .collect();
    let machine = wanted.is_none().then_some(None);
    machine
        .into_iter()
        .chain(ids.into_iter().map(|id| Some(id.to_owned())))
        .collect()
}

fn figures(
    scene: &Scene,
    file: &WindowFile,
    options: &Options,
    idle: Option<&Scene>,
    name: Option<&str>,
) -> Figures {
    let scene = scene.of(name);
    let counts = scene.counts(name);
    let sources = scene.sources(name);
    Figures {
        path_map: path_map::path_map(counts),
        stages: stages::stages(
            counts,
            idle.map(|idle| idle.counts(name)),
            &file.header.capacities,
        ),
        stalls: stalls(&sources),
        agreements: agreements(counts),
        pathfinder: options.pathfinder.then(|| pathfinder(&sources)),
    }
}

fn pathfinder(sources: &Sources) -> Pathfinder {
    let counts = sources.own;
    Pathfinder {
        classes: path_classes::path_classes(counts),
        stall_share_by_counts: stall_share::by_counts(counts),
        stall_share_by_fixed_latencies: stall_share::by_fixed_latencies(counts),
        stall_share_by_residences: stall_share::by_residences(sources),
        stall_share_by_algorithm_2: stall_share::by_algorithm_2(sources),
    }
}

/// What lines of DRAM take without CXL memory, of all sockets and of each.
fn dram_ns(scene: &Scene, idle: Option<&Scene>) -> BTreeMap<Option<u32>, f64> {
    let scenes = scene.sockets().iter().chain([scene]);
    let known = scenes.filter_map(|scene| {
        let idle = idle.map(|idle| idle.like(scene));
        Some((scene.socket(), scene.dram_ns_without_cxl(idle)?))
    });
    known.collect()
}

/// A workload's time without CXL memory, on the idle machine, and without each of its largest neighbours.
fn what_if(recorded: &Recorded, name: Option<&str>) -> Vec<WhatIf> {
    let Some(own) = name else { return Vec::new() };
    let scene = recorded.whole.scene().of(name);
    let idle = recorded.idle.as_ref().map(|idle| idle.like(scene));
    let sources = scene.sources(name);
    let one = |condition, how| WhatIf::new(condition, speedup(&sources, how));
    let dram_ns = recorded.dram_ns.get(&scene.socket()).copied();
    let mut without = one(Condition::NoCxl, Otherwise::NoCxl { dram_ns });
    if dram_ns.is_some() {
        without.otherwise = "all lines of CXL memory were in DRAM, which is busier then".into();
    }
    let mut all = vec![without];
    let Some(idle) = idle else {
        all.push(WhatIf::new(
            Condition::IdleMachine,
            Err(Refusal::NotCalibrated),
        ));
        return all;
    };
    let quiet = idle.sources(name);
    all.push(one(Condition::IdleMachine, Otherwise::Idle(&quiet)));
    let sharers = scene.sharers();
    let [cxl, dram] = [Stage::Device, Stage::Imc].map(|stage| blame(&sharers, stage));
    let others = cxl.iter().filter(|other| other.workload != printable(own));
    for other in others.take(NEIGHBOURS_MAX) {
        let of_dram = dram.iter().find(|one| one.workload == other.workload);
        let without = Otherwise::Without {
            idle: &quiet,
            cxl: other.share,
            dram: of_dram.map_or(0.0, |one| one.share),
        };
        all.push(one(Condition::Without(other.workload.clone()), without));
    }
    all
}

/// Pairs of roles that count the same lines: cores, table of requests, port, device.
fn agreements(counts: &Counts) -> Vec<Agreement> {
    let sources = [
        "sq.reads.cxl.lines",
        "tor.reads.cxl.inserts",
        "port.reads.cxl.lines",
        "device.reads.cxl.lines",
    ];
    let known: Vec<(Role, crate::Figure)> = sources
        .iter()
        .filter_map(|text| text.parse::<Role>().ok())
        .filter_map(|role| Some((role, counts.get(role).ok()?)))
        .collect();
    let pairs = known.windows(2).filter_map(|pair| {
        let [(one, a), (other, b)] = pair else {
            return None;
        };
        quality::agreement((*one, a), (*other, b))
    });
    pairs.collect()
}

fn unassigned(windows: &[Window]) -> Vec<String> {
    let names: BTreeSet<String> = windows
        .iter()
        .flat_map(|w| &w.unassigned)
        .map(|c| printable(&c.event))
        .collect();
    let more = names.len().saturating_sub(EVENTS_SHOWN);
    let mut shown: Vec<String> = names.into_iter().take(EVENTS_SHOWN).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown
}

/// Why a workload of that name is not in the file, with the names that are.
pub fn workload_names(file: &WindowFile) -> Vec<String> {
    let ids = file
        .windows
        .iter()
        .flat_map(|w| &w.workloads)
        .map(|w| printable(w.id.as_str()));
    ids.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Whether an answer is only that it was not counted.
pub(crate) fn is_not_recorded(answer: &Answer) -> bool {
    matches!(
        answer,
        Err(Refusal::NotRecorded { .. }
            | Refusal::NotCounted { .. }
            | Refusal::NotPublished { .. }
            | Refusal::NotCalibrated
            | Refusal::NoTime)
    )
}
