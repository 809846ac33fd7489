// SPDX-License-Identifier: GPL-2.0-or-later
//! A translation cache per vCPU, so that an access to ordinary memory costs a compare instead of three
//! calls into QEMU. It holds what a CPU's TLB may hold and forgets when the architecture says so: on
//! a write to CR0, CR3 or CR4, on `invlpg` and on `invpcid` (Intel SDM vol. 3, 5.10.4). A guest that is
//! correct on hardware is correct here.

/// Entries: as many pages as a core's second-level TLB knows, roughly. A page has one entry where it can be,
/// so that a look costs one comparison.
const ENTRIES: usize = 1024;
const PAGE_SHIFT: u32 = 12;
/// No virtual page has this number: addresses are canonical.
const NONE: u64 = u64::MAX;

pub struct Tlb {
    virtual_pages: [u64; ENTRIES],
    /// Physical address of the page.
    physical: [u64; ENTRIES],
}

impl Tlb {
    pub fn new() -> Box<Self> {
        Box::new(Tlb {
            virtual_pages: [NONE; ENTRIES],
            physical: [0; ENTRIES],
        })
    }

    /// The physical address, if the page is known; else call `walk` and remember the result.
    pub fn translate(&mut self, vaddr: u64, walk: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let page = vaddr >> PAGE_SHIFT;
        let offset = vaddr & ((1 << PAGE_SHIFT) - 1);
        let entry = page as usize % ENTRIES;
        if self.virtual_pages[entry] != page {
            let physical = walk()?;
            self.virtual_pages[entry] = page;
            self.physical[entry] = physical - offset;
        }
        Some(self.physical[entry] + offset)
    }

    pub fn flush(&mut self) {
        self.virtual_pages.fill(NONE);
    }
}

/// Whether an instruction may change what a virtual address means on this CPU.
pub fn flushes(code: &[u8]) -> bool {
    // Prefixes: operand size, repeat, segment, REX.
    let prefix = |b: &u8| {
        matches!(
            b,
            0x66 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x40..=0x4f
        )
    };
    let start = code.iter().position(|b| !prefix(b)).unwrap_or(code.len());
    match code[start..] {
        // mov to control register
        [0x0f, 0x22, ..] => true,
        // invlpg: 0f 01 /7 with a memory operand
        [0x0f, 0x01, modrm, ..] => modrm >> 3 & 7 == 7 && modrm >> 6 != 3,
        // invpcid
        [0x0f, 0x38, 0x82, ..] => true,
        _ => false,
    }
}
