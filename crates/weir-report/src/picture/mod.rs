// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures: what is on one ([`chart`], [`plot`], [`bars`]), and how it becomes SVG and PNG ([`canvas`]).

pub(crate) mod bars;
pub(crate) mod canvas;
pub(crate) mod chart;
pub(crate) mod plot;
