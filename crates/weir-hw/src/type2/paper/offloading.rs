// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table IV: what it takes to have a page compressed.

use super::{ComparedFigure, FigureKind, FigureUnit, Figures};
use crate::type2::time::{Type2Profile, offload_times};

/// Why a figure misses, if it does.
const UNIT_NOTE: &str =
    "the unit is our compressor's time; the paper names neither its algorithm nor its clocks";

/// The figures. The unit is set by the FPGA's compression (2.9), and the Arm core's (5.5) is the paper's.
pub fn offloading(profile: &Type2Profile) -> Vec<ComparedFigure> {
    let mut figures = Figures::new("Table IV");
    let times = offload_times(profile);
    let total = |steps: [f64; 3]| steps.iter().sum::<f64>();
    let mut units = |what: &str, paper: f64, ours: f64, part: f64| {
        let bounds = (Some(paper), Some(paper));
        let kind = (FigureKind::Predicted, part * paper);
        figures.figure(what, FigureUnit::TableUnits, bounds, ours, kind);
        figures.note(UNIT_NOTE);
    };
    units("pcie-rdma-zswap, transfer", 3.1, times.rdma[0], 0.15);
    units("pcie-rdma-zswap, store", 2.3, times.rdma[2], 0.15);
    units("pcie-rdma-zswap, total", 10.9, total(times.rdma), 0.05);
    units("pcie-dma-zswap, transfer", 1.7, times.dma[0], 0.15);
    units("pcie-dma-zswap, store", 1.6, times.dma[2], 0.15);
    units("pcie-dma-zswap, total", 6.2, total(times.dma), 0.05);
    units("cxl-zswap, total", 3.9, times.cxl, 0.05);
    for (what, paper, base) in [
        ("cxl-zswap over pcie-rdma-zswap", -64.0, total(times.rdma)),
        ("cxl-zswap over pcie-dma-zswap", -37.0, total(times.dma)),
    ] {
        let kind = (FigureKind::Predicted, 5.0);
        figures.change(what, (paper, paper), (times.cxl, base), kind);
        figures.note(UNIT_NOTE);
    }
    figures.found
}
