// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves of a block between host and device (V-D), by CXL and by PCIe.

use super::line_cache::LINE_BYTES;
use super::microbenchmark::{DevicePlace, HostAccesses, device_burst, host_burst};
use super::profile::Type2Profile;
use crate::words::{Bias, CacheState, DeviceOp, HostOp, LineHome, TimedStage};

named! {
    /// A way to move a block.
    TransferWay {
        /// Loads of a core, or CS-rd of the accelerator.
        CxlLoad = "CXL-LD",
        /// Stores of a core, or NC-P of the accelerator.
        CxlStore = "CXL-ST",
        /// The host's data streaming accelerator.
        CxlDsa = "CXL-DSA",
        /// Loads of a core from a region of PCIe memory.
        MmioRead = "PCIe-MMIO read",
        /// Stores of a core to a region of PCIe memory.
        MmioWrite = "PCIe-MMIO",
        /// The device's DMA engine.
        PcieDma = "PCIe-DMA",
        /// A NIC's RDMA.
        Rdma = "PCIe-RDMA",
        /// A NIC's DOCA DMA.
        DocaDma = "PCIe-DOCA-DMA",
    }
}

fn lines(bytes: u32) -> u32 {
    bytes.div_ceil(LINE_BYTES).max(1)
}

fn bulk_ns(bytes: u32, bytes_per_sec: f64) -> f64 {
    f64::from(bytes) / bytes_per_sec * 1e9
}

/// Time until a block of the host is in device memory, ns; for reads, until the core has it.
pub fn host_to_device_ns(profile: &Type2Profile, way: TransferWay, bytes: u32) -> f64 {
    let ns = |stage| profile.ns(stage);
    let trip = ns(TimedStage::PcieTrip);
    let count = f64::from(lines(bytes));
    match way {
        TransferWay::CxlLoad => core_burst_ns(profile, HostOp::Load, bytes),
        TransferWay::CxlStore => core_burst_ns(profile, HostOp::Store, bytes),
        TransferWay::CxlDsa => {
            ns(TimedStage::DsaSetup)
                + ns(TimedStage::HostRead)
                + ns(TimedStage::Link)
                + ns(TimedStage::MemPipeline) / 2.0
                + bulk_ns(bytes, profile.pace.device_bytes_per_sec)
        }
        // One access is under way at a time (II-A).
        TransferWay::MmioRead => count * (2.0 * trip + ns(TimedStage::MmioOrder)),
        TransferWay::MmioWrite => count * (trip + ns(TimedStage::MmioOrder) / 2.0),
        // The doorbell with its descriptor, request and data, the completion.
        TransferWay::PcieDma => 4.0 * trip + bulk_ns(bytes, profile.pace.device_bytes_per_sec),
        TransferWay::Rdma => rdma_ns(profile, bytes),
        TransferWay::DocaDma => rdma_ns(profile, bytes) + ns(TimedStage::DocaWork),
    }
}

/// Doorbell, work request and its return, data request and data, completion.
fn rdma_ns(profile: &Type2Profile, bytes: u32) -> f64 {
    6.0 * profile.ns(TimedStage::PcieTrip)
        + profile.ns(TimedStage::NicWork)
        + bulk_ns(bytes, profile.pace.nic_bytes_per_sec)
}

fn core_burst_ns(profile: &Type2Profile, op: HostOp, bytes: u32) -> f64 {
    let accesses = HostAccesses {
        op,
        is_type3: false,
        dmc: CacheState::Invalid,
        llc: CacheState::Invalid,
        is_posted: false,
    };
    host_burst(profile, accesses, lines(bytes)).total_ns
}

/// The same begun by the device: it reads a block of host memory, or writes one into the host (NC-P, DMA).
/// Nothing for ways that the device has not.
pub fn device_to_host_ns(profile: &Type2Profile, way: TransferWay, bytes: u32) -> Option<f64> {
    let ns = |stage| profile.ns(stage);
    let trip = ns(TimedStage::PcieTrip);
    let place = DevicePlace {
        home: LineHome::HostMemory,
        bias: Bias::Host,
        device: CacheState::Invalid,
        llc: CacheState::Invalid,
    };
    let by_nic =
        2.0 * trip + ns(TimedStage::NicWork) + bulk_ns(bytes, profile.pace.nic_bytes_per_sec);
    match way {
        TransferWay::CxlLoad => {
            Some(device_burst(profile, DeviceOp::CsRead, place, lines(bytes)).total_ns)
        }
        TransferWay::CxlStore => {
            Some(device_burst(profile, DeviceOp::NcPush, place, lines(bytes)).total_ns)
        }
        // Posted writes.
        TransferWay::PcieDma => Some(trip + bulk_ns(bytes, profile.pace.device_bytes_per_sec)),
        TransferWay::Rdma => Some(by_nic),
        TransferWay::DocaDma => Some(by_nic + ns(TimedStage::DocaWork)),
        TransferWay::CxlDsa | TransferWay::MmioRead | TransferWay::MmioWrite => None,
    }
}
