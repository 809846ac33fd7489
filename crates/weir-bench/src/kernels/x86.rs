// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernels of x86-64. Each goes over its lines with one loop, whatever a compiler would think of it.
//!
//! Vector registers are clobbered as `xmm0` to `xmm3`: a call preserves no part of them (System V ABI,
//! 3.2.1), and none of these functions is inlined. Stores write ones: some CPUs leave out the write-back of
//! zeros.

use super::{ChunkCode, Operation};
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

/// Structured extended features (Intel SDM, volume 2, CPUID leaf 7): the bits that have no macro.
struct Extended {
    erms: bool,
    clflushopt: bool,
    clwb: bool,
    movdir64b: bool,
}

impl Extended {
    fn read() -> Extended {
        if __cpuid_count(0, 0).eax < 7 {
            return Extended {
                erms: false,
                clflushopt: false,
                clwb: false,
                movdir64b: false,
            };
        }
        let leaf = __cpuid_count(7, 0);
        Extended {
            erms: leaf.ebx >> 9 & 1 == 1,
            clflushopt: leaf.ebx >> 23 & 1 == 1,
            clwb: leaf.ebx >> 24 & 1 == 1,
            movdir64b: leaf.ecx >> 28 & 1 == 1,
        }
    }
}

/// Widths in bytes that this CPU can do; none if it cannot do this at all.
pub(super) fn widths(operation: Operation) -> Vec<u32> {
    let extended = Extended::read();
    let vectors = || {
        let mut all = vec![8, 16];
        if is_x86_feature_detected!("avx2") {
            all.push(32);
        }
        if is_x86_feature_detected!("avx512f") {
            all.push(64);
        }
        all
    };
    let only = |width: u32, is_there: bool| if is_there { vec![width] } else { Vec::new() };
    match operation {
        Operation::Ld | Operation::St | Operation::Ntst | Operation::Copy => vectors(),
        Operation::StClwb if !extended.clwb => Vec::new(),
        Operation::StClwb => vectors(),
        // clflush orders itself against all others: it would measure itself.
        Operation::LdFlush if !extended.clflushopt => Vec::new(),
        Operation::LdFlush => vectors(),
        Operation::LdChase => vec![8],
        Operation::Movdir64b | Operation::Movdir64bFrom => only(64, extended.movdir64b),
        Operation::RepMovsb => only(64, extended.erms),
    }
}

/// The code; none for the chase. The width is one of [`widths`].
pub(super) fn code(operation: Operation, width_bytes: u32) -> Option<ChunkCode> {
    let by_width = |all: [ChunkCode; 4]| match width_bytes {
        8 => all[0],
        16 => all[1],
        32 => all[2],
        _ => all[3],
    };
    Some(match operation {
        Operation::Ld => by_width([ld_8, ld_16, ld_32, ld_64]),
        Operation::St => by_width([st_8, st_16, st_32, st_64]),
        Operation::StClwb => by_width([st_clwb_8, st_clwb_16, st_clwb_32, st_clwb_64]),
        Operation::Ntst => by_width([ntst_8, ntst_16, ntst_32, ntst_64]),
        Operation::Copy => by_width([copy_8, copy_16, copy_32, copy_64]),
        Operation::LdFlush => by_width([ld_flush_8, ld_flush_16, ld_flush_32, ld_flush_64]),
        Operation::Movdir64b => movdir64b,
        Operation::Movdir64bFrom => movdir64b_from,
        Operation::RepMovsb => rep_movsb,
        Operation::LdChase => return None,
    })
}

/// A loop over lines: what stands before it, what is done with each line, what comes behind.
///
/// Its functions are unsafe. Both places have so many lines, at least one, that are ours; the CPU has the
/// instructions.
macro_rules! kernel {
    ($name:ident, [$($before:literal),*], [$($line:literal),+ $(,)?], $step:literal, [$($after:literal),*]) => {
        #[inline(never)]
        unsafe fn $name(at: *mut u8, other: *mut u8, lines: usize) {
            // SAFETY: as promised by the caller.
            unsafe {
                asm!(
                    $($before,)*
                    "2:",
                    $($line,)+
                    "add {at}, 64",
                    $step,
                    "dec {lines}",
                    "jnz 2b",
                    $($after,)*
                    at = inout(reg) at => _,
                    other = inout(reg) other => _,
                    lines = inout(reg) lines => _,
                    out("rax") _, out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    options(nostack)
                );
            }
        }
    };
}

/// Eight accesses of eight bytes, four of 16, two of 32, one of 64: for each width a kernel.
macro_rules! widths {
    ($scalar:ident, $sse:ident, $avx:ident, $avx512:ident,
     [$($each8:literal),*], [$($each16:literal),*], [$($each32:literal),*], [$($each64:literal),*], [$($then:literal),*]) => {
        kernel!($scalar, ["mov rax, -1"], [$($each8,)* $($then),*], "add {other}, 64", []);
        kernel!($sse, ["pcmpeqd xmm0, xmm0"], [$($each16,)* $($then),*], "add {other}, 64", []);
        kernel!($avx, ["vpcmpeqd ymm0, ymm0, ymm0"], [$($each32,)* $($then),*], "add {other}, 64", ["vzeroupper"]);
        kernel!($avx512, ["vpternlogd zmm0, zmm0, zmm0, 0xff"], [$($each64,)* $($then),*], "add {other}, 64", ["vzeroupper"]);
    };
}

macro_rules! loads {
    ($scalar:ident, $sse:ident, $avx:ident, $avx512:ident, [$($then:literal),*]) => {
        widths!($scalar, $sse, $avx, $avx512,
            ["mov rax, [{at}]", "mov rax, [{at} + 8]", "mov rax, [{at} + 16]", "mov rax, [{at} + 24]",
             "mov rax, [{at} + 32]", "mov rax, [{at} + 40]", "mov rax, [{at} + 48]", "mov rax, [{at} + 56]"],
            ["movdqa xmm0, [{at}]", "movdqa xmm1, [{at} + 16]", "movdqa xmm2, [{at} + 32]", "movdqa xmm3, [{at} + 48]"],
            ["vmovdqa ymm0, [{at}]", "vmovdqa ymm1, [{at} + 32]"],
            ["vmovdqa64 zmm0, [{at}]"],
            [$($then),*]);
    };
}

macro_rules! stores {
    ($scalar:ident, $sse:ident, $avx:ident, $avx512:ident, [$($then:literal),*]) => {
        widths!($scalar, $sse, $avx, $avx512,
            ["mov [{at}], rax", "mov [{at} + 8], rax", "mov [{at} + 16], rax", "mov [{at} + 24], rax",
             "mov [{at} + 32], rax", "mov [{at} + 40], rax", "mov [{at} + 48], rax", "mov [{at} + 56], rax"],
            ["movdqa [{at}], xmm0", "movdqa [{at} + 16], xmm0", "movdqa [{at} + 32], xmm0", "movdqa [{at} + 48], xmm0"],
            ["vmovdqa [{at}], ymm0", "vmovdqa [{at} + 32], ymm0"],
            ["vmovdqa64 [{at}], zmm0"],
            [$($then),*]);
    };
}

loads!(ld_8, ld_16, ld_32, ld_64, []);
loads!(
    ld_flush_8,
    ld_flush_16,
    ld_flush_32,
    ld_flush_64,
    ["clflushopt [{at}]"]
);
stores!(st_8, st_16, st_32, st_64, []);
stores!(
    st_clwb_8,
    st_clwb_16,
    st_clwb_32,
    st_clwb_64,
    ["clwb [{at}]"]
);

widths!(
    ntst_8,
    ntst_16,
    ntst_32,
    ntst_64,
    [
        "movnti [{at}], rax",
        "movnti [{at} + 8], rax",
        "movnti [{at} + 16], rax",
        "movnti [{at} + 24], rax",
        "movnti [{at} + 32], rax",
        "movnti [{at} + 40], rax",
        "movnti [{at} + 48], rax",
        "movnti [{at} + 56], rax"
    ],
    [
        "movntdq [{at}], xmm0",
        "movntdq [{at} + 16], xmm0",
        "movntdq [{at} + 32], xmm0",
        "movntdq [{at} + 48], xmm0"
    ],
    ["vmovntdq [{at}], ymm0", "vmovntdq [{at} + 32], ymm0"],
    ["vmovntdq [{at}], zmm0"],
    []
);

widths!(
    copy_8,
    copy_16,
    copy_32,
    copy_64,
    [
        "mov rax, [{other}]",
        "mov [{at}], rax",
        "mov rax, [{other} + 8]",
        "mov [{at} + 8], rax",
        "mov rax, [{other} + 16]",
        "mov [{at} + 16], rax",
        "mov rax, [{other} + 24]",
        "mov [{at} + 24], rax",
        "mov rax, [{other} + 32]",
        "mov [{at} + 32], rax",
        "mov rax, [{other} + 40]",
        "mov [{at} + 40], rax",
        "mov rax, [{other} + 48]",
        "mov [{at} + 48], rax",
        "mov rax, [{other} + 56]",
        "mov [{at} + 56], rax"
    ],
    [
        "movdqa xmm0, [{other}]",
        "movdqa [{at}], xmm0",
        "movdqa xmm1, [{other} + 16]",
        "movdqa [{at} + 16], xmm1",
        "movdqa xmm2, [{other} + 32]",
        "movdqa [{at} + 32], xmm2",
        "movdqa xmm3, [{other} + 48]",
        "movdqa [{at} + 48], xmm3"
    ],
    [
        "vmovdqa ymm0, [{other}]",
        "vmovdqa [{at}], ymm0",
        "vmovdqa ymm1, [{other} + 32]",
        "vmovdqa [{at} + 32], ymm1"
    ],
    ["vmovdqa64 zmm0, [{other}]", "vmovdqa64 [{at}], zmm0"],
    []
);

// The source of direct stores stays where it is; their destination goes on.
kernel!(movdir64b, [], ["movdir64b {at}, [{other}]"], "", []);
kernel!(
    movdir64b_from,
    [],
    ["movdir64b {other}, [{at}]"],
    "add {other}, 64",
    []
);

/// # Safety
/// Both places have so many lines that are ours.
#[inline(never)]
unsafe fn rep_movsb(at: *mut u8, other: *mut u8, lines: usize) {
    // SAFETY: as promised by the caller; the direction flag is clear (System V ABI, 3.2.1).
    unsafe {
        asm!(
            "rep movsb",
            inout("rdi") at => _,
            inout("rsi") other => _,
            inout("rcx") lines * crate::LINE_BYTES => _,
            options(nostack, preserves_flags)
        );
    }
}
