// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How figures are written for people, whatever they say.
//!
//! ```text
//! text (numbers, names made harmless) ─► comparison ─► document ─┬─ terminal ─► lines
//! canvas, ink (pictures) ────────────────────────────►   heat   ─┴─ html ─────► a page
//! ```
//!
//! It is pure and knows neither results nor commands: what is compared, and what a run was, say its callers
//! (weir-report, the commands). Each command had a printer of tables of its own before, so that the same
//! figure looked different in each.

#![forbid(unsafe_code)]

mod canvas;
mod comparison;
mod document;
mod heat;
mod html;
mod ink;
mod terminal;
pub mod text;

pub use canvas::{Anchor, At, Mark, Picture, svg};
pub use comparison::{Bound, Comparison, FigureUnit, compared, met_of};
pub use document::{Cell, CellKind, Document, Part, Section, Table, decimals};
pub use heat::{Heat, HeatCell, HeatMap, HeatRow};
pub use html::{head, html};
pub use ink::{FULLEST, HATCH_SIDE, Hatch, Ink};
pub use terminal::{COLUMNS, Setting, table_width, terminal_table};
