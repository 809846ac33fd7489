// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures, roles and names of a profile, as the page spells them.

use crate::picture::stack::AreaStyle;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Stage, Target};
use weir_figures::Cell;
use weir_figures::text::{NONE, in_unit, number, percent, time_unit};
use weir_figures::{Hatch, Ink};
use weir_profile::{Answer, Figure, Refusal, Unit};

/// Three digits with a prefix for powers of a thousand.
pub fn amount(value: f64) -> String {
    let size = value.abs();
    let (scale, prefix) = match size {
        s if !s.is_finite() => return NONE.into(),
        s if s >= 9.995e14 => return number(value),
        s if s >= 9.995e11 => (1e12, " T"),
        s if s >= 9.995e8 => (1e9, " G"),
        s if s >= 9.995e5 => (1e6, " M"),
        s if s >= 9.995e3 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let whole = value.fract() == 0.0 && size < 9.995e3;
    if whole {
        format!("{value:.0}")
    } else {
        format!("{}{prefix}", number(value / scale))
    }
}

/// A time in the unit that makes it short.
pub fn time(ns: f64) -> String {
    in_unit(ns, time_unit(ns))
}

/// The figure's value with its unit.
pub fn value(figure: &Figure) -> String {
    let (value, text) = (figure.value, amount(figure.value));
    match figure.unit {
        Unit::Ratio if figure.share_of.is_some() && value <= 1.0 => {
            format!("{} %", percent(value.max(0.0), false))
        }
        Unit::Ratio | Unit::Entries => number(value),
        Unit::Ns => time(value),
        Unit::Cycles => format!("{text} cycles"),
        Unit::Lines => format!("{text} lines"),
        Unit::Requests => format!("{text} requests"),
        Unit::Instructions => format!("{text} instructions"),
        Unit::LinesPerSec => format!("{text} lines/s"),
        Unit::RequestsPerSec | Unit::InstructionsPerSec => format!("{text}/s"),
    }
}

/// How a figure is known, with its notes.
pub fn known(figure: &Figure) -> String {
    let mut text = figure.quality();
    for note in &figure.notes {
        text += "; ";
        text += note;
    }
    text
}

/// Whether there is no such count, or nothing to make the figure of, and no contradiction.
pub fn is_absent(why: &Refusal) -> bool {
    matches!(
        why,
        Refusal::NotRecorded { .. }
            | Refusal::NotCounted { .. }
            | Refusal::NotPublished { .. }
            | Refusal::NoRequests { .. }
    )
}

/// The value, or a dash.
pub fn cell(answer: &Answer) -> Cell {
    match answer {
        Ok(figure) => Cell::number(value(figure)),
        Err(_) => Cell::number(NONE),
    }
}

/// How it is known, or why there is none.
pub fn known_cell(answer: &Answer) -> Cell {
    match answer {
        Ok(figure) => Cell::long(known(figure)),
        Err(why) => Cell::long(format!("none: {why}")),
    }
}

pub fn stage_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Core => "core",
        Stage::StoreBuffer => "store buffer",
        Stage::L1d => "L1D",
        Stage::FillBuffer => "fill buffers",
        Stage::L2 => "L2",
        Stage::SuperQueue => "super queue",
        Stage::Ingress => "mesh and ingress",
        Stage::Llc => "last-level cache",
        Stage::Tor => "table of requests",
        Stage::Imc => "DRAM",
        Stage::M2pcie => "port's stop on the mesh",
        Stage::Port => "CXL port",
        Stage::Device => "CXL device",
    }
}

pub fn target_words(target: Target) -> &'static str {
    match target {
        Target::Own => "own caches",
        Target::Snc => "other cluster",
        Target::RemoteCache => "remote cache",
        Target::Miss => "all behind the cache",
        Target::Dram => "DRAM",
        Target::DramOwn => "own DRAM",
        Target::DramRemote => "remote DRAM",
        Target::Cxl => "CXL memory",
        Target::CxlOwn => "own CXL memory",
        Target::CxlRemote => "remote CXL memory",
        Target::Any => "any",
    }
}

pub fn path_words(path: AccessPath) -> &'static str {
    match path {
        AccessPath::Drd => "demand reads",
        AccessPath::Rfo => "reads for ownership",
        AccessPath::Pf => "prefetches",
        AccessPath::PfL1 => "prefetches into L1",
        AccessPath::PfL2 => "prefetches into L2",
        AccessPath::PfLlc => "prefetches into the last-level cache",
        AccessPath::Wb => "write-backs",
        AccessPath::Nt => "non-temporal stores",
        AccessPath::Reads => "all reads",
        AccessPath::Any => "all requests",
    }
}

/// `CXL device: all reads, CXL memory`.
pub fn queue_words(role: Role) -> String {
    let (stage, path) = (stage_words(role.stage), path_words(role.path));
    match role.target {
        Target::Any => format!("{stage}: {path}"),
        target => format!("{stage}: {path}, {}", target_words(target)),
    }
}

/// The queue without its path, which is short.
pub fn place_words(role: Role) -> String {
    let stage = stage_words(role.stage);
    match (role.stage, role.target) {
        (Stage::Tor, target) => format!("{stage}, {}", target_words(target)),
        _ => stage.to_owned(),
    }
}

/// Kinds of suppliers, in the order in which parts are put on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SupplierKind {
    /// CXL memory of any socket.
    Cxl,
    /// DRAM of the own socket.
    Dram,
    /// The other socket's DRAM and caches.
    Remote,
    /// The socket's own caches.
    Caches,
    /// What no count tells apart.
    Unknown,
}

impl SupplierKind {
    pub fn of(target: Target) -> SupplierKind {
        match target {
            Target::Cxl | Target::CxlOwn | Target::CxlRemote => SupplierKind::Cxl,
            Target::Dram | Target::DramOwn => SupplierKind::Dram,
            Target::DramRemote | Target::RemoteCache => SupplierKind::Remote,
            Target::Own | Target::Snc => SupplierKind::Caches,
            Target::Miss | Target::Any => SupplierKind::Unknown,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            SupplierKind::Cxl => "CXL memory",
            SupplierKind::Dram => "DRAM",
            SupplierKind::Remote => "other socket",
            SupplierKind::Caches => "own caches",
            SupplierKind::Unknown => "any",
        }
    }

    /// The ink that it is drawn with, in all pictures.
    pub fn ink(self) -> Ink {
        match self {
            SupplierKind::Cxl => Ink::Cxl,
            SupplierKind::Dram => Ink::Dram,
            SupplierKind::Remote => Ink::Remote,
            SupplierKind::Caches => Ink::Cache,
            SupplierKind::Unknown => Ink::Unknown,
        }
    }
}

/// What is drawn over the area of a stage, in all pictures.
pub fn stage_hatch(stage: Stage) -> Hatch {
    match stage {
        Stage::Device | Stage::Imc => Hatch::Plain,
        Stage::Port | Stage::M2pcie => Hatch::Falling,
        Stage::Tor => Hatch::Crossed,
        Stage::Ingress => Hatch::Rising,
        Stage::Llc => Hatch::Crossed,
        Stage::SuperQueue | Stage::L2 => Hatch::Level,
        Stage::FillBuffer | Stage::L1d | Stage::Core => Hatch::Upright,
        Stage::StoreBuffer => Hatch::Dotted,
    }
}

/// How a stage with a supplier is drawn.
pub fn look(stage: Stage, kind: SupplierKind) -> AreaStyle {
    let ink = match stage {
        Stage::StoreBuffer => Ink::Stores,
        _ => kind.ink(),
    };
    (ink, stage_hatch(stage))
}

/// The end of a name, which tells cgroups apart, in so many characters.
pub fn tail(name: &str, chars: usize) -> String {
    let count = name.chars().count();
    if count <= chars {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(count - chars + 1).collect();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        for (value, shown) in [
            (0.0, "0"),
            (9.0, "9"),
            (9994.0, "9994"),
            (12_345.0, "12.3 k"),
            (206_300_000.0, "206 M"),
            (0.25, "0.250"),
            (2.5e9, "2.50 G"),
            (f64::NAN, "–"),
            (1e300, "1.00e300"),
        ] {
            assert_eq!(amount(value), shown);
        }
        assert_eq!(time(0.479e3), "479 ns");
        assert_eq!(tail("/system.slice/db.service", 11), "…db.service");
        assert_eq!(tail("short", 11), "short");
    }
}
