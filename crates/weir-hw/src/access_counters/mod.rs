// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access counters of a CXL device, as its host sees them: a PCI BAR with registers.
//!
//! Words: a *group* is a region of the device's memory with its own pair of counters; a *line* is
//! the 64 bytes that one access moves; the *BAR* is the window of memory-mapped registers, with the
//! layout of [`regmap`]. The hardware side counts, the host side only reads:
//!
//! ```text
//!  access at a host-physical address ──► which group? ──► add 1 to its reads or writes
//!                                       (sorted regions)        │ BAR: header, counters, table
//!                                                               ▼
//!                          kernel driver (readq), or read_u32/read_u64 of this model
//! ```
//!
//! The registers are not computed when they are read: they *are* the state, 64-bit words in a
//! [`Bar`]. So one model serves three places: a simulator owns its words, a test holds them in a
//! vector, and the emulated device lets them lie in memory shared with a virtual machine
//! ([`SharedBar`]), where the guest's driver reads what the model counts and no copying is needed.
//!
//! Counting takes no lock and never waits: a search over the groups and one atomic addition.
//! Each counter alone is exact; a reader of several sees them at slightly different moments, as on
//! real hardware (contract/registers.toml; thesis 5.1.3).

pub mod regmap;

use std::sync::atomic::{AtomicU64, Ordering};
use weir_core::units::Bytes;

const WORD_BYTES: u64 = 8;

/// Memory that holds the registers: 64-bit words from BAR offset 0, readable at any time.
pub trait Bar {
    /// The words. The same ones at each call.
    fn words(&self) -> &[AtomicU64];
}

impl Bar for Vec<AtomicU64> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

impl Bar for &[AtomicU64] {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// A region of host-physical memory with its own counter pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRegion {
    /// Host-physical address of its first byte.
    pub base: u64,
    pub size: Bytes,
}

/// Counts of one group, in lines since the counters were made; they wrap at 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines read from the device.
    pub reads: u64,
    /// Lines written to it.
    pub writes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountersError {
    #[error("{count} groups requested: the register map holds 1 to {max}", max = regmap::GROUP_COUNT_MAX)]
    GroupCount { count: usize },
    /// A region is empty, or ends after the last address.
    #[error("group {group}: base {base:#x} and size {size_bytes:#x} are no region of memory")]
    Region {
        group: usize,
        base: u64,
        size_bytes: u64,
    },
    /// Two regions share an address, so an access there would belong to both.
    #[error("groups {first} and {second} overlap at {at:#x}: an access belongs to one group")]
    Overlap {
        first: u32,
        second: u32,
        /// The first address they share.
        at: u64,
    },
    #[error("the BAR has {have_bytes:#x} bytes, the register map needs {need_bytes:#x}")]
    BarTooShort { have_bytes: u64, need_bytes: u64 },
    #[error("shared memory at {address:#x}, {bytes} bytes: {problem}")]
    Shared {
        address: usize,
        bytes: usize,
        problem: &'static str,
    },
}

#[derive(Debug)]
pub struct AccessCounters<B: Bar = Vec<AtomicU64>> {
    bar: B,
    /// Sorted by base; regions do not overlap.
    regions: Vec<Region>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    base: u64,
    last: u64,
    group: u32,
}

impl AccessCounters {
    /// Counters at zero for these groups, in a BAR of their own of the emulated device's length.
    ///
    /// # Errors
    /// The groups do not fit the register map, are no regions, or overlap.
    pub fn new(groups: &[GroupRegion]) -> Result<Self, CountersError> {
        let words = regmap::EMULATED_BAR_BYTES / WORD_BYTES;
        Self::over((0..words).map(|_| AtomicU64::new(0)).collect(), groups)
    }
}

impl<B: Bar> AccessCounters<B> {
    /// Counters at zero for these groups, in the given memory. Writes the registers of the map and
    /// no other word. The magic number is taken away first and put back last: a reader that sees it sees
    /// the rest.
    ///
    /// # Errors
    /// The BAR is too short, or the groups are wrong as in [`AccessCounters::new`].
    pub fn over(bar: B, groups: &[GroupRegion]) -> Result<Self, CountersError> {
        let regions = sorted_regions(groups)?;
        let have_bytes = bar.words().len() as u64 * WORD_BYTES;
        let need_bytes = needed_bytes(groups.len() as u64);
        if have_bytes < need_bytes {
            return Err(CountersError::BarTooShort {
                have_bytes,
                need_bytes,
            });
        }
        let counters = AccessCounters { bar, regions };
        counters.write_registers(groups);
        Ok(counters)
    }

    fn write_registers(&self, groups: &[GroupRegion]) {
        self.store(regmap::MAGIC_REG, 0);
        let table = regmap::EMULATED_GROUP_TABLE_OFFSET_BYTES;
        for (group, region) in groups.iter().enumerate() {
            let entry = table + group as u64 * regmap::GROUP_TABLE_STRIDE_BYTES;
            self.store(entry + regmap::GROUP_BASE_BYTES_REG, region.base);
            self.store(entry + regmap::GROUP_SIZE_BYTES_REG, region.size.0);
            let pair = counter_offset(group as u64);
            self.store(pair + regmap::COUNTER_READS_REG, 0);
            self.store(pair + regmap::COUNTER_WRITES_REG, 0);
        }
        self.store(regmap::GROUP_TABLE_OFFSET_BYTES_REG, table);
        // No features, and so nothing to say about a clock.
        self.store(regmap::FEATURES_REG, 0);
        self.store(
            regmap::GROUP_COUNT_REG,
            pair_of_u32(groups.len() as u32, regmap::LINE_BYTES_VALUE),
        );
        self.store(
            regmap::MAGIC_REG,
            pair_of_u32(regmap::MAGIC_VALUE, regmap::VERSION_VALUE),
        );
    }

    pub fn group_count(&self) -> u32 {
        self.regions.len() as u32
    }

    /// The group that an address belongs to, if any.
    pub fn group_of(&self, address: u64) -> Option<u32> {
        let after = self
            .regions
            .partition_point(|region| region.base <= address);
        let region = self.regions[..after].last()?;
        (address <= region.last).then_some(region.group)
    }

    /// Counts one access of one line at a host-physical address. Returns the group it was counted
    /// for, or nothing where the address belongs to none.
    pub fn count(&self, address: u64, is_write: bool) -> Option<u32> {
        let group = self.group_of(address)?;
        self.add(group, is_write, 1);
        Some(group)
    }

    /// Adds lines to a group's counter, for models that gather several. A group that does not
    /// exist is not counted.
    pub fn add(&self, group: u32, is_write: bool, lines: u64) {
        if let Some(counter) = self.counter(group, is_write) {
            counter.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// A group's counts, or nothing if it does not exist.
    pub fn lines(&self, group: u32) -> Option<Lines> {
        let load = |is_write| Some(self.counter(group, is_write)?.load(Ordering::Relaxed));
        Some(Lines {
            reads: load(false)?,
            writes: load(true)?,
        })
    }

    /// What the host reads with one 32-bit access, or nothing if the offset is not a multiple of 4
    /// or lies outside the BAR.
    pub fn read_u32(&self, offset_bytes: u64) -> Option<u32> {
        if !offset_bytes.is_multiple_of(4) {
            return None;
        }
        let word = self.read_u64(offset_bytes / WORD_BYTES * WORD_BYTES)?;
        let shift = offset_bytes % WORD_BYTES * 8;
        Some((word >> shift) as u32)
    }

    /// What the host reads with one 64-bit access, or nothing if the offset is not a multiple of 8
    /// or lies outside the BAR.
    pub fn read_u64(&self, offset_bytes: u64) -> Option<u64> {
        if !offset_bytes.is_multiple_of(WORD_BYTES) {
            return None;
        }
        let index = usize::try_from(offset_bytes / WORD_BYTES).ok()?;
        Some(self.bar.words().get(index)?.load(Ordering::Acquire))
    }

    pub fn bar(&self) -> &B {
        &self.bar
    }

    fn counter(&self, group: u32, is_write: bool) -> Option<&AtomicU64> {
        if group >= self.group_count() {
            return None;
        }
        let register = if is_write {
            regmap::COUNTER_WRITES_REG
        } else {
            regmap::COUNTER_READS_REG
        };
        let index = (counter_offset(u64::from(group)) + register) / WORD_BYTES;
        self.bar.words().get(index as usize)
    }

    /// Only for offsets below `needed_bytes`, which the constructor has checked.
    fn store(&self, offset_bytes: u64, value: u64) {
        if let Some(word) = self.bar.words().get((offset_bytes / WORD_BYTES) as usize) {
            word.store(value, Ordering::Release);
        }
    }
}

fn sorted_regions(groups: &[GroupRegion]) -> Result<Vec<Region>, CountersError> {
    if groups.is_empty() || groups.len() > regmap::GROUP_COUNT_MAX as usize {
        return Err(CountersError::GroupCount {
            count: groups.len(),
        });
    }
    let mut regions = Vec::with_capacity(groups.len());
    for (group, GroupRegion { base, size }) in groups.iter().enumerate() {
        let last = size
            .0
            .checked_sub(1)
            .and_then(|less| base.checked_add(less));
        // The map requires that base plus size stays below 2^64, so that drivers can add them.
        let Some(last) = last.filter(|last| *last < u64::MAX) else {
            return Err(CountersError::Region {
                group,
                base: *base,
                size_bytes: size.0,
            });
        };
        regions.push(Region {
            base: *base,
            last,
            group: group as u32,
        });
    }
    regions.sort_unstable_by_key(|region| (region.base, region.group));
    for pair in regions.windows(2) {
        if pair[1].base <= pair[0].last {
            return Err(CountersError::Overlap {
                first: pair[0].group,
                second: pair[1].group,
                at: pair[1].base,
            });
        }
    }
    Ok(regions)
}

fn needed_bytes(groups: u64) -> u64 {
    let table = regmap::EMULATED_GROUP_TABLE_OFFSET_BYTES;
    counter_offset(groups).max(table + groups * regmap::GROUP_TABLE_STRIDE_BYTES)
}

fn counter_offset(group: u64) -> u64 {
    regmap::COUNTERS_OFFSET_BYTES + group * regmap::COUNTER_STRIDE_BYTES
}

/// Two 32-bit registers as the little-endian word they share, the one at the lower offset first.
fn pair_of_u32(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A BAR in memory that others map too, such as the file behind QEMU's `ivshmem-plain`.
#[derive(Debug)]
pub struct SharedBar {
    words: &'static [AtomicU64],
}

impl SharedBar {
    /// Takes `bytes` of memory at `start` as a BAR. The registers are little endian, so this works
    /// on little-endian machines only.
    ///
    /// # Errors
    /// The pointer is null or not aligned to 8 bytes, or the length is not a multiple of 8.
    ///
    /// # Safety
    /// The memory must be readable and writable, stay mapped for the rest of the program, and be
    /// accessed by this program only through atomics while it is in use.
    pub unsafe fn from_raw(start: *mut u8, bytes: usize) -> Result<SharedBar, CountersError> {
        let wrong = |problem| {
            Err(CountersError::Shared {
                address: start as usize,
                bytes,
                problem,
            })
        };
        if cfg!(target_endian = "big") {
            return wrong("the registers are little endian, this machine is not");
        }
        if start.is_null() || !start.cast::<AtomicU64>().is_aligned() {
            return wrong("the address must be a multiple of 8 and not null");
        }
        if !bytes.is_multiple_of(WORD_BYTES as usize) || bytes > isize::MAX as usize {
            return wrong("the length must be a multiple of 8");
        }
        // SAFETY: not null, aligned, short enough (checked above); mapped for good and shared only
        // through atomics (the caller's promise). Any bits are an AtomicU64.
        let words =
            unsafe { std::slice::from_raw_parts(start.cast(), bytes / WORD_BYTES as usize) };
        Ok(SharedBar { words })
    }
}

impl Bar for SharedBar {
    fn words(&self) -> &[AtomicU64] {
        self.words
    }
}
