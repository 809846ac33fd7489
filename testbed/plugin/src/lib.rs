// SPDX-License-Identifier: GPL-2.0-or-later
//! The emulated CXL device, below a real guest kernel: a QEMU TCG plugin that sees every memory
//! access of every vCPU.
//!
//! An access to device memory goes through the models of weir-hw (cache filter, core window, device
//! calendar); what reaches the device is counted in the register map that the guest's driver reads
//! (the file behind an ivshmem BAR) and in the ledger that only the host sees; and the vCPU's model
//! clock advances by the time it would have stalled. Who wants to count the same accesses again (real
//! hardware in a simulator) gets them one by one, through [`stream`].
//!
//! # Time
//!
//! Each vCPU has a clock of its own, in nanoseconds of the host's monotonic clock. It advances by a
//! fixed time per instruction and by stalls. When it runs ahead of the wall by more than a slack the
//! vCPU thread sleeps until the wall has caught up; a stalled vCPU thus leaves the host free instead
//! of speeding its neighbours up. When the host cannot keep up, the clock falls behind and catches
//! up later, up to `max_lag`; what is beyond is dropped and written into the ledger, so that a run on
//! too busy a host can be told from a good one. While a vCPU halts, its clock follows the wall.
//!
//! The model is off until the harness switches it on through the ledger: booting under it would take
//! minutes. Until then no instruction is instrumented at all.

mod args;
mod ffi;
mod model;
mod shared;
mod stream;
mod tlb;
mod vcpu;

use ffi as q;
use model::Model;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Version of the plugin API this is written against; QEMU refuses us if it does not know it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = q::VERSION;

static MODEL: OnceLock<Model> = OnceLock::new();

/// Set once the code cache was flushed for instrumentation, so that it is asked for once.
static INSTRUMENTED: AtomicBool = AtomicBool::new(false);

/// Called by QEMU when it loads the plugin.
///
/// # Safety
/// QEMU passes a valid `info` and `argc` valid strings in `argv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: q::PluginId,
    info: *const q::Info,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: as promised by QEMU.
    let built = unsafe {
        if !(*info).system_emulation {
            Err("only whole-system emulation can be instrumented".to_string())
        } else {
            let vcpus = (*info).max_vcpus;
            args::parse(argc, argv).and_then(|args| Model::new(&args, vcpus.max(1) as usize))
        }
    };
    match built {
        Ok(model) => {
            let _ = MODEL.set(model);
            register(id);
            0
        }
        Err(why) => {
            eprintln!("weir-plugin: {why}");
            -1
        }
    }
}

/// Callbacks that live through both phases.
fn register(id: q::PluginId) {
    // SAFETY: `id` is ours and the callbacks have the types QEMU expects.
    unsafe {
        let id_as_data = id as *mut c_void;
        q::qemu_plugin_register_vcpu_resume_cb(id, on_resume, id_as_data);
        q::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate, id_as_data);
    }
}

/// A vCPU leaves HLT: its clock skips the time it slept. Also the place where the switch is noticed,
/// since QEMU wants a vCPU thread to ask for the flush.
unsafe extern "C" fn on_resume(vcpu: c_uint, id: *mut c_void) {
    let Some(model) = MODEL.get() else { return };
    if model.ledger().is_on() && !INSTRUMENTED.swap(true, Ordering::AcqRel) {
        // SAFETY: called from a vCPU thread with our own id.
        unsafe { q::qemu_plugin_reset(id as q::PluginId, on_reset, id) };
    }
    model.resume(vcpu as usize);
}

/// All translated code is gone and all callbacks with it: from here on everything is instrumented.
unsafe extern "C" fn on_reset(id: *mut c_void) {
    if let Some(model) = MODEL.get() {
        model.start();
        register(id as q::PluginId);
    }
}

/// New code is translated: count its instructions, look at its memory accesses.
unsafe extern "C" fn on_translate(tb: *mut q::Tb, _: *mut c_void) {
    let Some(model) = MODEL.get() else { return };
    if !INSTRUMENTED.load(Ordering::Acquire) {
        return;
    }
    let none: *mut c_void = std::ptr::null_mut();
    // SAFETY: `tb` and its instructions are valid during this call; the scoreboard entry lives as
    // long as the plugin.
    unsafe {
        let count = q::qemu_plugin_tb_n_insns(tb);
        let entry = model.quantum_entry();
        q::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
            tb,
            q::INLINE_ADD_U64,
            entry,
            count as u64,
        );
        q::qemu_plugin_register_vcpu_tb_exec_cond_cb(
            tb,
            on_quantum,
            q::NO_REGS,
            q::COND_GE,
            entry,
            model.quantum_instructions(),
            none,
        );
        for i in 0..count {
            let insn = q::qemu_plugin_tb_get_insn(tb, i);
            let mut code = [0u8; 15];
            let size = q::qemu_plugin_insn_data(insn, code.as_mut_ptr().cast(), code.len());
            if tlb::flushes(&code[..size.min(code.len())]) {
                q::qemu_plugin_register_vcpu_insn_exec_cb(insn, on_tlb_flush, q::NO_REGS, none);
            }
            let awaited = if chases(&code[..size.min(code.len())]) {
                AWAITED
            } else {
                none
            };
            q::qemu_plugin_register_vcpu_mem_cb(insn, on_access, q::NO_REGS, q::MEM_RW, awaited);
        }
    }
}

/// Of an access whose instruction [`chases`].
const AWAITED: *mut c_void = std::ptr::without_provenance_mut(1);

/// Whether an instruction loads 64 bits into the register that its address was in, as who follows pointers
/// does: what comes next needs the answer, so a core cannot have another such load on its way. A load whose value
/// nobody uses may look the same; it is rare in programs that compute something.
fn chases(code: &[u8]) -> bool {
    match *code {
        // REX.W, mov r64, r/m64
        [rex @ 0x48..=0x4f, 0x8b, modrm, ..] => {
            let same = modrm >> 3 & 7 == modrm & 7 && rex >> 2 & 1 == rex & 1;
            // Not a register, an address relative to the instruction, or one of two registers.
            let plain = !matches!((modrm >> 6, modrm & 7), (3, _) | (_, 4) | (0, 5));
            same && plain
        }
        _ => false,
    }
}

/// A vCPU has run a quantum of instructions.
unsafe extern "C" fn on_quantum(vcpu: c_uint, _: *mut c_void) {
    if let Some(model) = MODEL.get() {
        model.quantum(vcpu as usize);
    }
}

/// A vCPU is about to change its address translation.
unsafe extern "C" fn on_tlb_flush(vcpu: c_uint, _: *mut c_void) {
    if let Some(model) = MODEL.get() {
        model.flush_tlb(vcpu as usize);
    }
}

/// A vCPU touches memory: any memory. This runs tens of millions of times a second.
unsafe extern "C" fn on_access(vcpu: c_uint, info: q::MemInfo, vaddr: u64, awaited: *mut c_void) {
    let Some(model) = MODEL.get() else { return };
    let walk = || {
        // SAFETY: called inside a memory callback, where the handle is valid until we return.
        unsafe {
            let hwaddr = q::qemu_plugin_get_hwaddr(info, vaddr);
            (!hwaddr.is_null()).then(|| q::qemu_plugin_hwaddr_phys_addr(hwaddr))
        }
    };
    if let Some(address) = model.device_address(vcpu as usize, vaddr, walk) {
        // SAFETY: `info` is valid inside the callback.
        let is_store = unsafe { q::qemu_plugin_mem_is_store(info) };
        model.access(vcpu as usize, address, is_store, !awaited.is_null());
    }
}

#[cfg(test)]
mod tests {
    use super::chases;

    #[test]
    fn loads_that_follow_pointers_are_told_from_others() {
        for code in [
            &[0x48, 0x8b, 0x00][..],         // mov rax, [rax]
            &[0x48, 0x8b, 0x49, 0x08],       // mov rcx, [rcx + 8]
            &[0x4d, 0x8b, 0x00],             // mov r8, [r8]
            &[0x48, 0x8b, 0x92, 0, 1, 0, 0], // mov rdx, [rdx + 256]
            &[0x48, 0x8b, 0x6d, 0x00],       // mov rbp, [rbp]
        ] {
            assert!(chases(code), "{code:x?}");
        }
        for code in [
            &[0x48, 0x8b, 0x08][..],         // mov rcx, [rax]
            &[0x8b, 0x00],                   // mov eax, [rax]
            &[0x48, 0x8b, 0xc0],             // mov rax, rax
            &[0x49, 0x8b, 0x00],             // mov rax, [r8]
            &[0x48, 0x8b, 0x24, 0x24],       // mov rsp, [rsp]: by two registers
            &[0x48, 0x8b, 0x2d, 0, 0, 0, 0], // mov rbp, [rip]
            &[0x48, 0x89, 0x00],             // mov [rax], rax
            &[0x48, 0x8b],
            &[],
        ] {
            assert!(!chases(code), "{code:x?}");
        }
    }
}
