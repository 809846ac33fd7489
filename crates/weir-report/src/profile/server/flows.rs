// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines by where they come from: what the widths of the server's picture are made of.

use crate::picture::stack::AreaStyle;
use crate::profile::words::SupplierKind;
use weir_core::window::role::{AccessPath, Stage, Target};
use weir_figures::Hatch;
use weir_profile::report::Figures;

/// A supplier of lines, from the farthest to the nearest: the order in which bands lie, so that those that
/// end first lie lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// DRAM of the own socket, or of all where these are not told apart.
    Dram,
    Remote,
    Cxl,
    /// The last-level cache, of all clusters.
    Llc,
    L2,
}

impl Source {
    /// All, from the farthest.
    pub const ALL: [Source; 5] = [
        Source::Dram,
        Source::Remote,
        Source::Cxl,
        Source::Llc,
        Source::L2,
    ];

    fn of(stage: Stage, target: Target) -> Option<Source> {
        match (stage, SupplierKind::of(target)) {
            (Stage::L2, _) => Some(Source::L2),
            (_, SupplierKind::Cxl) => Some(Source::Cxl),
            (_, SupplierKind::Dram) => Some(Source::Dram),
            (_, SupplierKind::Remote) => Some(Source::Remote),
            (_, SupplierKind::Caches) => Some(Source::Llc),
            (_, SupplierKind::Unknown) => None,
        }
    }

    pub fn look(self) -> AreaStyle {
        match self {
            Source::Dram => (SupplierKind::Dram.ink(), Hatch::Plain),
            Source::Remote => (SupplierKind::Remote.ink(), Hatch::Rising),
            Source::Cxl => (SupplierKind::Cxl.ink(), Hatch::Falling),
            Source::Llc => (SupplierKind::Caches.ink(), Hatch::Crossed),
            Source::L2 => (SupplierKind::Caches.ink(), Hatch::Level),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// Lines from each source: a second where the time is known, else in all. In the order of
    /// [`Source::ALL`].
    lines: [f64; 5],
    /// Requests for writes to DRAM and to CXL memory, likewise.
    pub writes: [f64; 2],
    /// Whether the figures are lines a second.
    pub is_rate: bool,
    pub counted: &'static str,
}

impl Flows {
    /// Flows of a subject: as its cores count lines, else as the table of requests does.
    pub fn new(figures: &Figures) -> Flows {
        let mut flows = Flows::of_cores(figures);
        if flows.sum() <= 0.0 {
            flows = Flows::of_table(figures);
        }
        for queue in &figures.stages.queues {
            let is_write = matches!(queue.role.path, AccessPath::Wb | AccessPath::Nt);
            let place = match queue.role.target {
                Target::DramOwn => 0,
                Target::CxlOwn => 1,
                _ => continue,
            };
            if let (Stage::Tor, true, Ok(rate)) =
                (queue.role.stage, is_write, &queue.requests_per_sec)
            {
                flows.writes[place] += rate.value;
            }
        }
        flows
    }

    fn of_cores(figures: &Figures) -> Flows {
        let mut flows = Flows {
            counted: "the cores",
            ..Flows::default()
        };
        let rows = &figures.path_map.lines;
        let cells = || rows.iter().flat_map(|row| &row.cells);
        flows.is_rate = cells().any(|cell| cell.per_sec.is_ok());
        for cell in cells() {
            let known = if flows.is_rate {
                &cell.per_sec
            } else {
                &cell.count
            };
            flows.add(
                Source::of(cell.role.stage, cell.role.target),
                known.as_ref().ok(),
            );
        }
        flows
    }

    /// Reads that miss the last-level cache.
    fn of_table(figures: &Figures) -> Flows {
        let mut flows = Flows {
            counted: "the table of requests",
            is_rate: true,
            ..Flows::default()
        };
        let is_part = |target| {
            matches!(
                target,
                Target::DramOwn | Target::DramRemote | Target::CxlOwn | Target::CxlRemote
            )
        };
        let queues = figures.stages.queues.iter();
        let reads = queues.filter(|queue| {
            let role = queue.role;
            role.stage == Stage::Tor && role.path == AccessPath::Reads && is_part(role.target)
        });
        for queue in reads {
            let source = Source::of(queue.role.stage, queue.role.target);
            flows.add(source, queue.requests_per_sec.as_ref().ok());
        }
        flows
    }

    fn add(&mut self, source: Option<Source>, figure: Option<&weir_profile::Figure>) {
        let place = Source::ALL.iter().position(|one| Some(*one) == source);
        if let (Some(place), Some(figure)) = (place, figure) {
            self.lines[place] += figure.value.max(0.0);
        }
    }

    /// Lines from a source.
    pub fn from(&self, source: Source) -> f64 {
        let place = Source::ALL.iter().position(|one| *one == source);
        place.map_or(0.0, |place| self.lines[place])
    }

    /// All lines and writes.
    pub fn whole(&self) -> f64 {
        self.sum() + self.writes.iter().sum::<f64>()
    }

    pub fn sum(&self) -> f64 {
        self.lines.iter().sum()
    }
}
