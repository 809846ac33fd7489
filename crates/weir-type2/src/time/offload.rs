// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table IV: a page of zswap is moved to the device (②), compressed (④) and stored (⑤).

use super::line_cache::LINE_BYTES;
use super::machine::Type2Machine;
use super::microbenchmark::{DevicePlace, device_burst};
use super::profile::Type2Profile;
use super::transfer::{TransferWay, device_to_host_ns, host_to_device_ns};
use crate::words::{Bias, CacheState, DeviceOp, LineHome, TimedStage};

const PAGE_BYTES: u32 = 4096;

/// Units of Table IV that the compression by the FPGA takes in the paper. The length of a unit is set by it:
/// what the RTL's encoder takes for a page of Redis (573 clocks) is this many units.
const FPGA_UNITS: f64 = 2.9;

/// Units of Table IV that the NIC's Arm core takes to compress: no model of ours says so.
const ARM_UNITS: f64 = 5.5;

/// Times of one page, in the units of Table IV.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffloadTimes {
    /// Length of a unit, ns.
    pub unit_ns: f64,
    /// `pcie-rdma-zswap`: ②, ④, ⑤.
    pub rdma: [f64; 3],
    /// `pcie-dma-zswap`: ②, ④, ⑤.
    pub dma: [f64; 3],
    /// `cxl-zswap`, which overlaps them: all.
    pub cxl: f64,
}

/// Lines that one page's compression brings into the LLC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLines {
    /// Lines that software brings in: page, result and hash table.
    pub software: u64,
    /// Lines that the accelerator brings in with NC-rd, counted in the machine.
    pub nc_read: u64,
    /// Lines that the accelerator brings in with CS-rd, counted in the machine.
    pub cs_read: u64,
}

fn stored_bytes(profile: &Type2Profile) -> u32 {
    let bytes = f64::from(PAGE_BYTES) / profile.offload.stored_ratio;
    // From 1 to PAGE_BYTES: the ratio was checked.
    (1..=PAGE_BYTES)
        .find(|whole| f64::from(*whole) >= bytes)
        .unwrap_or(PAGE_BYTES)
}

fn compute_ns(profile: &Type2Profile) -> f64 {
    f64::from(profile.offload.compute_clocks) * profile.pace.accelerator_clock_ns
}

pub fn offload_times(profile: &Type2Profile) -> OffloadTimes {
    let unit_ns = compute_ns(profile) / FPGA_UNITS;
    let (page, stored) = (PAGE_BYTES, stored_bytes(profile));
    let interrupt = profile.ns(TimedStage::Interrupt);
    let out = |way| host_to_device_ns(profile, way, page) / unit_ns;
    let back = |way| {
        let ns = device_to_host_ns(profile, way, stored).unwrap_or(f64::NAN);
        (ns + interrupt) / unit_ns
    };
    OffloadTimes {
        unit_ns,
        rdma: [out(TransferWay::Rdma), ARM_UNITS, back(TransferWay::Rdma)],
        dma: [
            out(TransferWay::PcieDma),
            FPGA_UNITS,
            back(TransferWay::PcieDma),
        ],
        cxl: pipelined_ns(profile) / unit_ns,
    }
}

/// The page comes by NC-rd, line after line, into the compressor; its lines go by NC-wr to device memory, in
/// host bias; the size goes by another NC-wr, once the last line is there.
fn pipelined_ns(profile: &Type2Profile) -> f64 {
    let read_place = DevicePlace {
        home: LineHome::HostMemory,
        bias: Bias::Host,
        device: CacheState::Invalid,
        llc: CacheState::Invalid,
    };
    let write_place = DevicePlace {
        home: LineHome::DeviceMemory,
        ..read_place
    };
    let read = |count| device_burst(profile, DeviceOp::NcRead, read_place, count).total_ns;
    let write = device_burst(profile, DeviceOp::NcWrite, write_place, 1).total_ns;
    let first_line = read(1);
    let whole_page = read(PAGE_BYTES / LINE_BYTES);
    // The compressor ends after its clocks, and not before it has the last line.
    let compressed = (first_line + compute_ns(profile)).max(whole_page);
    let (last_line, size) = (write, write);
    compressed + last_line + size
}

/// Lines that one page's compression brings into the LLC.
pub fn lines_into_llc(profile: &Type2Profile) -> PageLines {
    let lines = |bytes: u32| u64::from(bytes.div_ceil(LINE_BYTES));
    let table = profile.offload.table_kib * 1024;
    let by_device = |op| {
        let mut machine = Type2Machine::new(profile);
        for line in 0..lines(PAGE_BYTES) {
            machine.device_access(0.0, op, LineHome::HostMemory, line);
        }
        machine.counts().llc_lines
    };
    PageLines {
        software: lines(PAGE_BYTES) + lines(stored_bytes(profile)) + lines(table),
        nc_read: by_device(DeviceOp::NcRead),
        cs_read: by_device(DeviceOp::CsRead),
    }
}
