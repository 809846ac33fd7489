// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of QEMU's plugin API, version 7 (QEMU 11), that we use. Version 7 put a user pointer into
//! every callback, QEMU 11.1 refuses older ones, and the published bindings end at version 5: hence
//! these few lines of our own. Semantics: `include/plugins/qemu-plugin.h` of QEMU.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Version of the API.
pub const VERSION: c_int = 7;

pub type PluginId = u64;
pub type MemInfo = u32;

pub enum Tb {}
pub enum Insn {}
pub enum Scoreboard {}
pub enum Hwaddr {}

/// `qemu_info_t`, of a whole-system emulator: the union's only member is laid out in place.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

/// `qemu_plugin_u64`: one cell of a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Cell {
    pub score: *mut Scoreboard,
    pub offset: usize,
}

/// `QEMU_PLUGIN_CB_NO_REGS`
pub const NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`
pub const MEM_RW: c_int = 3;
/// `QEMU_PLUGIN_COND_GE`
pub const COND_GE: c_int = 7;
/// `QEMU_PLUGIN_INLINE_ADD_U64`
pub const INLINE_ADD_U64: c_int = 0;

pub type UdataCb = unsafe extern "C" fn(*mut c_void);
pub type VcpuCb = unsafe extern "C" fn(c_uint, *mut c_void);
pub type TransCb = unsafe extern "C" fn(*mut Tb, *mut c_void);
pub type MemCb = unsafe extern "C" fn(c_uint, MemInfo, u64, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_reset(id: PluginId, cb: UdataCb, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: VcpuCb, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TransCb, userdata: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb: *mut Tb,
        op: c_int,
        entry: Cell,
        imm: u64,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        tb: *mut Tb,
        cb: VcpuCb,
        flags: c_int,
        cond: c_int,
        entry: Cell,
        imm: u64,
        userdata: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        op: c_int,
        entry: Cell,
        imm: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCb,
        flags: c_int,
        rw: c_int,
        userdata: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: VcpuCb,
        flags: c_int,
        userdata: *mut c_void,
    );
    pub fn qemu_plugin_insn_data(insn: *const Insn, dest: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_get_hwaddr(info: MemInfo, vaddr: u64) -> *mut Hwaddr;
    pub fn qemu_plugin_hwaddr_phys_addr(hwaddr: *const Hwaddr) -> u64;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
    pub fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_scoreboard_find(score: *mut Scoreboard, vcpu: c_uint) -> *mut c_void;
}
