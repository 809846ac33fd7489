// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which requests an access is made of.

use crate::host_path::machine::{CoreBuffers, KindFigures};
use crate::host_path::ssd::StoragePattern;

/// When the buffer of a request is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// The buffer is free when the data is back.
    Held,
    Posted,
}

/// What a stream does, by the names of `weir bench interference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamOp {
    Ld,
    /// Loads that each need the one before: one line under way.
    LdChase,
    /// Ordinary stores: each line is fetched, later written back.
    St,
    /// Stores, each line written back at once by CLWB.
    StClwb,
    Ntst,
    Movdir64b,
    /// MOVDIR64B from the target into DRAM: a load there, a posted write here.
    Movdir64bFrom,
    /// A copy within the target, by loads and ordinary stores.
    Copy,
    /// REP MOVSB within the target, which fetches nothing first.
    RepMovsb,
    /// Loads of lines that CLFLUSH removed.
    LdFlush,
    RandRead,
    RandWrite,
    /// Sequential reads of an SSD.
    Read,
    /// Sequential writes of an SSD.
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRequest {
    pub is_write: bool,
    pub keeping: Keeping,
    pub kind: RequestKind,
    /// Whether it goes to DRAM whatever the stream's target is.
    pub is_to_dram: bool,
}

/// Which of a core's buffers a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Load,
    Store,
    WriteBack,
    Nt,
    Movdir64b,
}

const fn held(kind: RequestKind) -> LineRequest {
    LineRequest {
        is_write: false,
        keeping: Keeping::Held,
        kind,
        is_to_dram: false,
    }
}

const fn posted(kind: RequestKind) -> LineRequest {
    LineRequest {
        is_write: true,
        keeping: Keeping::Posted,
        kind,
        is_to_dram: false,
    }
}

impl StreamOp {
    pub const ALL: [StreamOp; 14] = [
        StreamOp::Ld,
        StreamOp::LdChase,
        StreamOp::St,
        StreamOp::StClwb,
        StreamOp::Ntst,
        StreamOp::Movdir64b,
        StreamOp::Movdir64bFrom,
        StreamOp::Copy,
        StreamOp::RepMovsb,
        StreamOp::LdFlush,
        StreamOp::RandRead,
        StreamOp::RandWrite,
        StreamOp::Read,
        StreamOp::Write,
    ];

    /// Its name in pairs, documents and on pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StreamOp::Ld => "ld",
            StreamOp::LdChase => "ld-chase",
            StreamOp::St => "st",
            StreamOp::StClwb => "st-clwb",
            StreamOp::Ntst => "ntst",
            StreamOp::Movdir64b => "movdir64b",
            StreamOp::Movdir64bFrom => "movdir64b-from",
            StreamOp::Copy => "copy",
            StreamOp::RepMovsb => "rep-movsb",
            StreamOp::LdFlush => "ld-flush",
            StreamOp::RandRead => "randread",
            StreamOp::RandWrite => "randwrite",
            StreamOp::Read => "read",
            StreamOp::Write => "write",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<StreamOp> {
        StreamOp::ALL.into_iter().find(|op| op.name() == name)
    }

    #[must_use]
    pub fn is_storage(self) -> bool {
        self.pattern().is_some()
    }

    pub(super) fn pattern(self) -> Option<StoragePattern> {
        let (is_write, is_random) = match self {
            StreamOp::RandRead => (false, true),
            StreamOp::RandWrite => (true, true),
            StreamOp::Read => (false, false),
            StreamOp::Write => (true, false),
            _ => return None,
        };
        Some(StoragePattern {
            is_write,
            is_random,
        })
    }

    /// What each line of a memory stream asks for, in order; the copy of an SSD stream by the CPU.
    pub(super) fn requests(self) -> Vec<LineRequest> {
        let (load, fetch) = (held(RequestKind::Load), held(RequestKind::Store));
        let (back, nt) = (posted(RequestKind::WriteBack), posted(RequestKind::Nt));
        match self {
            StreamOp::Ld | StreamOp::LdChase | StreamOp::LdFlush => vec![load],
            StreamOp::St | StreamOp::StClwb => vec![fetch, back],
            StreamOp::Ntst => vec![nt],
            StreamOp::Movdir64b => vec![posted(RequestKind::Movdir64b)],
            StreamOp::Movdir64bFrom => vec![
                load,
                LineRequest {
                    is_to_dram: true,
                    ..posted(RequestKind::Movdir64b)
                },
            ],
            StreamOp::RepMovsb => vec![load, nt],
            StreamOp::Copy
            | StreamOp::RandRead
            | StreamOp::RandWrite
            | StreamOp::Read
            | StreamOp::Write => vec![load, fetch, back],
        }
    }

    /// Lines that its target moves for each line it works on, fetches and write-backs included.
    #[must_use]
    pub fn lines_moved(self) -> f64 {
        if self.is_storage() {
            return 1.0;
        }
        let all = self.requests();
        all.iter().filter(|one| !one.is_to_dram).count() as f64
    }
}

impl RequestKind {
    /// What a core can have under way of it.
    pub(super) fn figures(self, cores: &CoreBuffers) -> KindFigures {
        match self {
            RequestKind::Load => cores.load,
            RequestKind::Store => cores.store,
            RequestKind::WriteBack => cores.write_back,
            RequestKind::Nt => cores.nt,
            RequestKind::Movdir64b => cores.movdir64b,
        }
    }
}
