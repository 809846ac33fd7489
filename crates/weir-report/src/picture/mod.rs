// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures: what is on one ([`chart`], [`plot`], [`bars`], [`stack`],
//! [`strips`], [`matrix`]), and how it becomes SVG ([`canvas`]) and PNG
//! ([`paint`]).

pub(crate) mod bars;
pub(crate) mod canvas;
pub(crate) mod chart;
pub(crate) mod ink;
pub(crate) mod layout;
pub(crate) mod legend;
pub(crate) mod matrix;
pub(crate) mod paint;
pub(crate) mod plot;
pub(crate) mod stack;
pub(crate) mod strips;
