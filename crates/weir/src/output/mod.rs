// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How figures and states are written for people: [`text`] (numbers, tables, names made harmless), [`labels`]
//! (what states and reasons are called), [`set_point`] (why one is not held).

pub mod labels;
pub mod set_point;
pub mod text;
