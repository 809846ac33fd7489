// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Section V-D: blocks moved by CXL and by PCIe.

use super::percent;
use crate::papers::Ours;
use weir_type2::time::{TransferWay, Type2Profile, device_to_host_ns, host_to_device_ns};

/// A block for which rates no longer rise.
const LARGE_BYTES: u32 = 16 << 20;

/// The ways that the paper puts beside stores by CXL.
const OTHERS: [TransferWay; 4] = [
    TransferWay::MmioWrite,
    TransferWay::PcieDma,
    TransferWay::Rdma,
    TransferWay::DocaDma,
];

pub fn transfers(profile: &Type2Profile, ours: &mut Ours) {
    let out = |way, bytes| host_to_device_ns(profile, way, bytes);
    let store = out(TransferWay::CxlStore, 256);
    for way in OTHERS {
        let name = format!("latency, 256 B to the device, CXL-ST over {}", way.name());
        ours.put(name, percent(store, out(way, 256)));
    }
    // Up to which size stores by CXL are the fastest way.
    let is_fastest = |bytes: &u32| {
        let mut others = OTHERS.iter().chain(&[TransferWay::CxlDsa]);
        others.all(|way| out(TransferWay::CxlStore, *bytes) < out(*way, *bytes))
    };
    let sizes = (6..=20).map(|power| 1u32 << power);
    let largest = sizes.take_while(is_fastest).last();
    ours.put(
        "CXL-ST is the fastest way to the device up to",
        largest.map_or(f64::NAN, f64::from),
    );
    for way in [TransferWay::PcieDma, TransferWay::CxlDsa, TransferWay::Rdma] {
        let name = way.name();
        let rate = f64::from(LARGE_BYTES) / out(way, LARGE_BYTES);
        ours.put(
            format!("bandwidth to the device, large blocks, {name}"),
            rate,
        );
    }
    ours.put(
        "latency, 256 B read by MMIO",
        out(TransferWay::MmioRead, 256),
    );
    let own = |way, bytes| device_to_host_ns(profile, way, bytes).unwrap_or(f64::NAN);
    for bytes in [256, 4096] {
        let name = format!("latency, {bytes} B read by the device, PCIe-RDMA over CXL-LD");
        let times = own(TransferWay::Rdma, bytes) / own(TransferWay::CxlLoad, bytes);
        ours.put(name, times);
    }
    ours.put(
        "latency, 256 B, the device's CXL-LD over the host's CXL-ST: lower",
        percent(own(TransferWay::CxlLoad, 256), store),
    );
}
