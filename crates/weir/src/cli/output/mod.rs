// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How states are written for people: [`labels`] (what states and reasons are called), [`set_point`] (why one
//! is not held), [`suggestion`] (what was meant), [`tag`] (a state in a word). Numbers and names are written
//! by weir-figures.

pub mod labels;
pub mod set_point;
pub mod suggestion;
pub mod tag;
pub mod wall_clock;
