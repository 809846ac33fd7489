// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a stream of memory traffic does with each line, in the width that the CPU has.
//!
//! Widths are found by CPUID. The machine code is written out, so that no compiler merges or leaves out an
//! access. Bytes are counted by what memory moves: a stored line is fetched first and written back later, and
//! a non-temporal store writes only (Intel SDM, volume 1, 10.4.6.2).

#[cfg(not(target_arch = "x86_64"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "x86_64"))]
use portable as machine;
#[cfg(target_arch = "x86_64")]
use x86 as machine;

use crate::BenchError;
use std::str::FromStr;

/// Lines of a chunk: counts and stop signs are looked at after each.
const CHUNK_LINES: usize = 64;
/// Lines of a chunk of `rep movsb`: the microcode does short copies in another way.
const STRING_CHUNK_LINES: usize = 4096;

/// Goes over so many lines. The first pointer is the place on the node, the second the other side of a copy.
pub(crate) type ChunkCode = unsafe fn(*mut u8, *mut u8, usize);

/// What a stream does with each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Loads.
    Ld,
    /// Loads that each need the one before.
    LdChase,
    /// Stores.
    St,
    /// Stores, each line then written back (`clwb`).
    StClwb,
    /// Non-temporal stores. No fence stands between them.
    Ntst,
    /// Direct stores of 64 bytes into the node, out of a line that stays in the cache.
    Movdir64b,
    /// Direct stores of 64 bytes out of the node, into memory of another place.
    Movdir64bFrom,
    /// Loads of one half of the memory, stored to the other.
    Copy,
    /// The same by `rep movsb`.
    RepMovsb,
    /// Loads, each line then flushed from the caches.
    LdFlush,
}

/// Lines that the memory of the node moves for each line that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTraffic {
    /// Lines read, fetches for stores included.
    pub read: u64,
    /// Lines written, write-backs included.
    pub written: u64,
}

impl Operation {
    pub const ALL: [Operation; 10] = [
        Operation::Ld,
        Operation::LdChase,
        Operation::St,
        Operation::StClwb,
        Operation::Ntst,
        Operation::Movdir64b,
        Operation::Movdir64bFrom,
        Operation::Copy,
        Operation::RepMovsb,
        Operation::LdFlush,
    ];

    /// Its name in documents and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Ld => "ld",
            Operation::LdChase => "ld-chase",
            Operation::St => "st",
            Operation::StClwb => "st-clwb",
            Operation::Ntst => "ntst",
            Operation::Movdir64b => "movdir64b",
            Operation::Movdir64bFrom => "movdir64b-from",
            Operation::Copy => "copy",
            Operation::RepMovsb => "rep-movsb",
            Operation::LdFlush => "ld-flush",
        }
    }

    /// What the node moves for each counted line. A copy counts its source and its destination. What
    /// [`Operation::Movdir64bFrom`] writes is on the node as well if `same_node` says so.
    pub fn traffic(self, same_node: bool) -> LineTraffic {
        let (read, written) = match self {
            Operation::Ld | Operation::LdChase | Operation::LdFlush => (1, 0),
            Operation::St | Operation::StClwb | Operation::RepMovsb => (1, 1),
            Operation::Ntst | Operation::Movdir64b => (0, 1),
            Operation::Movdir64bFrom => (1, u64::from(same_node)),
            Operation::Copy => (2, 1),
        };
        LineTraffic { read, written }
    }

    /// Bytes of one access that this CPU can do, ascending.
    ///
    /// # Errors
    /// [`BenchError::NoInstruction`]: it has none for this.
    pub fn widths(self) -> Result<Vec<u32>, BenchError> {
        let all = machine::widths(self);
        if all.is_empty() {
            Err(BenchError::NoInstruction(self.instruction()))
        } else {
            Ok(all)
        }
    }

    /// What the CPU lacks where it cannot do this.
    fn instruction(self) -> &'static str {
        match self {
            Operation::Ld | Operation::LdChase | Operation::St | Operation::Copy => {
                "a load or store"
            }
            Operation::StClwb => "clwb (a store's line written back and kept)",
            Operation::Ntst => "a non-temporal store",
            Operation::Movdir64b | Operation::Movdir64bFrom => {
                "movdir64b (a direct store of 64 bytes)"
            }
            Operation::RepMovsb => "erms (a fast rep movsb)",
            Operation::LdFlush => "an instruction that takes a line out of the caches",
        }
    }

    /// The code for it, in the width that is asked for, else in the widest.
    ///
    /// # Errors
    /// The CPU has no such instruction, or not in this width.
    pub fn kernel(self, width_bytes: Option<u32>) -> Result<Kernel, BenchError> {
        let widths = self.widths()?;
        let widest = widths.last().copied().unwrap_or_default();
        // An operation of one width has no choice.
        let width_bytes = match width_bytes {
            Some(wanted) if widths.len() > 1 => wanted,
            _ => widest,
        };
        if !widths.contains(&width_bytes) {
            return Err(BenchError::NoWidth {
                operation: self.name(),
                width_bytes,
                widths,
            });
        }
        Ok(Kernel {
            operation: self,
            width_bytes,
            code: machine::code(self, width_bytes),
        })
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Operation::ALL.into_iter();
        all.find(|one| one.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Operation::ALL.iter().map(|one| one.name()).collect();
            format!(
                "{text:?} is no operation on memory: there are {}",
                names.join(", ")
            )
        })
    }
}

/// The code of an operation in one width.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub operation: Operation,
    /// Bytes of one access.
    pub width_bytes: u32,
    /// None for the chase, which walks a ring.
    pub(crate) code: Option<ChunkCode>,
}

impl Kernel {
    pub(crate) fn chunk_lines(&self) -> usize {
        match self.operation {
            Operation::RepMovsb => STRING_CHUNK_LINES,
            _ => CHUNK_LINES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LINE_BYTES;

    /// Memory of so many lines, aligned as lines are.
    #[repr(align(64))]
    #[derive(Clone)]
    struct Lines([u8; 64 * LINE_BYTES]);

    fn filled(seed: u8) -> Box<Lines> {
        let mut lines = Box::new(Lines([0; 64 * LINE_BYTES]));
        for (place, byte) in lines.0.iter_mut().enumerate() {
            *byte = u8::try_from(place % 251).unwrap() ^ seed;
        }
        lines
    }

    #[test]
    fn each_kernel_touches_its_lines_and_no_other() {
        let mut seen = 0;
        for operation in Operation::ALL {
            for width in operation.widths().unwrap_or_default() {
                let kernel = operation.kernel(Some(width)).unwrap();
                let Some(code) = kernel.code else { continue };
                let (mut at, mut other) = (filled(0x11), filled(0x77));
                let (at_before, other_before) = (at.clone(), other.clone());
                const DONE: usize = 48 * LINE_BYTES;
                // SAFETY: both have 64 lines.
                unsafe { code(at.0.as_mut_ptr(), other.0.as_mut_ptr(), 48) };
                let what = format!("{} of {width}", operation.name());
                assert!(at.0[DONE..] == at_before.0[DONE..], "{what}: beyond");
                assert!(other.0[DONE..] == other_before.0[DONE..], "{what}: beyond");
                match operation {
                    Operation::Ld | Operation::LdFlush | Operation::LdChase => {
                        assert!(at.0 == at_before.0 && other.0 == other_before.0, "{what}");
                    }
                    Operation::St | Operation::StClwb | Operation::Ntst => {
                        assert!(at.0[..DONE].iter().all(|b| *b == 0xff), "{what}");
                    }
                    Operation::Movdir64b => {
                        let line = &other_before.0[..LINE_BYTES];
                        assert!(at.0[..DONE].chunks(LINE_BYTES).all(|l| l == line), "{what}");
                    }
                    Operation::Movdir64bFrom => assert!(other.0[..DONE] == at_before.0[..DONE]),
                    Operation::Copy | Operation::RepMovsb => {
                        assert!(at.0[..DONE] == other_before.0[..DONE], "{what}");
                    }
                }
                seen += 1;
            }
        }
        assert!(seen >= 4, "only {seen} kernels ran");
    }

    #[test]
    fn names_come_back_and_a_width_that_is_not_there_is_named() {
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse(), Ok(operation));
        }
        let said = "store".parse::<Operation>().unwrap_err();
        assert!(
            said.contains("st-clwb") && said.contains("\"store\""),
            "{said}"
        );
        let said = Operation::Ld.kernel(Some(24)).unwrap_err().to_string();
        assert!(said.contains("24") && said.contains("ld"), "{said}");
        let widest = Operation::Ld.kernel(None).unwrap().width_bytes;
        assert_eq!(Operation::Ld.widths().unwrap().last(), Some(&widest));
    }

    #[test]
    fn lines_are_counted_as_memory_moves_them() {
        let of = |operation: Operation| {
            let traffic = operation.traffic(false);
            (traffic.read, traffic.written)
        };
        let all = Operation::ALL.map(|operation| (operation.name(), of(operation)));
        assert_eq!(
            all,
            [
                ("ld", (1, 0)),
                ("ld-chase", (1, 0)),
                ("st", (1, 1)),
                ("st-clwb", (1, 1)),
                ("ntst", (0, 1)),
                ("movdir64b", (0, 1)),
                ("movdir64b-from", (1, 0)),
                ("copy", (2, 1)),
                ("rep-movsb", (1, 1)),
                ("ld-flush", (1, 0)),
            ]
        );
        assert_eq!(Operation::Movdir64bFrom.traffic(true).written, 1);
    }
}
