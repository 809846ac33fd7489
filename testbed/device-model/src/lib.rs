// SPDX-License-Identifier: GPL-2.0-or-later
//! The emulated CXL device, below a real guest kernel: a QEMU TCG plugin that sees every memory
//! access of every vCPU.
//!
//! An access to device memory goes through the models of weir-hw (cache filter, core window, device
//! calendar); accesses that reach the device are counted in the register map that the guest's driver reads
//! (the file behind an ivshmem BAR) and in the ground truth that only the host sees; and the vCPU's model
//! clock advances by the time it would have stalled. A second counter of the same accesses (the RTL in a
//! simulator) gets them one by one, through [`trace_publisher`].
//!
//! # Time
//!
//! The guest's time is the device model's own ([`clock`]): each vCPU's clock advances by a fixed time per
//! instruction and by stalls. The host's clock is not read at all, so a run is the same on a busy host as
//! on a quiet one.
//!
//! The model is off until the harness switches it on through the ground truth: booting under it would take
//! minutes. Until then instructions are counted, at a faster pace, and no memory access is examined; and
//! again while the harness hurries the guest through what matters to no question. Switched off otherwise, it
//! keeps its pace: accesses alone cost nothing any more.

mod args;
mod clock;
mod ffi;
mod internals;
mod model;
mod shared;
mod tlb;
mod trace_publisher;
mod vcpu;

use clock::grant::Grant;
use clock::vcpu_clock::LIMIT;
use clock::{Clock, Hooks, VcpuTurn};
use ffi as q;
use internals::Internals;
use model::Model;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Version of the plugin API this is written against; QEMU refuses us if it does not know it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = q::VERSION;

/// Model time of an instruction while the model is off.
const BOOT_INSTRUCTION_PS: u64 = 1000;
/// Instructions that a PAUSE counts for, since it leaves translated code and is dear to emulate: while the
/// model is off, and while it is on (a real one takes 40 to 140 cycles).
const BOOT_PAUSE: u64 = 300;
const MODEL_PAUSE: u64 = 40;

struct Plugin {
    id: q::PluginId,
    clock: Clock,
    model: Model,
    scoreboard: VcpuScores,
    instruction_ps: u64,
}

/// QEMU's scoreboard with one counter of instructions for each vCPU.
struct VcpuScores(*mut q::Scoreboard);
// SAFETY: the pointer is only used through QEMU's functions.
unsafe impl Send for VcpuScores {}
// SAFETY: as above.
unsafe impl Sync for VcpuScores {}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Whether code is translated with instrumentation: the code cache is flushed when that changes.
static INSTRUMENTED: AtomicBool = AtomicBool::new(false);

/// The model was on before.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// vCPUs that have come into being.
static VCPUS: AtomicU64 = AtomicU64::new(0);

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
            let vcpus = (*info).max_vcpus.max(1) as usize;
            args::parse(argc, argv).and_then(|args| Plugin::new(id, &args, vcpus))
        }
    };
    match built {
        Ok(plugin) => {
            let _ = PLUGIN.set(plugin);
            register(id);
            0
        }
        Err(why) => {
            eprintln!("weir-device-model: {why}");
            -1
        }
    }
}

impl Plugin {
    fn new(id: q::PluginId, args: &args::Args, vcpu_count: usize) -> Result<Self, String> {
        let model = Model::new(args, vcpu_count)?;
        let hooks = Hooks {
            publish: |clock| {
                if let Some(plugin) = PLUGIN.get() {
                    plugin.model.publish_vcpus(clock);
                }
            },
            begin: follow_the_switches,
        };
        let internals = Internals::find()?;
        clock::host_clock::is_ours()?;
        let grant = Grant::new(*model.ground_truth());
        let clock = Clock::new(
            internals,
            grant,
            hooks,
            vcpu_count,
            args.window_ns,
            args.start_ns,
        );
        clock.set_pace(BOOT_INSTRUCTION_PS);
        // SAFETY: plain allocation by QEMU, of one u64 per vCPU.
        let scoreboard = VcpuScores(unsafe { q::qemu_plugin_scoreboard_new(8) });
        Ok(Plugin {
            id,
            clock,
            model,
            scoreboard,
            instruction_ps: args.instruction_ps,
        })
    }

    fn counter(&self, index: usize) -> *mut u64 {
        // SAFETY: the vCPU exists, so the scoreboard has an entry for it.
        unsafe { q::qemu_plugin_scoreboard_find(self.scoreboard.0, index as c_uint).cast() }
    }
}

fn register(id: q::PluginId) {
    let none = std::ptr::null_mut();
    // SAFETY: `id` is ours and the callbacks have the types QEMU expects.
    unsafe {
        q::qemu_plugin_register_vcpu_init_cb(id, on_vcpu, none);
        q::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate, none);
    }
}

/// A vCPU comes into being: with the first one the clock takes over.
unsafe extern "C" fn on_vcpu(index: c_uint, _: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    if VCPUS.fetch_add(1, Ordering::AcqRel) == 0 {
        if let Err(why) = plugin.clock.internals().install_clock(virtual_clock, ticks) {
            eprintln!("weir-device-model: {why}");
            std::process::exit(1);
        }
        plugin
            .clock
            .set_idle_half(plugin.clock.internals().new_bottom_half(on_idle));
        std::thread::spawn(|| plugin.clock.keep_polling());
    }
    plugin
        .clock
        .add_vcpu(index as usize, |index| plugin.counter(index));
}

unsafe extern "C" fn virtual_clock() -> i64 {
    PLUGIN.get().map_or(0, |plugin| plugin.clock.virtual_ns())
}

unsafe extern "C" fn ticks() -> i64 {
    PLUGIN.get().map_or(0, |plugin| plugin.clock.ticks())
}

unsafe extern "C" fn on_idle(_: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.clock.jump();
    }
}

unsafe extern "C" fn on_hlt(vcpu: c_uint, _: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.clock.halts(vcpu as usize);
    }
}

/// The harness has switched the model on, or hurries the guest, or no longer does: all code is translated
/// anew. QEMU requires a vCPU's thread for that request.
fn follow_the_switches() {
    let Some(plugin) = PLUGIN.get() else { return };
    let ground_truth = plugin.model.ground_truth();
    let has_begun = ground_truth.is_on() || BEGUN.load(Ordering::Acquire);
    let is_wanted = has_begun && !ground_truth.is_hurried();
    if INSTRUMENTED.swap(is_wanted, Ordering::AcqRel) != is_wanted {
        // SAFETY: called from the vCPUs' thread with our own id.
        unsafe { q::qemu_plugin_reset(plugin.id, on_reset, std::ptr::null_mut()) };
    }
}

/// All translated code is gone and all callbacks with it: from here on everything is instrumented, or
/// nothing.
unsafe extern "C" fn on_reset(_: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    if INSTRUMENTED.load(Ordering::Acquire) {
        plugin.clock.set_pace(plugin.instruction_ps);
        plugin.model.start(!BEGUN.swap(true, Ordering::AcqRel));
    } else {
        plugin.clock.set_pace(BOOT_INSTRUCTION_PS);
        plugin.model.pause();
    }
    register(plugin.id);
}

/// New code is translated: its instructions are counted, and with the model on its memory accesses are
/// instrumented. The counter is checked before the block's own instructions are added, so that a block that
/// is left has not counted.
unsafe extern "C" fn on_translate(tb: *mut q::Tb, _: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    let is_modelled = INSTRUMENTED.load(Ordering::Acquire);
    let entry = q::Cell {
        score: plugin.scoreboard.0,
        offset: 0,
    };
    // SAFETY: `tb` and its instructions are valid during this call; the scoreboard lives as long as the
    // device model.
    unsafe {
        let count = q::qemu_plugin_tb_n_insns(tb);
        let pc = std::ptr::without_provenance_mut(q::qemu_plugin_tb_vaddr(tb) as usize);
        q::qemu_plugin_register_vcpu_tb_exec_cond_cb(
            tb,
            on_limit,
            q::NO_REGS,
            q::COND_GE,
            entry,
            LIMIT,
            pc,
        );
        q::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
            tb,
            q::INLINE_ADD_U64,
            entry,
            count as u64,
        );
        for i in 0..count {
            let insn = q::qemu_plugin_tb_get_insn(tb, i);
            let mut code = [0u8; 15];
            let size = q::qemu_plugin_insn_data(insn, code.as_mut_ptr().cast(), code.len());
            let code = &code[..size.min(code.len())];
            account(insn, code, entry, is_modelled);
            if is_modelled {
                observe(insn, code);
            }
        }
    }
}

/// Instructions that matter to the clock.
///
/// # Safety
/// Only while `insn` is being translated.
unsafe fn account(insn: *mut q::Insn, code: &[u8], entry: q::Cell, is_modelled: bool) {
    // SAFETY: as promised by the caller.
    unsafe {
        match *code {
            // HLT, and below PAUSE (Intel SDM, volume 2).
            [0xf4, ..] => q::qemu_plugin_register_vcpu_insn_exec_cb(
                insn,
                on_hlt,
                q::NO_REGS,
                std::ptr::null_mut(),
            ),
            [0xf3, 0x90, ..] => {
                let instructions = if is_modelled { MODEL_PAUSE } else { BOOT_PAUSE };
                q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                    insn,
                    q::INLINE_ADD_U64,
                    entry,
                    instructions,
                );
            }
            _ => {}
        }
    }
}

/// The accesses that the model examines.
///
/// # Safety
/// Only while `insn` is being translated.
unsafe fn observe(insn: *mut q::Insn, code: &[u8]) {
    let none = std::ptr::null_mut();
    let awaited = if chases(code) { AWAITED } else { none };
    // SAFETY: as promised by the caller.
    unsafe {
        if tlb::flushes(code) {
            q::qemu_plugin_register_vcpu_insn_exec_cb(insn, on_tlb_flush, q::NO_REGS, none);
        }
        q::qemu_plugin_register_vcpu_mem_cb(insn, on_access, q::NO_REGS, q::MEM_RW, awaited);
    }
}

/// A vCPU begins a block and has used up its window, or has not been given one.
unsafe extern "C" fn on_limit(vcpu: c_uint, pc: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    if let VcpuTurn::Leaves = plugin.clock.turn(vcpu as usize, pc.addr() as u64) {
        // SAFETY: at a block's start, and nothing here needs dropping.
        unsafe {
            plugin
                .clock
                .internals()
                .leave_block(plugin.clock.cpu(vcpu as usize))
        };
    }
}

/// Marks an access of an instruction that [`chases`].
const AWAITED: *mut c_void = std::ptr::without_provenance_mut(1);

/// Whether an instruction loads 64 bits into the register that its address was in, as a pointer chase
/// does: what comes next needs the answer, so a core cannot have another such load on its way. A load with an
/// unused value may have the same form; it is rare in programs that compute something.
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

/// A vCPU is about to change its address translation.
unsafe extern "C" fn on_tlb_flush(vcpu: c_uint, _: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.model.flush_tlb(vcpu as usize);
    }
}

/// A vCPU touches memory: any memory. This runs tens of millions of times a second.
unsafe extern "C" fn on_access(vcpu: c_uint, info: q::MemInfo, vaddr: u64, awaited: *mut c_void) {
    let Some(Plugin { model, clock, .. }) = PLUGIN.get() else {
        return;
    };
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
        model.access(clock, vcpu as usize, address, is_store, !awaited.is_null());
    }
}

#[cfg(test)]
mod tests {
    use super::chases;

    #[test]
    fn loads_that_follow_pointers_are_recognised() {
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
