// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures: what is on one ([`chart`], [`plot`], [`bars`], [`stack`],
//! [`strips`], [`matrix`]), and how it becomes PNG ([`paint`]; SVG: weir-figures).

pub(crate) mod bars;
pub(crate) mod chart;
pub(crate) mod layout;
pub(crate) mod legend;
pub(crate) mod matrix;
pub(crate) mod paint;
pub(crate) mod plot;
pub(crate) mod stack;
pub(crate) mod strips;
