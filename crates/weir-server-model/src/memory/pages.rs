// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where pages lie, and how lines are named.
//!
//! ```text
//! bits 56..  home: 0 DRAM, 1 remote DRAM, 2 other cluster's DRAM, 8 + n CXL device n
//! bits 32..  area, counted over all CPUs and agents
//! bits 0..   line in the area
//! ```
//!
//! Without the home a name is *virtual*: prefetchers go on to the next virtual line, whatever page it is in.

use crate::machine::workload::PageHome;
use crate::machine::{CxlFigures, MemoryArea};
use crate::words::Target;

const LINES_PER_PAGE: u64 = 64;
const HOME_SHIFT: u32 = 56;
const AREA_SHIFT: u32 = 32;
const VIRTUAL: u64 = (1 << HOME_SHIFT) - 1;
const DRAM: u8 = 0;
const REMOTE: u8 = 1;
const OTHER_CLUSTER: u8 = 2;
const DEVICE: u8 = 8;

/// Name of a line without the place of its page.
pub(crate) fn virtual_line(area: usize, index: u64) -> u64 {
    (area as u64) << AREA_SHIFT | index
}

/// A physical line's name without the place of its page.
pub(crate) fn without_home(line: u64) -> u64 {
    line & VIRTUAL
}

/// Number of the CXL device that has a line, if one does.
pub(crate) fn device_of(line: u64) -> Option<usize> {
    let home = (line >> HOME_SHIFT) as u8;
    (home >= DEVICE).then(|| usize::from(home - DEVICE))
}

/// Whether the line's memory belongs to another cluster than its user.
pub(crate) fn is_of_other_cluster(line: u64) -> bool {
    (line >> HOME_SHIFT) as u8 == OTHER_CLUSTER
}

/// A number that all bits of a line's name have a part in.
pub(crate) fn mixed(line: u64) -> u64 {
    let mut z = line.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 32)
}

/// A line's place in something interleaved over `parts`: neighbours lie in neighbouring parts, and where
/// the round begins differs from one KiB to the next.
pub(crate) fn interleaved(line: u64, shift: u32, parts: u64) -> u64 {
    ((line & 0xffff_ffff) >> shift).wrapping_add(mixed(line >> 12) >> 40) % parts
}

struct AreaPages {
    lines: u64,
    homes: Vec<u8>,
    device: u8,
    owner: u8,
    /// CPU that runs on it.
    cpu: u16,
}

#[derive(Default)]
pub(crate) struct PageTable {
    areas: Vec<AreaPages>,
    is_remote: Vec<bool>,
}

impl PageTable {
    pub fn new(devices: &[CxlFigures]) -> Self {
        PageTable {
            areas: Vec::new(),
            is_remote: devices.iter().map(|d| d.is_remote).collect(),
        }
    }

    /// Adds an area; returns its number. Parts are met to one page, evenly over the area.
    pub fn add(&mut self, area: &MemoryArea, owner: u8, cpu: u16) -> usize {
        let lines = (area.kib * 16.0).ceil().max(1.0) as u64;
        let pages = lines.div_ceil(LINES_PER_PAGE);
        let device = DEVICE + area.device as u8;
        let mut homes = vec![DRAM; pages as usize];
        for (n, home) in homes.iter_mut().enumerate() {
            // Multiples of the golden ratio: any run of pages has its part of each home.
            let spot = (n as f64 + 0.5) * 0.618_033_988_749_894_9 % 1.0;
            *home = if spot < area.cxl_part {
                device
            } else if spot < area.cxl_part + area.remote_part {
                REMOTE
            } else if spot >= 1.0 - area.other_cluster_part {
                OTHER_CLUSTER
            } else {
                DRAM
            };
        }
        let pages = AreaPages {
            lines,
            homes,
            device,
            owner,
            cpu,
        };
        self.areas.push(pages);
        self.areas.len() - 1
    }

    pub fn lines(&self, area: usize) -> u64 {
        self.areas[area].lines
    }

    /// Physical name of a virtual line; nothing beyond the end of its area.
    pub fn physical(&self, line: u64) -> Option<u64> {
        let area = self.areas.get((line >> AREA_SHIFT) as usize)?;
        let index = line & 0xffff_ffff;
        let home = *area.homes.get((index / LINES_PER_PAGE) as usize)?;
        (index < area.lines).then(|| u64::from(home) << HOME_SHIFT | line)
    }

    pub fn owner(&self, line: u64) -> u8 {
        self.areas[(without_home(line) >> AREA_SHIFT) as usize].owner
    }

    /// CPU on whose memory a physical line lies.
    pub fn cpu(&self, line: u64) -> u16 {
        self.areas[(without_home(line) >> AREA_SHIFT) as usize].cpu
    }

    pub fn memory(&self, line: u64) -> Target {
        match (line >> HOME_SHIFT) as u8 {
            DRAM | OTHER_CLUSTER => Target::Dram,
            REMOTE => Target::DramRemote,
            home if self.is_remote[usize::from(home - DEVICE)] => Target::CxlRemote,
            _ => Target::Cxl,
        }
    }

    /// Moves the pages of a part of an area.
    pub fn move_pages(&mut self, area: usize, from_part: f64, to_part: f64, to: PageHome) {
        let area = &mut self.areas[area];
        let at = |part: f64| (part * area.homes.len() as f64).round() as usize;
        let home = match to {
            PageHome::Dram => DRAM,
            PageHome::Remote => REMOTE,
            PageHome::Cxl => area.device,
        };
        let range = at(from_part)..at(to_part);
        area.homes[range].fill(home);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(cxl_part: f64) -> MemoryArea {
        MemoryArea {
            name: "a".into(),
            kib: 4000.0,
            cxl_part,
            remote_part: 0.0,
            device: 0,
            other_cluster_part: 0.0,
        }
    }

    fn cxl_lines(table: &PageTable) -> u64 {
        let lines = 0..table.lines(0);
        let homes = lines.map(|i| table.physical(virtual_line(0, i)).expect("within the area"));
        homes.filter(|line| device_of(*line) == Some(0)).count() as u64
    }

    #[test]
    fn parts_are_met_and_pages_move() {
        let mut table = PageTable {
            areas: Vec::new(),
            is_remote: vec![false],
        };
        table.add(&area(0.3), 0, 0);
        let part = cxl_lines(&table) as f64 / 64_000.0;
        assert!((part - 0.3).abs() < 0.002, "{part}");
        assert_eq!(
            table.physical(virtual_line(0, 64_000)),
            None,
            "beyond the end"
        );
        table.move_pages(0, 0.0, 0.5, PageHome::Cxl);
        table.move_pages(0, 0.5, 1.0, PageHome::Dram);
        assert_eq!(cxl_lines(&table), 32_000);
    }

    #[test]
    fn neighbours_lie_in_all_parts_alike() {
        for parts in [5u64, 8, 12] {
            let mut counts = vec![0u32; parts as usize];
            for line in 0..120_000u64 {
                counts[interleaved(line, 0, parts) as usize] += 1;
            }
            let (least, most) = (counts.iter().min(), counts.iter().max());
            let (least, most) = (*least.expect("parts"), *most.expect("parts"));
            assert!(
                f64::from(most - least) < 0.05 * f64::from(most),
                "{counts:?}"
            );
        }
    }
}
