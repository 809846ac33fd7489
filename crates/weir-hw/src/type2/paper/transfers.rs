// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Section V-D: blocks moved by CXL and by PCIe.

use super::{ComparedFigure, FigureKind, FigureUnit, Figures};
use crate::type2::time::{TransferWay, Type2Profile, device_to_host_ns, host_to_device_ns};

/// A block for which rates no longer rise.
const LARGE_BYTES: u32 = 16 << 20;

/// The figures. Nothing of V-D was used for the profile, but for DOCA's stage.
pub fn transfers(profile: &Type2Profile) -> Vec<ComparedFigure> {
    let mut figures = Figures::new("V-D");
    let out = |way, bytes| host_to_device_ns(profile, way, bytes);
    for (way, percent, kind) in [
        (TransferWay::MmioWrite, -83.0, FigureKind::Predicted),
        (TransferWay::PcieDma, -72.0, FigureKind::Predicted),
        (TransferWay::Rdma, -81.0, FigureKind::Predicted),
        (TransferWay::DocaDma, -92.0, FigureKind::Assumed),
    ] {
        let what = format!("latency, 256 B to the device, CXL-ST over {}", way.name());
        let pair = (out(TransferWay::CxlStore, 256), out(way, 256));
        figures.change(&what, (percent, percent), pair, (kind, 5.0));
    }
    crossing(&mut figures, profile);
    let rate = |way: TransferWay| f64::from(LARGE_BYTES) / out(way, LARGE_BYTES);
    for (way, rate_paper) in [
        (TransferWay::PcieDma, 30.0),
        (TransferWay::CxlDsa, 30.0),
        (TransferWay::Rdma, 40.0),
    ] {
        let what = format!("bandwidth to the device, large blocks, {}", way.name());
        figures.figure(
            &what,
            FigureUnit::GbPerSec,
            (Some(rate_paper), Some(rate_paper)),
            rate(way),
            (FigureKind::Predicted, 0.05 * rate_paper),
        );
    }
    figures.figure(
        "latency, 256 B read by MMIO",
        FigureUnit::Ns,
        (Some(4000.0), None),
        out(TransferWay::MmioRead, 256),
        (FigureKind::Predicted, 0.0),
    );
    from_the_device(&mut figures, profile);
    figures.found
}

/// Up to which size stores by CXL are the fastest way.
fn crossing(figures: &mut Figures, profile: &Type2Profile) {
    let is_fastest = |bytes: u32| {
        let store = host_to_device_ns(profile, TransferWay::CxlStore, bytes);
        let others = [
            TransferWay::CxlDsa,
            TransferWay::MmioWrite,
            TransferWay::PcieDma,
            TransferWay::Rdma,
            TransferWay::DocaDma,
        ];
        others
            .iter()
            .all(|way| store < host_to_device_ns(profile, *way, bytes))
    };
    let sizes = (6..=20).map(|power| 1u32 << power);
    let largest = sizes.take_while(|bytes| is_fastest(*bytes)).last();
    figures.figure(
        "CXL-ST is the fastest way to the device up to",
        FigureUnit::Bytes,
        (Some(1024.0), Some(1024.0)),
        largest.map_or(f64::NAN, f64::from),
        (FigureKind::Predicted, 0.0),
    );
}

fn from_the_device(figures: &mut Figures, profile: &Type2Profile) {
    let own = |way, bytes| device_to_host_ns(profile, way, bytes).unwrap_or(f64::NAN);
    for bytes in [256, 4096] {
        let what = format!("latency, {bytes} B read by the device, PCIe-RDMA over CXL-LD");
        figures.figure(
            &what,
            FigureUnit::Times,
            (Some(3.0), Some(3.0)),
            own(TransferWay::Rdma, bytes) / own(TransferWay::CxlLoad, bytes),
            (FigureKind::Predicted, 0.75),
        );
    }
    let read = own(TransferWay::CxlLoad, 256);
    let store = host_to_device_ns(profile, TransferWay::CxlStore, 256);
    figures.figure(
        "latency, 256 B, the device's CXL-LD over the host's CXL-ST: lower",
        FigureUnit::Percent,
        (None, Some(0.0)),
        (read / store - 1.0) * 100.0,
        (FigureKind::Predicted, 0.0),
    );
}
